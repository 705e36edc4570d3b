//! What is tried: every row of the table ([`rows`]), every way to be fooled ([`traps`]), whatever else there may be
//! ([`properties`]), and time ([`settling`]).

mod properties;
mod rows;
mod settling;
mod traps;

use std::collections::BTreeSet;

use camino::Utf8Path;

use super::{Attachment, Correlation, Host, Published, Volume, correlate};
use crate::device::{Designator, DesignatorKind, Device, DeviceNumber, Kind, Mount, Nvme, Scsi};

const GIB: u64 = 1 << 30;
const NODE: &str = "node-1";

fn number(minor: u32) -> DeviceNumber {
    DeviceNumber { major: 259, minor }
}

/// A disk of 10 GiB.
fn disk(name: &str, minor: u32) -> Device {
    let mut device = Device::new(name, number(minor), Kind::Disk, 10 * GIB);
    device.sequence = Some(u64::from(minor) + 100);
    device
}

fn nvme(minor: u32, model: &str, serial: &str) -> Device {
    let mut device = disk(&format!("nvme{minor}n1"), minor);
    device.bus = Some("nvme".into());
    device.model = Some(model.into());
    device.serial = Some(serial.into());
    device.nvme = Some(Nvme {
        namespace: Some(1),
        transport: Some("pcie".into()),
        ..Nvme::default()
    });
    device
}

fn ebs(minor: u32, serial: &str) -> Device {
    nvme(minor, "Amazon Elastic Block Store", serial)
}

fn virtio(minor: u32, serial: &str) -> Device {
    let mut device = disk(&format!("vd{minor}"), minor);
    device.bus = Some("virtio".into());
    device.serial = Some(serial.into());
    device
}

/// A SCSI disk that says `name` in page 80 and as the vendor's designator in page 83.
fn scsi(minor: u32, vendor: &str, model: &str, name: &str) -> Device {
    let mut device = disk(&format!("sd{minor}"), minor);
    device.bus = Some("scsi".into());
    device.vendor = Some(vendor.into());
    device.model = Some(model.into());
    device.serial = Some(name.into());
    device.scsi = Some(Scsi {
        address: Some([2, 0, 0, u64::from(minor)]),
        page80: Some(name.into()),
        page83: vec![designator(DesignatorKind::VendorSpecific, name)],
    });
    device
}

fn designator(kind: DesignatorKind, value: &str) -> Designator {
    Designator {
        kind,
        value: value.into(),
    }
}

/// A SCSI disk with a World Wide Name and nothing else.
fn with_wwn(minor: u32, wwn: &str) -> Device {
    let mut device = scsi(minor, "VMware", "Virtual disk", "");
    device.serial = None;
    device.wwid = Some(format!("naa.{wwn}"));
    device.scsi = Some(Scsi {
        page83: vec![designator(DesignatorKind::Naa, wwn)],
        ..Scsi::default()
    });
    device
}

/// With links and properties that udev wrote for this very disk.
fn with_record(mut device: Device, links: &[&str], properties: &[(&str, &str)]) -> Device {
    let sequence = device.sequence.unwrap();
    let by_sequence = format!("/dev/disk/by-diskseq/{sequence}");
    let links: Vec<_> = links.iter().copied().chain([by_sequence.as_str()]).collect();
    device.links = links.iter().map(|link| (*link).into()).collect();
    let recorded = links.join(" ");
    // What libudev adds from the kernel, however old the rest is.
    let kernel = sequence.to_string();
    let all = properties
        .iter()
        .copied()
        .chain([("DEVLINKS", recorded.as_str()), ("DISKSEQ", &kernel)]);
    device.udev = Some(all.map(|(key, value)| (key.into(), value.into())).collect());
    device
}

/// The same, but that another disk has the name now.
fn stale(mut device: Device) -> Device {
    device.sequence = Some(9);
    device.udev.as_mut().unwrap().insert("DISKSEQ".into(), "9".into());
    device
}

fn azure(minor: u32, host: u64, lun: u64) -> Device {
    let mut device = scsi(minor, "Msft", "Virtual Disk", "");
    device.serial = None;
    device.scsi = Some(Scsi {
        address: Some([host, 0, 0, lun]),
        ..Scsi::default()
    });
    device
}

fn azure_nvme(minor: u32, namespace: u32) -> Device {
    let mut device = nvme(minor, "MSFT NVMe Accelerator v1.0", "SN: 000001");
    device.nvme.as_mut().unwrap().namespace = Some(namespace);
    device
}

fn fabric(minor: u32, uuid: &str) -> Device {
    let mut device = nvme(minor, "Linux", "0123");
    let nvme = device.nvme.as_mut().unwrap();
    nvme.transport = Some("tcp".into());
    nvme.uuid = Some(uuid.into());
    device
}

fn iscsi(minor: u32, target: &str, lun: u64) -> Device {
    let mut device = scsi(minor, "LIO-ORG", "disk", "");
    device.serial = None;
    device.scsi = Some(Scsi {
        address: Some([7, 0, 0, lun]),
        ..Scsi::default()
    });
    let link = format!("/dev/disk/by-path/ip-10.0.0.1:3260-iscsi-{target}-lun-{lun}");
    with_record(device, &[&link], &[])
}

/// An attachment of a volume of 10 GiB, attached to this node.
fn attachment(driver: &str, handle: &str) -> Attachment {
    Attachment {
        name: format!("csi-{handle}"),
        driver: driver.into(),
        node: NODE.into(),
        attached: true,
        volume: Some(Volume {
            persistent_volume: "pv-1".into(),
            handle: handle.into(),
            bytes: Some(10 * GIB),
            block_mode: true,
            ..Volume::default()
        }),
        ..Attachment::default()
    }
}

fn with_metadata(mut attachment: Attachment, key: &str, value: &str) -> Attachment {
    attachment.metadata.insert(key.into(), value.into());
    attachment
}

fn with_attribute(mut attachment: Attachment, key: &str, value: &str) -> Attachment {
    let volume = attachment.volume.as_mut().unwrap();
    volume.attributes.insert(key.into(), value.into());
    attachment
}

fn named(mut attachment: Attachment, name: &str) -> Attachment {
    attachment.name = name.into();
    attachment.volume.as_mut().unwrap().persistent_volume = format!("pv-{name}");
    attachment
}

fn look_all(devices: &[Device], published: &Published, attachments: &[Attachment]) -> Vec<Correlation> {
    let host = Host {
        node: NODE,
        devices,
        published,
        kubelet: Utf8Path::new("/var/lib/kubelet"),
        ours: &BTreeSet::new(),
    };
    correlate(&host, attachments)
}

fn look(devices: &[Device], attachment: &Attachment) -> Correlation {
    let mut all = look_all(devices, &Published::new(), std::slice::from_ref(attachment));
    all.remove(0)
}

fn handed_out(pv: &str, minors: &[u32]) -> Published {
    Published::from([(pv.to_owned(), minors.iter().map(|minor| number(*minor)).collect())])
}

/// The kernel's name of the device and the method, of a match.
#[track_caller]
fn matched(correlation: &Correlation) -> (&str, &str) {
    let found = correlation.matched();
    let found = found.unwrap_or_else(|| panic!("no match: {correlation:?}"));
    (&found.name, found.method)
}

/// The reason, of what is no match; its message must say so much.
#[track_caller]
fn refused(correlation: &Correlation, reason: &str, message: &str) {
    assert_eq!(correlation.reason(), reason, "{correlation:?}");
    let told = correlation.message();
    assert!(told.contains(message), "{message:?} is not in {told:?}");
}

fn mount(point: &str, file_system: Option<&str>) -> Mount {
    Mount {
        point: point.into(),
        file_system: file_system.map(Into::into),
    }
}
