use std::time::Duration;

use super::*;
use crate::{Activity, Offline, Online, ScanFunction, ScanState, State};

const RESILVER: Activity = Activity::Resilver;

#[tokio::test(start_paused = true)]
async fn a_device_is_replaced_in_the_time_that_its_data_takes() {
    let hosts = world();
    hosts.set_rate(100 * MIB);
    let zfs = with_pool(&hosts, mirror("bc")).await;
    fill(&hosts, &zfs, 1000 * MIB).await;
    let before = status(&zfs).await;
    let old = at(&before, &part('c'));
    zfs.replace(&tank(), old, &device('d')).await.unwrap();
    let under_way = status(&zfs).await;
    assert_eq!(
        line(&under_way),
        "Online mirror-0=Online (b1=Online replacing-1=Online (c1=Online d1=Online))"
    );
    let scan = under_way.scan.unwrap();
    assert_eq!(
        (scan.function, scan.state),
        (ScanFunction::Resilver, ScanState::Scanning)
    );
    assert_eq!((scan.to_examine, scan.examined), (1000 * MIB, 0));
    assert_eq!(
        zfs.wait(&tank(), RESILVER, Duration::from_secs(5)).await,
        Ok(false)
    );
    let scan = status(&zfs).await.scan.unwrap();
    assert!((300 * MIB..600 * MIB).contains(&scan.examined), "{scan:?}");
    let began = tokio::time::Instant::now();
    assert_eq!(
        zfs.wait(&tank(), RESILVER, Duration::from_secs(60)).await,
        Ok(true)
    );
    assert_eq!(began.elapsed().as_secs(), 6);
    let after = status(&zfs).await;
    assert_eq!(line(&after), "Online mirror-0=Online (b1=Online d1=Online)");
    assert_eq!(after.scan.unwrap().state, ScanState::Finished);
    // What was replaced says that it is in no pool any more, and is free to be cleared.
    let label = hosts.labels("a", &part('c')).unwrap().best.unwrap();
    assert_eq!((label.vdev_guid, label.txg), (old.0, 0));
    zfs.clear_labels(&part('c'), old).await.unwrap();
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn a_device_that_is_gone_is_replaced_in_its_own_place() {
    let hosts = world();
    let zfs = with_pool(&hosts, data(Redundancy::Raidz(1), "bcd")).await;
    let old = at(&status(&zfs).await, &part('c'));
    hosts.pull("C");
    hosts.plug("a", "E", &[device('c')]);
    zfs.replace(&tank(), old, &device('c')).await.unwrap();
    assert_eq!(
        line(&status(&zfs).await),
        "Degraded raidz1-0=Degraded (b1=Online replacing-1=Degraded (c1/old=Removed c1=Online) d1=Online)"
    );
    assert_eq!(
        zfs.wait(&tank(), Activity::Replace, Duration::from_secs(60))
            .await,
        Ok(true)
    );
    let after = status(&zfs).await;
    assert_eq!(
        line(&after),
        "Online raidz1-0=Online (b1=Online c1=Online d1=Online)"
    );
    assert_ne!(at(&after, &part('c')), old);
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn a_replacement_can_be_broken_off() {
    let hosts = world();
    let zfs = with_pool(&hosts, data(Redundancy::Raidz(1), "bcd")).await;
    let old = at(&status(&zfs).await, &part('c'));
    hosts.pull("C");
    zfs.replace(&tank(), old, &device('e')).await.unwrap();
    said(zfs.replace(&tank(), old, &device('f')).await);
    let new = at(&status(&zfs).await, &part('e'));
    zfs.detach(&tank(), new).await.unwrap();
    assert_eq!(
        line(&status(&zfs).await),
        "Degraded raidz1-0=Degraded (b1=Online c1=Removed d1=Online)"
    );
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_replacement_is_refused() {
    let hosts = world();
    hosts.add_disk("small", 2 * GIB);
    hosts.plug("a", "small", &["/dev/sdy"]);
    hosts.put("I", "ext4");
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let before = status(&zfs).await;
    let old = at(&before, &part('c'));
    let written = hosts.log().len();
    for new in ['y', 'i', 'z', 'b'] {
        said(zfs.replace(&tank(), old, &device(new)).await);
    }
    said(zfs.replace(&tank(), Guid(1), &device('d')).await);
    said(zfs.replace(&tank(), before.vdevs[0].guid, &device('d')).await);
    let touched = |write: &DiskWrite| !["B", "C"].contains(&write.serial.as_str());
    assert!(!hosts.log()[written..].iter().any(touched));
    assert_eq!(line(&status(&zfs).await), line(&before));
}

#[tokio::test(start_paused = true)]
async fn a_new_device_that_fails_while_it_is_filled_leaves_the_old_one() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    fill(&hosts, &zfs, GIB).await;
    let old = at(&status(&zfs).await, &part('c'));
    zfs.replace(&tank(), old, &device('d')).await.unwrap();
    hosts.pull("D");
    hosts.advance(Duration::from_secs(600));
    assert_eq!(
        line(&status(&zfs).await),
        "Degraded mirror-0=Degraded (b1=Online replacing-1=Degraded (c1=Online d1=Removed))"
    );
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn a_power_cut_takes_nothing_of_a_resilver_but_time() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    fill(&hosts, &zfs, GIB).await;
    let before = status(&zfs).await;
    zfs.replace(&tank(), at(&before, &part('c')), &device('d'))
        .await
        .unwrap();
    hosts.reboot("a");
    hosts.advance(Duration::from_secs(3600));
    let zfs = hosts.zfs("a");
    zfs.import(&import_of(before.guid, parts("bcd"))).await.unwrap();
    assert!(
        status(&zfs).await.is_resilvering(),
        "no time passes for a pool that nobody has"
    );
    assert_eq!(
        zfs.wait(&tank(), RESILVER, Duration::from_secs(60)).await,
        Ok(true)
    );
    assert_eq!(
        line(&status(&zfs).await),
        "Online mirror-0=Online (b1=Online d1=Online)"
    );
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn copies_are_attached_and_detached() {
    let hosts = world();
    let zfs = with_pool(&hosts, data(Redundancy::Stripe, "b")).await;
    let first = at(&status(&zfs).await, &part('b'));
    said(zfs.detach(&tank(), first).await);
    zfs.attach(&tank(), first, &device('c')).await.unwrap();
    let two = status(&zfs).await;
    assert_eq!(line(&two), "Online mirror-0=Online (b1=Online c1=Online)");
    // The only one that has everything stays.
    assert!(said(zfs.detach(&tank(), first).await).contains("no valid replicas"));
    assert_eq!(
        zfs.wait(&tank(), RESILVER, Duration::from_secs(60)).await,
        Ok(true)
    );
    let second = at(&two, &part('c'));
    zfs.attach(&tank(), second, &device('d')).await.unwrap();
    assert_eq!(
        zfs.wait(&tank(), RESILVER, Duration::from_secs(60)).await,
        Ok(true)
    );
    zfs.detach(&tank(), first).await.unwrap();
    assert_eq!(
        line(&status(&zfs).await),
        "Online mirror-0=Online (c1=Online d1=Online)"
    );
    zfs.detach(&tank(), second).await.unwrap();
    assert_eq!(line(&status(&zfs).await), "Online d1=Online");
    assert_eq!(hosts.labels("a", &part('b')).unwrap().best.unwrap().txg, 0);
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn a_device_is_switched_off_where_others_have_what_it_has() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let before = status(&zfs).await;
    let (b, c) = (at(&before, &part('b')), at(&before, &part('c')));
    zfs.offline(&tank(), b, Offline::Lasting).await.unwrap();
    assert!(said(zfs.offline(&tank(), c, Offline::Lasting).await).contains("no valid replicas"));
    assert_eq!(
        line(&status(&zfs).await),
        "Degraded mirror-0=Degraded (b1=Offline c1=Online)"
    );
    zfs.export(&tank()).await.unwrap();
    zfs.import(&import_of(before.guid, parts("bc"))).await.unwrap();
    assert_eq!(status(&zfs).await.vdev(b).unwrap().state, State::Offline);
    zfs.online(&tank(), b, Online::AsIs).await.unwrap();
    assert_eq!(
        zfs.wait(&tank(), RESILVER, Duration::from_secs(60)).await,
        Ok(true)
    );
    zfs.offline(&tank(), c, Offline::UntilImport).await.unwrap();
    zfs.export(&tank()).await.unwrap();
    zfs.import(&import_of(before.guid, parts("bc"))).await.unwrap();
    assert_eq!(status(&zfs).await.vdev(c).unwrap().state, State::Online);
    sound(&hosts);
}
