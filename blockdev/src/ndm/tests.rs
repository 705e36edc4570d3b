use std::collections::BTreeMap;

use cstor_api::openebs::{BlockDeviceSpec, DeviceCapacity, DeviceDetails};
use proptest::prelude::*;

use super::*;
use crate::device::{DeviceMapper, DeviceNumber, Nvme, Partition, Scsi};

const HOST: &str = "host-1";
const SIZE: u64 = 10 << 30;

/// What is different about an object.
type Change = (&'static str, fn(&mut BlockDevice));

fn device(name: &str, kind: Kind, udev: &[(&str, &str)]) -> Device {
    let mut device = Device::new(name, DeviceNumber { major: 8, minor: 16 }, kind, SIZE);
    if !udev.is_empty() {
        device.udev = Some(
            udev.iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect(),
        );
    }
    device
}

fn object(name: &str, details: DeviceDetails) -> BlockDevice {
    let mut object = BlockDevice::new(name, BlockDeviceSpec::default());
    object.spec.capacity = DeviceCapacity {
        storage: SIZE,
        ..DeviceCapacity::default()
    };
    object.spec.details = Some(details);
    object
}

fn details(kind: &str, model: &str, serial: &str) -> DeviceDetails {
    DeviceDetails {
        device_type: Some(kind.into()),
        model: Some(model.into()),
        serial: Some(serial.into()),
        ..DeviceDetails::default()
    }
}

/// What `md5sum` says, so that the hash is not compared with itself.
fn known(hash: &str) -> String {
    format!("blockdevice-{hash}")
}

fn sas() -> Device {
    device(
        "sdb",
        Kind::Disk,
        &[
            ("ID_WWN", "0x5000c500a1b2c3d4"),
            ("ID_SERIAL_SHORT", "5000c500a1b2c3d4"),
            ("ID_MODEL", "ST4000NM0023"),
            ("ID_VENDOR", "SEAGATE"),
            ("ID_TYPE", "disk"),
        ],
    )
}

#[test]
fn each_rule_gives_its_name() {
    // printf 0x5000c500a1b2c3d45000c500a1b2c3d4 | md5sum; printf 0x…ST4000NM00235000c500a1b2c3d4SEAGATE | md5sum
    assert_eq!(
        names(&sas(), HOST),
        [
            known("ce7b716e986fa8d602de2379e398e24d"),
            known("01e7f376612e5a9a0d7057acc74c12a2")
        ]
    );

    // Nothing but a file system, on a disk that says nothing: by its UUID, and by place.
    let bare = device(
        "vdb",
        Kind::Disk,
        &[("ID_FS_UUID", "149108ca-f404-4556-a263-04943e6cb0b3")],
    );
    assert_eq!(
        names(&bare, HOST),
        [
            known("3c943e76f395b806e4db2d7b2870395c"),
            known("064f5d36080293f613cb7c8525b851de")
        ]
    );

    let table = device(
        "vdb",
        Kind::Disk,
        &[("ID_PART_TABLE_UUID", "065e2357"), ("ID_TYPE", "disk")],
    );
    assert_eq!(names(&table, HOST), [known("d20e961d7ba3522afed0730466d3867a")]);

    let part = device(
        "sdb5",
        Kind::Partition,
        &[("ID_PART_ENTRY_UUID", "065e2357-05"), ("ID_TYPE", "disk")],
    );
    assert_eq!(names(&part, HOST), [known("c05df3f77dc0267b68bcd413c60bd458")]);
    let mut part = device("sdb5", Kind::Partition, &[]);
    part.partition = Some(Partition {
        number: 5,
        uuid: Some("065e2357-05".into()),
        ..Partition::default()
    });
    assert_eq!(names(&part, HOST), [known("c05df3f77dc0267b68bcd413c60bd458")]);

    let mut volume = device("dm-0", Kind::Lvm, &[]);
    volume.device_mapper = Some(DeviceMapper {
        name: "data".into(),
        uuid: Some("LVM-abc".into()),
    });
    assert_eq!(names(&volume, HOST), [known("7bfb1f849d63d3d5e411f24bb54772b8")]);
    assert_eq!(
        names(&device("dm-0", Kind::Lvm, &[("DM_UUID", "LVM-abc")]), HOST),
        [known("7bfb1f849d63d3d5e411f24bb54772b8")]
    );

    assert_eq!(
        names(&device("loop98", Kind::Loop, &[]), HOST),
        [known("4ebe2c4e6142c2bccdd2bf7d016b52de")]
    );
    let mut file = device("x", Kind::Sparse, &[]);
    file.path = "/var/openebs/sparse/0-ndm-sparse.img".into();
    assert_eq!(names(&file, HOST), ["sparse-03ed02580f0cd48171a432cc2101f9a9"]);

    assert_eq!(names(&device("vdb", Kind::Disk, &[]), HOST), [""; 0]);
    assert_eq!(
        names(&device("zd0", Kind::Zvol, &[("ID_FS_UUID", "1")]), HOST),
        [""; 0]
    );
}

#[test]
fn without_udev_the_kernel_is_asked() {
    let mut disk = sas();
    let [by_udev, _] = names(&disk, HOST).try_into().unwrap();
    disk.udev = None;
    assert_eq!(names(&disk, HOST), [""; 0]);
    let page83 = vec![Designator {
        kind: DesignatorKind::Naa,
        value: "5000c500a1b2c3d4".into(),
    }];
    disk.scsi = Some(Scsi {
        page83,
        ..Scsi::default()
    });
    assert_eq!(names(&disk, HOST), std::slice::from_ref(&by_udev));
    assert!(is_for(
        &object(&by_udev, details("disk", "", "5000c500a1b2c3d4")),
        &disk,
        HOST
    ));

    // SATA: the serial number is the disk's own. A long name is cut.
    disk.serial = Some("W1 F2".into());
    disk.scsi.as_mut().unwrap().page83[0].value = "6000c29a1b2c3d4e5f60718293a4b5c6".into();
    let sata = device(
        "sdb",
        Kind::Disk,
        &[
            ("ID_WWN", "0x6000c29a1b2c3d4e"),
            ("ID_SERIAL_SHORT", "W1_F2"),
            ("ID_TYPE", "disk"),
        ],
    );
    assert!(names(&disk, HOST).contains(&names(&sata, HOST)[0]));

    let known = [
        ("ID_WWN", "eui.0025385b71b0a5c3"),
        ("ID_SERIAL_SHORT", "S1"),
        ("ID_TYPE", "disk"),
    ];
    let known = device("nvme0n1", Kind::Disk, &known);
    let mut disk = device("nvme0n1", Kind::Disk, &[]);
    disk.nvme = Some(Nvme::default());
    disk.wwid = Some("eui.0025385b71b0a5c3".into());
    disk.serial = Some("S1".into());
    assert_eq!(names(&disk, HOST)[0], names(&known, HOST)[0]);
}

#[test]
fn virtual_models_have_a_name_by_place_as_well() {
    let udev = [
        ("ID_MODEL", "QEMU_HARDDISK"),
        ("ID_VENDOR", "QEMU"),
        ("ID_SERIAL_SHORT", "alpha"),
        ("ID_TYPE", "disk"),
    ];
    let disk = device("sdb", Kind::Disk, &udev);
    assert_eq!(
        names(&disk, HOST),
        [
            known("c00774924f16b26356ddb85d97cee19f"),
            known("5e6a3a2c692372e758b95a6e4d73174d")
        ]
    );
    // Neither speaks for the disk by itself; the serial number in the object does.
    let mut of = object(
        &known("c00774924f16b26356ddb85d97cee19f"),
        DeviceDetails::default(),
    );
    assert!(!is_for(&of, &disk, HOST));
    of.spec.details = Some(details("disk", "QEMU_HARDDISK", "alpha"));
    assert!(is_for(&of, &disk, HOST));
    of.spec.details = Some(details("disk", "QEMU_HARDDISK", "beta"));
    assert!(!is_for(&of, &disk, HOST));
}

#[test]
fn an_object_is_about_the_disk_that_says_the_same() {
    let disk = sas();
    let good = || {
        object(
            &known("ce7b716e986fa8d602de2379e398e24d"),
            details("disk", "ST4000NM0023", "5000c500a1b2c3d4"),
        )
    };
    assert!(is_for(&good(), &disk, HOST));

    let refused: [Change; 6] = [
        ("another serial number", |o| {
            o.spec.details = Some(details("disk", "ST4000NM0023", "other"))
        }),
        ("another model", |o| {
            o.spec.details = Some(details("disk", "WDC", "5000c500a1b2c3d4"))
        }),
        ("another kind", |o| {
            o.spec.details = Some(details("partition", "ST4000NM0023", "5000c500a1b2c3d4"))
        }),
        ("a larger disk", |o| o.spec.capacity.storage += 512),
        ("an identity of ours", |o| {
            o.spec.identity = Some(cstor_api::openebs::Identity::default())
        }),
        ("another name", |o| o.metadata.name = Some("blockdevice-0".into())),
    ];
    for (what, change) in refused {
        let mut object = good();
        change(&mut object);
        assert!(!is_for(&object, &disk, HOST), "{what}");
    }
    let kept: [Change; 4] = [
        ("it has grown", |o| o.spec.capacity.storage -= 1 << 30),
        ("NDM could not read the size", |o| o.spec.capacity.storage = 0),
        ("NDM wrote nothing down", |o| o.spec.details = None),
        ("blanks", |o| {
            o.spec.details = Some(details("", " ST4000NM0023 ", "  "))
        }),
    ];
    for (what, change) in kept {
        let mut object = good();
        change(&mut object);
        assert!(is_for(&object, &disk, HOST), "{what}");
    }
}

#[test]
fn a_path_speaks_for_nobody() {
    // Two disks of one size and model that say nothing more: after a boot, vdb may be the other.
    let bare = device("vdb", Kind::Disk, &[("DEVNAME", "/dev/vdb")]);
    let by_path = names(&bare, HOST).remove(0);
    assert!(!is_for(&object(&by_path, details("disk", "", "")), &bare, HOST));
    // QEMU counts its disks; that the count is the same says nothing either.
    let counted = device(
        "sda",
        Kind::Disk,
        &[("ID_MODEL", "QEMU_HARDDISK"), ("ID_SERIAL_SHORT", "QM00001")],
    );
    for name in names(&counted, HOST) {
        assert!(!is_for(
            &object(&name, details("disk", "QEMU_HARDDISK", "QM00001")),
            &counted,
            HOST
        ));
    }
    let looped = device("loop98", Kind::Loop, &[]);
    assert!(!is_for(
        &object(
            &known("4ebe2c4e6142c2bccdd2bf7d016b52de"),
            details("loop", "", "")
        ),
        &looped,
        HOST
    ));
}

#[test]
fn what_ndm_noted_of_the_contents_speaks_for_a_disk_of_the_same_size() {
    let disk = device(
        "vdb",
        Kind::Disk,
        &[("ID_PART_TABLE_UUID", "6b0fd8c1"), ("ID_TYPE", "")],
    );
    let mut of = object("blockdevice-made-of-the-old-path", details("disk", "", ""));
    assert!(!is_for(&of, &disk, HOST));
    let noted = |value: &str| {
        Some(BTreeMap::from([(
            annotation::PARTITION_UUID.to_owned(),
            value.to_owned(),
        )]))
    };
    of.metadata.annotations = noted("6b0fd8c1");
    assert!(is_for(&of, &disk, HOST));
    of.spec.capacity.storage = SIZE / 2;
    assert!(!is_for(&of, &disk, HOST), "a copy on a larger disk");
    of.spec.capacity.storage = SIZE;
    of.metadata.annotations = noted("");
    assert!(!is_for(
        &of,
        &device("vdb", Kind::Disk, &[("ID_PART_TABLE_UUID", "")]),
        HOST
    ));
}

#[test]
fn what_ndm_partitioned_is_recognised_at_the_partition() {
    let disk = device(
        "vdb",
        Kind::Disk,
        &[("ID_PART_TABLE_UUID", "aaaa"), ("ID_PART_TABLE_TYPE", "gpt")],
    );
    let udev = [
        ("ID_PART_ENTRY_UUID", "065e2357-05"),
        ("ID_PART_ENTRY_NAME", "OpenEBS_NDM"),
        ("ID_FS_TYPE", "zfs_member"),
    ];
    let part = device("vdb1", Kind::Partition, &udev);
    let of = object(
        &known("c05df3f77dc0267b68bcd413c60bd458"),
        details("partition", "", ""),
    );
    assert!(is_for(&of, &part, HOST));
    assert!(!is_for(&of, &disk, HOST));
}

#[test]
fn serial_numbers_are_compared_as_udev_writes_them() {
    let mut disk = device("sdb", Kind::Disk, &[]);
    disk.model = Some("Samsung SSD 860".into());
    disk.serial = Some("S3Z1 NB0K".into());
    disk.scsi = Some(Scsi {
        page80: Some("S3Z1 NB0K".into()),
        ..Scsi::default()
    });
    assert!(same_disk(
        &object("x", details("disk", "Samsung_SSD_860_EVO_500GB", "S3Z1_NB0K")),
        &disk
    ));
    assert!(!same_disk(
        &object("x", details("disk", "Samsung_SSD_870_EVO", "S3Z1_NB0K")),
        &disk
    ));
}

#[test]
fn a_sparse_file_is_its_path() {
    let mut file = device("x", Kind::Sparse, &[]);
    file.path = "/var/openebs/sparse/0-ndm-sparse.img".into();
    let mut of = object(
        "sparse-03ed02580f0cd48171a432cc2101f9a9",
        details("sparse", "", ""),
    );
    of.spec.path = file.path.to_string();
    assert!(is_for(&of, &file, HOST));
    assert!(!is_for(&of, &file, "host-2"));
}

proptest! {
    #[test]
    fn contradicting_serial_numbers_are_never_one_disk(
        one in "[A-Z0-9]{1,8}", other in "[A-Z0-9]{1,8}", bytes in 0..3u64, wwn in "0x5[0-9a-f]{15}",
    ) {
        prop_assume!(one != other);
        let disk = device("sdb", Kind::Disk, &[("ID_WWN", &wwn), ("ID_SERIAL_SHORT", &one), ("ID_TYPE", "disk")]);
        for name in names(&disk, HOST) {
            let mut of = object(&name, details("disk", "", &other));
            of.spec.capacity.storage = SIZE * bytes;
            prop_assert!(!same_disk(&of, &disk));
        }
    }

    #[test]
    fn names_are_as_ndm_writes_them(wwn in "[0-9a-z.]{0,8}", serial in "[A-Z]{0,4}", uuid in "[0-9a-f]{0,8}") {
        let udev = [("ID_WWN", &*wwn), ("ID_SERIAL_SHORT", &serial), ("ID_FS_UUID", &uuid), ("ID_TYPE", "disk")];
        let names = names(&device("sdb", Kind::Disk, &udev), HOST);
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        prop_assert_eq!(distinct.len(), names.len());
        for name in &names {
            prop_assert_eq!(name.len(), "blockdevice-".len() + 32);
            // The MD5 of nothing names nothing.
            prop_assert_ne!(name, "blockdevice-d41d8cd98f00b204e9800998ecf8427e");
        }
    }
}
