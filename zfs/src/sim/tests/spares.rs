use std::time::Duration;

use super::*;
use crate::{Activity, Online, State};

fn with_spare() -> Layout {
    Layout {
        spare: vec![device('d')],
        ..mirror("bc")
    }
}

/// A pool in which the spare D stands in for C, which is gone.
async fn standing_in(hosts: &SimHosts) -> (SimZfs, Guid) {
    let zfs = with_pool(hosts, with_spare()).await;
    let lost = at(&status(&zfs).await, &part('c'));
    hosts.pull("C");
    zfs.replace(&tank(), lost, &part('d')).await.unwrap();
    let filled = zfs
        .wait(&tank(), Activity::Resilver, Duration::from_secs(60))
        .await;
    assert_eq!(filled, Ok(true));
    assert_eq!(
        line(&status(&zfs).await),
        "Degraded mirror-0=Degraded (b1=Online spare-1=Degraded (c1=Removed d1=Online)) spare d1=InUse"
    );
    (zfs, lost)
}

#[tokio::test(start_paused = true)]
async fn a_spare_goes_back_to_waiting_when_its_device_is_back() {
    let hosts = world();
    let (zfs, lost) = standing_in(&hosts).await;
    let label = hosts.labels("a", &part('d')).unwrap().best.unwrap();
    assert_eq!((label.state, label.pool_name.as_deref()), (0, Some("tank")));
    hosts.plug("a", "C", &[device('c')]);
    zfs.online(&tank(), lost, Online::AsIs).await.unwrap();
    zfs.wait(&tank(), Activity::Resilver, Duration::from_secs(60))
        .await
        .unwrap();
    assert_eq!(
        line(&status(&zfs).await),
        "Online mirror-0=Online (b1=Online c1=Online) spare d1=Available"
    );
    let label = hosts.labels("a", &part('d')).unwrap().best.unwrap();
    assert_eq!((label.state, label.pool_name), (3, None));
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn a_spare_stays_for_good_when_its_device_is_detached() {
    let hosts = world();
    let (zfs, lost) = standing_in(&hosts).await;
    zfs.detach(&tank(), lost).await.unwrap();
    assert_eq!(
        line(&status(&zfs).await),
        "Online mirror-0=Online (b1=Online d1=Online)"
    );
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn a_spare_is_let_go_when_the_device_is_replaced() {
    let hosts = world();
    let (zfs, lost) = standing_in(&hosts).await;
    zfs.replace(&tank(), lost, &device('e')).await.unwrap();
    zfs.wait(&tank(), Activity::Resilver, Duration::from_secs(60))
        .await
        .unwrap();
    assert_eq!(
        line(&status(&zfs).await),
        "Online mirror-0=Online (b1=Online e1=Online) spare d1=Available"
    );
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn a_spare_in_use_is_neither_used_again_nor_removed() {
    let hosts = world();
    let (zfs, _) = standing_in(&hosts).await;
    let now = status(&zfs).await;
    let spare = at(&now, &part('d'));
    let other = at(&now, &part('b'));
    said(zfs.replace(&tank(), other, &part('d')).await);
    said(zfs.remove(&tank(), spare).await);
    zfs.detach(&tank(), spare).await.unwrap();
    zfs.remove(&tank(), spare).await.unwrap();
    assert_eq!(
        line(&status(&zfs).await),
        "Degraded mirror-0=Degraded (b1=Online c1=Removed)"
    );
    // It still says that it is a spare, but is nobody's.
    zfs.clear_labels(&part('d'), spare).await.unwrap();
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn spares_are_found_again_by_an_import() {
    let hosts = world();
    let zfs = with_pool(&hosts, with_spare()).await;
    let guid = status(&zfs).await.guid;
    hosts.reboot("a");
    let zfs = hosts.zfs("a");
    zfs.import(&import_of(guid, parts("bcd"))).await.unwrap();
    assert!(line(&status(&zfs).await).ends_with("spare d1=Available"));
    zfs.export(&tank()).await.unwrap();
    zfs.import(&import_of(guid, parts("bc"))).await.unwrap();
    let without = status(&zfs).await;
    assert_eq!(without.vdevs.last().unwrap().state, State::Unavailable);
    assert_eq!(without.state, State::Online, "a pool lives without its spares");
    sound(&hosts);
}
