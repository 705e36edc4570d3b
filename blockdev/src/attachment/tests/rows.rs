//! For every row of the table: a disk that is taken, and one like it that is not.

use cstor_api::names::reason;

use super::*;
use crate::attachment::PUBLISH_PATH;
use crate::attachment::rule::{Drivers, Field, Need, Source};
use crate::attachment::rules::RULES;

/// An example of a row.
struct Example {
    method: &'static str,
    attachment: Attachment,
    /// The volume. `None` for a row that proves nothing.
    taken: Option<Device>,
    /// Not the volume.
    not: Vec<Device>,
}

const UUID: &str = "3b1f8a52-94c1-4f0e-8f6b-2b7c1d0e9a11";
const OTHER_UUID: &str = "3b1f8a52-94c1-4f0e-8f6b-2b7c1d0e9a12";
const DASHLESS: &str = "3b1f8a5294c14f0e8f6b2b7c1d0e9a11";
const OTHER_DASHLESS: &str = "3b1f8a5294c14f0e8f6b2b7c1d0e9a12";
const IQN: &str = "iqn.2003-01.org.example:disk-1";

fn google_nvme(minor: u32, name: &str) -> Device {
    let link = format!("/dev/disk/by-id/google-{name}");
    with_record(
        nvme(minor, "nvme_card-pd", "nvme_card-pd"),
        &[&link],
        &[("ID_SERIAL_SHORT", name)],
    )
}

fn google(place: &str) -> Attachment {
    attachment(
        "pd.csi.storage.gke.io",
        &format!("projects/p/{place}/disks/pvc-1234"),
    )
}

fn azure_disk() -> Attachment {
    let handle = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/pvc-1";
    with_metadata(attachment("disk.csi.azure.com", handle), "LUN", "3")
}

fn example(method: &'static str) -> Option<Example> {
    let zonal = "zones/europe-west1-b";
    let regional = "regions/europe-west1";
    let (attachment, taken, not) = match method {
        "ebs-nvme-serial" => (
            attachment("ebs.csi.aws.com", "vol-0a1b2c3d4e5f60718"),
            Some(ebs(1, "vol0a1b2c3d4e5f60718")),
            vec![ebs(2, "vol0a1b2c3d4e5f60719"), virtio(3, "vol0a1b2c3d4e5f60718")],
        ),
        "ebs-xen" => {
            let mut xen = disk("xvdba", 1);
            xen.bus = Some("xen".into());
            let attachment = attachment("ebs.csi.aws.com", "vol-0a1b2c3d4e5f60718");
            (
                with_metadata(attachment, "devicePath", "/dev/xvdba"),
                None,
                vec![xen],
            )
        }
        "gce-scsi-name" => (
            google(zonal),
            Some(scsi(1, "Google", "PersistentDisk", "pvc-1234")),
            vec![
                scsi(2, "Google", "PersistentDisk", "pvc-1234_regional"),
                scsi(3, "Google", "PersistentDisk", "pvc-12345"),
                scsi(4, "Other", "PersistentDisk", "pvc-1234"),
                scsi(5, "Google", "EphemeralDisk", "pvc-1234"),
            ],
        ),
        "gce-scsi-regional-name" => (
            google(regional),
            Some(scsi(1, "Google", "PersistentDisk", "pvc-1234_regional")),
            vec![
                scsi(2, "Google", "PersistentDisk", "pvc-1234"),
                scsi(3, "Google", "PersistentDisk", "pvc-12345_regional"),
            ],
        ),
        "gce-nvme-name" => {
            // The record of the disk that had this name before.
            let stale = stale(google_nvme(3, "pvc-1234"));
            // udev's word alone, and the link's.
            let mut no_link = google_nvme(4, "pvc-1234");
            no_link.links.clear();
            // A link that udev knows nothing of, as one that was left behind.
            let mut left_behind = google_nvme(7, "pvc-1234");
            let record = left_behind.udev.as_mut().unwrap();
            record.insert("DEVLINKS".into(), "/dev/disk/by-diskseq/107".into());
            // An old udev says nothing of which disk its record is.
            let mut undated = google_nvme(8, "pvc-1234");
            let record = undated.udev.as_mut().unwrap();
            record.insert("DEVLINKS".into(), "/dev/disk/by-id/google-pvc-1234".into());
            let mut no_name = google_nvme(5, "pvc-1234");
            no_name.udev.as_mut().unwrap().remove("ID_SERIAL_SHORT");
            let other_namespace = with_record(
                google_nvme(6, "pvc-1234"),
                &["/dev/disk/by-id/google-pvc-1234"],
                &[("ID_SERIAL_SHORT", "pvc-1234"), ("ID_NSID", "2")],
            );
            let not = vec![
                google_nvme(2, "pvc-1234_regional"),
                stale,
                no_link,
                no_name,
                other_namespace,
                left_behind,
                undated,
            ];
            (google(zonal), Some(google_nvme(1, "pvc-1234")), not)
        }
        "gce-nvme-regional-name" => (
            google(regional),
            Some(google_nvme(1, "pvc-1234_regional")),
            vec![google_nvme(2, "pvc-1234")],
        ),
        "azure-scsi-lun" => (
            azure_disk(),
            Some(azure(1, 5, 3)),
            vec![
                azure(2, 5, 4),
                azure(3, 0, 3),
                azure(4, 3, 3),
                with_record(azure(5, 5, 3), &["/dev/disk/azure/resource"], &[]),
                scsi(3, "QEMU", "HARDDISK", "x"),
            ],
        ),
        "azure-scsi-lun-link" => {
            let stale = stale(with_record(azure(3, 1, 3), &["/dev/disk/azure/scsi1/lun3"], &[]));
            (
                azure_disk(),
                Some(with_record(azure(1, 1, 3), &["/dev/disk/azure/scsi1/lun3"], &[])),
                vec![
                    // The link says one, the kernel the other.
                    with_record(azure(2, 1, 4), &["/dev/disk/azure/scsi1/lun3"], &[]),
                    with_record(azure(4, 1, 3), &["/dev/disk/azure/scsi1/lun4"], &[]),
                    with_record(azure(5, 0, 3), &["/dev/disk/azure/scsi0/lun3"], &[]),
                    stale,
                ],
            )
        }
        "azure-nvme-namespace" => (
            azure_disk(),
            Some(azure_nvme(1, 5)),
            vec![azure_nvme(2, 3), azure_nvme(3, 4), {
                let mut local = azure_nvme(4, 5);
                local.model = Some("Microsoft NVMe Direct Disk v2".into());
                local
            }],
        ),
        "vsphere-wwn" => (
            with_metadata(
                attachment("csi.vsphere.vmware.com", "0d3a1c44-8c2a-4f58-a8ce-8f1b3f9a2b11"),
                "diskUUID",
                "6000C298-595b-f457-5739-e9105b2c0c2d",
            ),
            Some(with_wwn(1, "6000c298595bf4575739e9105b2c0c2d")),
            vec![with_wwn(2, "6000c298595bf4575739e9105b2c0c2e")],
        ),
        "cinder-serial" => (
            attachment("cinder.csi.openstack.org", UUID),
            Some(scsi(1, "QEMU", "QEMU HARDDISK", UUID)),
            vec![
                scsi(2, "QEMU", "QEMU HARDDISK", OTHER_UUID),
                virtio(3, &UUID[..19]),
            ],
        ),
        "cinder-serial-20" => (
            attachment("cinder.csi.openstack.org", UUID),
            Some(virtio(1, &UUID[..20])),
            vec![
                virtio(2, &UUID[..19]),
                virtio(3, &UUID[..21]),
                virtio(4, &UUID[1..21]),
            ],
        ),
        "cinder-wwn" => (
            attachment("cinder.csi.openstack.org", UUID),
            Some(with_wwn(1, DASHLESS)),
            vec![with_wwn(2, OTHER_DASHLESS)],
        ),
        "hetzner-serial" => (
            attachment("csi.hetzner.cloud", "1012345"),
            Some(scsi(1, "HC", "Volume", "1012345")),
            vec![
                scsi(2, "HC", "Volume", "10123456"),
                scsi(3, "HC", "Volume", "101234"),
                scsi(4, "QEMU", "Volume", "1012345"),
            ],
        ),
        "digitalocean-name" => (
            with_metadata(
                attachment("dobs.csi.digitalocean.com", UUID),
                "dobs.csi.digitalocean.com/volume-name",
                "pvc-77",
            ),
            Some(scsi(1, "DO", "Volume", "pvc-77")),
            vec![scsi(2, "DO", "Volume", "pvc-7"), scsi(3, "DO", "Volume", UUID)],
        ),
        "linode-label" => (
            attachment("linodebs.csi.linode.com", "98765-pvc6a1f-2"),
            Some(scsi(1, "Linode", "Volume", "pvc6a1f-2")),
            vec![
                scsi(2, "Linode", "Volume", "98765-pvc6a1f-2"),
                scsi(3, "Linode", "Volume", "2"),
                scsi(4, "Linode", "Volume", "PVC6A1F-2"),
            ],
        ),
        "rbd" => {
            let mut rbd = disk("rbd0", 1);
            rbd.bus = Some("rbd".into());
            (
                attachment("rook-ceph.rbd.csi.ceph.com", "0001-0009-rook-ceph-1"),
                None,
                vec![rbd],
            )
        }
        "nvme-namespace-uuid" => (
            with_attribute(
                attachment("nvmf.csi.k8s.io", "volume-1"),
                "deviceUUID",
                &UUID.to_uppercase(),
            ),
            Some(fabric(1, UUID)),
            vec![fabric(2, OTHER_UUID), {
                let mut local = fabric(3, UUID);
                local.nvme.as_mut().unwrap().transport = Some("pcie".into());
                local
            }],
        ),
        "iscsi-target-lun" => {
            let attachment = with_attribute(attachment("iscsi.csi.k8s.io", "volume-1"), "iqn", IQN);
            let stale = stale(iscsi(4, IQN, 2));
            // The link says one, the kernel the other.
            let mut moved = iscsi(5, IQN, 2);
            moved.scsi.as_mut().unwrap().address = Some([7, 0, 0, 3]);
            (
                with_attribute(attachment, "lun", "2"),
                Some(iscsi(1, IQN, 2)),
                vec![
                    iscsi(2, IQN, 3),
                    iscsi(3, "iqn.2003-01.org.example:disk-11", 2),
                    stale,
                    moved,
                ],
            )
        }
        "handle-serial" => (
            attachment("any.csi.example.org", "cluster/pool/Volume-00017"),
            Some(nvme(1, "Any", "volume_00017")),
            vec![
                nvme(2, "Any", "volume-000171"),
                nvme(3, "Any", "pool-volume-00017"),
                nvme(4, "Any", "0017"),
            ],
        ),
        "handle-serial-20" => (
            attachment("any.csi.example.org", UUID),
            Some(virtio(1, &UUID[..20])),
            vec![virtio(2, &UUID[..19]), nvme(3, "Any", &UUID[..20])],
        ),
        "handle-serial-20-dashless" => (
            attachment("any.csi.example.org", UUID),
            Some(virtio(1, &DASHLESS[..20])),
            vec![virtio(2, &DASHLESS[..19]), virtio(3, &DASHLESS[..21])],
        ),
        _ => return None,
    };
    Some(Example {
        method,
        attachment,
        taken,
        not,
    })
}

#[test]
fn every_row_takes_its_disk_and_no_other() {
    for rule in RULES {
        let Example {
            method,
            attachment,
            taken,
            not,
        } = example(rule.method).unwrap_or_else(|| panic!("{} has no example", rule.method));
        assert!(!not.is_empty(), "{method} refuses nothing");
        for other in &not {
            let result = look(std::slice::from_ref(other), &attachment);
            assert_eq!(
                result.reason(),
                reason::NO_DEVICE,
                "{method}: {other:?}: {result:?}"
            );
        }
        assert_eq!(look(&not, &attachment).reason(), reason::NO_DEVICE, "{method}");
        let Some(taken) = taken else {
            assert!(
                rule.proof.is_empty(),
                "{method} proves something and takes nothing"
            );
            refused(&look(&not, &attachment), reason::NO_DEVICE, rule.advice);
            // The kubelet's word is as good for these as for others.
            let all = look_all(&not, &handed_out("pv-1", &[1]), std::slice::from_ref(&attachment));
            assert_eq!(matched(&all[0]).1, PUBLISH_PATH, "{method}");
            continue;
        };
        assert_eq!(
            matched(&look(std::slice::from_ref(&taken), &attachment)),
            (taken.name.as_str(), method)
        );
        let all: Vec<_> = not.iter().cloned().chain([taken.clone()]).collect();
        assert_eq!(matched(&look(&all, &attachment)), (taken.name.as_str(), method));
        // A twin of it, and nobody can tell.
        let mut twin = taken.clone();
        twin.name = "twin".into();
        twin.number = number(77);
        refused(&look(&[taken, twin], &attachment), reason::AMBIGUOUS, "twin");
    }
}

#[test]
fn every_row_refuses_an_attachment_that_says_nothing() {
    for rule in RULES {
        let mut example = example(rule.method).unwrap();
        example.attachment.metadata.clear();
        let volume = example.attachment.volume.as_mut().unwrap();
        volume.attributes.clear();
        volume.handle.clear();
        let devices: Vec<_> = example.not.into_iter().chain(example.taken).collect();
        let result = look(&devices, &example.attachment);
        assert_eq!(result.reason(), reason::NO_DEVICE, "{}: {result:?}", rule.method);
    }
}

#[test]
fn the_table_is_sound() {
    let mut methods: Vec<_> = RULES.iter().map(|rule| rule.method).collect();
    methods.sort_unstable();
    methods.dedup();
    assert_eq!(methods.len(), RULES.len(), "two rows have one name");
    for rule in RULES {
        let method = rule.method;
        // What udev says is believed of the disk it was said of.
        let from_udev = |field: &Field| {
            matches!(
                field,
                Field::Udev(_) | Field::Link(_) | Field::IscsiTarget | Field::IscsiLun
            )
        };
        let udev = rule
            .proof
            .iter()
            .any(|compare| compare.says.iter().any(from_udev));
        let current = rule.needs.iter().any(|need| matches!(need, Need::CurrentRecord));
        assert!(
            !udev || current,
            "{method} takes udev's word without asking of which disk"
        );
        // Where a path is expected, it is nobody's word.
        let path = |source: Source| match source {
            Source::Handle => false,
            Source::Metadata(keys) | Source::Given(keys) => {
                keys.iter().any(|key| key.eq_ignore_ascii_case("devicePath"))
            }
        };
        assert!(
            !rule.proof.iter().any(|compare| path(compare.expected.from)),
            "{method}"
        );
        assert!(
            rule.proof.first().is_none_or(|compare| !compare.if_given),
            "{method}: the first comparison is looked up"
        );
        assert!(
            !rule.proof.is_empty() || !rule.advice.is_empty(),
            "{method} says neither what nor why not"
        );
        assert!(
            method
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        );
        if let Drivers::Named(names) = rule.drivers {
            assert!(!names.is_empty(), "{method} is for nobody");
        }
    }
}

#[test]
fn the_page_for_people_has_every_row() {
    let page = include_str!("../../../../docs/attachments.md");
    for rule in RULES {
        assert!(
            page.contains(&format!("`{}`", rule.method)),
            "{} is not in docs/attachments.md",
            rule.method
        );
    }
}
