//! What pools are made of.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::*;
use crate::{Guid, VdevKind};

#[test]
fn vdevs_come_in_their_order_by_what_they_are_for() {
    assert_trees(&[
        ("online", "Online mirror-0=Online (loop0=Online loop1=Online)"),
        (
            "classes",
            "Online mirror-0=Online (loop0=Online loop1=Online) mirror-1=Online (loop2=Online loop3=Online) \
             special mirror-2=Online (loop4=Online loop5=Online) dedup mirror-3=Online (loop6=Online loop7=Online) \
             log mirror-4=Online (loop8=Online loop9=Online) cache loop10=Online spare loop11=Available",
        ),
        (
            "stripe",
            "Online loop0=Online loop1=Online log loop2=Online log loop3=Online cache loop4=Online \
             spare loop5=Available spare loop6=Available",
        ),
        (
            "raidz",
            "Online raidz1-0=Online (loop0=Online loop1=Online loop2=Online)",
        ),
        (
            "raidz2",
            "Online raidz2-0=Online (loop0=Online loop1=Online loop2=Online loop3=Online) \
             raidz2-1=Online (loop4=Online loop5=Online loop6=Online loop7=Online)",
        ),
        (
            "raidz3",
            "Online raidz3-0=Online (loop0=Online loop1=Online loop2=Online loop3=Online loop4=Online)",
        ),
        (
            "draid",
            "Online draid1:2d:5c:1s-0=Online (loop0=Online loop1=Online loop2=Online loop3=Online loop4=Online) \
             spare draid1-0-0=Available",
        ),
        ("file", "Online /var/tmp/cstor-fixtures/plain=Online"),
        ("whole-disks", "Online mirror-0=Online (sda1=Online sdb1=Online)"),
    ]);
}

#[test]
fn what_was_removed_is_not_shown() {
    assert_trees(&[
        (
            "removed-log",
            "Online loop0=Online loop1=Online loop7=Online log loop3=Online cache loop4=Online spare loop5=Available \
             spare loop6=Available",
        ),
        ("removing", "Online loop0=Online loop1=Online"),
        ("removed-vdev", "Online loop0=Online"),
    ]);
}

#[test]
fn kinds_of_vdevs() {
    let kinds = |name: &str| -> Vec<VdevKind> { read(name).all().map(|vdev| vdev.kind.clone()).collect() };
    let disks = |count: usize| vec![VdevKind::Disk; count];
    assert_eq!(kinds("file"), [VdevKind::File]);
    assert_eq!(kinds("online"), [vec![VdevKind::Mirror], disks(2)].concat());
    assert_eq!(kinds("raidz3"), [vec![VdevKind::Raidz], disks(5)].concat());
    assert_eq!(
        kinds("draid"),
        [vec![VdevKind::Draid], disks(5), vec![VdevKind::DraidSpare]].concat()
    );
    assert_eq!(
        kinds("spare-replacing"),
        [
            vec![VdevKind::Mirror, VdevKind::Spare, VdevKind::Replacing],
            disks(5)
        ]
        .concat()
    );
}

#[test]
fn a_draid_group_without_its_type_has_it_in_its_name() {
    let mut document: Json = serde_json::from_str(&fixture("draid.json")).unwrap();
    let group = &mut document["pools"]["fx"]["vdevs"]["fx"]["vdevs"]["draid1:2d:5c:1s-0"];
    let group = group.as_object_mut().unwrap();
    group.remove("vdev_type").unwrap();
    group.remove("state").unwrap();
    let status = status(&document.to_string(), &pool()).unwrap();
    assert_eq!(status.vdevs[0].kind, VdevKind::Draid);
    assert_eq!(status.vdevs[0].state, crate::State::Unknown);
    assert_eq!(status.vdevs[0].children.len(), 5);
}

#[test]
fn a_vdev_is_known_by_its_number() {
    let status = read("classes");
    let document: Json = serde_json::from_str(&fixture("classes.json")).unwrap();
    let printed = &document["pools"]["fx"];
    let number = |json: &Json| Guid(json.as_str().unwrap().parse().unwrap());
    assert_eq!(status.guid, number(&printed["pool_guid"]));
    let spare = number(&printed["spares"]["/dev/loop11"]["guid"]);
    let log = number(&printed["logs"]["mirror-4"]["vdevs"]["/dev/loop9"]["guid"]);
    assert_eq!(status.vdev(spare).unwrap().class, VdevClass::Spare);
    assert_eq!(status.vdev(log).unwrap().path.as_ref().unwrap(), "/dev/loop9");
    let numbers: BTreeSet<_> = status.all().map(|vdev| vdev.guid).collect();
    assert_eq!(numbers.len(), status.all().count());
    assert_eq!(status.devices().count(), 12);
}

#[test]
fn sizes_are_those_of_devices_and_the_space_of_groups() {
    const MIB: u64 = 1 << 20;
    let online = read("online");
    let mirror = &online.vdevs[0];
    assert_eq!((mirror.size, mirror.expandable), (240 * MIB, 0));
    assert!(mirror.allocated > 40 * MIB);
    for disk in online.devices().chain(read("stripe").devices().take(5)) {
        assert_eq!(disk.size, 256 * MIB, "{}", disk.name);
    }
    let grown = read("grown");
    assert_eq!(grown.vdevs[0].expandable, 256 * MIB);
    assert!(
        grown
            .devices()
            .all(|disk| disk.size == 512 * MIB && disk.expandable == 256 * MIB)
    );
    // Of a device that is not there ZFS prints what is left when its size is taken from nothing.
    let log = &read("missing-log").vdevs[1];
    assert_eq!((log.class, log.expandable), (VdevClass::Log, 0));
}
