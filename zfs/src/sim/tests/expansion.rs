use std::time::Duration;

use super::*;
use crate::Activity;

#[tokio::test(start_paused = true)]
async fn a_raidz_group_is_widened_while_it_is_in_use() {
    let hosts = world();
    hosts.set_rate(100 * MIB);
    let zfs = with_pool(&hosts, data(Redundancy::Raidz(1), "bcd")).await;
    fill(&hosts, &zfs, 600 * MIB).await;
    let before = status(&zfs).await;
    let group = before.vdevs[0].guid;
    zfs.attach(&tank(), group, &device('e')).await.unwrap();
    let under_way = status(&zfs).await;
    assert_eq!(
        line(&under_way),
        "Online raidz1-0=Online (b1=Online c1=Online d1=Online e1=Online)"
    );
    assert_eq!(under_way.vdevs[0].size, 3 * USED, "there is no more room yet");
    let expansion = under_way.expansion.unwrap();
    assert!(expansion.running);
    assert_eq!((expansion.to_reflow, expansion.reflowed), (900 * MIB, 0));
    // One at a time.
    said(zfs.attach(&tank(), group, &device('f')).await);
    said(zfs.replace(&tank(), at(&before, &part('b')), &device('f')).await);
    let expands = Activity::RaidzExpand;
    assert_eq!(
        zfs.wait(&tank(), expands, Duration::from_secs(5)).await,
        Ok(false)
    );
    assert!(status(&zfs).await.expansion.unwrap().reflowed > 300 * MIB);
    assert_eq!(
        zfs.wait(&tank(), expands, Duration::from_secs(60)).await,
        Ok(true)
    );
    let after = status(&zfs).await;
    assert_eq!(after.vdevs[0].size, 4 * USED);
    let expansion = after.expansion.unwrap();
    assert!(!expansion.running);
    assert!(expansion.ended > expansion.started);
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn a_degraded_group_is_not_widened() {
    let hosts = world();
    let zfs = with_pool(&hosts, data(Redundancy::Raidz(1), "bcd")).await;
    hosts.pull("B");
    let group = status(&zfs).await.vdevs[0].guid;
    assert_eq!(
        said(zfs.attach(&tank(), group, &device('e')).await),
        "raidz vdev is not healthy"
    );
    assert_eq!(hosts.found("E"), Some(Found::Nothing));
}

#[tokio::test(start_paused = true)]
async fn an_expansion_stands_still_while_the_pool_does() {
    let hosts = world();
    hosts.set_rate(100 * MIB);
    let zfs = with_pool(&hosts, data(Redundancy::Raidz(1), "bcd")).await;
    fill(&hosts, &zfs, 600 * MIB).await;
    let group = status(&zfs).await.vdevs[0].guid;
    zfs.attach(&tank(), group, &device('e')).await.unwrap();
    hosts.advance(Duration::from_secs(5));
    let half = status(&zfs).await.expansion.unwrap().reflowed;
    assert!(half > 0);
    for serial in ["B", "C"] {
        hosts.pull(serial);
    }
    hosts.advance(Duration::from_secs(600));
    assert_eq!(status(&zfs).await.expansion.unwrap().reflowed, half);
    for letter in ['b', 'c'] {
        hosts.plug("a", &letter.to_uppercase().to_string(), &[device(letter)]);
    }
    zfs.clear(&tank(), None).await.unwrap();
    assert_eq!(
        zfs.wait(&tank(), Activity::RaidzExpand, Duration::from_secs(6))
            .await,
        Ok(true)
    );
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn a_mirror_takes_no_device_by_its_group() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let group = status(&zfs).await.vdevs[0].guid;
    said(zfs.attach(&tank(), group, &device('d')).await);
    assert_eq!(hosts.found("D"), Some(Found::Nothing));
}
