//! Identity is a function of the hardware and of nothing else.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::device::Mount;

prop_compose! {
    fn any_nvme()(
        namespace in option::of(0..4u32),
        uuid in option::of("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|0{8}-0{4}-0{4}-0{4}-0{12}"),
        nguid in option::of("[0-9a-f]{32}|0{32}"),
        eui64 in option::of("[0-9a-f]{16}|525400[0-9]{10}"),
    ) -> Nvme {
        Nvme { namespace, uuid, nguid, eui64, subsystem_nqn: None, transport: None }
    }
}

fn any_designator() -> impl Strategy<Value = Designator> {
    let value = |kind, value: &'static str| value.prop_map(move |value| Designator { kind, value });
    prop_oneof![
        value(Naa, "[2356][0-9a-f]{15}|6[0-9a-f]{31}"),
        value(Eui64, "[0-9a-f]{16}"),
        value(T10, "(ATA|Google) {1,5}(Disk|PersistentDisk) {0,3}[A-Z0-9]{0,6}"),
        value(VendorSpecific, "[A-Z0-9]{1,6}"),
    ]
}

prop_compose! {
    /// Any device, as far as the hardware goes.
    fn any_hardware()(
        kind in prop::sample::select(vec![
            Kind::Disk, Kind::Disk, Kind::Disk, Kind::Lvm, Kind::Crypt, Kind::Multipath, Kind::DeviceMapper, Kind::Md,
            Kind::Loop, Kind::Zvol, Kind::Other,
        ]),
        bus in option::of(prop::sample::select(vec!["virtio", "mmc", "xen", "usb"])),
        serial in option::of("[A-Za-z0-9:]{0,8}|QM0000[0-9]|0{1,8}"),
        model in option::of("Disk|PersistentDisk|nvme_card-pd|QEMU HARDDISK"),
        vendor in option::of("ATA|Google|QEMU|VMware"),
        nvme in option::of(any_nvme()),
        scsi in option::of((option::of("[A-Z0-9]{0,6}"), vec(any_designator(), 0..4))),
        mapper in option::of(option::of("(LVM|mpath|CRYPT-LUKS2|part1)-[0-9a-f]{32}(-x)?")),
        md_uuid in option::of("[0-9a-f]{8}:[0-9a-f]{8}:[0-9a-f]{8}:[0-9a-f]{8}"),
        backing in option::of(("/[a-z]{1,8}", 0..4u64)),
    ) -> Device {
        let mut device = device("x", kind);
        device.bus = bus.map(Into::into);
        device.serial = serial;
        device.model = model;
        device.vendor = vendor;
        device.nvme = nvme;
        device.scsi = scsi.map(|(page80, page83)| Scsi { address: None, page80, page83 });
        device.device_mapper = mapper.map(|uuid| DeviceMapper { name: "x".into(), uuid });
        device.md_uuid = md_uuid;
        device.backing = backing.map(|(file, offset)| Loop { file: file.into(), offset });
        device
    }
}

fn any_udev() -> impl Strategy<Value = BTreeMap<String, String>> {
    let key = prop::sample::select(vec![
        "ID_WWN",
        "ID_SERIAL",
        "ID_SERIAL_SHORT",
        "ID_MODEL",
        "ID_FS_UUID",
        "ID_FS_TYPE",
        "ID_PART_TABLE_UUID",
        "ID_PART_ENTRY_UUID",
        "DM_UUID",
        "MD_UUID",
    ]);
    btree_map(key.prop_map(str::to_owned), "[a-z0-9-]{1,12}", 0..8)
}

prop_compose! {
    /// The same hardware at another time: another name, place, size, use, contents, and state of udev.
    fn at_another_time(device: Device)(
        device in Just(device),
        name in "[a-z]{2,4}[0-9]{0,2}",
        number in (0..300u32, 0..300u32),
        sequence in option::of(any::<u64>()),
        bytes in any::<u64>(),
        flags in any::<(bool, bool, bool, bool)>(),
        firmware in option::of("[0-9.]{1,5}"),
        wwid in option::of("(naa|eui|t10|nvme)\\.[0-9a-f]{1,16}"),
        names in vec("[a-z]{1,4}", 0..3),
        links in vec("/dev/disk/by-id/[a-z]{1,6}", 0..3),
        mount in option::of("/[a-z]{0,6}"),
        address in option::of(any::<[u64; 4]>()),
        udev in option::of(any_udev()),
        turned in any::<bool>(),
    ) -> Device {
        let mut device = device;
        device.path = format!("/dev/{name}").into();
        device.name = name;
        device.number = DeviceNumber { major: number.0, minor: number.1 };
        device.sequence = sequence;
        device.bytes = bytes;
        (device.read_only, device.swap, device.zoned, device.removable) = flags;
        device.rotational = sequence.map(|_| flags.0);
        device.logical_sector = Some(512);
        device.firmware = firmware;
        device.wwid = wwid;
        device.holders = names.clone();
        device.slaves = names.clone();
        device.partitions = names.clone();
        device.exports = names;
        device.links = links.into_iter().map(Into::into).collect();
        device.mounts = mount.map(|point| Mount { point: point.into(), file_system: None }).into_iter().collect();
        device.udev = udev;
        if let Some(scsi) = &mut device.scsi {
            scsi.address = address;
            if turned {
                scsi.page83.reverse();
            }
        }
        if let Some(mapper) = &mut device.device_mapper {
            mapper.name = device.name.clone();
        }
        device
    }
}

fn twice() -> impl Strategy<Value = (Device, Device)> {
    any_hardware().prop_flat_map(|device| (at_another_time(device.clone()), at_another_time(device)))
}

proptest! {
    #[test]
    fn identity_is_a_function_of_the_hardware((one, other) in twice()) {
        prop_assert_eq!(identify(&one, None, NODE), identify(&other, None, NODE));
        prop_assert_eq!(candidates(&one, None, NODE), candidates(&other, None, NODE));
    }

    #[test]
    fn udev_decides_nothing(device in any_hardware(), udev in any_udev()) {
        let mut known = device.clone();
        known.udev = Some(udev);
        prop_assert_eq!(identify(&device, None, NODE), identify(&known, None, NODE));
    }

    #[test]
    fn a_partition_follows_its_disk((one, other) in twice(), number in 1..129u32) {
        let part = |disk: &Device| identify(&partition(&disk.name, number), Some(disk), NODE);
        prop_assert_eq!(part(&one), part(&other));
        prop_assert_eq!(part(&one).is_ok(), identify(&one, None, NODE).is_ok());
    }

    #[test]
    fn names_are_names((one, _) in twice()) {
        if let Ok(identity) = identify(&one, None, NODE) {
            let name = identity.object_name();
            let digits = name.strip_prefix(PREFIX).unwrap();
            prop_assert_eq!(digits.len(), 32);
            prop_assert!(digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
        }
    }

    #[test]
    fn different_serial_numbers_are_different_disks(one in "[A-Z0-9]{6,20}", other in "[A-Z0-9]{6,20}") {
        prop_assume!(one != other);
        let name = |serial: &str| identify(&on_bus("virtio", Some(serial)), None, NODE).map(|i| i.object_name());
        if let (Ok(one), Ok(other)) = (name(&one), name(&other)) {
            prop_assert_ne!(one, other);
        }
    }

    #[test]
    fn joining_loses_nothing(one in vec("[a-c:]{0,3}", 3), other in vec("[a-c:]{0,3}", 3)) {
        let text = |parts: &[String]| joined(&parts.iter().map(String::as_str).collect::<Vec<_>>());
        prop_assert_eq!(text(&one) == text(&other), one == other);
    }
}
