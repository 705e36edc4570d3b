//! What is tried: who uses a device and what ZFS cannot have ([`using`]), what is on it ([`contents`]), whose pool it is in
//! ([`pools`]), and all of it mixed ([`properties`]).

mod contents;
mod pools;
mod properties;
mod using;

use cstor_zfs::Label;

use super::*;
use crate::DeviceNumber;
use crate::contents::Signature;
use crate::device::Partition;

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
