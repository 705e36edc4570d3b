use proptest::prelude::*;

use super::*;
use crate::device::{DeviceMapper, DeviceNumber, Loop, Mount, Scsi};

/// Devices by name, built from what each is made of.
#[derive(Default)]
struct Node(BTreeMap<String, Device>);

impl Node {
    fn add(&mut self, name: &str, kind: Kind, change: impl FnOnce(&mut Device)) -> &mut Self {
        let mut device = Device::new(name, DeviceNumber { major: 8, minor: 0 }, kind, 1 << 30);
        change(&mut device);
        self.0.insert(name.into(), device);
        self
    }

    fn disk(&mut self, name: &str, partitions: &[&str]) -> &mut Self {
        for part in partitions {
            self.add(part, Kind::Partition, |device| device.parent = Some(name.into()));
        }
        self.add(name, Kind::Disk, |device| {
            device.partitions = partitions.iter().copied().map(Into::into).collect();
        })
    }

    /// A mapping or RAID on other devices.
    fn on(&mut self, name: &str, kind: Kind, slaves: &[&str]) -> &mut Self {
        for slave in slaves {
            self.0.get_mut(*slave).unwrap().holders.push(name.into());
        }
        self.add(name, kind, |device| {
            device.slaves = slaves.iter().copied().map(Into::into).collect()
        })
    }

    fn mount(&mut self, name: &str, point: &str, file_system: Option<&str>) -> &mut Self {
        let device = self.0.get_mut(name).unwrap();
        device.mounts.push(Mount {
            point: point.into(),
            file_system: file_system.map(Into::into),
        });
        self
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Device)) -> &mut Self {
        change(self.0.get_mut(name).unwrap());
        self
    }

    /// The names of what is left out by the filter of this key.
    fn out(&self, filters: &Filters, key: &str) -> Vec<&str> {
        let by = |device: &&Device| {
            filters
                .excluded(device, &self.0)
                .is_some_and(|why| why.starts_with(key))
        };
        self.0
            .values()
            .filter(by)
            .map(|device| device.name.as_str())
            .collect()
    }
}

fn parsed(text: &str) -> Filters {
    let (filters, warnings) = Filters::parse(text).unwrap();
    assert_eq!(warnings, [""; 0]);
    filters
}

fn filter(key: &str, include: &str, exclude: &str) -> Filters {
    parsed(&format!(
        "filterconfigs: [{{key: {key}, state: true, include: '{include}', exclude: '{exclude}'}}]"
    ))
}

#[test]
fn the_disk_of_a_plain_root() {
    let mut node = Node::default();
    node.disk("sda", &["sda1", "sda2"])
        .disk("sdaa", &["sdaa1"])
        .disk("sdb", &[])
        .mount("sda2", "/", Some("ext4"));
    assert_eq!(node.out(&Filters::default(), OS_DISK), ["sda", "sda1", "sda2"]);
    node.mount("sdaa1", "/var/lib/data", Some("xfs"));
    assert_eq!(node.out(&Filters::default(), OS_DISK), ["sda", "sda1", "sda2"]);
}

#[test]
fn a_file_system_on_the_whole_disk_and_boot_on_another() {
    let mut node = Node::default();
    node.disk("vda", &[]).disk("vdb", &["vdb1"]).disk("vdc", &[]);
    node.mount("vda", "/", Some("ext4"))
        .mount("vdb1", "/boot", Some("ext4"));
    assert_eq!(node.out(&Filters::default(), OS_DISK), ["vda", "vdb", "vdb1"]);
    // What is configured counts.
    assert_eq!(node.out(&filter(OS_DISK, "", "/boot"), OS_DISK), ["vdb", "vdb1"]);
}

#[test]
fn root_on_lvm_on_a_partition() {
    let mut node = Node::default();
    node.disk("sda", &["sda1", "sda2", "sda3"]).disk("sdb", &[]);
    node.on("dm-0", Kind::Lvm, &["sda3"])
        .on("dm-1", Kind::Lvm, &["sda3", "sdb"]);
    node.mount("dm-0", "/", Some("xfs"));
    assert_eq!(
        node.out(&Filters::default(), OS_DISK),
        ["dm-0", "sda", "sda1", "sda2", "sda3"]
    );

    // If the mapping does not say what it is on, the partition does.
    node.change("dm-0", |device| device.slaves.clear());
    assert_eq!(
        node.out(&Filters::default(), OS_DISK),
        ["dm-0", "sda", "sda1", "sda2", "sda3"]
    );
    // A volume that spans both disks has root on both.
    node.mount("dm-1", "/etc/hosts", Some("xfs"));
    assert_eq!(
        node.out(&Filters::default(), OS_DISK),
        ["dm-0", "dm-1", "sda", "sda1", "sda2", "sda3", "sdb"]
    );
}

#[test]
fn root_on_luks_on_raid_on_partitions() {
    let mut node = Node::default();
    node.disk("sda", &["sda1"])
        .disk("sdb", &["sdb1"])
        .disk("sdc", &["sdc1"]);
    node.on("md0", Kind::Md, &["sda1", "sdb1"])
        .on("dm-0", Kind::Crypt, &["md0"])
        .mount("dm-0", "/", Some("ext4"));
    let expected = ["dm-0", "md0", "sda", "sda1", "sdb", "sdb1"];
    assert_eq!(node.out(&Filters::default(), OS_DISK), expected);
}

#[test]
fn root_on_a_partition_of_a_multipath_disk() {
    let mut node = Node::default();
    node.disk("sda", &["sda1"])
        .disk("sdb", &["sdb1"])
        .disk("sdc", &[]);
    node.on("dm-0", Kind::Multipath, &["sda", "sdb"]);
    for name in ["dm-1", "dm-2"] {
        node.on(name, Kind::DeviceMapper, &["dm-0"])
            .change(name, |device| {
                let uuid = Some(format!("part{}-mpath-3600", name.len()));
                device.device_mapper = Some(DeviceMapper {
                    name: name.into(),
                    uuid,
                });
            });
    }
    node.mount("dm-1", "/", Some("ext4"));
    assert_eq!(
        node.out(&Filters::default(), OS_DISK),
        ["dm-0", "dm-1", "dm-2", "sda", "sda1", "sdb", "sdb1"]
    );
}

#[test]
fn a_device_node_that_is_bound_somewhere_is_no_operating_system() {
    let mut node = Node::default();
    node.disk("sdb", &[]).mount("sdb", "/", None);
    assert_eq!(node.out(&Filters::default(), OS_DISK), [""; 0]);
}

#[test]
fn devices_that_hold_each_other_do_not_hang_us() {
    let mut node = Node::default();
    node.disk("sda", &[])
        .on("dm-0", Kind::Lvm, &["sda"])
        .on("dm-1", Kind::Lvm, &["dm-0"]);
    node.change("dm-0", |device| device.slaves.push("dm-1".into()))
        .mount("dm-1", "/", Some("ext4"));
    node.change("sda", |device| device.slaves.push("gone".into()));
    assert_eq!(node.out(&Filters::default(), OS_DISK), ["dm-0", "dm-1", "sda"]);
}

#[test]
fn vendors_are_equal_whatever_their_case() {
    let mut node = Node::default();
    node.disk("sda", &["sda1"])
        .disk("sdb", &[])
        .disk("sdc", &[])
        .disk("sdd", &[]);
    node.change("sda", |device| device.vendor = Some("openebs".into()));
    node.change("sdb", |device| device.vendor = Some("OpenEBSx".into()));
    node.change("sdc", |device| {
        device.udev = Some(BTreeMap::from([("ID_VENDOR".into(), "CloudByt".into())]));
    });
    assert_eq!(node.out(&Filters::default(), VENDOR), ["sda", "sda1", "sdc"]);
    // Who includes some leaves out the rest, also what says nothing.
    assert_eq!(
        node.out(&filter(VENDOR, "OPENEBS", ""), VENDOR),
        ["sdb", "sdc", "sdd"]
    );
    // Excluding wins.
    assert_eq!(
        node.out(&filter(VENDOR, "OPENEBS", "openebs"), VENDOR),
        ["sda", "sda1", "sdb", "sdc", "sdd"]
    );
}

#[test]
fn paths_contain_and_links_are() {
    let mut node = Node::default();
    node.disk("sda", &["sda1"])
        .disk("sdaa", &[])
        .disk("nvme0n1", &[])
        .disk("sdb", &[]);
    node.on("dm-0", Kind::Lvm, &["sdb"]).change("dm-0", |device| {
        device.device_mapper = Some(DeviceMapper {
            name: "Fast-Data".into(),
            uuid: None,
        });
    });
    node.change("nvme0n1", |device| {
        device.links.push("/dev/disk/by-id/nvme-x".into())
    });
    node.change("sdb", |device| {
        device.udev = Some(BTreeMap::from([(
            "DEVLINKS".into(),
            "/dev/disk/by-id/y /dev/mine".into(),
        )]));
    });
    let out = |exclude: &str| node.out(&filter(PATH, "", exclude), PATH);
    assert_eq!(out("/DEV/SDA"), ["sda", "sda1", "sdaa"]);
    assert_eq!(out("fast-data"), ["dm-0"]);
    assert_eq!(out("/dev/disk/by-id/nvme-x"), ["nvme0n1"]);
    assert_eq!(out("/dev/disk/by-id/nvme"), [""; 0]);
    assert_eq!(out("/dev/mine"), ["sdb"]);
    assert_eq!(out(" , ,"), [""; 0]);
    assert_eq!(
        node.out(&filter(PATH, "nvme, /dev/mine", ""), PATH),
        ["dm-0", "sda", "sda1", "sdaa"]
    );
    assert_eq!(
        node.out(&filter(PATH, "/dev/sda", "sdaa"), PATH),
        ["dm-0", "nvme0n1", "sdaa", "sdb"]
    );
}

#[test]
fn the_defaults_leave_out_what_ndm_left_out() {
    let mut node = Node::default();
    let names = [
        "loop0", "fd0", "sr0", "ram0", "md127", "dm-0", "rbd0", "zd0", "sda", "vdb", "nvme0n1", "xvdf",
    ];
    for name in names {
        node.disk(name, &[]);
    }
    let out: BTreeSet<_> = node.out(&Filters::default(), PATH).into_iter().collect();
    assert_eq!(out, BTreeSet::from_iter(names[..8].iter().copied()));
    // The file that NDM came with says the same.
    let shipped = parsed(include_str!("shipped.yaml"));
    assert_eq!(shipped.mount_points, Filters::default().mount_points);
    assert_eq!(shipped.vendors, Filters::default().vendors);
    assert_eq!(shipped.paths, Filters::default().paths);
}

#[test]
fn a_filter_can_be_off() {
    let mut node = Node::default();
    node.disk("sda", &[])
        .mount("sda", "/", Some("ext4"))
        .disk("md0", &[]);
    for off in ["false", "\"false\"", "no", "0", "\"0\"", "Off"] {
        let text = format!(
            "filterconfigs:\n- {{key: {OS_DISK}, state: {off}, exclude: /}}\n- {{key: {PATH}, state: {off}}}"
        );
        let filters = parsed(&text);
        assert!(
            node.0
                .values()
                .all(|device| filters.excluded(device, &node.0).is_none()),
            "{off}"
        );
    }
    for on in ["true", "\"true\"", "TRUE", "yes", "ok", "1", "\"1\""] {
        let filters = parsed(&format!(
            "filterconfigs: [{{key: {OS_DISK}, state: {on}, exclude: /}}]"
        ));
        assert_eq!(node.out(&filters, OS_DISK), ["sda"], "{on}");
    }
}

#[test]
fn what_is_not_configured_is_as_it_was() {
    for text in [
        "",
        "  \n",
        "# nothing\n",
        "---\n",
        "filterconfigs:\n",
        "filterconfigs: []\ntagconfigs: null\n",
    ] {
        let filters = parsed(text);
        assert_eq!(filters.paths, Filters::default().paths, "{text:?}");
        assert_eq!(filters.mount_points, Filters::default().mount_points, "{text:?}");
    }
}

#[test]
fn what_is_not_understood_is_ignored_and_said() {
    let text = "
probeconfigs:
  - {key: udev-probe, state: true}
filterconfigs:
  - {key: path-filter, state: true, exclude: sda, colour: blue}
  - {key: path-filter, state: true, exclude: sdb}
  - {key: size-filter, state: true}
  - {key: vendor-filter, exclude: x}
  - {key: os-disk-exclude-filter, state: true, include: /home, exclude: /}
tagconfigs:
  - {name: one, type: path, pattern: sd, tag: x, extra: 1}
";
    let (filters, warnings) = Filters::parse(text).unwrap();
    assert_eq!(
        filters.paths,
        Some(Lists {
            include: vec![],
            exclude: vec!["sda".into()]
        })
    );
    assert_eq!(
        filters.vendors,
        Some(Lists {
            include: vec![],
            exclude: vec!["x".into()]
        })
    );
    let expected = [
        "probeconfigs: has no meaning",
        "filterconfigs[0].colour: has no meaning",
        "tagconfigs[0].extra: has no meaning",
        "filterconfigs[1]: there is a path-filter before it",
        "filterconfigs[2]: there is no filter \"size-filter\"",
        "filterconfigs[3] (vendor-filter): has no state",
        "filterconfigs[4] (os-disk-exclude-filter): include has no meaning",
    ];
    assert_eq!(warnings.len(), expected.len(), "{warnings:#?}");
    for (warning, beginning) in warnings.iter().zip(expected) {
        assert!(warning.starts_with(beginning), "{warning}");
    }
}

#[test]
fn what_is_malformed_is_an_error_that_says_where() {
    let rows = [
        ("filterconfigs:\n  - key: path-filter\n   state: true\n", "line 3"),
        (
            "filterconfigs:\n  - key: path-filter\n    state: ture\n",
            "line 3",
        ),
        (
            "filterconfigs:\n  - key: path-filter\n    state: [true]\n",
            "line 3",
        ),
        ("filterconfigs:\n\n  - state: true\n", "key"),
        ("filterconfigs: 3\n", "line 1"),
        ("filterconfigs:\n  path-filter: true\n", "line 2"),
        ("just a text\n", "line 1"),
        ("filterconfigs: []\nfilterconfigs: []\n", "line 2"),
        (
            "tagconfigs:\n  - {name: a, type: vendor, pattern: x, tag: y}\n",
            "tagconfigs[0] (\"a\"): tags go by type path",
        ),
        (
            "tagconfigs:\n  - {name: a, type: path, pattern: x, tag: -y}\n",
            "cannot be a value of the label",
        ),
        (
            "tagconfigs:\n  - {name: a, type: path, pattern: '(', tag: y}\n",
            "no regular expression",
        ),
        ("tagconfigs:\n  - {name: a, type: path, tag: y}\n", "pattern"),
    ];
    for (text, part) in rows {
        let error = Filters::parse(text).unwrap_err().to_string();
        assert!(
            error.contains(part),
            "{text:?} gives {error:?}, which does not say {part:?}"
        );
    }
}

#[test]
fn the_last_tag_that_fits_is_given() {
    let filters = parsed(
        "
tagconfigs:
  - {name: all, type: path, pattern: /dev/sd, tag: slow}
  - {name: fast, type: path, pattern: '^/dev/(nvme|sdb)', tag: fast}
  - {name: nobody, type: path, pattern: 'sdc$', tag: ''}
",
    );
    let tag = |name: &str| {
        let device = Device::new(name, DeviceNumber { major: 8, minor: 0 }, Kind::Disk, 1);
        filters.tag(&device).map(str::to_owned)
    };
    assert_eq!(tag("sda").as_deref(), Some("slow"));
    assert_eq!(tag("sdb").as_deref(), Some("fast"));
    assert_eq!(tag("sdc").as_deref(), Some(""));
    assert_eq!(tag("sdc1").as_deref(), Some("slow"));
    assert_eq!(tag("vda"), None);
    assert_eq!(Filters::default().tags.len(), 0);
}

#[test]
fn some_devices_are_never_looked_at() {
    let mut node = Node::default();
    node.disk("sda", &["sda1"])
        .disk("zd0", &["zd0p1"])
        .disk("zdisk", &[]);
    node.add("loop0", Kind::Loop, |device| {
        let file = "/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/pv/dev/uid".into();
        device.backing = Some(Loop { file, offset: 0 });
    });
    node.add("loop0p1", Kind::Partition, |device| {
        device.parent = Some("loop0".into())
    });
    node.add("loop1", Kind::Loop, |device| {
        device.backing = Some(Loop {
            file: "/srv/kubelet-not/disk.img".into(),
            offset: 0,
        });
    });
    node.add("loop2", Kind::Loop, |device| {
        let file = "/var/snap/microk8s/common/var/lib/kubelet/plugins/x".into();
        device.backing = Some(Loop { file, offset: 0 });
    });
    node.add("loop3", Kind::Loop, |device| device.bytes = 0);
    node.add("sr0", Kind::Other, |device| device.number.major = 11);
    node.add("fd0", Kind::Disk, |device| device.number.major = 2);
    node.add("ram0", Kind::Other, |device| device.number.major = 1);
    node.add("zram0", Kind::Other, |_| {});
    node.add("md_d0", Kind::Other, |_| {});
    node.add("nbd0", Kind::Disk, |device| device.bytes = 0);
    node.add("sdb", Kind::Disk, |device| {
        device.removable = true;
        device.scsi = Some(Scsi::default());
    });
    let seen: Vec<_> = node
        .0
        .values()
        .filter(|device| ignored(device).is_none())
        .collect();
    let seen: Vec<_> = seen.iter().map(|device| device.name.as_str()).collect();
    // A stick can be a disk; a partition is judged with its disk, below.
    assert_eq!(seen, ["loop0p1", "loop1", "sda", "sda1", "sdb", "zdisk"]);
    let off = parsed(&format!("filterconfigs: [{{key: {PATH}, state: false}}]"));
    let why = off.excluded(&node.0["loop0p1"], &node.0).unwrap();
    assert_eq!(why, "a part of a kubelet's loop device");
}

proptest! {
    #[test]
    fn nothing_that_is_read_makes_us_panic(text in "\\PC{0,60}", key in "[a-z-]{0,20}", state in "\\PC{0,8}") {
        let _ = Filters::parse(&text);
        let _ = Filters::parse(&format!("filterconfigs:\n- key: {key}\n  state: {state}\n  exclude: {text}\n"));
    }

    /// Whatever is built on whatever: the disk under the root is never offered, and an unrelated one always is.
    #[test]
    fn the_disk_under_root_is_always_found(layers in prop::collection::vec(0..4u8, 0..6), parts in 0..3usize) {
        let mut node = Node::default();
        let names = ["sda1", "sda2"];
        node.disk("sda", &names[..parts.min(2)]).disk("sdb", &["sdb1"]);
        let mut top = if parts == 0 { "sda".to_owned() } else { names[parts - 1].to_owned() };
        for (index, layer) in layers.iter().enumerate() {
            let name = format!("dm-{index}");
            let kind = [Kind::Lvm, Kind::Crypt, Kind::Md, Kind::DeviceMapper][usize::from(*layer)];
            node.on(&name, kind, &[&top]);
            // One of the two directions is enough.
            if layer % 2 == 0 {
                node.change(&name, |device| device.slaves.clear());
            } else {
                node.change(&top, |device| device.holders.clear());
            }
            top = name;
        }
        node.mount(&top, "/", Some("ext4"));
        let out = node.out(&Filters::default(), OS_DISK);
        for device in node.0.values() {
            let is_root = !device.name.starts_with("sdb");
            prop_assert_eq!(out.contains(&device.name.as_str()), is_root, "{}", device.name);
        }
    }
}
