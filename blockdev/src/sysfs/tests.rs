use std::os::unix::fs::symlink;

use super::*;
use crate::device::{Designator, DesignatorKind};

/// A sysfs in a directory that is removed with it.
struct Made(tempfile::TempDir);

impl Made {
    fn new() -> Self {
        let made = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir_all(made.root().join("class/block")).unwrap();
        made
    }

    fn root(&self) -> &Utf8Path {
        Utf8Path::from_path(self.0.path()).unwrap()
    }

    /// A device at `devices/<path>`, with a number and a size.
    fn device(self, path: &str, number: &str, sectors: u64) -> Self {
        let name = Utf8Path::new(path).file_name().unwrap();
        symlink(
            format!("../../devices/{path}"),
            self.root().join("class/block").join(name),
        )
        .unwrap();
        self.with(&format!("{path}/dev"), number)
            .with(&format!("{path}/size"), sectors.to_string())
    }

    fn with(self, file: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.root().join("devices").join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    fn link(self, from: &str, to: &str) -> Self {
        let path = self.root().join("devices").join(from);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::create_dir_all(self.root().join("bus").join(to)).unwrap();
        symlink(self.root().join("bus").join(to), path).unwrap();
        self
    }

    fn read(&self, name: &str) -> Device {
        Sysfs::at(self.root()).device(name).unwrap().unwrap()
    }
}

#[test]
fn a_virtio_disk_with_a_partition() {
    let made = Made::new()
        .device("virtio3/block/vdb", "252:16", 20_971_520)
        .with("virtio3/block/vdb/serial", "alpha")
        .with("virtio3/block/vdb/diskseq", "12\n")
        .with("virtio3/block/vdb/queue/rotational", "1\n")
        .with("virtio3/block/vdb/queue/logical_block_size", "512\n")
        .with("virtio3/block/vdb/queue/physical_block_size", "4096\n")
        .with("virtio3/block/vdb/queue/zoned", "none\n")
        .link("virtio3/block/vdb/device/subsystem", "virtio")
        .device("virtio3/block/vdb/vdb1", "252:17", 2048)
        .with("virtio3/block/vdb/vdb1/partition", "1\n")
        .with("virtio3/block/vdb/vdb1/start", "2048\n");
    let disk = made.read("vdb");
    assert_eq!(
        (disk.kind, disk.bytes, disk.sequence),
        (Kind::Disk, 10 << 30, Some(12))
    );
    assert_eq!(disk.serial.as_deref(), Some("alpha"));
    assert_eq!(disk.bus.as_deref(), Some("virtio"));
    assert_eq!((disk.rotational, disk.zoned), (Some(true), false));
    assert_eq!(
        (disk.logical_sector, disk.physical_sector),
        (Some(512), Some(4096))
    );
    assert_eq!(disk.partitions, ["vdb1"]);
    let part = made.read("vdb1");
    assert_eq!(
        (part.kind, part.parent.as_deref()),
        (Kind::Partition, Some("vdb"))
    );
    let partition = part.partition.unwrap();
    assert_eq!((partition.number, partition.start), (1, 1 << 20));
    assert_eq!((part.serial, part.physical_sector), (None, Some(4096)));
}

#[test]
fn an_nvme_namespace_leaves_out_ids_that_are_zero() {
    let made = Made::new()
        .device("nvme0/nvme0n1", "259:0", 2048)
        .with("nvme0/nvme0n1/nsid", "3\n")
        .with("nvme0/nvme0n1/uuid", "00000000-0000-0000-0000-000000000000\n")
        .with("nvme0/nvme0n1/eui", "52 54 00 00 00 00 00 01\n")
        .with("nvme0/nvme0n1/wwid", "eui.5254000000000001\n")
        .with("nvme0/nvme0n1/device/serial", "beta                \n")
        .with("nvme0/nvme0n1/device/model", "QEMU NVMe Ctrl       \n");
    let disk = made.read("nvme0n1");
    let nvme = disk.nvme.unwrap();
    assert_eq!((nvme.namespace, nvme.uuid, nvme.nguid), (Some(3), None, None));
    assert_eq!(nvme.eui64.as_deref(), Some("5254000000000001"));
    assert_eq!(disk.serial.as_deref(), Some("beta"));
    assert_eq!(disk.bus.as_deref(), Some("nvme"));
}

#[test]
fn a_scsi_unit_tells_its_pages_and_address() {
    let made = Made::new()
        .device("host2/block/sda", "8:0", 8)
        .with("host2/unit/vendor", "Google  ")
        .with("host2/unit/model", "PersistentDisk  ")
        .with("host2/unit/vpd_pg80", b"\0\x80\0\x05gamma")
        .with(
            "host2/unit/vpd_pg83",
            b"\0\x83\0\x0c\x01\x03\0\x08\x50\0\xc5\0\xa1\xb2\xc3\xd4",
        )
        .link("host2/unit/subsystem", "scsi");
    let root = made.root().to_owned();
    std::fs::rename(
        root.join("devices/host2/unit"),
        root.join("devices/host2/2:0:1:3"),
    )
    .unwrap();
    symlink("../../2:0:1:3", root.join("devices/host2/block/sda/device")).unwrap();
    let disk = made.read("sda");
    let scsi = disk.scsi.unwrap();
    assert_eq!(scsi.address, Some([2, 0, 1, 3]));
    assert_eq!(scsi.page80.as_deref(), Some("gamma"));
    let naa = Designator {
        kind: DesignatorKind::Naa,
        value: "5000c500a1b2c3d4".into(),
    };
    assert_eq!(scsi.page83, [naa]);
    assert_eq!(
        (
            disk.vendor.as_deref(),
            disk.model.as_deref(),
            disk.serial.as_deref()
        ),
        (Some("Google"), Some("PersistentDisk"), Some("gamma"))
    );
}

#[test]
fn kinds_without_hardware() {
    let made = Made::new()
        .device("virtual/loop0", "7:0", 8)
        .with("virtual/loop0/loop/backing_file", "/var/disk.img\n")
        .with("virtual/loop0/loop/offset", "4096\n")
        .device("virtual/zd0", "230:0", 8)
        .device("virtual/ram0", "1:0", 8)
        .device("virtual/md0", "9:0", 8)
        .with("virtual/md0/md/level", "raid1\n")
        .device("virtual/dm-0", "254:0", 8)
        .with("virtual/dm-0/dm/name", "vg-lv\n")
        .with("virtual/dm-0/dm/uuid", "LVM-abc\n")
        .with("virtual/dm-0/slaves/vdb", "")
        .device("virtual/dm-1", "254:1", 8)
        .with("virtual/dm-1/dm/name", "slow\n")
        .with("virtual/dm-1/dm/uuid", "\n")
        .device("virtual/sr0", "11:0", 8)
        .with("virtual/sr0/device/type", "5\n")
        .device("virtual/nvme0c0n1", "259:1", 8)
        .with("virtual/nvme0c0n1/hidden", "1\n");
    let kinds = ["loop0", "zd0", "ram0", "md0", "dm-0", "dm-1", "sr0"].map(|name| made.read(name).kind);
    let expected = [
        Kind::Loop,
        Kind::Zvol,
        Kind::Other,
        Kind::Md,
        Kind::Lvm,
        Kind::DeviceMapper,
        Kind::Other,
    ];
    assert_eq!(kinds, expected);
    let file = made.read("loop0").backing.unwrap();
    assert_eq!((file.file.as_str(), file.offset), ("/var/disk.img", 4096));
    assert_eq!(made.read("dm-0").slaves, ["vdb"]);
    assert_eq!(made.read("dm-1").device_mapper.unwrap().uuid, None);
    assert_eq!(Sysfs::at(made.root()).device("nvme0c0n1").unwrap(), None);
}

#[test]
fn odd_bytes_in_a_serial_number_stay_apart() {
    let read = |serial: &[u8]| {
        let made = Made::new()
            .device("v/vdb", "252:16", 8)
            .with("v/vdb/device/vendor", "")
            .with("v/vdb/serial", serial);
        made.read("vdb").serial
    };
    assert_eq!(read(b"  a b\xff\n").as_deref(), Some("a b\\xff"));
    assert_eq!(read(b"a b\\xff").as_deref(), Some("a b\\x5cxff"));
    assert_eq!(read(b" \0\n"), None);
}

#[test]
fn what_vanishes_is_not_there_and_nonsense_is_an_error() {
    let made = Made::new()
        .device("v/vdb", "252:16", 8)
        .device("v/vdc", "many", 8);
    let sysfs = Sysfs::at(made.root());
    assert_eq!(sysfs.names().unwrap(), ["vdb", "vdc"]);
    std::fs::remove_file(made.root().join("devices/v/vdb/size")).unwrap();
    // Its name is there, and so it is not gone.
    assert!(matches!(sysfs.device("vdb"), Err(Error::Read { .. })));
    assert_eq!(sysfs.device("vdx").unwrap(), None);
    assert!(matches!(sysfs.device("vdc"), Err(Error::Malformed { .. })));
    std::fs::write(made.root().join("devices/v/vdb/size"), u64::MAX.to_string()).unwrap();
    assert!(matches!(sysfs.device("vdb"), Err(Error::Malformed { .. })));
    assert!(matches!(Sysfs::at("/nowhere").names(), Err(Error::Read { .. })));
}

#[test]
fn exports_are_found() {
    let made = Made::new();
    let namespace = made
        .root()
        .join("kernel/config/nvmet/subsystems/nqn.a/namespaces/1");
    std::fs::create_dir_all(&namespace).unwrap();
    std::fs::write(namespace.join("device_path"), "/dev/vdb\n").unwrap();
    let object = made.root().join("kernel/config/target/core/iblock_0/disk");
    std::fs::create_dir_all(&object).unwrap();
    std::fs::write(object.join("udev_path"), "/dev/vdc\n").unwrap();
    let expected = [
        ("/dev/vdb".into(), "nvmet:nqn.a".to_owned()),
        ("/dev/vdc".into(), "target:iblock_0/disk".to_owned()),
    ];
    assert_eq!(Sysfs::at(made.root()).exports().unwrap(), expected);
}

#[test]
fn a_disk_with_several_controllers_is_reached_as_they_all_are() {
    let disk = "nvme-subsys1/nvme1n1";
    let made = Made::new()
        .device(disk, "259:1", 2048)
        .with(&format!("{disk}/nsid"), "1\n")
        .with(&format!("{disk}/device/nvme1n1/nsid"), "1\n")
        .with(&format!("{disk}/device/nvme1/transport"), "tcp\n")
        .with(&format!("{disk}/device/nvme2/transport"), "tcp\n");
    let transport = |made: &Made| made.read("nvme1n1").nvme.unwrap().transport;
    assert_eq!(transport(&made).as_deref(), Some("tcp"));
    let made = made.with(&format!("{disk}/device/nvme3/transport"), "rdma\n");
    assert_eq!(transport(&made), None);
    let made = made.with(&format!("{disk}/device/transport"), "pcie\n");
    assert_eq!(transport(&made).as_deref(), Some("pcie"));
}

#[test]
fn links_are_found_by_where_they_lead() {
    let dev = tempfile::tempdir().unwrap();
    let dev = Utf8Path::from_path(dev.path()).unwrap();
    std::fs::create_dir_all(dev.join("disk/by-id")).unwrap();
    for name in ["virtio-alpha", "another"] {
        symlink("../../vdb", dev.join("disk/by-id").join(name)).unwrap();
    }
    let found = links(dev).unwrap();
    let names = found["vdb"].iter().map(|link| link.file_name().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["another", "virtio-alpha"]);
}

#[test]
fn the_links_that_rules_for_attachments_ask_for_are_looked_for() {
    use crate::attachment::rule::{Field, Need};
    let begins = crate::attachment::rules::RULES.iter().flat_map(|rule| {
        let proved = rule.proof.iter().flat_map(|compare| compare.says).copied();
        let said = proved.filter_map(|field| match field {
            Field::Link(beginning) => Some(beginning),
            _ => None,
        });
        let refused = rule.needs.iter().flat_map(|need| match need {
            Need::NoLink(beginnings) => *beginnings,
            _ => &[],
        });
        said.chain(refused.copied()).collect::<Vec<_>>()
    });
    let dev = tempfile::tempdir().unwrap();
    let dev = Utf8Path::from_path(dev.path()).unwrap();
    let mut made = Vec::new();
    for beginning in begins {
        // As a name that begins so, and as one in a directory of that name where the rules of the cloud make some.
        let mut names = vec![format!("{beginning}0")];
        if beginning.ends_with("/local") {
            names = vec![
                format!("{beginning}/by-index/0"),
                format!("{beginning}/by-serial/0"),
            ];
        }
        for name in names {
            let link = dev.join(name.strip_prefix("/dev/").unwrap());
            std::fs::create_dir_all(link.parent().unwrap()).unwrap();
            if !made.contains(&link) {
                symlink("../../sdc", &link).unwrap();
                made.push(link);
            }
        }
    }
    made.sort();
    assert!(made.len() > 5);
    assert_eq!(links(dev).unwrap()["sdc"], made);
}

/// Makes every reading of a file fail, as a failing request to the device would.
fn break_file(made: &Made, file: &str) {
    let path = made.root().join("devices").join(file);
    let _ = std::fs::remove_file(&path);
    std::fs::create_dir_all(path).unwrap();
}

#[test]
fn what_tells_a_device_from_others_and_cannot_be_read_is_an_error() {
    let identity = [
        "serial",
        "wwid",
        "diskseq",
        "uuid",
        "nguid",
        "eui",
        "nsid",
        "device/wwid",
        "device/cid",
        "device/serial",
        "device/model",
        "device/vendor",
        "device/vpd_pg80",
        "device/vpd_pg83",
        "dm/uuid",
        "md/uuid",
        "loop/backing_file",
    ];
    for file in identity {
        let made = Made::new()
            .device("v/xdb", "252:16", 8)
            .with("v/xdb/dm/name", "one\n")
            .link("v/xdb/device/subsystem", "scsi");
        let made = if file == "nsid" {
            made
        } else {
            made.with("v/xdb/nsid", "1\n")
        };
        // With an nsid the bus is NVMe, and the pages of SCSI are not read.
        if file.contains("vpd") {
            std::fs::remove_file(made.root().join("devices/v/xdb/nsid")).unwrap();
        }
        let sysfs = Sysfs::at(made.root());
        assert!(sysfs.device("xdb").unwrap().is_some(), "{file}");
        break_file(&made, &format!("v/xdb/{file}"));
        let read = sysfs.device("xdb");
        assert!(matches!(read, Err(Error::Read { .. })), "{file}: {read:?}");
        // Once it is gone, the failure is of no interest.
        std::fs::remove_file(made.root().join("class/block/xdb")).unwrap();
        assert_eq!(sysfs.device("xdb").unwrap(), None, "{file}");
    }
    let made = Made::new().device("v/xdb", "252:16", 8);
    for file in ["queue/rotational", "queue/logical_block_size", "device/rev"] {
        break_file(&made, &format!("v/xdb/{file}"));
    }
    assert_eq!(made.read("xdb").rotational, None);
}

#[test]
fn a_directory_that_cannot_be_listed_is_not_empty() {
    for directory in ["holders", "slaves"] {
        let made = Made::new().device("v/vdb", "252:16", 8);
        assert!(made.read("vdb").holders.is_empty());
        let made = made.with(&format!("v/vdb/{directory}"), "no directory");
        let read = Sysfs::at(made.root()).device("vdb");
        assert!(matches!(read, Err(Error::Read { .. })), "{directory}: {read:?}");
    }
    for directory in ["nvmet/subsystems", "nvmet/subsystems/a/namespaces", "target/core"] {
        let made = Made::new();
        let sysfs = Sysfs::at(made.root());
        assert_eq!(sysfs.exports().unwrap(), []);
        let path = made.root().join("kernel/config").join(directory);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "no directory").unwrap();
        assert!(sysfs.exports().is_err(), "{directory}");
    }
}

#[test]
fn files_beside_the_exports_are_none() {
    let made = Made::new();
    let object = made.root().join("kernel/config/target/core/iblock_0/disk");
    std::fs::create_dir_all(&object).unwrap();
    std::fs::write(object.join("udev_path"), "/dev/vdc\n").unwrap();
    for file in ["../hba_info", "../../version"] {
        std::fs::write(object.join(file), "a file\n").unwrap();
    }
    let exports = Sysfs::at(made.root()).exports().unwrap();
    assert_eq!(exports, [("/dev/vdc".into(), "target:iblock_0/disk".to_owned())]);
}
