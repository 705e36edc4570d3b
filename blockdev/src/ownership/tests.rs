mod properties;

use std::collections::BTreeMap;

use cstor_zfs::Label;

use super::*;
use crate::DeviceNumber;
use crate::contents::Signature;
use crate::device::{DeviceMapper, Loop, Mount, Partition};

const GIB: u64 = 1 << 30;
const UID: &str = "f2420c98-ce02-4bc8-b3c0-8266c0b62b69";
const COMMENT: &str = "f2420c98ce024bc8b3c08266c0b62b69";
const POOL: u64 = 11;
const VDEV: u64 = 22;
const LINUX_DATA: &str = "0fc63daf-8483-4772-8e79-3d69d8477de4";
const ZFS_FIRST: &str = "6a898cc3-1dd2-11b2-99a6-080020736631";
const ZFS_LAST: &str = "6a945a3b-1dd2-11b2-99a6-080020736631";

/// A device with its partitions and its disk, to be changed and asked about.
#[derive(Debug, Clone)]
struct Case {
    device: Device,
    probe: Probe,
    partitions: Vec<(Device, Probe)>,
    parent: Option<(Device, Probe)>,
    foreign_attachment: Option<String>,
}

fn device(name: &str, kind: Kind) -> Device {
    Device::new(name, DeviceNumber { major: 8, minor: 16 }, kind, GIB)
}

fn read(contents: Contents) -> Probe {
    Probe::Read(contents)
}

fn nothing() -> Probe {
    read(Contents::default())
}

fn signature(kind: &str, usage: Option<&str>) -> Signature {
    Signature {
        kind: kind.into(),
        usage: usage.map(Into::into),
        offset: 1080,
        uuid: None,
        label: None,
    }
}

fn table() -> Contents {
    let table = |kind| signature(kind, Some("partition-table"));
    Contents {
        signatures: vec![table("PMBR"), table("gpt")],
        data_at: Some(446),
        ..Contents::default()
    }
}

fn partition(number: u32, type_id: Option<&str>, probe: Probe) -> (Device, Probe) {
    let mut device = device(&format!("sdb{number}"), Kind::Partition);
    device.parent = Some("sdb".into());
    device.partition = Some(Partition {
        number,
        type_id: type_id.map(Into::into),
        ..Partition::default()
    });
    (device, probe)
}

fn label() -> Label {
    Label {
        pool_name: Some("tank".into()),
        pool_guid: Some(POOL),
        vdev_guid: VDEV,
        comment: None,
        state: 0,
        txg: 4,
        hostname: Some("elsewhere".into()),
        hostid: Some(1),
    }
}

fn labelled(label: Label) -> Probe {
    read(Contents {
        signatures: vec![signature("zfs_member", Some("filesystem")); 3],
        zfs: Some(label),
        data_at: Some(16384),
        ..Contents::default()
    })
}

/// A label that our agent wrote and did not live to record.
fn commented() -> Label {
    Label {
        pool_name: Some(format!("cstor-{UID}")),
        comment: Some(COMMENT.into()),
        ..label()
    }
}

fn record(pool: Option<u64>, vdevs: &[u64]) -> Record {
    Record {
        instance: UID.parse().unwrap(),
        pool_name: None,
        pool_guid: pool,
        vdev_guids: vdevs.iter().copied().collect(),
    }
}

fn recorded() -> Records {
    Records::from_iter([record(Some(POOL), &[1, VDEV])])
}

impl Case {
    fn blank() -> Self {
        Self {
            device: device("sdb", Kind::Disk),
            probe: nothing(),
            partitions: Vec::new(),
            parent: None,
            foreign_attachment: None,
        }
    }

    fn blank_partition() -> Self {
        let (device, probe) = partition(1, Some(LINUX_DATA), nothing());
        let mut disk = Self::blank().device;
        disk.partitions = vec!["sdb1".into(), "sdb2".into()];
        Self {
            device,
            probe,
            parent: Some((disk, read(table()))),
            ..Self::blank()
        }
    }

    /// A disk that was given to ZFS whole.
    fn whole(label: Label) -> Self {
        let mut case = Self::blank();
        case.device.partitions = vec!["sdb1".into(), "sdb9".into()];
        case.probe = read(table());
        case.partitions = vec![
            partition(9, Some(ZFS_LAST), nothing()),
            partition(1, Some(ZFS_FIRST), labelled(label)),
        ];
        case
    }

    fn contents(&mut self) -> &mut Contents {
        match &mut self.probe {
            Probe::Read(contents) => contents,
            other => panic!("{other:?}"),
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn ask(&self, records: &Records) -> Ownership {
        fn examined<'a>((device, probe): (&'a Device, &'a Probe)) -> Examined<'a> {
            Examined { device, probe }
        }
        let partitions: Vec<_> = self.partitions.iter().map(|(d, p)| examined((d, p))).collect();
        let subject = Subject {
            examined: examined((&self.device, &self.probe)),
            partitions: &partitions,
            parent: self.parent.as_ref().map(|(d, p)| examined((d, p))),
            foreign_attachment: self.foreign_attachment.as_deref(),
        };
        ownership(&subject, records)
    }

    fn reasons(&self, records: &Records) -> Vec<&'static str> {
        match self.ask(records) {
            Ownership::Theirs(findings) => findings.iter().map(|finding| finding.reason).collect(),
            other => panic!("{other:?}"),
        }
    }
}

fn mount(point: &str, file_system: Option<&str>) -> Mount {
    Mount {
        point: point.into(),
        file_system: file_system.map(Into::into),
    }
}

type Change = Box<dyn Fn(&mut Device)>;

/// What somebody may be doing with a device, with the reason each must give.
fn uses() -> Vec<(&'static str, Change)> {
    vec![
        (
            reason::MOUNTED,
            Box::new(|d| d.mounts = vec![mount("/", Some("ext4"))]),
        ),
        (
            reason::MOUNTED,
            Box::new(|d| d.mounts = vec![mount("/pods/x", None)]),
        ),
        (reason::SWAP, Box::new(|d| d.swap = true)),
        (reason::HELD, Box::new(|d| d.holders = vec!["dm-0".into()])),
        (
            reason::EXPORTED,
            Box::new(|d| d.exports = vec!["nvmet:nqn.x".into()]),
        ),
        (
            reason::MEMBER,
            Box::new(|d| {
                d.udev = Some(BTreeMap::from([("DM_MULTIPATH_DEVICE_PATH".into(), "1".into())]));
            }),
        ),
        (
            reason::MEMBER,
            Box::new(|d| {
                d.device_mapper = Some(DeviceMapper {
                    name: "vg-pool_tmeta".into(),
                    uuid: Some(format!("LVM-{}-tmeta", "x".repeat(64))),
                });
            }),
        ),
    ]
}

/// What makes a device one that ZFS cannot have.
fn flaws() -> Vec<Change> {
    vec![
        Box::new(|d| d.read_only = true),
        Box::new(|d| d.removable = true),
        Box::new(|d| d.zoned = true),
        Box::new(|d| d.bytes = SMALLEST - 1),
        Box::new(|d| d.bytes = 0),
        Box::new(|d| d.kind = Kind::Zvol),
        Box::new(|d| d.kind = Kind::Other),
        Box::new(|d| d.slaves = vec!["sdc".into()]),
        Box::new(|d| {
            d.backing = Some(Loop {
                file: "/dev/sdc".into(),
                offset: 0,
            })
        }),
    ]
}

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
fn whoever_uses_a_device_or_a_part_of_it_has_it() {
    for (expected, change) in uses() {
        let itself = Case::blank().with(|case| change(&mut case.device));
        assert_eq!(itself.reasons(&recorded()), [expected]);
        let of_a_part = Case::blank().with(|case| {
            let (mut part, probe) = partition(2, Some(LINUX_DATA), nothing());
            change(&mut part);
            case.device.partitions = vec!["sdb2".into()];
            case.partitions = vec![(part, probe)];
        });
        assert_eq!(of_a_part.reasons(&recorded()), [expected, reason::PARTITIONED]);
        let of_the_disk = Case::blank_partition().with(|case| change(&mut case.parent.as_mut().unwrap().0));
        assert_eq!(of_the_disk.reasons(&recorded()), [expected]);
        // A label of ours changes nothing about that.
        for probe in [labelled(label()), labelled(commented())] {
            let ours = Case::blank().with(|case| {
                case.probe = probe;
                change(&mut case.device);
            });
            assert_eq!(ours.reasons(&recorded()), [expected, reason::IN_OUR_POOL]);
        }
        for part in 0..2 {
            let whole = Case::whole(label()).with(|case| change(&mut case.partitions[part].0));
            assert_eq!(whole.reasons(&recorded()), [expected, reason::IN_OUR_POOL]);
        }
        // That a disk does not answer does not make it ours to wonder about.
        let dead = Case::blank().with(|case| {
            case.probe = Probe::NotResponding;
            change(&mut case.device);
        });
        assert_eq!(dead.reasons(&recorded()), [expected]);
    }
}

#[test]
fn what_zfs_cannot_have_is_unsuitable() {
    for change in flaws() {
        let case = Case::blank().with(|case| change(&mut case.device));
        assert_eq!(case.reasons(&recorded()), [reason::UNSUITABLE]);
        let unread = case.with(|case| case.probe = Probe::Failed("no medium".into()));
        assert_eq!(unread.reasons(&recorded()), [reason::UNSUITABLE]);
    }
}

#[test]
fn a_volume_of_somebody_else_is_his() {
    let attached = |case: &mut Case| case.foreign_attachment = Some("ebs.csi.aws.com for pvc-1".into());
    let blank = Case::blank().with(attached);
    assert_eq!(blank.reasons(&recorded()), [reason::FOREIGN_ATTACHMENT]);
    let ours = Case::whole(label()).with(attached);
    assert_eq!(
        ours.reasons(&recorded()),
        [reason::FOREIGN_ATTACHMENT, reason::IN_OUR_POOL]
    );
    for file in [
        "/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/pvc-1/dev/9a",
        "/data/kubelet/plugins/kubernetes.io/csi/volumeDevices/pvc-1/dev/9a",
    ] {
        let held = Case::blank().with(|case| {
            case.device.kind = Kind::Loop;
            case.device.backing = Some(Loop {
                file: file.into(),
                offset: 0,
            });
        });
        assert_eq!(held.reasons(&recorded()), [reason::FOREIGN_ATTACHMENT]);
    }
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
            format!("{kind} at byte 1080 of /dev/sdb and at 2 more, labelled \"a \\\"b\\\"\", UUID 1-2");
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
fn a_pool_is_ours_by_what_was_recorded() {
    let ours = |name: &str| {
        Ownership::Ours(Ours {
            pool_name: name.into(),
            pool_guid: Some(POOL),
            vdev_guid: VDEV,
            instance_uid: UID.parse().unwrap(),
        })
    };
    let on_the_device = Case::blank().with(|case| case.probe = labelled(label()));
    assert_eq!(on_the_device.ask(&recorded()), ours("tank"));
    let busy = on_the_device.clone().with(|case| case.contents().busy = true);
    assert_eq!(busy.ask(&recorded()), ours("tank"));
    let worn = on_the_device
        .clone()
        .with(|case| case.contents().zfs_damaged = true);
    assert_eq!(worn.ask(&recorded()), ours("tank"));
    assert_eq!(Case::whole(label()).ask(&recorded()), ours("tank"));
    let without_udev = Case::whole(label()).with(|case| {
        for (part, _) in &mut case.partitions {
            part.partition.as_mut().unwrap().type_id = None;
        }
    });
    assert_eq!(without_udev.ask(&recorded()), ours("tank"));
    let on_a_partition = Case::blank_partition().with(|case| case.probe = labelled(label()));
    assert_eq!(on_a_partition.ask(&recorded()), ours("tank"));
    for state in [1, 2] {
        let case = Case::whole(Label { state, ..label() });
        assert_eq!(case.ask(&recorded()), ours("tank"));
    }
    for state in [3, 4] {
        let case = Case::whole(Label {
            state,
            pool_name: None,
            pool_guid: None,
            ..label()
        });
        assert_eq!(case.ask(&recorded()), ours(&format!("cstor-{UID}")));
    }
    // Made by an agent that did not live to record it, in whole or in part.
    for records in [
        record(None, &[]),
        record(Some(POOL), &[]),
        record(Some(POOL), &[1]),
    ] {
        let records = Records::from_iter([records]);
        assert_eq!(
            Case::whole(commented()).ask(&records),
            ours(&format!("cstor-{UID}"))
        );
    }
}

#[test]
fn a_pool_that_was_not_recorded_is_theirs() {
    let strangers = [
        label(),
        Label {
            pool_guid: Some(POOL),
            vdev_guid: 9,
            ..label()
        },
        Label {
            pool_guid: Some(9),
            ..label()
        },
        Label {
            pool_guid: None,
            ..label()
        },
        Label {
            pool_name: Some("tank".into()),
            ..commented()
        },
        Label {
            comment: None,
            ..commented()
        },
        Label {
            comment: Some(UID.into()),
            ..commented()
        },
        Label {
            comment: Some(format!("{COMMENT}\u{fffd}")),
            ..commented()
        },
        Label {
            pool_guid: None,
            ..commented()
        },
    ];
    let records = Records::from_iter([record(Some(POOL), &[1])]);
    for stranger in strangers {
        for case in [
            Case::whole(stranger.clone()),
            Case::blank().with(|case| case.probe = labelled(stranger.clone())),
        ] {
            let reasons = case.reasons(&records);
            assert_eq!(reasons[0], reason::FOREIGN_POOL, "{stranger:?}");
            let told = reasons.iter().filter(|reason| **reason == reason::FOREIGN_POOL);
            assert_eq!(told.count(), 1, "{stranger:?}");
        }
    }
    // It names an instance that has another pool.
    let other = Case::whole(Label {
        pool_guid: Some(99),
        ..commented()
    });
    assert!(
        matches!(other.ask(&recorded()), Ownership::Theirs(found) if found[0].message.contains("has the pool 11"))
    );
    // Two instances record the same device.
    let twin = Record {
        instance: "another-uid".parse().unwrap(),
        ..record(Some(POOL), &[VDEV])
    };
    let both = Records::from_iter([record(Some(POOL), &[VDEV]), twin]);
    assert_eq!(Case::whole(label()).reasons(&both)[0], reason::FOREIGN_POOL);
}

#[test]
fn what_is_beside_our_label_makes_it_theirs() {
    let beside = [
        Case::blank().with(|case| {
            case.probe = labelled(label());
            case.contents()
                .signatures
                .push(signature("xfs", Some("filesystem")));
        }),
        Case::blank().with(|case| {
            case.probe = labelled(label());
            case.contents().zfs_others.push(Label {
                pool_guid: Some(7),
                ..label()
            });
        }),
        Case::whole(label()).with(|case| {
            case.contents().zfs = Some(Label {
                pool_guid: Some(7),
                ..label()
            })
        }),
        Case::whole(label()).with(|case| case.contents().zfs_damaged = true),
        Case::whole(label()).with(|case| {
            case.contents()
                .signatures
                .push(signature("LVM2_member", Some("raid")))
        }),
    ];
    for case in beside {
        assert_eq!(
            case.reasons(&recorded()).last(),
            Some(&reason::IN_OUR_POOL),
            "{case:?}"
        );
    }
    // Not the layout that ZFS makes: another partition, another type, one that was not looked at.
    let others = [
        Case::whole(label()).with(|case| {
            case.device.partitions.push("sdb2".into());
            case.partitions.push(partition(2, Some(LINUX_DATA), nothing()));
        }),
        Case::whole(label()).with(|case| case.device.partitions.push("sdb2".into())),
        Case::whole(label()).with(|case| case.device.partitions.clear()),
        Case::whole(label()).with(|case| case.partitions.clear()),
        Case::whole(label()).with(|case| case.partitions.truncate(1)),
        Case::whole(label()).with(|case| {
            case.partitions[0].0.partition.as_mut().unwrap().type_id = Some(LINUX_DATA.into());
        }),
        Case::whole(label()).with(|case| case.partitions[0].0.partition.as_mut().unwrap().number = 8),
    ];
    for case in others {
        assert!(
            case.reasons(&recorded()).contains(&reason::PARTITIONED),
            "{case:?}"
        );
    }
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
