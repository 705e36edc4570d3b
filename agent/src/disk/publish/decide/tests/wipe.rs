//! Requests to wipe.

use cstor_blockdev::contents::Contents;
use cstor_blockdev::device::Partition;
use cstor_blockdev::{Device, DeviceNumber, Kind};

use super::*;

fn asked(mut seen: Observed, identity: &str) -> Observed {
    seen.object = annotated(seen.object, annotation::WIPE, identity);
    seen
}

#[test]
fn a_wipe_is_refused_done_or_forgotten() {
    let with_file_system = || with([found(virtio("vdb", "alpha"), holds("ext4"))]);
    let mut held = virtio("vdb", "alpha");
    held.holders = vec!["dm-0".into()];
    let mut bound_here = virtio("vdb", "alpha");
    bound_here.mounts = vec![Mount {
        point: "/var/lib/kubelet/x".into(),
        file_system: None,
    }];
    let mut foreign = with_file_system();
    bound(&mut foreign, Bound::Certain(attachment("pv-1")));
    let claim = |mut seen: Observed| {
        seen.object = claimed(seen.object);
        seen
    };
    let releasing = || {
        let mut seen = with_file_system();
        seen.object.status.as_mut().unwrap().claim_state = Some(BlockDeviceClaimState::Claimed);
        seen
    };
    let mut unmatched = with_file_system();
    unmatched.matched = Arc::default();
    let file_system = |device| with([found(device, holds("ext4"))]);
    let refused = |reason: &str| format!("Wiped=False/{reason}");
    for (name, observed, wiped, step) in [
        (
            "another identity",
            asked(with_file_system(), "beta"),
            refused("WrongIdentity"),
            Some("forget_wipe"),
        ),
        (
            "no identity named",
            asked(with_file_system(), ""),
            refused("WrongIdentity"),
            Some("forget_wipe"),
        ),
        (
            "claimed",
            asked(claim(with_file_system()), "alpha"),
            refused("Claimed"),
            Some("forget_wipe"),
        ),
        (
            "not yet released",
            asked(releasing(), "alpha"),
            refused("Claimed"),
            Some("forget_wipe"),
        ),
        (
            "claimed and blank",
            asked(claim(seen()), "alpha"),
            refused("Claimed"),
            Some("forget_wipe"),
        ),
        (
            "mounted",
            asked(file_system(mounted(virtio("vdb", "alpha"), "/srv")), "alpha"),
            refused("Mounted"),
            Some("forget_wipe"),
        ),
        (
            "bound",
            asked(file_system(bound_here), "alpha"),
            refused("Mounted"),
            Some("forget_wipe"),
        ),
        (
            "held",
            asked(file_system(held), "alpha"),
            refused("Held"),
            Some("forget_wipe"),
        ),
        (
            "somebody's volume",
            asked(foreign, "alpha"),
            refused("ForeignAttachment"),
            Some("forget_wipe"),
        ),
        (
            "in our pool",
            asked(in_our_pool(), "alpha"),
            refused("InOurPool"),
            Some("forget_wipe"),
        ),
        (
            "cannot be read",
            asked(
                with([found(virtio("vdb", "alpha"), Probe::Failed("no".into()))]),
                "alpha",
            ),
            refused("Unreadable"),
            Some("forget_wipe"),
        ),
        ("not matched yet", asked(unmatched, "alpha"), String::new(), None),
        (
            "blank",
            asked(seen(), "alpha"),
            "Wiped=True/WipeDone".into(),
            Some("forget_wipe"),
        ),
        (
            "a file system",
            asked(with_file_system(), "alpha"),
            String::new(),
            Some("wipe"),
        ),
    ] {
        let decided = decide(&observed);
        let conditions = told(&decided).1;
        let said = conditions.iter().find(|one| one.starts_with("Wiped"));
        assert_eq!(said.cloned().unwrap_or_default(), wiped, "{name}");
        let steps: Vec<_> = steps(&decided)
            .into_iter()
            .filter(|step| *step != "describe")
            .collect();
        assert_eq!(steps, step.into_iter().collect::<Vec<_>>(), "{name}");
        assert_eq!(
            events(&decided).contains(&event::DEVICE_WIPE),
            wiped.starts_with("Wiped=False"),
            "{name}"
        );
    }
}

#[test]
fn a_disk_that_is_not_there_hangs_or_is_one_of_two_is_not_wiped() {
    let twins = ["vdb", "vdc"].map(|name| found(virtio(name, "alpha"), holds("ext4")));
    for seen in [
        with([]),
        with(twins),
        with([found(virtio("vdb", "alpha"), Probe::NotResponding)]),
        with([found(mounted(virtio("vdb", "alpha"), "/"), holds("ext4"))]),
    ] {
        let decided = decide(&asked(seen, "alpha"));
        assert!(!steps(&decided).contains(&"wipe"), "{decided:?}");
        assert!(
            steps(&decided).contains(&"forget_wipe"),
            "and does not wait for the disk: {decided:?}"
        );
    }
}

#[test]
fn a_wipe_that_failed_is_told_and_not_tried_again() {
    let mut seen = asked(with([found(virtio("vdb", "alpha"), holds("ext4"))]), "alpha");
    seen.failure = Some(Failure {
        during: cstor_reconcile::failure::During::Step("wipe"),
        class: Class::new("wipe_refused", reason::HELD),
        message: "somebody has it".into(),
        since: now(),
        count: 1,
    });
    let decided = decide(&seen);
    assert!(told(&decided).1.contains(&"Wiped=False/Held".to_owned()));
    assert_eq!(steps(&decided), ["describe", "forget_wipe"]);
}

#[test]
fn a_claim_on_a_partition_or_a_pool_of_ours_there_keeps_the_whole_disk() {
    let mut disk = virtio("vdb", "alpha");
    disk.partitions = vec!["vdb1".into()];
    let mut part = Device::new(
        "vdb1",
        DeviceNumber {
            major: 252,
            minor: 17,
        },
        Kind::Partition,
        1 << 30,
    );
    part.parent = Some("vdb".into());
    part.partition = Some(Partition {
        number: 1,
        ..Partition::default()
    });
    let seen = || {
        asked(
            with([found(disk.clone(), holds("gpt")), found(part.clone(), blank())]),
            "alpha",
        )
    };
    assert!(
        steps(&decide(&seen())).contains(&"wipe"),
        "nobody has a part of it"
    );
    let mut claimed_part = seen();
    let view = claimed_part.view.clone().unwrap();
    claimed_part.objects = vec![Arc::new(claimed(object(&view.disks["vdb1"])))];
    let decided = decide(&claimed_part);
    assert!(
        told(&decided).1.contains(&"Wiped=False/Claimed".to_owned()),
        "{decided:?}"
    );

    let ours = in_our_pool();
    let label = ours.view.as_ref().unwrap().disks["vdb"]
        .found
        .probe
        .clone()
        .unwrap();
    let mut pool = asked(with([found(disk, holds("gpt")), found(part, label)]), "alpha");
    pool.records = ours.records;
    let decided = decide(&pool);
    assert!(
        told(&decided).1.contains(&"Wiped=False/InOurPool".to_owned()),
        "{decided:?}"
    );
}

/// Somebody has made a file system on a disk of a pool, or there was one before and ZFS did not reach it.
#[test]
fn a_label_of_our_pool_beside_a_leftover_keeps_the_disk_from_being_wiped() {
    let ours = in_our_pool();
    let Some(Probe::Read(mut contents)) = ours.view.as_ref().unwrap().disks["vdb"].found.probe.clone() else {
        panic!("the disk was read");
    };
    let Probe::Read(leftover) = holds("ext4") else {
        panic!("so was this");
    };
    contents.signatures = leftover.signatures;
    let label = contents.zfs.clone().unwrap();
    let other = Label {
        pool_guid: Some(7),
        txg: 10,
        ..label.clone()
    };
    let under_another = Contents {
        zfs: Some(other),
        zfs_others: vec![label],
        ..contents.clone()
    };
    for contents in [contents, under_another] {
        let mut seen = asked(
            with([found(virtio("vdb", "alpha"), Probe::Read(contents))]),
            "alpha",
        );
        seen.records = ours.records.clone();
        let decided = decide(&seen);
        assert!(
            told(&decided).1.contains(&"Wiped=False/InOurPool".to_owned()),
            "{decided:?}"
        );
        assert!(!steps(&decided).contains(&"wipe"), "{decided:?}");
    }
}

#[test]
fn the_worse_of_two_objects_about_one_disk_is_not_offered() {
    let mut seen = seen();
    seen.better = Some("blockdevice-older".into());
    let (state, conditions) = told(&decide(&seen));
    assert_eq!(state, "Unknown");
    assert!(
        conditions.contains(&"Quarantined=True/DuplicateObject".to_owned()),
        "{conditions:?}"
    );
    assert!(
        !conditions.iter().any(|one| one.starts_with("Blank=True")),
        "{conditions:?}"
    );
}
