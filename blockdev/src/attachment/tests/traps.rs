//! Ways to be fooled.

use cstor_api::names::reason;

use super::*;
use crate::attachment::{PUBLISH_PATH, size_fits};

const EBS: &str = "ebs.csi.aws.com";
const ANY: &str = "any.csi.example.org";
const VOLUME: &str = "vol-0a1b2c3d4e5f60718";
const SERIAL: &str = "vol0a1b2c3d4e5f60718";

fn volume() -> Attachment {
    attachment(EBS, VOLUME)
}

#[test]
fn a_stale_link_is_not_believed_and_named() {
    let mut device = ebs(1, "vol0ffffffffffffffff");
    let link = format!("/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{SERIAL}");
    device.links = vec![link.as_str().into()];
    device.udev = Some([("ID_SERIAL_SHORT".to_owned(), SERIAL.to_owned())].into());
    let result = look(&[device], &volume());
    refused(&result, reason::NO_DEVICE, &link);
    refused(&result, reason::NO_DEVICE, "vol0ffffffffffffffff");
}

#[test]
fn the_path_in_the_metadata_is_not_believed() {
    let attachment = with_metadata(volume(), "devicePath", "/dev/nvme1n1");
    refused(&look(&[ebs(1, "")], &attachment), reason::NO_DEVICE, SERIAL);
}

#[test]
fn the_size_alone_says_nothing() {
    assert_eq!(
        look(&[disk("sdb", 1)], &attachment(ANY, "volume-0001")).reason(),
        reason::NO_DEVICE
    );
    // Twins in size; the serial number decides.
    let devices = [ebs(1, "vol0ffffffffffffffff"), ebs(2, SERIAL)];
    assert_eq!(matched(&look(&devices, &volume())).0, "nvme2n1");
}

#[test]
fn two_disks_with_one_serial_number_are_both_refused() {
    let mut small = ebs(2, SERIAL);
    small.bytes = GIB;
    // Also if only one of them has the right size, or is free.
    let mut mounted = ebs(3, SERIAL);
    mounted.mounts = vec![mount("/", Some("ext4"))];
    for other in [ebs(2, SERIAL), small, mounted] {
        let result = look(&[ebs(1, SERIAL), other.clone()], &volume());
        refused(&result, reason::AMBIGUOUS, &other.name);
        assert_eq!(result.devices(), [number(1), other.number]);
    }
}

#[test]
fn a_handle_that_begins_like_another_is_another() {
    let devices = [ebs(1, "vol0a1b2c3d"), ebs(2, "vol0a1b2c3d4")];
    assert_eq!(
        matched(&look(&devices, &attachment(EBS, "vol-0a1b2c3d"))).0,
        "nvme1n1"
    );
    assert_eq!(
        matched(&look(&devices, &attachment(EBS, "vol-0a1b2c3d4"))).0,
        "nvme2n1"
    );
    assert_eq!(
        look(&devices, &attachment(EBS, "vol-0a1b2c3")).reason(),
        reason::NO_DEVICE
    );
}

#[test]
fn case_and_dashes_do_not_matter_where_they_carry_no_meaning() {
    let handle = "3B1F8A52-94C1-4F0E-8F6B-2B7C1D0E9A11";
    for serial in [
        "3b1f8a52-94c1-4f0e-8f6b-2b7c1d0e9a11",
        "3b1f8a5294c14f0e8f6b2b7c1d0e9a11",
        handle,
    ] {
        assert_eq!(
            matched(&look(&[nvme(1, "Any", serial)], &attachment(ANY, handle))).1,
            "handle-serial"
        );
    }
    assert_eq!(
        matched(&look(&[ebs(1, &SERIAL.to_uppercase())], &volume())).0,
        "nvme1n1"
    );
    // Handles that differ in nothing else name one disk, and so none.
    let both = [
        named(attachment(ANY, "volume-1-11"), "a"),
        named(attachment(ANY, "volume-11-1"), "b"),
    ];
    for result in look_all(&[nvme(1, "Any", "volume-1-11")], &Published::new(), &both) {
        assert_eq!(result.reason(), reason::AMBIGUOUS);
    }
}

#[test]
fn a_unit_number_is_digits_with_or_without_blanks() {
    let handle = "/subscriptions/s/disks/pvc-1";
    let unit = |text: &str| with_metadata(attachment("disk.csi.azure.com", handle), "LUN", text);
    let devices = [azure(1, 5, 3), azure(2, 5, 0)];
    for text in ["3", " 3", "3 ", "\t3\n", "03"] {
        assert_eq!(matched(&look(&devices, &unit(text))).0, "sd1", "{text:?}");
    }
    for text in [
        "",
        " ",
        "three",
        "0x3",
        "+3",
        "-3",
        "3.0",
        "lun3",
        "3 4",
        "99999999999999999999999",
    ] {
        assert_eq!(
            look(&devices, &unit(text)).reason(),
            reason::NO_DEVICE,
            "{text:?}"
        );
    }
    refused(
        &look(&devices, &attachment("disk.csi.azure.com", handle)),
        reason::NO_DEVICE,
        "LUN",
    );
    // The last namespace there can be.
    assert_eq!(
        look(&[azure_nvme(1, 1)], &unit(&u64::MAX.to_string())).reason(),
        reason::NO_DEVICE
    );
}

#[test]
fn the_system_disk_of_azure_is_not_a_data_disk() {
    let attachment = with_metadata(
        attachment("disk.csi.azure.com", "/subscriptions/s/disks/pvc-1"),
        "LUN",
        "0",
    );
    let system = with_record(azure(1, 5, 0), &["/dev/disk/azure/root"], &[]);
    refused(
        &look(&[system, azure(2, 0, 0)], &attachment),
        reason::NO_DEVICE,
        "azure-vm-utils",
    );
    assert_eq!(look(&[azure_nvme(1, 1)], &attachment).reason(), reason::NO_DEVICE);
}

#[test]
fn what_twenty_characters_cannot_tell_apart_is_refused() {
    let serial = "volume-of-the-big-po";
    let one = named(attachment(ANY, "volume-of-the-big-pool-1"), "one");
    let two = named(attachment(ANY, "volume-of-the-big-pool-2"), "two");
    let device = virtio(1, serial);
    assert_eq!(
        matched(&look(std::slice::from_ref(&device), &one)).1,
        "handle-serial-20"
    );
    for result in look_all(
        std::slice::from_ref(&device),
        &Published::new(),
        &[one.clone(), two.clone()],
    ) {
        assert_eq!(result.reason(), reason::AMBIGUOUS);
    }
    let results = look_all(
        &[device.clone(), virtio(2, serial)],
        &Published::new(),
        &[one.clone(), two],
    );
    assert!(results.iter().all(|result| result.reason() == reason::AMBIGUOUS));
    // One handle is what the other is cut to.
    let whole = named(attachment(ANY, serial), "whole");
    for result in look_all(&[device], &Published::new(), &[one, whole]) {
        assert_eq!(result.reason(), reason::AMBIGUOUS);
    }
}

#[test]
fn an_attachment_elsewhere_or_not_yet_is_none() {
    let mut elsewhere = volume();
    elsewhere.node = "node-2".into();
    let mut not_yet = volume();
    not_yet.attached = false;
    for (attachment, message) in [
        (elsewhere.clone(), "node-2"),
        (not_yet.clone(), "kubectl describe"),
    ] {
        let result = look(&[ebs(1, SERIAL)], &attachment);
        refused(&result, reason::NOT_ATTACHED, message);
        assert!(result.devices().is_empty());
    }
    // Nor do they stand in the way of the one that is here.
    let results = look_all(
        &[ebs(1, SERIAL)],
        &Published::new(),
        &[elsewhere, not_yet, volume()],
    );
    assert_eq!(matched(&results[2]).0, "nvme1n1");
}

#[test]
fn a_volume_that_nothing_is_known_of_is_no_disk() {
    let mut attachment = volume();
    attachment.volume = None;
    refused(
        &look(&[ebs(1, SERIAL)], &attachment),
        reason::NO_DEVICE,
        "PersistentVolume",
    );
    let mut attachment = volume();
    attachment.volume.as_mut().unwrap().bytes = None;
    refused(
        &look(&[ebs(1, SERIAL)], &attachment),
        reason::MISMATCH,
        "no capacity",
    );
    attachment.volume.as_mut().unwrap().bytes = Some(0);
    assert_eq!(look(&[ebs(1, SERIAL)], &attachment).reason(), reason::MISMATCH);
}

#[test]
fn odd_handles_match_nothing_by_accident() {
    let devices = [
        nvme(1, "Any", "volume1"),
        nvme(2, "Any", "v\\xc3\\xb6lume-0001"),
        nvme(3, "Any", "0000000000000000"),
        nvme(4, "Any", "vlume0001"),
        nvme(5, "Any", ""),
        disk("sdx", 6),
    ];
    for handle in [
        "völume-0001",
        "v\\xc3\\xb6lume-0001",
        "0000000000000000",
        "volume1",
        "pool/volume-0001/",
        "/",
        "",
        "----------",
        "ööööööööööööööööööööööööö",
        "\0\0\0\0",
    ] {
        let result = look(&devices, &attachment(ANY, handle));
        assert_eq!(result.reason(), reason::NO_DEVICE, "{handle:?}: {result:?}");
    }
    assert_eq!(
        matched(&look(
            &[nvme(1, "Any", "volume-0001")],
            &attachment(ANY, "a/b/volume-0001")
        ))
        .0,
        "nvme1n1"
    );
    // Cut within a character.
    assert_eq!(
        look(&devices, &attachment(ANY, "volume-0001-0002-00öabc")).reason(),
        reason::NO_DEVICE
    );
}

#[test]
fn volumes_of_one_name_in_two_pools_are_refused() {
    let both = [
        named(attachment(ANY, "pool-a/volume-0001"), "a"),
        named(attachment(ANY, "pool-b/volume-0001"), "b"),
    ];
    for result in look_all(&[nvme(1, "Any", "volume-0001")], &Published::new(), &both) {
        refused(&result, reason::AMBIGUOUS, "may as well be");
    }
}

#[test]
fn two_attachments_of_one_volume_are_refused() {
    let both = [named(volume(), "csi-canonical"), named(volume(), "by-hand")];
    let results = look_all(&[ebs(1, SERIAL)], &Published::new(), &both);
    refused(&results[0], reason::AMBIGUOUS, "by-hand");
    refused(&results[1], reason::AMBIGUOUS, "csi-canonical");
    // Even one and the same, told twice.
    let results = look_all(&[ebs(1, SERIAL)], &Published::new(), &[volume(), volume()]);
    assert!(results.iter().all(|result| result.reason() == reason::AMBIGUOUS));
}

#[test]
fn the_size_must_fit() {
    let at = |bytes: u64| {
        let mut device = ebs(1, SERIAL);
        device.bytes = bytes;
        look(&[device], &volume())
    };
    let largest = 10 * GIB + GIB + 10 * GIB / 100;
    for bytes in [10 * GIB, 10 * GIB + 1, largest] {
        matched(&at(bytes));
    }
    for bytes in [0, 1, 10 * GIB - 1, largest + 1, u64::MAX] {
        let result = at(bytes);
        refused(&result, reason::MISMATCH, "bytes where PersistentVolume pv-1 has");
        assert_eq!(result.devices(), [number(1)]);
    }
    assert!(size_fits(u64::MAX, u64::MAX) && !size_fits(0, 0));
}

#[test]
fn a_disk_that_is_in_use_is_not_the_volume() {
    let mut part = Device::new("nvme1n1p1", number(10), Kind::Partition, GIB);
    part.parent = Some("nvme1n1".into());
    let mut whole = ebs(1, SERIAL);
    whole.partitions = vec!["nvme1n1p1".into()];
    matched(&look(&[whole.clone(), part.clone()], &volume()));

    let mut mounted = part.clone();
    mounted.mounts = vec![mount("/boot/efi", Some("vfat"))];
    refused(
        &look(&[whole.clone(), mounted], &volume()),
        reason::MISMATCH,
        "/boot/efi",
    );
    // A partition is not a volume, wherever it is mounted.
    let mut mounted = part.clone();
    mounted.mounts = vec![mount("/var/lib/kubelet", Some("ext4"))];
    let mut file_system = volume();
    file_system.volume.as_mut().unwrap().block_mode = false;
    for attachment in [volume(), file_system] {
        let result = look(&[whole.clone(), mounted.clone()], &attachment);
        refused(&result, reason::MISMATCH, "/var/lib/kubelet");
    }
    let mut swapped = part.clone();
    swapped.swap = true;
    refused(
        &look(&[whole.clone(), swapped], &volume()),
        reason::MISMATCH,
        "swapped",
    );
    let mut held = part;
    held.holders = vec!["dm-0".into()];
    let devices = [whole.clone(), held];
    refused(&look(&devices, &volume()), reason::MISMATCH, "dm-0");
    // Unless the holder is ours.
    let ours = BTreeSet::from([number(1)]);
    let published = Published::new();
    let host = Host {
        node: NODE,
        devices: &devices,
        published: &published,
        kubelet: Utf8Path::new("/var/lib/kubelet"),
        ours: &ours,
    };
    matched(&correlate(&host, &[volume()])[0]);

    let mut mounted = ebs(1, SERIAL);
    mounted.mounts = vec![mount("/var/lib/kubelet-of-another/x", Some("ext4"))];
    refused(
        &look(&[mounted], &volume()),
        reason::MISMATCH,
        "kubelet-of-another",
    );
}

#[test]
fn a_pods_use_of_the_volume_is_no_objection() {
    let path = "/var/lib/kubelet/plugins/kubernetes.io/csi/x";
    let mut bound = ebs(1, SERIAL);
    bound.mounts = vec![mount(path, None)];
    matched(&look(&[bound], &volume()));
    let mut mounted = ebs(1, SERIAL);
    mounted.mounts = vec![mount(path, Some("ext4"))];
    // A file system on a volume of mode Block is not the kubelet's doing.
    assert_eq!(look(&[mounted.clone()], &volume()).reason(), reason::MISMATCH);
    let mut file_system = volume();
    file_system.volume.as_mut().unwrap().block_mode = false;
    matched(&look(&[mounted], &file_system));
}

#[test]
fn partitions_and_mappings_are_no_volumes() {
    for kind in [
        Kind::Partition,
        Kind::Loop,
        Kind::Lvm,
        Kind::Crypt,
        Kind::DeviceMapper,
        Kind::Md,
        Kind::Zvol,
        Kind::Sparse,
        Kind::Other,
    ] {
        let mut device = ebs(1, SERIAL);
        device.kind = kind;
        assert_eq!(
            look(std::slice::from_ref(&device), &volume()).reason(),
            reason::NO_DEVICE,
            "{kind:?}"
        );
        let results = look_all(&[device], &handed_out("pv-1", &[1]), &[volume()]);
        refused(&results[0], reason::MISMATCH, "not a whole disk");
    }
}

#[test]
fn paths_to_one_disk_are_one_disk() {
    let wwn = "6000c298595bf4575739e9105b2c0c2d";
    let attachment = attachment(ANY, wwn);
    let mut paths = [with_wwn(1, wwn), with_wwn(2, wwn)];
    assert_eq!(look(&paths, &attachment).reason(), reason::AMBIGUOUS);
    for path in &mut paths {
        path.holders = vec!["dm-0".into()];
    }
    let mut whole = Device::new("dm-0", number(3), Kind::Multipath, 10 * GIB);
    whole.slaves = vec!["sd1".into(), "sd2".into()];
    let [one, two] = paths;
    let devices = [one.clone(), two.clone(), whole.clone()];
    assert_eq!(matched(&look(&devices, &attachment)).0, "dm-0");
    let results = look_all(
        &devices,
        &handed_out("pv-1", &[1]),
        std::slice::from_ref(&attachment),
    );
    refused(&results[0], reason::MISMATCH, "one path to it");
    // Paths that disagree lead to nowhere.
    let stray = with_wwn(2, "6000c298595bf4575739e9105b2c0c2e");
    let stray = Device {
        holders: two.holders,
        ..stray
    };
    assert_eq!(
        look(&[one, stray, whole], &attachment).reason(),
        reason::NO_DEVICE
    );
}

#[test]
fn every_path_to_a_disk_must_say_so() {
    let mut paths = [
        scsi(1, "HC", "Volume", "1012345"),
        scsi(2, "QEMU", "Volume", "1012345"),
    ];
    for path in &mut paths {
        path.holders = vec!["dm-0".into()];
    }
    let mut whole = Device::new("dm-0", number(3), Kind::Multipath, 10 * GIB);
    whole.slaves = vec!["sd1".into(), "sd2".into()];
    let attachment = attachment("csi.hetzner.cloud", "1012345");
    let [one, mut two] = paths;
    assert_eq!(
        look(&[one.clone(), two.clone(), whole.clone()], &attachment).reason(),
        reason::NO_DEVICE
    );
    two.vendor = Some("HC".into());
    assert_eq!(
        matched(&look(&[one, two, whole], &attachment)),
        ("dm-0", "hetzner-serial")
    );
}

#[test]
fn the_kubelet_is_believed_where_the_disk_does_not_deny_it() {
    let local = disk("sdb", 1);
    let unknown = attachment(ANY, "whatever-0001");
    let results = look_all(
        std::slice::from_ref(&local),
        &handed_out("pv-1", &[1]),
        std::slice::from_ref(&unknown),
    );
    assert_eq!(matched(&results[0]), ("sdb", PUBLISH_PATH));
    // Of another volume, or of one that is not of mode Block.
    let results = look_all(
        std::slice::from_ref(&local),
        &handed_out("pv-2", &[1]),
        std::slice::from_ref(&unknown),
    );
    assert_eq!(results[0].reason(), reason::NO_DEVICE);
    let mut mounted = unknown.clone();
    mounted.volume.as_mut().unwrap().block_mode = false;
    let results = look_all(&[local], &handed_out("pv-1", &[1]), &[mounted]);
    assert_eq!(results[0].reason(), reason::NO_DEVICE);
    // Size and use are checked all the same.
    let mut small = disk("sdb", 1);
    small.bytes = GIB;
    let results = look_all(&[small], &handed_out("pv-1", &[1]), &[unknown]);
    assert_eq!(results[0].reason(), reason::MISMATCH);
}

#[test]
fn the_kubelet_and_the_disk_must_agree() {
    let other = ebs(2, "vol0ffffffffffffffff");
    // It hands out another disk than the one that says it is the volume.
    let devices = [ebs(1, SERIAL), disk("sdb", 3), other.clone()];
    for minor in [2, 3] {
        let results = look_all(&devices, &handed_out("pv-1", &[minor]), &[volume()]);
        refused(&results[0], reason::MISMATCH, "nvme1n1");
    }
    // It hands out one that says it is another volume, and no other is there.
    let results = look_all(&[other], &handed_out("pv-1", &[2]), &[volume()]);
    refused(&results[0], reason::MISMATCH, "vol0ffffffffffffffff");
    // It hands out what is gone, or two.
    let results = look_all(&[ebs(1, SERIAL)], &handed_out("pv-1", &[9]), &[volume()]);
    refused(&results[0], reason::MISMATCH, "259:9");
    let results = look_all(&devices, &handed_out("pv-1", &[1, 3]), &[volume()]);
    refused(&results[0], reason::AMBIGUOUS, "several devices");
    // It hands out one of two twins.
    let results = look_all(
        &[ebs(1, SERIAL), ebs(2, SERIAL)],
        &handed_out("pv-1", &[1]),
        &[volume()],
    );
    assert_eq!(results[0].reason(), reason::AMBIGUOUS);
    // Where they agree, what the disk says is on record, so that it stays when the pod goes.
    let results = look_all(&[ebs(1, SERIAL)], &handed_out("pv-1", &[1]), &[volume()]);
    assert_eq!(matched(&results[0]), ("nvme1n1", "ebs-nvme-serial"));
}

#[test]
fn a_disk_that_pods_use_as_another_volume_is_refused() {
    let results = look_all(&[ebs(1, SERIAL)], &handed_out("pv-of-nobody", &[1]), &[volume()]);
    refused(&results[0], reason::MISMATCH, "pv-of-nobody");
    // Also where that volume's attachment is refused for itself.
    let other = named(attachment(ANY, "whatever-0001"), "other");
    let published = handed_out("pv-other", &[1, 2]);
    let results = look_all(&[ebs(1, SERIAL), disk("sdb", 2)], &published, &[volume(), other]);
    assert_eq!(results[0].reason(), reason::AMBIGUOUS);
    assert_eq!(results[1].reason(), reason::AMBIGUOUS);
}

#[test]
fn what_a_refused_attachment_may_mean_is_nobody_elses() {
    // The kubelet and the disks disagree about the first, so one of its two disks is taken for the other.
    let both = [named(volume(), "first"), named(volume(), "second")];
    let devices = [ebs(1, SERIAL), disk("sdb", 2)];
    let results = look_all(&devices, &handed_out("pv-first", &[2]), &both);
    assert_eq!(results[0].reason(), reason::MISMATCH);
    refused(&results[1], reason::AMBIGUOUS, "first");
}

#[test]
fn a_virtual_machine_without_names_for_its_disks_is_told_what_to_set() {
    let attachment = with_metadata(
        attachment("csi.vsphere.vmware.com", "cns"),
        "diskUUID",
        "6000C298-595b-f457-5739-e9105b2c0c2d",
    );
    refused(
        &look(&[scsi(1, "VMware", "Virtual disk", "")], &attachment),
        reason::NO_DEVICE,
        "disk.EnableUUID",
    );
    let named = look(&[with_wwn(1, "6000c298595bf4575739e9105b2c0c2e")], &attachment);
    assert!(!named.message().contains("EnableUUID"), "{named:?}");
}

#[test]
fn a_given_world_wide_name_must_be_the_disks() {
    let target = "iqn.2003-01.org.example:disk-1";
    let attachment = with_attribute(attachment("iscsi.csi.k8s.io", "volume-1"), "iqn", target);
    let attachment = with_attribute(attachment, "lun", "0");
    let mut device = iscsi(1, target, 0);
    device.wwid = Some("naa.60014051234567890abcdef012345678".into());
    matched(&look(std::slice::from_ref(&device), &attachment));
    let right = with_attribute(attachment.clone(), "wwn", "0x60014051234567890ABCDEF012345678");
    matched(&look(std::slice::from_ref(&device), &right));
    let wrong = with_attribute(attachment, "wwn", "0x60014051234567890ABCDEF012345679");
    assert_eq!(look(&[device], &wrong).reason(), reason::NO_DEVICE);
}

#[test]
fn many_disks_and_attachments_are_told_apart() {
    let uuid = |at: u32| format!("{at:08x}-94c1-4f0e-8f6b-2b7c1d0e9a11");
    let devices: Vec<_> = (0..500)
        .map(|at| {
            let mut device = virtio(at, &uuid(at)[..20]);
            let link = |kind: &str| format!("/dev/disk/by-id/{kind}-{}", uuid(at)).into();
            device.links = vec![link("virtio"), link("wwn"), link("scsi")];
            device
        })
        .collect();
    // Half of them are there.
    let attachments: Vec<_> = (0..100)
        .map(|at| named(attachment(ANY, &uuid(at * 10)), &at.to_string()))
        .collect();
    let results = look_all(&devices, &Published::new(), &attachments);
    let count = results.iter().filter(|result| result.matched().is_some()).count();
    assert_eq!(count, 50);
}
