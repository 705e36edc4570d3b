//! What a test of a controller looks at: every write, with what was there before.

use super::*;

fn nothing_is_ours(_: &Found) -> bool {
    false
}

#[tokio::test(start_paused = true)]
async fn every_write_is_in_the_log_with_what_was_there() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let of_b: Vec<DiskWrite> = hosts
        .log()
        .into_iter()
        .filter(|write| write.serial == "B")
        .collect();
    let [partitions, first, pool] = of_b.as_slice() else {
        panic!("{of_b:?}");
    };
    let status = status(&zfs).await;
    let vdev = at(&status, &part('b'));
    assert_eq!(partitions.found, Found::Nothing);
    assert_eq!(partitions.written, Written::Partitions { vdev });
    assert_eq!(partitions.host.as_deref(), Some("a"));
    assert_eq!(first.found, Found::EmptyPartitions);
    let label = |txg| Written::Label {
        pool: status.guid,
        vdev,
        txg,
    };
    assert_eq!(first.written, label(0));
    let Found::Zfs(before) = &pool.found else {
        panic!("{pool:?}");
    };
    assert_eq!((before.txg, before.vdev_guid), (0, vdev.0));
    assert!(matches!(pool.written, Written::Label { txg: 1.., .. }));
    assert_eq!(hosts.unproven(nothing_is_ours), [], "they were blank");
}

#[tokio::test(start_paused = true)]
async fn a_write_over_something_is_unproven_unless_it_is_shown_to_be_ours() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let pool = status(&zfs).await.guid;
    zfs.set(&tank(), "comment", "new").await.unwrap();
    zfs.destroy(&tank()).await.unwrap();
    assert_eq!(hosts.unproven(nothing_is_ours), [], "its own labels are its own");
    // ZFS takes the disks of a destroyed pool. Who lets it must know whose it was.
    zfs.create(&new_pool(mirror("bc"))).await.unwrap();
    let serials = |writes: Vec<DiskWrite>| writes.into_iter().map(|write| write.serial).collect::<Vec<_>>();
    assert_eq!(serials(hosts.unproven(nothing_is_ours)), ["B", "C"]);
    let was_ours = |found: &Found| matches!(found, Found::Zfs(label) if label.pool_guid == Some(pool.0));
    assert_eq!(hosts.unproven(was_ours), []);
}

#[tokio::test(start_paused = true)]
async fn partitions_that_somebody_made_are_not_blank() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let guid = at(&status(&zfs).await, &part('b'));
    zfs.destroy(&tank()).await.unwrap();
    zfs.clear_labels(&part('b'), guid).await.unwrap();
    let cleared = hosts.unproven(nothing_is_ours);
    assert_eq!(cleared.len(), 1);
    assert_eq!(cleared[0].written, Written::LabelsCleared);
    zfs.create(&new_pool(mirror("bd"))).await.unwrap();
    let written: Vec<_> = hosts.unproven(nothing_is_ours).into_iter().skip(1).collect();
    assert!(matches!(
        written.as_slice(),
        [DiskWrite {
            found: Found::EmptyPartitions,
            written: Written::Partitions { .. },
            ..
        }]
    ));
    hosts.put("E", "xfs");
    assert_eq!(
        hosts.unproven(nothing_is_ours).len(),
        2,
        "the test itself may write what it likes"
    );
    hosts.wipe("a", &device('e')).unwrap();
    assert_eq!(hosts.unproven(nothing_is_ours).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_write_under_a_pool_is_told() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let pool = status(&zfs).await.guid;
    hosts.plug("b", "C", &["/dev/sdc"]);
    let _other = hosts.zfs("b");
    hosts.wipe("b", &device('c')).unwrap();
    let under = Violation::WrittenUnder {
        serial: "C".into(),
        pool,
        by: "b".into(),
    };
    assert_eq!(hosts.violations(), [under]);
}

#[tokio::test(start_paused = true)]
async fn calls_are_told_with_whether_they_were_done() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    said(zfs.set(&tank(), "failmode", "?").await);
    let calls: Vec<_> = hosts
        .calls()
        .into_iter()
        .map(|call| (call.call, call.target, call.done))
        .collect();
    let tank = || "tank".to_owned();
    assert_eq!(
        calls,
        [(Call::Create, tank(), true), (Call::SetProperty, tank(), false)]
    );
    assert_eq!(hosts.changes("a"), 2);
}
