//! Disks and objects for the tests of this module.

use std::sync::Arc;

use cstor_api::names::phase::{BlockDeviceClaimState, BlockDeviceState};
use cstor_api::openebs::{BlockDevice, BlockDeviceStatus};
use cstor_blockdev::contents::{Contents, Probe, Signature};
use cstor_blockdev::device::{Designator, DesignatorKind, Mount, Nvme, Partition, Scsi};
use cstor_blockdev::filter::Filters;
use cstor_blockdev::scan::{Found, Inventory};
use cstor_blockdev::{Device, DeviceNumber, Kind};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::ObjectMeta;
use tokio::time::Instant;

use super::publish::Description;
use super::view::{Catalogue, Disk, View};

pub(crate) const NODE: &str = "node-1";
pub(crate) const HOST: &str = "host-1";
pub(crate) const GIB: u64 = 1 << 30;

pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

pub(crate) fn virtio(name: &str, serial: &str) -> Device {
    let minor = name.bytes().fold(0, |sum, byte| sum * 7 + u32::from(byte));
    let number = DeviceNumber { major: 252, minor };
    let mut device = Device::new(name, number, Kind::Disk, 10 * GIB);
    device.sequence = Some(u64::from(minor));
    device.bus = Some("virtio".into());
    device.serial = (!serial.is_empty()).then(|| serial.to_owned());
    device.logical_sector = Some(512);
    device.physical_sector = Some(4096);
    device.rotational = Some(true);
    device.links = vec![
        format!("/dev/disk/by-id/virtio-{serial}").into(),
        format!("/dev/disk/by-path/pci-{name}").into(),
        format!("/dev/disk/by-uuid/{serial}").into(),
    ];
    device
}

pub(crate) fn scsi() -> Device {
    let mut device = Device::new("sda", DeviceNumber { major: 8, minor: 0 }, Kind::Disk, 4 * GIB);
    device.bus = Some("scsi".into());
    device.vendor = Some("ACME".into());
    device.model = Some("Platter 4".into());
    device.firmware = Some("0001".into());
    device.serial = Some("Z1D5A1B2".into());
    device.wwid = Some("naa.5000c500a1b2c3d4".into());
    device.logical_sector = Some(512);
    device.physical_sector = Some(4096);
    device.rotational = Some(true);
    device.scsi = Some(Scsi {
        address: Some([2, 0, 0, 0]),
        page80: Some("Z1D5A1B2".into()),
        page83: vec![Designator {
            kind: DesignatorKind::Naa,
            value: "5000c500a1b2c3d4".into(),
        }],
    });
    device
}

pub(crate) fn nvme() -> Device {
    let number = DeviceNumber { major: 259, minor: 0 };
    let mut device = Device::new("nvme0n1", number, Kind::Disk, 8 * GIB);
    device.bus = Some("nvme".into());
    device.model = Some("Fast 8".into());
    device.serial = Some("S5GXNX0R".into());
    device.logical_sector = Some(4096);
    device.physical_sector = Some(4096);
    device.rotational = Some(false);
    device.nvme = Some(Nvme {
        namespace: Some(1),
        uuid: None,
        nguid: None,
        eui64: Some("0025385b71b0f1a2".into()),
        subsystem_nqn: None,
        transport: Some("pcie".into()),
    });
    device
}

/// A partition of `disk`, which then has it.
pub(crate) fn partition(disk: &mut Device, number: u32) -> Device {
    let name = format!("{}{number}", disk.name);
    let minor = disk.number.minor + number;
    let major = disk.number.major;
    let mut device = Device::new(&name, DeviceNumber { major, minor }, Kind::Partition, GIB);
    device.sequence = disk.sequence;
    device.logical_sector = disk.logical_sector;
    device.physical_sector = disk.physical_sector;
    device.rotational = disk.rotational;
    device.parent = Some(disk.name.clone());
    device.partition = Some(Partition {
        number,
        start: 1 << 20,
        type_id: None,
        uuid: None,
    });
    disk.partitions.push(name);
    device
}

pub(crate) fn mounted(mut device: Device, point: &str) -> Device {
    device.mounts.push(Mount {
        point: point.into(),
        file_system: Some("xfs".into()),
    });
    device
}

pub(crate) fn blank() -> Probe {
    Probe::Read(Contents::default())
}

pub(crate) fn holds(kind: &str) -> Probe {
    let signature = Signature {
        kind: kind.to_owned(),
        usage: Some("filesystem".into()),
        offset: 9 << 20,
        uuid: None,
        label: None,
    };
    Probe::Read(Contents {
        signatures: vec![signature],
        ..Contents::default()
    })
}

pub(crate) fn found(device: Device, probe: Probe) -> Found {
    Found {
        device,
        probe: Some(probe),
        since: Instant::now(),
        settling: false,
        pending: false,
        changed: false,
        asked: None,
    }
}

pub(crate) fn catalogue() -> Catalogue {
    Catalogue {
        node: NODE.to_owned(),
        host: HOST.to_owned(),
        filters: Filters::default(),
    }
}

pub(crate) fn inventory(found: impl IntoIterator<Item = Found>) -> Inventory {
    let found = found.into_iter().map(|found| (found.device.name.clone(), found));
    Inventory {
        found: found.collect(),
        ..Inventory::default()
    }
}

pub(crate) fn view(found: impl IntoIterator<Item = Found>) -> Arc<View> {
    Arc::new(catalogue().view(&inventory(found)))
}

/// The one disk of a view.
pub(crate) fn only(view: &View) -> &Disk {
    assert_eq!(view.disks.len(), 1, "{:?}", view.disks.keys());
    view.disks.values().next().unwrap()
}

/// An object that says what is true of `disk`.
pub(crate) fn object(disk: &Disk) -> BlockDevice {
    let Description { spec, labels } = Description::of(disk, NODE);
    BlockDevice {
        metadata: ObjectMeta {
            name: Some(disk.object_name.clone()),
            namespace: Some("openebs".into()),
            uid: Some("0b1f".into()),
            resource_version: Some("7".into()),
            generation: Some(3),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        spec,
        status: Some(BlockDeviceStatus {
            state: Some(BlockDeviceState::Active),
            claim_state: Some(BlockDeviceClaimState::Unclaimed),
            ..BlockDeviceStatus::default()
        }),
    }
}

pub(crate) fn claimed(mut object: BlockDevice) -> BlockDevice {
    object.spec.claim_ref = Some(ObjectReference {
        kind: Some("BlockDeviceClaim".into()),
        name: Some("claim".into()),
        ..ObjectReference::default()
    });
    object
}

pub(crate) fn labelled(mut object: BlockDevice, key: &str, value: &str) -> BlockDevice {
    let labels = object.metadata.labels.get_or_insert_default();
    labels.insert(key.to_owned(), value.to_owned());
    object
}

pub(crate) fn annotated(mut object: BlockDevice, key: &str, value: &str) -> BlockDevice {
    let annotations = object.metadata.annotations.get_or_insert_default();
    annotations.insert(key.to_owned(), value.to_owned());
    object
}
