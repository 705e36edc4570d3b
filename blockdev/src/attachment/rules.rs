//! The table of drivers. See [`RULES`].

use super::rule::{Compare, Drivers, Expected, Field, Form, Need, Rule, Source, Step};

/// Where a disk says its name: where drivers for virtio, NVMe and SCSI show a serial number.
const NAMES: &[Field] = &[Field::Serial, Field::Page80, Field::Page83Name];

const fn expect(from: Source, steps: &'static [Step], says: &'static [Field], form: Form) -> Compare {
    Compare {
        expected: Expected { from, steps },
        says,
        form,
        if_given: false,
    }
}

const EBS: Drivers = Drivers::Named(&["ebs.csi.aws.com"]);
const GCE: Drivers = Drivers::Named(&["pd.csi.storage.gke.io"]);
const AZURE: Drivers = Drivers::Named(&["disk.csi.azure.com"]);
const CINDER: Drivers = Drivers::Named(&["cinder.csi.openstack.org"]);

/// The unit number that the driver has asked Azure for.
const LUN: Source = Source::Metadata(&["LUN", "lun"]);

/// What Azure's rules for udev call the disks that are not data disks.
const AZURE_OWN: &[&str] = &[
    "/dev/disk/azure/root",
    "/dev/disk/azure/resource",
    "/dev/disk/azure/os",
    "/dev/disk/azure/local",
    "/dev/disk/azure/scsi0/",
];

const AZURE_RULES: &str = "Azure's own disks and data disks are told apart by the links of azure-vm-utils or walinuxagent \
    under /dev/disk/azure: install one of them on the node, or use the volume in a pod with volumeMode Block";

const WAIT: &str =
    "If the disk is not there although the cloud says it is attached, look at the node's kernel log";

/// The rows.
///
/// For an attachment, all rows that name its driver are tried, or all for others if none does; the disks found are put
/// together, so that two rows that find two disks make the result ambiguous.
pub const RULES: &[Rule] = &[
    Rule {
        method: "ebs-nvme-serial",
        drivers: EBS,
        needs: &[Need::Bus("nvme")],
        proof: &[expect(
            Source::Handle,
            &[Step::StripDashes, Step::Distinctive],
            &[Field::Serial],
            Form::AnyCase,
        )],
        decisive: true,
        advice: WAIT,
        silent: "",
    },
    Rule {
        method: "ebs-xen",
        drivers: EBS,
        needs: &[Need::Bus("xen")],
        proof: &[],
        decisive: false,
        advice: "Disks of Xen instances do not say which volume they are, and the path in the attachment is only the one that \
            was asked for: use a Nitro instance, or use the volume in a pod with volumeMode Block",
        silent: "",
    },
    Rule {
        method: "gce-scsi-name",
        drivers: GCE,
        needs: &[Need::Vendor("Google"), Need::Model("PersistentDisk")],
        proof: &[expect(
            Source::Handle,
            &[Step::Inside("zones"), Step::LastPathElement],
            &[Field::Page83Name],
            Form::Exact,
        )],
        decisive: true,
        advice: WAIT,
        silent: "",
    },
    Rule {
        method: "gce-scsi-regional-name",
        drivers: GCE,
        needs: &[Need::Vendor("Google"), Need::Model("PersistentDisk")],
        proof: &[expect(
            Source::Handle,
            &[
                Step::Inside("regions"),
                Step::LastPathElement,
                Step::Append("_regional"),
            ],
            &[Field::Page83Name],
            Form::Exact,
        )],
        decisive: true,
        advice: WAIT,
        silent: "",
    },
    Rule {
        method: "gce-nvme-name",
        drivers: GCE,
        needs: &[
            Need::Bus("nvme"),
            Need::Model("nvme_card-pd"),
            Need::CurrentRecord,
        ],
        proof: &[
            expect(
                Source::Handle,
                &[Step::Inside("zones"), Step::LastPathElement],
                &[Field::Udev("ID_SERIAL_SHORT")],
                Form::Exact,
            ),
            expect(
                Source::Handle,
                &[Step::Inside("zones"), Step::LastPathElement],
                &[Field::Link("/dev/disk/by-id/google-")],
                Form::Exact,
            ),
        ],
        decisive: false,
        advice: WAIT,
        silent: GOOGLE_NVME_ID,
    },
    Rule {
        method: "gce-nvme-regional-name",
        drivers: GCE,
        needs: &[
            Need::Bus("nvme"),
            Need::Model("nvme_card-pd"),
            Need::CurrentRecord,
        ],
        proof: &[
            expect(
                Source::Handle,
                &[
                    Step::Inside("regions"),
                    Step::LastPathElement,
                    Step::Append("_regional"),
                ],
                &[Field::Udev("ID_SERIAL_SHORT")],
                Form::Exact,
            ),
            expect(
                Source::Handle,
                &[
                    Step::Inside("regions"),
                    Step::LastPathElement,
                    Step::Append("_regional"),
                ],
                &[Field::Link("/dev/disk/by-id/google-")],
                Form::Exact,
            ),
        ],
        decisive: false,
        advice: WAIT,
        silent: GOOGLE_NVME_ID,
    },
    Rule {
        method: "azure-scsi-lun",
        drivers: AZURE,
        needs: &[
            Need::Vendor("Msft"),
            Need::Model("Virtual Disk"),
            Need::HostAbove(3),
            Need::NoLink(AZURE_OWN),
        ],
        proof: &[expect(LUN, &[Step::Number], &[Field::ScsiLun], Form::Exact)],
        decisive: true,
        advice: AZURE_RULES,
        silent: "",
    },
    // The first hosts are those of Azure's own disks on some machines and the one of the data disks on others.
    Rule {
        method: "azure-scsi-lun-link",
        drivers: AZURE,
        needs: &[
            Need::Vendor("Msft"),
            Need::Model("Virtual Disk"),
            Need::NoLink(AZURE_OWN),
            Need::CurrentRecord,
        ],
        proof: &[
            expect(LUN, &[Step::Number], &[Field::ScsiLun], Form::Exact),
            expect(
                LUN,
                &[Step::Number],
                &[
                    Field::Link("/dev/disk/azure/scsi1/lun"),
                    Field::Link("/dev/disk/azure/data/by-lun/"),
                ],
                Form::Exact,
            ),
        ],
        decisive: false,
        advice: AZURE_RULES,
        silent: "",
    },
    // The first namespace is the disk of the operating system, and unit 0 the second.
    Rule {
        method: "azure-nvme-namespace",
        drivers: AZURE,
        needs: &[
            Need::Bus("nvme"),
            Need::Model("MSFT NVMe Accelerator"),
            Need::NoLink(AZURE_OWN),
        ],
        proof: &[expect(
            LUN,
            &[Step::Plus(2)],
            &[Field::NvmeNamespace],
            Form::Exact,
        )],
        decisive: true,
        advice: WAIT,
        silent: "",
    },
    Rule {
        method: "vsphere-wwn",
        drivers: Drivers::Named(&["csi.vsphere.vmware.com"]),
        needs: &[],
        proof: &[expect(
            Source::Metadata(&["diskUUID"]),
            &[Step::StripDashes, Step::Distinctive],
            &[Field::Wwn],
            Form::AnyCase,
        )],
        decisive: true,
        advice: WAIT,
        silent: "No disk of the node has a World Wide Name: set disk.EnableUUID to TRUE in the advanced settings of the \
            virtual machine, and restart it",
    },
    Rule {
        method: "cinder-serial",
        drivers: CINDER,
        needs: &[],
        proof: &[expect(Source::Handle, &[Step::Distinctive], NAMES, Form::AnyCase)],
        decisive: false,
        advice: WAIT,
        silent: "",
    },
    Rule {
        method: "cinder-serial-20",
        drivers: CINDER,
        needs: &[],
        proof: &[expect(
            Source::Handle,
            &[Step::Distinctive, Step::First20Bytes],
            NAMES,
            Form::AnyCase,
        )],
        decisive: false,
        advice: "",
        silent: "",
    },
    Rule {
        method: "cinder-wwn",
        drivers: CINDER,
        needs: &[],
        proof: &[expect(
            Source::Handle,
            &[Step::StripDashes, Step::Distinctive],
            &[Field::Wwn],
            Form::AnyCase,
        )],
        decisive: false,
        advice: "",
        silent: "",
    },
    Rule {
        method: "hetzner-serial",
        drivers: Drivers::Named(&["csi.hetzner.cloud"]),
        needs: &[Need::Vendor("HC"), Need::Model("Volume")],
        proof: &[expect(Source::Handle, &[], &[Field::Page80], Form::Exact)],
        decisive: true,
        advice: WAIT,
        silent: "",
    },
    Rule {
        method: "digitalocean-name",
        drivers: Drivers::Named(&["dobs.csi.digitalocean.com"]),
        needs: &[Need::Vendor("DO"), Need::Model("Volume")],
        proof: &[expect(
            Source::Metadata(&["dobs.csi.digitalocean.com/volume-name"]),
            &[],
            NAMES,
            Form::Exact,
        )],
        decisive: true,
        advice: WAIT,
        silent: "",
    },
    Rule {
        method: "linode-label",
        drivers: Drivers::Named(&["linodebs.csi.linode.com"]),
        needs: &[Need::Vendor("Linode"), Need::Model("Volume")],
        proof: &[expect(
            Source::Handle,
            &[Step::AfterFirstDash],
            NAMES,
            Form::Exact,
        )],
        decisive: false,
        advice: WAIT,
        silent: "",
    },
    Rule {
        method: "rbd",
        drivers: Drivers::Named(&["rbd.csi.ceph.com", "*.rbd.csi.ceph.com"]),
        needs: &[Need::Bus("rbd")],
        proof: &[],
        decisive: false,
        advice: "An RBD image is mapped when a pod uses the volume, and its disk does not say which volume it is: use the volume \
            in a pod with volumeMode Block",
        silent: "",
    },
    Rule {
        method: "nvme-namespace-uuid",
        drivers: Drivers::Others,
        needs: &[Need::Bus("nvme"), Need::Fabric],
        proof: &[expect(
            Source::Given(&["deviceUUID", "deviceID", "uuid", "nguid"]),
            &[Step::Without("uuid."), Step::Distinctive],
            &[Field::NvmeUuid, Field::NvmeNguid],
            Form::LettersAndDigits,
        )],
        decisive: false,
        advice: CONNECTS_LATE,
        silent: "",
    },
    Rule {
        method: "iscsi-target-lun",
        drivers: Drivers::Others,
        needs: &[Need::Bus("scsi"), Need::CurrentRecord],
        proof: &[
            expect(
                Source::Given(&["iqn", "targetIqn"]),
                &[Step::Distinctive],
                &[Field::IscsiTarget],
                Form::AnyCase,
            ),
            expect(
                Source::Given(&["lun"]),
                &[Step::Number],
                &[Field::IscsiLun],
                Form::Exact,
            ),
            expect(
                Source::Given(&["lun"]),
                &[Step::Number],
                &[Field::ScsiLun],
                Form::Exact,
            ),
            Compare {
                expected: Expected {
                    from: Source::Given(&["wwn", "wwid"]),
                    steps: &[Step::Without("naa."), Step::Without("0x")],
                },
                says: &[Field::Wwn],
                form: Form::LettersAndDigits,
                if_given: true,
            },
        ],
        decisive: false,
        advice: CONNECTS_LATE,
        silent: "",
    },
    Rule {
        method: "handle-serial",
        drivers: Drivers::Others,
        needs: &[],
        proof: &[expect(
            Source::Handle,
            &[Step::LastPathElement, Step::Distinctive],
            &[
                Field::Serial,
                Field::Page80,
                Field::Page83Name,
                Field::Wwn,
                Field::NvmeUuid,
                Field::NvmeNguid,
            ],
            Form::LettersAndDigits,
        )],
        decisive: false,
        advice: "If the driver names its disks in another way, use the volume in a pod with volumeMode Block; the kubelet then tells \
            which device it is",
        silent: "",
    },
    Rule {
        method: "handle-serial-20",
        drivers: Drivers::Others,
        needs: &[Need::Bus("virtio")],
        proof: &[expect(
            Source::Handle,
            &[Step::LastPathElement, Step::Distinctive, Step::First20Bytes],
            &[Field::Serial],
            Form::AnyCase,
        )],
        decisive: false,
        advice: "",
        silent: "",
    },
    Rule {
        method: "handle-serial-20-dashless",
        drivers: Drivers::Others,
        needs: &[Need::Bus("virtio")],
        proof: &[expect(
            Source::Handle,
            &[
                Step::LastPathElement,
                Step::StripDashes,
                Step::Distinctive,
                Step::First20Bytes,
            ],
            &[Field::Serial],
            Form::AnyCase,
        )],
        decisive: false,
        advice: "",
        silent: "",
    },
];

const GOOGLE_NVME_ID: &str = "The names of NVMe disks are made known by google_nvme_id of Google's guest packages: install them on \
    the node, or use the volume in a pod with volumeMode Block";

const CONNECTS_LATE: &str = "Drivers for network storage connect a disk only when a pod uses the volume";

/// The rows for a driver.
pub fn for_driver(driver: &str) -> impl Iterator<Item = &'static Rule> {
    let named = RULES.iter().any(|rule| rule.drivers.name(driver));
    RULES.iter().filter(move |rule| match rule.drivers {
        Drivers::Named(_) => rule.drivers.name(driver),
        Drivers::Others => !named,
    })
}
