//! The power goes while something is written.

use super::*;
use crate::Datasets;

/// The writes of a create: to each of three disks partitions, a label of no pool yet, and the pool.
const WRITES: u64 = 9;

/// What is on a disk: `-` nothing, `p` partitions, `0` a label of no pool yet, `L` one of the pool.
fn found(hosts: &SimHosts, serial: &str) -> char {
    match hosts.found(serial) {
        Some(Found::Nothing) => '-',
        Some(Found::EmptyPartitions) => 'p',
        Some(Found::Zfs(label)) if label.txg == 0 => '0',
        Some(Found::Zfs(_)) => 'L',
        other => panic!("{other:?}"),
    }
}

/// Has the power cut after so many writes of a create, and brings it back.
async fn cut_in_create(writes: u64) -> SimHosts {
    let hosts = world();
    let zfs = hosts.zfs("a");
    hosts.power_off_after("a", writes);
    let cut = zfs.create(&new_pool(data(Redundancy::Raidz(1), "bcd"))).await;
    assert!(matches!(cut, Err(Error::CannotRun { .. })), "{cut:?}");
    zfs.halted().await;
    hosts.power_on("a");
    sound(&hosts);
    hosts
}

#[tokio::test(start_paused = true)]
async fn a_create_leaves_what_it_had_written() {
    let mut left = Vec::new();
    for writes in 0..WRITES {
        let hosts = cut_in_create(writes).await;
        left.push(
            ["B", "C", "D"]
                .map(|serial| found(&hosts, serial))
                .iter()
                .collect::<String>(),
        );
        assert_eq!(hosts.log().len() as u64, writes);
        assert_eq!(Pools::list(&hosts.zfs("a")).await, Ok(Vec::new()));
    }
    assert_eq!(
        left,
        ["---", "p--", "pp-", "ppp", "0pp", "00p", "000", "L00", "LL0"]
    );
}

#[tokio::test(start_paused = true)]
async fn before_the_pool_is_written_there_is_none_and_nothing_says_whose_it_is() {
    for writes in 3..=6 {
        let hosts = cut_in_create(writes).await;
        let zfs = hosts.zfs("a");
        let label = hosts.labels("a", &part('b')).unwrap().best;
        if let Some(label) = label {
            assert_eq!(label.pool_name.as_deref(), Some("tank"));
            assert_eq!(label.comment, None);
            let guid = Guid(label.pool_guid.unwrap());
            said(zfs.import(&import_of(guid, parts("bcd"))).await);
            zfs.clear_labels(&part('b'), Guid(label.vdev_guid)).await.unwrap();
        }
        // ZFS itself would take them again.
        zfs.create(&new_pool(data(Redundancy::Raidz(1), "bcd")))
            .await
            .unwrap();
        sound(&hosts);
    }
}

#[tokio::test(start_paused = true)]
async fn with_its_first_label_the_pool_is_there() {
    for writes in 7..WRITES {
        let hosts = cut_in_create(writes).await;
        let zfs = hosts.zfs("a");
        let label = hosts.labels("a", &part('b')).unwrap().best.unwrap();
        assert_eq!(label.comment.as_deref(), Some("ours"));
        let guid = Guid(label.pool_guid.unwrap());
        zfs.import(&import_of(guid, parts("bcd"))).await.unwrap();
        let whole = status(&zfs).await;
        assert_eq!(
            line(&whole),
            "Online raidz1-0=Online (b1=Online c1=Online d1=Online)"
        );
        assert_eq!(whole.scan, None, "all of it was there already");
        sound(&hosts);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_is_there_or_not_and_never_in_between() {
    for (writes, is_there) in [(0, false), (1, true), (2, true)] {
        let hosts = world();
        let zfs = with_pool(&hosts, data(Redundancy::Raidz(1), "bcd")).await;
        let guid = status(&zfs).await.guid;
        hosts.power_off_after("a", writes);
        zfs.create_volume(&new_volume("v", GIB)).await.unwrap_err();
        hosts.power_on("a");
        let zfs = hosts.zfs("a");
        zfs.import(&import_of(guid, parts("bcd"))).await.unwrap();
        assert_eq!(zfs.get("tank/v", &[]).await.is_ok(), is_there);
        assert_eq!(status(&zfs).await.scan, None);
        sound(&hosts);
    }
}

#[tokio::test(start_paused = true)]
async fn a_device_that_says_it_has_left_may_still_be_in_the_pool() {
    let whole = "Online mirror-0=Online (b1=Online c1=Online)";
    for (writes, left, found) in [(0, 'L', whole), (1, '0', whole), (2, '0', "Online b1=Online")] {
        let hosts = world();
        let zfs = with_pool(&hosts, mirror("bc")).await;
        let before = status(&zfs).await;
        hosts.power_off_after("a", writes);
        let _ = zfs.detach(&tank(), at(&before, &part('c'))).await;
        hosts.reboot("a");
        assert_eq!(self::found(&hosts, "C"), left);
        let zfs = hosts.zfs("a");
        zfs.import(&import_of(before.guid, parts("bc"))).await.unwrap();
        assert_eq!(line(&status(&zfs).await), found);
        sound(&hosts);
    }
}

#[tokio::test(start_paused = true)]
async fn a_vdev_is_removed_from_the_pool_before_its_devices_say_so() {
    for (writes, left) in [(0, 'L'), (1, 'L'), (2, '0')] {
        let hosts = world();
        let layout = Layout {
            log: vec![group(Redundancy::Stripe, "d")],
            ..data(Redundancy::Stripe, "b")
        };
        let zfs = with_pool(&hosts, layout).await;
        let before = status(&zfs).await;
        hosts.power_off_after("a", writes);
        let _ = zfs.remove(&tank(), at(&before, &part('d'))).await;
        hosts.reboot("a");
        assert_eq!(found(&hosts, "D"), left);
        let zfs = hosts.zfs("a");
        zfs.import(&import_of(before.guid, parts("bd"))).await.unwrap();
        let after = line(&status(&zfs).await);
        let whole = "Online b1=Online log d1=Online";
        assert_eq!(after, if writes == 0 { whole } else { "Online b1=Online" });
        sound(&hosts);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_called_before_the_cut_does_nothing_after_it() {
    let hosts = world();
    let zfs = hosts.zfs("a");
    hosts.set_faults(Faults {
        latency: std::time::Duration::from_secs(10),
        ..Faults::default()
    });
    let caller = zfs.clone();
    let task = tokio::spawn(async move { caller.create(&new_pool(mirror("bc"))).await });
    tokio::task::yield_now().await;
    hosts.reboot("a");
    let ended = task.await.unwrap();
    assert!(matches!(ended, Err(Error::CannotRun { .. })), "{ended:?}");
    assert_eq!(hosts.log(), []);
    // Nor does what hung.
    hosts.set_faults(Faults::default());
    let zfs = hosts.zfs("a");
    hosts.behave("C", Behaviour::Hanging);
    assert!(zfs.create(&new_pool(mirror("bc"))).await.unwrap_err().is_hang());
    hosts.reboot("a");
    hosts.behave("C", Behaviour::Good);
    assert_eq!(Pools::list(&hosts.zfs("a")).await, Ok(Vec::new()));
    assert_eq!(hosts.log(), []);
}
