//! What is on a device, and when it is blank.

use std::collections::BTreeMap;

use super::*;

#[test]
fn a_device_that_nothing_speaks_against_is_blank() {
    assert_eq!(Case::blank().ask(&recorded()), Ownership::Blank);
    assert_eq!(Case::blank_partition().ask(&recorded()), Ownership::Blank);
    let mbr = Case::blank_partition().with(|case| {
        case.device.partition.as_mut().unwrap().type_id = Some("0x83".into());
    });
    assert_eq!(mbr.ask(&recorded()), Ownership::Blank);
    for kind in [
        Kind::Lvm,
        Kind::Crypt,
        Kind::Multipath,
        Kind::Md,
        Kind::DeviceMapper,
    ] {
        let built = Case::blank().with(|case| {
            case.device.kind = kind;
            case.device.slaves = vec!["sdc".into(), "sdd".into()];
        });
        assert_eq!(built.ask(&recorded()), Ownership::Blank, "{kind:?}");
    }
    let smallest = Case::blank().with(|case| case.device.bytes = SMALLEST);
    assert_eq!(smallest.ask(&recorded()), Ownership::Blank);
}

#[test]
fn what_is_on_it_is_named_with_its_place() {
    let cases = [
        ("ext4", Some("filesystem"), reason::FILE_SYSTEM),
        ("LVM2_member", Some("raid"), reason::MEMBER),
        ("linux_raid_member", Some("raid"), reason::MEMBER),
        ("bcache", Some("other"), reason::MEMBER),
        ("crypto_LUKS", Some("crypto"), reason::SIGNATURE),
        ("swap", Some("other"), reason::SIGNATURE),
        ("gpt", Some("partition-table"), reason::PARTITIONED),
        ("zfs_member", Some("filesystem"), reason::FOREIGN_POOL),
        ("something to come", None, reason::SIGNATURE),
    ];
    for (kind, usage, expected) in cases {
        let case = Case::blank().with(|case| {
            let mut first = signature(kind, usage);
            (first.label, first.uuid) = (Some("a \"b\"".into()), Some("1-2".into()));
            case.contents().signatures = vec![first, signature(kind, usage), signature(kind, usage)];
        });
        let message =
            format!("/dev/sdb carries {kind} at byte 1080 and at 2 more, labelled \"a \\\"b\\\"\", UUID 1-2");
        let findings = vec![Finding {
            reason: expected,
            message,
        }];
        assert_eq!(case.ask(&recorded()), Ownership::Theirs(findings));
    }
    let data = Case::blank().with(|case| case.contents().data_at = Some(4096));
    let message = "/dev/sdb holds data at byte 4096 that nothing here knows the form of".into();
    let reason = reason::UNRECOGNISED_DATA;
    assert_eq!(
        data.ask(&recorded()),
        Ownership::Theirs(vec![Finding { reason, message }])
    );
    let busy = Case::blank().with(|case| case.contents().busy = true);
    assert_eq!(busy.reasons(&recorded()), [reason::HELD]);
    let late = Case::blank().with(|case| {
        case.device.udev = Some(BTreeMap::from([("ID_FS_TYPE".into(), "xfs".into())]));
    });
    assert_eq!(late.reasons(&recorded()), [reason::SIGNATURE]);
}

#[test]
fn a_partition_is_blank_only_where_the_table_says_it_is_for_data() {
    let kept = [
        Some(ZFS_LAST),
        Some("21686148-6449-6e6f-744e-656564454649"),
        Some("c12a7328-f81f-11d2-ba4b-00a0c93ec93b"),
        Some("e3c9e316-0b5c-4db8-817d-f92df00215ae"),
        Some("0xef"),
        Some("0x5"),
        Some(""),
        None,
    ];
    for type_id in kept {
        let case = Case::blank_partition().with(|case| {
            case.device.partition.as_mut().unwrap().type_id = type_id.map(Into::into);
        });
        assert_eq!(case.reasons(&recorded()), [reason::PARTITIONED], "{type_id:?}");
    }
    let of_whom = Case::blank_partition().with(|case| case.parent = None);
    assert_eq!(of_whom.reasons(&recorded()), [reason::PARTITIONED]);
    let unread = Case::blank_partition().with(|case| case.parent.as_mut().unwrap().1 = Probe::NotResponding);
    assert_eq!(unread.reasons(&recorded()), [reason::PARTITIONED]);
    let no_partition = Case::blank_partition().with(|case| case.device.partition = None);
    assert_eq!(no_partition.reasons(&recorded()), [reason::PARTITIONED]);
    let used_whole = Case::blank_partition().with(|case| {
        let mut contents = table();
        contents.signatures.push(signature("iso9660", Some("filesystem")));
        case.parent.as_mut().unwrap().1 = read(contents);
    });
    assert_eq!(used_whole.reasons(&recorded()), [reason::FILE_SYSTEM]);
    let write_protected =
        Case::blank_partition().with(|case| case.parent.as_mut().unwrap().0.read_only = true);
    assert_eq!(write_protected.reasons(&recorded()), [reason::UNSUITABLE]);
}

#[test]
fn what_was_not_read_is_unknown() {
    let unknown = |case: &Case| match case.ask(&recorded()) {
        Ownership::Unknown { reason, message } => (reason, message),
        other => panic!("{other:?}"),
    };
    let dead = Case::blank().with(|case| case.probe = Probe::NotResponding);
    assert_eq!(unknown(&dead).0, reason::NOT_RESPONDING);
    let broken = Case::blank().with(|case| case.probe = Probe::Failed("Input/output error".into()));
    let message = "/dev/sdb cannot be read: Input/output error";
    assert_eq!(unknown(&broken), (reason::UNREADABLE, message.to_owned()));
    // A disk of ours that died: as a whole, or where its label is.
    let whole = Case::whole(label()).with(|case| case.probe = Probe::NotResponding);
    assert_eq!(unknown(&whole).0, reason::NOT_RESPONDING);
    let first = Case::whole(label()).with(|case| case.partitions[1].1 = Probe::NotResponding);
    assert!(unknown(&first).1.contains("/dev/sdb1"));
    // One that is divided by somebody else is somebody else's, dead or not.
    let divided = whole.with(|case| case.device.partitions.push("sdb2".into()));
    assert!(divided.reasons(&recorded()).contains(&reason::PARTITIONED));
}
