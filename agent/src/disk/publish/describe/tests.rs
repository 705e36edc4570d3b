use serde_json::{Value, json};

use super::*;
use crate::disk::fixtures::{
    NODE, blank, claimed, found, holds, labelled, mounted, nvme, object, only, partition, scsi, view, virtio,
};

fn said(disk: &Disk) -> Value {
    serde_json::to_value(&Description::of(disk, NODE).spec).unwrap()
}

#[test]
fn a_virtio_disk_in_all_its_fields() {
    let view = view([found(virtio("vdb", "alpha"), blank())]);
    let expected = json!({
        "nodeAttributes": { "nodeName": "node-1" },
        "path": "/dev/vdb",
        "capacity": {
            "storage": 10_737_418_240_u64,
            "physicalSectorSize": 4096,
            "logicalSectorSize": 512,
        },
        "details": {
            "deviceType": "disk",
            "driveType": "HDD",
            "logicalBlockSize": 512,
            "physicalBlockSize": 4096,
            "hardwareSectorSize": 512,
            "serial": "alpha",
        },
        "identity": { "scheme": "virtio-serial/v1", "value": "alpha" },
        "devlinks": [
            { "kind": "by-id", "links": ["/dev/disk/by-id/virtio-alpha"] },
            { "kind": "by-path", "links": ["/dev/disk/by-path/pci-vdb"] },
        ],
        "partitioned": "No",
    });
    assert_eq!(said(only(&view)), expected);
    let labels = [
        ("kubernetes.io/hostname", "host-1"),
        ("nodename", "node-1"),
        ("ndm.io/blockdevice-type", "blockdevice"),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(Description::of(only(&view), NODE).labels, BTreeMap::from(labels));
}

#[test]
fn a_scsi_disk_in_all_its_fields() {
    let mut disk = mounted(scsi(), "/srv");
    disk.holders = vec!["dm-0".into()];
    let view = view([found(disk, holds("xfs"))]);
    let expected = json!({
        "nodeAttributes": { "nodeName": "node-1" },
        "path": "/dev/sda",
        "capacity": {
            "storage": 4_294_967_296_u64,
            "physicalSectorSize": 4096,
            "logicalSectorSize": 512,
        },
        "details": {
            "deviceType": "disk",
            "driveType": "HDD",
            "logicalBlockSize": 512,
            "physicalBlockSize": 4096,
            "hardwareSectorSize": 512,
            "model": "Platter 4",
            "serial": "Z1D5A1B2",
            "vendor": "ACME",
            "firmwareRevision": "0001",
            "wwn": "0x5000c500a1b2c3d4",
        },
        "identity": { "scheme": "scsi-naa/v1", "value": "5000c500a1b2c3d4" },
        "devlinks": [],
        "filesystem": { "fsType": "xfs", "mountPoint": "/srv" },
        "partitioned": "No",
        "aggregateDevice": "/dev/dm-0",
    });
    assert_eq!(said(only(&view)), expected);
}

#[test]
fn an_nvme_namespace_in_all_its_fields() {
    let view = view([found(nvme(), blank())]);
    let expected = json!({
        "nodeAttributes": { "nodeName": "node-1" },
        "path": "/dev/nvme0n1",
        "capacity": {
            "storage": 8_589_934_592_u64,
            "physicalSectorSize": 4096,
            "logicalSectorSize": 4096,
        },
        "details": {
            "deviceType": "disk",
            "driveType": "SSD",
            "logicalBlockSize": 4096,
            "physicalBlockSize": 4096,
            "hardwareSectorSize": 4096,
            "model": "Fast 8",
            "serial": "S5GXNX0R",
            "wwn": "eui.0025385b71b0f1a2",
        },
        "identity": { "scheme": "nvme-eui64/v1", "value": "0025385b71b0f1a2" },
        "devlinks": [],
        "partitioned": "No",
    });
    assert_eq!(said(only(&view)), expected);
}

#[test]
fn a_partition_in_all_its_fields() {
    let mut disk = virtio("vdb", "alpha");
    let part = partition(&mut disk, 2);
    let view = view([found(disk, blank()), found(part, blank())]);
    let mut of_part = said(&view.disks["vdb2"]);
    let identity = of_part["identity"].take();
    assert_eq!(identity["scheme"], "partition/v1");
    assert!(
        identity["value"].as_str().unwrap().contains("alpha"),
        "{identity}"
    );
    let expected = json!({
        "nodeAttributes": { "nodeName": "node-1" },
        "path": "/dev/vdb2",
        "capacity": {
            "storage": 1_073_741_824,
            "physicalSectorSize": 4096,
            "logicalSectorSize": 512,
        },
        "details": {
            "deviceType": "partition",
            "driveType": "HDD",
            "logicalBlockSize": 512,
            "physicalBlockSize": 4096,
            "hardwareSectorSize": 512,
        },
        "identity": null,
        "devlinks": [],
        "partitioned": "No",
        "parentDevice": "/dev/vdb",
    });
    assert_eq!(of_part, expected);
    assert_eq!(said(&view.disks["vdb"])["partitioned"], "Yes");
}

#[test]
fn a_claim_and_labels_of_others_are_not_looked_at() {
    let view = view([found(virtio("vdb", "alpha"), blank())]);
    let disk = only(&view);
    let description = Description::of(disk, NODE);
    let own = object(disk);
    assert!(description.is_said_by(&own));
    assert!(description.is_said_by(&claimed(own.clone())));
    assert!(description.is_said_by(&labelled(own.clone(), "somebody", "else")));
    assert!(!description.is_said_by(&labelled(own.clone(), label::HOSTNAME, "node-9")));
    let mut other = own.clone();
    other.spec.capacity.storage += 512;
    assert!(!description.is_said_by(&other));
    let mut other = own;
    other.metadata.labels = None;
    assert!(!description.is_said_by(&other));
}

/// What a real API server sends back must be what was said, or the object would be written at every look.
#[test]
fn what_is_written_and_read_again_is_still_what_is_said() {
    let view = view([
        found(virtio("vdb", ""), holds("ext4")),
        found(scsi(), blank()),
        found(nvme(), blank()),
    ]);
    for disk in view.disks.values() {
        let text = serde_json::to_string(&object(disk)).unwrap();
        let read: BlockDevice = serde_json::from_str(&text).unwrap();
        assert!(Description::of(disk, NODE).is_said_by(&read), "{text}");
    }
}
