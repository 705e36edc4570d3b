use super::*;
use crate::disk::fixtures::{
    blank, catalogue, found, inventory, mounted, object, only, partition, scsi, view, virtio,
};

#[test]
fn a_disk_is_its_object_by_identity_and_not_by_name_or_path() {
    let before = view([
        found(virtio("vdb", "alpha"), blank()),
        found(virtio("vdc", "beta"), blank()),
    ]);
    let (alpha, beta) = (object(&before.disks["vdb"]), object(&before.disks["vdc"]));
    // After a boot in another order.
    let after = view([
        found(virtio("vdc", "alpha"), blank()),
        found(virtio("vdb", "beta"), blank()),
    ]);
    let names = |object: &BlockDevice| -> Vec<String> {
        let disks = after.matching(object).into_iter();
        disks.map(|disk| disk.device().name.clone()).collect()
    };
    assert_eq!(
        (names(&alpha), names(&beta)),
        (vec!["vdc".to_owned()], vec!["vdb".to_owned()])
    );
    // An object that says another identity than its name does is about what it says.
    let mut odd = alpha.clone();
    odd.spec.identity = beta.spec.identity.clone();
    assert_eq!(names(&odd), ["vdb"]);
}

/// The disk answered one question less when its object was made, on another node: it must not get a second one.
#[test]
fn the_object_of_a_disk_is_looked_for_under_all_its_identities() {
    let complete = view([found(scsi(), blank())]);
    let mut device = scsi();
    device.wwid = None;
    device.scsi.as_mut().unwrap().page83.clear();
    let before = view([found(device, blank())]);
    let (old, new) = (only(&before), only(&complete));
    assert_ne!(old.object_name, new.object_name);
    let names = new.names();
    assert_eq!(names.first(), Some(&new.object_name));
    assert!(names.contains(&old.object_name), "{names:?}");
    assert!(new.ndm_names.iter().all(|name| names.contains(name)));
    assert!(new.is(&object(old)), "and is taken for it");
    let different: BTreeSet<_> = names.iter().collect();
    assert_eq!(different.len(), names.len(), "each is asked for once");
}

#[test]
fn a_disk_without_identity_is_known_by_node_and_path_alone() {
    let view = view([
        found(virtio("vdb", ""), blank()),
        found(virtio("vdc", "alpha"), blank()),
    ]);
    let nameless = object(&view.disks["vdb"]);
    assert_eq!(nameless.metadata.name.as_deref(), Some("unidentified-node-1-vdb"));
    assert_eq!(view.matching(&nameless), [&view.disks["vdb"]]);
}

#[test]
fn what_is_reserved_empty_or_not_a_disk_is_not_published() {
    let mut disk = virtio("vdb", "alpha");
    let mut parts = [1, 2, 3, 4].map(|number| partition(&mut disk, number));
    let types = [
        None,
        Some("c12a7328-f81f-11d2-ba4b-00a0c93ec93b"),
        Some("0fc63daf-8483-4772-8e79-3d69d8477de4"),
        Some("6a945a3b-1dd2-11b2-99a6-080020736631"),
    ];
    for (part, id) in parts.iter_mut().zip(types) {
        part.partition.as_mut().unwrap().type_id = id.map(str::to_owned);
    }
    let mut empty = virtio("vdc", "beta");
    empty.bytes = 0;
    let mut volume = virtio("zd0", "gamma");
    volume.kind = Kind::Zvol;
    let mut optical = virtio("sr0", "delta");
    optical.kind = Kind::Other;
    let all = parts.into_iter().chain([disk, empty, volume, optical]);
    let view = view(all.map(|device| found(device, blank())));
    assert_eq!(view.disks.keys().collect::<Vec<_>>(), ["vdb", "vdb1", "vdb3"]);
    assert_eq!(
        view.disks["vdb"].partitions.len(),
        4,
        "whose a disk is takes all of its partitions"
    );
    assert_eq!(view.devices.len(), 8);
}

#[test]
fn what_is_left_out_is_neither_read_nor_ready_but_still_known() {
    let root = mounted(virtio("vda", "alpha"), "/");
    let catalogue = catalogue();
    let inventory = inventory([found(root.clone(), blank())]);
    assert!(!catalogue.wants(&root, &inventory.devices()));
    let view = catalogue.view(&inventory);
    let disk = only(&view);
    assert!(!disk.is_ready());
    assert!(
        disk.excluded.as_ref().unwrap().contains('/'),
        "{:?}",
        disk.excluded
    );
    assert_eq!(view.matching(&object(disk)).len(), 1);
}

#[test]
fn a_disk_that_udevd_works_on_is_not_ready() {
    let mut settling = found(virtio("vdb", "alpha"), blank());
    settling.settling = true;
    assert!(!only(&view([settling])).is_ready());
}
