//! Who uses a device, and what ZFS cannot have.

use std::collections::BTreeMap;

use super::*;
use crate::device::{DeviceMapper, Loop, Mount};

fn mount(point: &str, file_system: Option<&str>) -> Mount {
    Mount {
        point: point.into(),
        file_system: file_system.map(Into::into),
    }
}

pub(super) type Change = Box<dyn Fn(&mut Device)>;

/// What somebody may be doing with a device, with the reason each must give.
pub(super) fn uses() -> Vec<(&'static str, Change)> {
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
pub(super) fn flaws() -> Vec<Change> {
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
