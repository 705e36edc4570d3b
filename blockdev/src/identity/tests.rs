use std::collections::BTreeSet;

use super::*;
use crate::device::{DeviceMapper, DeviceNumber, Loop, Partition};

mod properties;

const NODE: &str = "node-1";
const UUID: &str = "3a1f9c52-8e7d-4b60-9d12-0c5be1f7a934";
const NGUID: &str = "3a1f9c528e7d4b609d120c5be1f7a934";

fn device(name: &str, kind: Kind) -> Device {
    Device::new(name, DeviceNumber { major: 8, minor: 16 }, kind, 10 << 30)
}

fn nvme(model: &str, serial: &str, change: impl FnOnce(&mut Nvme)) -> Device {
    let mut disk = device("nvme0n1", Kind::Disk);
    disk.bus = Some("nvme".into());
    disk.model = Some(model.into());
    disk.serial = Some(serial.into());
    let mut nvme = Nvme {
        namespace: Some(1),
        ..Nvme::default()
    };
    change(&mut nvme);
    disk.nvme = Some(nvme);
    disk
}

fn scsi(vendor: &str, model: &str, page80: Option<&str>, page83: &[(DesignatorKind, &str)]) -> Device {
    let mut disk = device("sdb", Kind::Disk);
    disk.bus = Some("scsi".into());
    disk.vendor = Some(vendor.into());
    disk.model = Some(model.into());
    disk.serial = page80.map(Into::into);
    disk.scsi = Some(Scsi {
        address: None,
        page80: page80.map(Into::into),
        page83: page83
            .iter()
            .map(|(kind, value)| Designator {
                kind: *kind,
                value: (*value).into(),
            })
            .collect(),
    });
    disk
}

fn on_bus(bus: &str, serial: Option<&str>) -> Device {
    let mut disk = device("vdb", Kind::Disk);
    disk.bus = Some(bus.into());
    disk.serial = serial.map(Into::into);
    disk
}

fn mapped(kind: Kind, uuid: Option<&str>) -> Device {
    let mut mapping = device("dm-0", kind);
    mapping.device_mapper = Some(DeviceMapper {
        name: "data".into(),
        uuid: uuid.map(Into::into),
    });
    mapping
}

fn partition(of: &str, number: u32) -> Device {
    let mut part = device(&format!("{of}{number}"), Kind::Partition);
    part.parent = Some(of.into());
    part.partition = Some(Partition {
        number,
        ..Partition::default()
    });
    part
}

fn looped(file: &str, offset: u64) -> Device {
    let mut device = device("loop0", Kind::Loop);
    device.backing = Some(Loop {
        file: file.into(),
        offset,
    });
    device
}

fn text(device: &Device) -> String {
    identify(device, None, NODE).unwrap().to_string()
}

fn why_not(device: &Device) -> String {
    identify(device, None, NODE).unwrap_err().to_string()
}

use DesignatorKind::{Eui64, Naa, T10, VendorSpecific};

#[test]
fn each_scheme_and_its_order() {
    let none = |_: &mut Nvme| {};
    let rows = [
        (
            nvme("Any", "S1234", |nvme| {
                nvme.uuid = Some(UUID.to_uppercase());
                nvme.nguid = Some(NGUID.into());
                nvme.eui64 = Some("0025385b71b0a5c3".into());
            }),
            "nvme-uuid/v1 3a1f9c52-8e7d-4b60-9d12-0c5be1f7a934",
        ),
        (
            nvme("Any", "S1234", |nvme| {
                nvme.nguid = Some(NGUID.into());
                nvme.eui64 = Some("0025385b71b0a5c3".into());
            }),
            "nvme-nguid/v1 3a1f9c528e7d4b609d120c5be1f7a934",
        ),
        (
            nvme("Any", "S1234", |nvme| {
                nvme.eui64 = Some("0025385B71B0A5C3".into())
            }),
            "nvme-eui64/v1 0025385b71b0a5c3",
        ),
        // QEMU makes one up that begins with 525400; the second digit's bit says so.
        (
            nvme("QEMU NVMe Ctrl", "alpha", |nvme| {
                nvme.eui64 = Some("5254000000000001".into())
            }),
            "nvme-serial/v1 QEMU NVMe Ctrl:alpha:1",
        ),
        (
            nvme("Amazon Elastic Block Store", "vol0abc", none),
            "nvme-serial/v1 Amazon Elastic Block Store:vol0abc:1",
        ),
        (
            nvme("nvme_card-pd", "nvme_card-pd", |nvme| nvme.namespace = Some(3)),
            "nvme-serial-node/v1 node-1:nvme_card-pd:nvme_card-pd:3",
        ),
        (
            nvme("MSFT NVMe Accelerator v1.0", "SN: 000001", |nvme| {
                nvme.namespace = Some(2)
            }),
            "nvme-serial-node/v1 node-1:MSFT NVMe Accelerator v1.0:SN\\x3a 000001:2",
        ),
        (
            scsi(
                "ATA",
                "Disk",
                Some("W1"),
                &[
                    (T10, "ATA     Disk  W1"),
                    (Naa, "5000c500a1b2c3d4"),
                    (Naa, "6000c29a1b2c3d4e5f60718293a4b5c6"),
                ],
            ),
            "scsi-naa/v1 6000c29a1b2c3d4e5f60718293a4b5c6",
        ),
        (
            scsi("ATA", "Disk", None, &[(Naa, "2000c500a1b2c3d4")]),
            "scsi-naa/v1 2000c500a1b2c3d4",
        ),
        (
            scsi(
                "ATA",
                "Disk",
                None,
                &[(Eui64, "0025385b71b0a5c3"), (T10, "ATA Disk W1")],
            ),
            "scsi-eui64/v1 0025385b71b0a5c3",
        ),
        (
            scsi(
                "ATA",
                "Disk",
                Some("W1"),
                &[(VendorSpecific, "W1"), (T10, "ATA     Disk   W1")],
            ),
            "scsi-t10/v1 ATA Disk W1",
        ),
        // scsi_debug and others assign names locally.
        (
            scsi(
                "Linux",
                "scsi_debug",
                Some("2000"),
                &[(Naa, "3333333000001f40"), (T10, "Linux   scsi_debug      2000")],
            ),
            "scsi-t10/v1 Linux scsi_debug 2000",
        ),
        (
            scsi("HC", "Volume", Some("98765432"), &[(VendorSpecific, "98765432")]),
            "scsi-serial/v1 HC:Volume:98765432",
        ),
        (
            scsi(
                "Google",
                "PersistentDisk",
                None,
                &[(T10, "Google  PersistentDisk  data-1")],
            ),
            "scsi-t10-node/v1 node-1:Google PersistentDisk data-1",
        ),
        (
            scsi("Google", "PersistentDisk", Some("data-1"), &[]),
            "scsi-serial-node/v1 node-1:Google:PersistentDisk:data-1",
        ),
        (on_bus("virtio", Some("alpha")), "virtio-serial/v1 alpha"),
        (
            on_bus("virtio", Some("\\xff\\x00odd")),
            "virtio-serial/v1 \\xff\\x00odd",
        ),
        (
            on_bus("mmc", Some("15010038474E44335201C6D4B9A2937B")),
            "mmc-cid/v1 15010038474e44335201c6d4b9a2937b",
        ),
        (on_bus("mmc", Some("0x3ba25c71")), "serial/v1 mmc:::0x3ba25c71"),
        (
            mapped(
                Kind::Lvm,
                Some("LVM-j2xmqvbcVWBQK9Jdttte3CyeVTGgxtVV5VcCi3nxdwihZDxSquMOBaGL5eymBNvk"),
            ),
            "dm-uuid/v1 LVM-j2xmqvbcVWBQK9Jdttte3CyeVTGgxtVV5VcCi3nxdwihZDxSquMOBaGL5eymBNvk",
        ),
        (
            mapped(
                Kind::Crypt,
                Some("CRYPT-LUKS2-3a1f9c528e7d4b609d120c5be1f7a934-data"),
            ),
            "dm-uuid/v1 CRYPT-LUKS2-3a1f9c528e7d4b609d120c5be1f7a934",
        ),
        (
            mapped(Kind::Multipath, Some("mpath-36000c29a1b2c3d4e5f60718293a4b5c6")),
            "dm-uuid/v1 mpath-36000c29a1b2c3d4e5f60718293a4b5c6",
        ),
        (
            looped("/var/disks/a:b.img", 512),
            "loop-node/v1 node-1:/var/disks/a\\x3ab.img:512",
        ),
    ];
    for (device, expected) in rows {
        match expected {
            "" => assert!(identify(&device, None, NODE).is_err(), "{device:?}"),
            expected => assert_eq!(text(&device), expected),
        }
    }
    let mut raid = device("md0", Kind::Md);
    raid.md_uuid = Some("3A1F9C52:8E7D4B60:9D120C5B:E1F7A934".into());
    assert_eq!(text(&raid), format!("md-uuid/v1 {NGUID}"));
    raid.md_uuid = Some(UUID.into());
    assert_eq!(text(&raid), format!("md-uuid/v1 {NGUID}"));
    let mut file = device("/var/openebs/sparse/0-ndm-sparse.img", Kind::Sparse);
    file.path = "/var/openebs/sparse/0-ndm-sparse.img".into();
    assert_eq!(
        text(&file),
        "sparse-node/v1 node-1:/var/openebs/sparse/0-ndm-sparse.img"
    );
}

#[test]
fn what_is_no_identity_is_refused_with_a_sentence() {
    let zero = "00000000000000000000000000000000";
    let rows = [
        (on_bus("virtio", None), "serial=…"),
        (on_bus("virtio", Some("0000000000")), "over and over"),
        (on_bus("virtio", Some("None")), "placeholder"),
        (on_bus("virtio", Some("To Be Filled By O.E.M.")), "placeholder"),
        (on_bus("mmc", Some("0x00000000")), "over and over"),
        (on_bus("mmc", Some(zero)), "placeholder"),
        (on_bus("vbd", None), "Xen"),
        (on_bus("usb", Some("DD56419883891")), "USB bridge"),
        (
            nvme("Any", "00-00", |nvme| {
                nvme.uuid = Some("ffffffff-ffff-ffff-ffff-ffffffffffff".into())
            }),
            "UUID",
        ),
        (nvme("Any", "N/A", |nvme| nvme.nguid = Some(zero.into())), "NGUID"),
        (
            nvme("Any", "0", |nvme| nvme.eui64 = Some("0100000000000000".into())),
            "placeholder",
        ),
        (
            nvme("Any", "0", |nvme| nvme.eui64 = Some("5254001234567890".into())),
            "locally administered",
        ),
        (
            nvme("Any", "0", |nvme| nvme.uuid = Some("not a uuid".into())),
            "form",
        ),
        (
            nvme("VMware Virtual NVMe Disk", "VMware NVME_0000", |_| {}),
            "disk.EnableUUID",
        ),
        (
            nvme("Any", "S1234", |nvme| nvme.namespace = None),
            "namespace is not known",
        ),
        (
            scsi(
                "ATA",
                "QEMU HARDDISK",
                Some("QM00003"),
                &[(T10, "ATA     QEMU HARDDISK   QM00003")],
            ),
            "counts from 1",
        ),
        (
            scsi("QEMU", "QEMU HARDDISK", None, &[(VendorSpecific, "drive-scsi1")]),
            "Proxmox",
        ),
        (scsi("QEMU", "QEMU HARDDISK", Some("drive-scsi1"), &[]), "slot"),
        (scsi("VMware", "Virtual disk", None, &[]), "disk.EnableUUID=TRUE"),
        (
            scsi("Any", "Disk", None, &[(Naa, "5000000000000001")]),
            "placeholder",
        ),
        (
            scsi("Any", "Disk", None, &[(Naa, "5000000123456789")]),
            "no maker",
        ),
        (scsi("Any", "Disk", None, &[(Naa, "5000c500a1b2")]), "form"),
        (
            scsi("Any", "Disk", None, &[(Naa, "3333333000001f40")]),
            "locally assigned",
        ),
        (scsi("Any", "Disk", None, &[(T10, "Any     Disk")]), "no unit"),
        (
            scsi("Any", "Disk", Some("0"), &[(T10, "Any     Disk  X42 0")]),
            "over and over",
        ),
        // The target framework numbers its units; every target has such a one.
        (
            scsi(
                "IET",
                "VIRTUAL-DISK",
                Some("beaf11"),
                &[
                    (T10, "IET     00010001"),
                    (Naa, "60000000000000000e00000000010001"),
                ],
            ),
            "tgtd",
        ),
        (mapped(Kind::DeviceMapper, None), "dmsetup create --uuid"),
        (mapped(Kind::Crypt, Some("CRYPT-PLAIN-data")), "somebody chose"),
        (
            mapped(Kind::Multipath, Some("mpath-33333333000001f40")),
            "locally assigned",
        ),
        (
            mapped(Kind::Multipath, Some("mpath-0QEMU_QEMU_HARDDISK_drive-scsi0")),
            "slot",
        ),
        (looped("/var/disks/a.img (deleted)", 0), "removed"),
        (device("loop1", Kind::Loop), "file"),
        (device("md0", Kind::Md), "UUID"),
        (device("zd0", Kind::Zvol), "deadlock"),
        (device("ram0", Kind::Other), "use a disk"),
    ];
    for (device, part) in rows {
        let text = why_not(&device);
        assert!(text.contains(part), "{text:?} does not say {part:?}");
        assert_eq!(candidates(&device, None, NODE), [], "{device:?}");
    }
}

#[test]
fn a_designator_without_the_serial_number_gives_way_to_it() {
    let disk = scsi("Any", "Disk", Some("W1234"), &[(T10, "Any     Disk of our own")]);
    assert_eq!(text(&disk), "scsi-serial/v1 Any:Disk:W1234");
}

#[test]
fn the_kernels_own_world_wide_name_is_no_proof() {
    let mut disk = on_bus("virtio", None);
    disk.wwid = Some("t10.ATA QEMU HARDDISK QM00001".into());
    assert!(identify(&disk, None, NODE).is_err());
}

#[test]
fn an_object_is_found_again_when_the_disk_answers_less() {
    let full = scsi(
        "ATA",
        "Disk",
        Some("W1"),
        &[(T10, "ATA Disk W1"), (Naa, "5000c500a1b2c3d4")],
    );
    let less = scsi("ATA", "Disk", Some("W1"), &[(T10, "ATA Disk W1")]);
    let schemes: Vec<_> = candidates(&full, None, NODE).iter().map(|i| i.scheme).collect();
    assert_eq!(schemes, [Scheme::ScsiNaa, Scheme::ScsiT10, Scheme::ScsiSerial]);
    let recorded = Recorded::from(&identify(&less, None, NODE).unwrap());
    assert!(
        candidates(&full, None, NODE)
            .iter()
            .any(|candidate| candidate.is(&recorded))
    );
    assert!(!identify(&full, None, NODE).unwrap().is(&recorded));
}

#[test]
fn a_partition_is_a_number_in_its_disk() {
    let disk = on_bus("virtio", Some("alpha"));
    let part = partition("vdb", 2);
    let identity = identify(&part, Some(&disk), NODE).unwrap();
    assert_eq!(identity.to_string(), "partition/v1 virtio-serial/v1:alpha:2");
    assert_ne!(
        identity,
        identify(&partition("vdb", 3), Some(&disk), NODE).unwrap()
    );

    // Without its disk, or with another, it is none.
    assert!(identify(&part, None, NODE).is_err());
    let mut other = disk.clone();
    other.name = "vdc".into();
    assert!(identify(&part, Some(&other), NODE).is_err());
    assert!(identify(&partition("vdb", 0), Some(&disk), NODE).is_err());

    let error = identify(&part, Some(&on_bus("virtio", None)), NODE)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("has no identity") && error.contains("serial=…"),
        "{error}"
    );
}

#[test]
fn names_are_stable_and_fit_for_objects() {
    let identity = Identity {
        scheme: Scheme::VirtioSerial,
        value: "alpha".into(),
    };
    // Written here so that a change of the hash, which would lose every object, does not pass.
    let expected = "printf 'virtio-serial/v1\\0alpha' | sha256sum";
    assert_eq!(
        identity.object_name(),
        "blockdevice-5f836941bc0fd3c15b73b8b6b54e0f1c",
        "{expected}"
    );
    let node = |node| identify(&looped("/a", 0), None, node).unwrap().object_name();
    assert_ne!(node("one"), node("two"));
}

#[test]
fn schemes_have_versions_and_no_two_the_same() {
    let schemes = [
        Scheme::NvmeUuid,
        Scheme::NvmeNguid,
        Scheme::NvmeEui64,
        Scheme::NvmeSerial,
        Scheme::NvmeSerialNode,
        Scheme::ScsiNaa,
        Scheme::ScsiEui64,
        Scheme::ScsiT10,
        Scheme::ScsiT10Node,
        Scheme::ScsiSerial,
        Scheme::ScsiSerialNode,
        Scheme::VirtioSerial,
        Scheme::MmcCid,
        Scheme::Serial,
        Scheme::DeviceMapper,
        Scheme::Md,
        Scheme::LoopNode,
        Scheme::SparseNode,
        Scheme::Partition,
    ];
    let texts: BTreeSet<_> = schemes.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), schemes.len());
    assert!(texts.iter().all(|text| text.ends_with("/v1")));
}
