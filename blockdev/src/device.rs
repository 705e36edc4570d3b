//! A block device of the node, as kernel and udev describe it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

/// Major and minor number: what the kernel itself tells devices apart by, until the next boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct DeviceNumber {
    /// Which driver.
    pub major: u32,
    /// Which of its devices.
    pub minor: u32,
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl From<DeviceNumber> for String {
    fn from(number: DeviceNumber) -> Self {
        number.to_string()
    }
}

/// What is not a device number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a device number, which looks like 8:16")]
pub struct ParseDeviceNumberError(String);

impl FromStr for DeviceNumber {
    type Err = ParseDeviceNumberError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.trim().split_once(':');
        let number = parts.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        let (major, minor) = number.ok_or_else(|| ParseDeviceNumberError(text.to_owned()))?;
        Ok(Self { major, minor })
    }
}

impl TryFrom<String> for DeviceNumber {
    type Error = ParseDeviceNumberError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// What kind of device it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// A whole disk.
    Disk,
    /// A part of a disk.
    Partition,
    /// A loop device.
    Loop,
    /// A logical volume.
    Lvm,
    /// An encrypted device.
    Crypt,
    /// A disk with several paths to it.
    Multipath,
    /// Another device-mapper device.
    DeviceMapper,
    /// A software RAID.
    Md,
    /// A ZFS volume. Never offered: a pool on a volume of a pool deadlocks.
    Zvol,
    /// A file that stands in for a disk.
    Sparse,
    /// Something else, such as a RAM disk or an optical drive. Never offered.
    Other,
}

/// What an NVMe namespace says of itself. Fields that the device leaves zero are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Nvme {
    /// The number of the namespace.
    pub namespace: Option<u32>,
    /// The UUID of the namespace, lower case with dashes.
    pub uuid: Option<String>,
    /// The NGUID of the namespace, 32 hex digits, lower case.
    pub nguid: Option<String>,
    /// The EUI-64 of the namespace, 16 hex digits, lower case.
    pub eui64: Option<String>,
    /// The NQN of the subsystem.
    pub subsystem_nqn: Option<String>,
    /// How the controller is reached: `pcie`, `tcp` and so on.
    pub transport: Option<String>,
}

/// What kind of thing a designator of SCSI page 83 is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DesignatorKind {
    /// Chosen by the vendor.
    VendorSpecific,
    /// A T10 vendor id with something of the vendor's own.
    T10,
    /// An EUI-64 or one of its extensions.
    Eui64,
    /// A World Wide Name.
    Naa,
    /// A name, such as an iSCSI name.
    ScsiName,
    /// Something newer or about a port and not the unit.
    Other(u8),
}

/// One designator of the logical unit in SCSI page 83.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Designator {
    /// What it is.
    pub kind: DesignatorKind,
    /// Its value: lower-case hex digits if it is binary, the trimmed text if not.
    pub value: String,
}

/// What a SCSI unit says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scsi {
    /// Host, channel, target and unit number.
    pub address: Option<[u64; 4]>,
    /// The unit serial number of page 80.
    pub page80: Option<String>,
    /// The designators of the logical unit in page 83.
    pub page83: Vec<Designator>,
}

/// What the device mapper says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceMapper {
    /// The name of the mapping.
    pub name: String,
    /// The UUID of the mapping; whoever made it may have given none.
    pub uuid: Option<String>,
}

/// What is behind a loop device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Loop {
    /// The file.
    pub file: Utf8PathBuf,
    /// Where in the file it begins.
    pub offset: u64,
}

/// Where a partition is in its disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Partition {
    /// Its number in the table.
    pub number: u32,
    /// Where it begins, in bytes.
    pub start: u64,
    /// Its type: a GUID in lower case, or an MBR type such as `0x83`. Known from udev or the table alone.
    pub type_id: Option<String>,
    /// Its UUID in the table. Contents, and so no identity.
    pub uuid: Option<String>,
}

/// Where a device, or a file system on it, is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    /// The mount point.
    pub point: Utf8PathBuf,
    /// The type of the file system; `None` if the device node itself is bound there, as a kubelet does for volumes of
    /// mode Block.
    pub file_system: Option<String>,
}

/// A block device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// The kernel's name for it, which may be another after the next boot.
    pub name: String,
    /// Its node, by the kernel's name.
    pub path: Utf8PathBuf,
    /// Its number.
    pub number: DeviceNumber,
    /// Which of all disks since the boot it is: a number that is never used twice, where the kernel has it (5.15).
    pub sequence: Option<u64>,
    /// What kind of device it is.
    pub kind: Kind,
    /// Its size.
    pub bytes: u64,
    /// What it can be addressed by.
    pub logical_sector: Option<u32>,
    /// What it writes at once.
    pub physical_sector: Option<u32>,
    /// Whether it has turning platters.
    pub rotational: Option<bool>,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// Whether it is an optical drive, a floppy or the like.
    pub removable: bool,
    /// Whether it has zones that must be written in order, which ZFS cannot.
    pub zoned: bool,
    /// The kernel subsystem of the hardware: `virtio`, `scsi`, `nvme`, `mmc`, `xen`…
    pub bus: Option<String>,
    /// The maker.
    pub vendor: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The firmware.
    pub firmware: Option<String>,
    /// The serial number as the hardware has it, trimmed. Bytes that are no visible ASCII are written `\xNN`.
    pub serial: Option<String>,
    /// The World Wide Name as the kernel has it (sysfs `wwid`), such as `naa.5000c500a1b2c3d4`. The kernel makes one up
    /// where there is none (`t10.…`, `nvme.…`): read it as text, not as proof.
    pub wwid: Option<String>,
    /// What NVMe adds.
    pub nvme: Option<Nvme>,
    /// What SCSI adds.
    pub scsi: Option<Scsi>,
    /// What the device mapper adds.
    pub device_mapper: Option<DeviceMapper>,
    /// The level of a software RAID.
    pub md_level: Option<String>,
    /// The UUID of a software RAID.
    pub md_uuid: Option<String>,
    /// What is behind a loop device.
    pub backing: Option<Loop>,
    /// Where a partition is.
    pub partition: Option<Partition>,
    /// The kernel's name of the disk it is a part of.
    pub parent: Option<String>,
    /// The kernel's names of its partitions.
    pub partitions: Vec<String>,
    /// The kernel's names of the devices that are built on it.
    pub holders: Vec<String>,
    /// The kernel's names of the devices it is built on.
    pub slaves: Vec<String>,
    /// The links to it under /dev/disk, sorted.
    pub links: Vec<Utf8PathBuf>,
    /// Where it is mounted.
    pub mounts: Vec<Mount>,
    /// Whether it is swapped to.
    pub swap: bool,
    /// Who hands it to other machines, such as `nvmet:<subsystem>`.
    pub exports: Vec<String>,
    /// What udev's database says. `None` if udev does not know the device (yet), or is not there.
    pub udev: Option<BTreeMap<String, String>>,
}

impl Device {
    /// A device of which nothing is known but this.
    #[must_use]
    pub fn new(name: &str, number: DeviceNumber, kind: Kind, bytes: u64) -> Self {
        Self {
            name: name.to_owned(),
            path: Utf8PathBuf::from("/dev").join(name),
            number,
            sequence: None,
            kind,
            bytes,
            logical_sector: None,
            physical_sector: None,
            rotational: None,
            read_only: false,
            removable: false,
            zoned: false,
            bus: None,
            vendor: None,
            model: None,
            firmware: None,
            serial: None,
            wwid: None,
            nvme: None,
            scsi: None,
            device_mapper: None,
            md_level: None,
            md_uuid: None,
            backing: None,
            partition: None,
            parent: None,
            partitions: Vec::new(),
            holders: Vec::new(),
            slaves: Vec::new(),
            links: Vec::new(),
            mounts: Vec::new(),
            swap: false,
            exports: Vec::new(),
            udev: None,
        }
    }

    /// What udev says of `key`, if it says something.
    #[must_use]
    pub fn udev(&self, key: &str) -> Option<&str> {
        let value = self.udev.as_ref()?.get(key)?;
        (!value.is_empty()).then_some(value)
    }
}
