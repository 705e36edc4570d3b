use super::*;
use crate::{Datasets, Online, State};

#[tokio::test(start_paused = true)]
async fn a_host_sees_its_disks_and_what_is_on_them() {
    let hosts = world();
    hosts.put("I", "ext4");
    hosts.behave("H", Behaviour::Failing);
    hosts.behave("G", Behaviour::Hanging);
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let seen = hosts.disks("a");
    assert_eq!(seen.len(), 8);
    let used = &seen["B"];
    assert_eq!((used.bytes, used.paths.clone()), (4 * GIB, vec![device('b')]));
    assert_eq!(used.first_partition, [part('b')]);
    assert_eq!(used.held_by.as_deref(), Some("tank"));
    let vdev = at(&status(&zfs).await, &part('b'));
    assert!(matches!(&used.found, Ok(Found::Zfs(label)) if label.vdev_guid == vdev.0));
    let found = |serial: &str| seen[serial].found.clone();
    assert_eq!(found("D"), Ok(Found::Nothing));
    assert_eq!(seen["D"].first_partition, Vec::<Utf8PathBuf>::new());
    assert_eq!(found("I"), Ok(Found::Other("ext4".into())));
    assert_eq!(found("H"), Err(Unreadable::Failing));
    assert_eq!(found("G"), Err(Unreadable::Hanging));
    assert!(hosts.disks("b").is_empty());
}

#[tokio::test(start_paused = true)]
async fn labels_are_found_where_zfs_put_them() {
    let hosts = world();
    hosts.plug("a", "B", &["/dev/mapper/b"]);
    hosts.plug("a", "C", &["/dev/disk/by-id/wwn-0xc", "/dev/nvme0n1"]);
    let layout = Layout {
        data: vec![Group {
            redundancy: Redundancy::Mirror,
            devices: vec!["/dev/mapper/b".into(), "/dev/nvme0n1".into()],
        }],
        ..Layout::default()
    };
    let zfs = with_pool(&hosts, layout).await;
    assert_eq!(
        line(&status(&zfs).await),
        "Online mirror-0=Online (/dev/mapper/b=Online /dev/nvme0n1p1=Online)"
    );
    let has_label = |path: &str| hosts.labels("a", path.into()).map(|labels| labels.best.is_some());
    assert_eq!(has_label("/dev/mapper/b"), Ok(true));
    assert_eq!(has_label("/dev/nvme0n1"), Ok(false));
    assert_eq!(has_label("/dev/nvme0n1p1"), Ok(true));
    assert_eq!(has_label("/dev/disk/by-id/wwn-0xc-part1"), Ok(true));
    assert_eq!(has_label("/dev/mapper/b1"), Err(Unreadable::Absent));
    let seen = &hosts.disks("a")["C"];
    assert_eq!(
        seen.first_partition,
        ["/dev/disk/by-id/wwn-0xc-part1", "/dev/nvme0n1p1"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_pulled_is_missed_and_filled_when_it_is_back() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    hosts.pull("C");
    let lost = status(&zfs).await;
    assert_eq!(line(&lost), "Degraded mirror-0=Degraded (b1=Online c1=Removed)");
    zfs.create_volume(&new_volume("later", GIB)).await.unwrap();
    hosts.plug("a", "C", &[device('c')]);
    assert_eq!(line(&status(&zfs).await), line(&lost), "nobody switches it on");
    zfs.online(&tank(), at(&lost, &part('c')), Online::AsIs)
        .await
        .unwrap();
    let back = status(&zfs).await;
    assert!(back.is_resilvering());
    assert_eq!(line(&back), "Online mirror-0=Online (b1=Online c1=Online)");
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn where_zed_runs_it_is_switched_on_by_itself() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    hosts.set_zed("a", true);
    hosts.pull("C");
    hosts.plug("a", "C", &[device('c')]);
    assert_eq!(status(&zfs).await.state, State::Online);
    // Another disk in its place is none of the pool's.
    hosts.pull("C");
    hosts.plug("a", "D", &[device('c')]);
    assert_eq!(
        line(&status(&zfs).await),
        "Degraded mirror-0=Degraded (b1=Online c1=Unavailable/OPEN_FAILED)"
    );
    assert_eq!(hosts.found("D"), Some(Found::Nothing));
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_behind_is_not_believed() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let guid = status(&zfs).await.guid;
    hosts.pull("C");
    zfs.create_volume(&new_volume("later", GIB)).await.unwrap();
    zfs.export(&tank()).await.unwrap();
    hosts.plug("a", "C", &[device('c')]);
    // What the other one has is what there is, and this one is filled.
    zfs.import(&import_of(guid, parts("cb"))).await.unwrap();
    let behind = status(&zfs).await;
    assert!(behind.is_resilvering());
    assert!(zfs.get("tank/later", &["guid"]).await.is_ok());
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn the_half_of_a_mirror_that_was_pulled_is_the_pool_as_it_was() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let guid = status(&zfs).await.guid;
    hosts.pull("C");
    zfs.create_volume(&new_volume("later", GIB)).await.unwrap();
    hosts.power_off("a");
    let other = hosts.zfs("b");
    hosts.plug("b", "C", &["/dev/sdc"]);
    let import = Import {
        although_in_use: true,
        ..import_of(guid, parts("c"))
    };
    other.import(&import).await.unwrap();
    assert!(said(other.get("tank/later", &["guid"]).await).contains("does not exist"));
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn a_pool_whose_disks_are_gone_is_suspended_until_they_are_back_and_cleared() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    hosts.pull("B");
    hosts.pull("C");
    let suspended = status(&zfs).await;
    assert_eq!(
        line(&suspended),
        "Suspended mirror-0=Unavailable/NO_REPLICAS (b1=Removed c1=Removed)"
    );
    // What changes it hangs, and later changes are not begun beside it.
    let set = Pools::set(&zfs, &tank(), "comment", "new").await;
    assert!(matches!(set, Err(Error::TimedOut { .. })), "{set:?}");
    let set = Pools::set(&zfs, &tank(), "comment", "newer").await;
    assert!(matches!(set, Err(Error::Hangs { .. })), "{set:?}");
    assert_eq!(status(&zfs).await.state, State::Suspended, "it can be looked at");
    zfs.clear(&tank(), None).await.unwrap();
    assert_eq!(status(&zfs).await.state, State::Suspended);
    for letter in ['b', 'c'] {
        hosts.plug("a", &letter.to_uppercase().to_string(), &[device(letter)]);
    }
    zfs.clear(&tank(), None).await.unwrap();
    assert_eq!(status(&zfs).await.state, State::Online);
    // What hung has been done.
    assert_eq!(zfs.properties(&tank()).await.unwrap()["comment"], "new");
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn a_failing_disk_is_noticed_when_it_is_written() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    hosts.behave("C", Behaviour::Failing);
    assert_eq!(status(&zfs).await.state, State::Online);
    Pools::set(&zfs, &tank(), "comment", "new").await.unwrap();
    let failed = status(&zfs).await;
    assert_eq!(
        line(&failed),
        "Degraded mirror-0=Degraded (b1=Online c1=Faulted/ERR_EXCEEDED)"
    );
    let guid = at(&failed, &part('c'));
    assert!(failed.vdev(guid).unwrap().write_errors > 0);
    // Only clearing its errors brings it back, and only if it is well.
    zfs.clear(&tank(), Some(guid)).await.unwrap();
    assert_eq!(status(&zfs).await.vdev(guid).unwrap().state, State::Faulted);
    hosts.behave("C", Behaviour::Good);
    zfs.online(&tank(), guid, Online::AsIs).await.unwrap();
    assert_eq!(status(&zfs).await.vdev(guid).unwrap().state, State::Faulted);
    zfs.clear(&tank(), Some(guid)).await.unwrap();
    let well = status(&zfs).await;
    assert_eq!(well.state, State::Online);
    assert_eq!(well.vdev(guid).unwrap().write_errors, 0);
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_has_grown_is_used_when_told_to() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    for serial in ["B", "C"] {
        hosts.grow(serial, 8 * GIB);
    }
    let grown = status(&zfs).await;
    assert_eq!((grown.vdevs[0].size, grown.vdevs[0].expandable), (USED, 4 * GIB));
    for letter in ['b', 'c'] {
        let guid = at(&grown, &part(letter));
        zfs.online(&tank(), guid, Online::Expand).await.unwrap();
    }
    let used = status(&zfs).await;
    assert_eq!(
        (used.vdevs[0].size, used.vdevs[0].expandable),
        (USED + 4 * GIB, 0)
    );
    // By itself where the pool says so.
    Pools::set(&zfs, &tank(), "autoexpand", "on").await.unwrap();
    hosts.grow("B", 16 * GIB);
    assert_eq!(
        status(&zfs).await.vdevs[0].size,
        USED + 4 * GIB,
        "a mirror is as large as the smaller"
    );
    hosts.grow("C", 16 * GIB);
    assert_eq!(status(&zfs).await.vdevs[0].size, USED + 12 * GIB);
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn disks_that_swapped_places_are_found_by_what_is_on_them() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let before = status(&zfs).await;
    hosts.power_off("a");
    hosts.swap("B", "D");
    hosts.power_on("a");
    let zfs = hosts.zfs("a");
    zfs.import(&import_of(before.guid, parts("bcd"))).await.unwrap();
    let after = status(&zfs).await;
    assert_eq!(line(&after), "Online mirror-0=Online (d1=Online c1=Online)");
    assert_eq!(at(&after, &part('d')), at(&before, &part('b')));
    assert_eq!(hosts.found("D"), Some(Found::Nothing));
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_open_is_not_wiped() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let held = hosts.wipe("a", &device('b')).unwrap_err();
    assert_eq!(held.pool.as_deref(), Some("tank"));
    Pools::destroy(&zfs, &tank()).await.unwrap();
    hosts.wipe("a", &part('b')).unwrap();
    assert_eq!(hosts.found("B"), Some(Found::EmptyPartitions));
    hosts.wipe("a", &device('c')).unwrap();
    assert_eq!(hosts.found("C"), Some(Found::Nothing));
    assert!(hosts.wipe("a", "/dev/sdz".into()).is_err());
}
