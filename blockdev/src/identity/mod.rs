//! Identity: what tells a device from all others.
//!
//! An identity comes from what the hardware says of itself and from nothing else: not from a path, a kernel name or a
//! link, which change at a boot; not from what is written on the disk, which changes when it is used; not from its size,
//! which grows; and not from udev, whose database may be late or missing.
//!
//! A device may say several things of itself. [`candidates`] gives all that are fit to be an identity, the best first;
//! [`identify`] gives the best, which names a new object. An object is found again by any of them: a disk that does not
//! answer one question at one boot stays the disk it was.
//!
//! What is not fit, and why, is in [`unusable`]. A device of which nothing is fit has no identity, and is not offered:
//! [`Unidentified`] says what it said and what to do.
//!
//! # Versions
//!
//! The text of a scheme ends in its version. To change a rule, add a variant with the next version, put its candidate
//! where the old one is, and leave the old one at the end of [`candidates`]: objects with the old identity are found
//! again by it, keep their names, and get the new identity written into them. A version is never changed in place,
//! because the name of the object is a hash of it.
//!
//! # Caveats
//!
//! * Two devices with one identity are possible: paths to one disk, clones, serial numbers that somebody typed. Nothing
//!   here can tell which of them is meant. Whoever looks for the device of an object finds all of them, and uses none.
//! * LVM, LUKS and md UUIDs are what the kernel says of the assembled device, and come from what is on its members: a
//!   machine made from a copy of another machine's disks has the same.
//! * A slot is not a disk. Where the platform shows nothing but a slot ([`unusable::PER_NODE`]) another disk can come
//!   under the same identity. Whoever writes to a disk checks what is on it as well.

use std::fmt;

use cstor_api::openebs::Identity as Recorded;
use sha2::{Digest as _, Sha256};

use crate::device::{Designator, DesignatorKind, Device, Kind, Nvme, Scsi};

pub mod unusable;

/// What the names of BlockDevice objects begin with.
pub const PREFIX: &str = "blockdevice-";

/// How many bytes of the hash are in a name.
const HASH_BYTES: usize = 16;

/// What the kernel appends to the path of a loop device's file when the file was removed.
const DELETED: &str = " (deleted)";

/// Where an identity comes from, and by which version of the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// The UUID of an NVMe namespace.
    NvmeUuid,
    /// The NGUID of an NVMe namespace.
    NvmeNguid,
    /// The EUI-64 of an NVMe namespace.
    NvmeEui64,
    /// Model and serial number of the NVMe controller, number of the namespace.
    NvmeSerial,
    /// The same on this node.
    NvmeSerialNode,
    /// The World Wide Name of a SCSI unit.
    ScsiNaa,
    /// The EUI-64 of a SCSI unit.
    ScsiEui64,
    /// The T10 designator of a SCSI unit.
    ScsiT10,
    /// The same on this node.
    ScsiT10Node,
    /// Vendor, model and unit serial number of a SCSI unit.
    ScsiSerial,
    /// The same on this node.
    ScsiSerialNode,
    /// The serial number of a virtio disk.
    VirtioSerial,
    /// The card identification of an MMC.
    MmcCid,
    /// Bus, vendor, model and serial number of another disk.
    Serial,
    /// The UUID of a device-mapper device.
    DeviceMapper,
    /// The UUID of a software RAID.
    Md,
    /// The file behind a loop device of this node.
    LoopNode,
    /// A file of this node that stands in for a disk.
    SparseNode,
    /// The disk and the number of the partition.
    Partition,
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NvmeUuid => "nvme-uuid/v1",
            Self::NvmeNguid => "nvme-nguid/v1",
            Self::NvmeEui64 => "nvme-eui64/v1",
            Self::NvmeSerial => "nvme-serial/v1",
            Self::NvmeSerialNode => "nvme-serial-node/v1",
            Self::ScsiNaa => "scsi-naa/v1",
            Self::ScsiEui64 => "scsi-eui64/v1",
            Self::ScsiT10 => "scsi-t10/v1",
            Self::ScsiT10Node => "scsi-t10-node/v1",
            Self::ScsiSerial => "scsi-serial/v1",
            Self::ScsiSerialNode => "scsi-serial-node/v1",
            Self::VirtioSerial => "virtio-serial/v1",
            Self::MmcCid => "mmc-cid/v1",
            Self::Serial => "serial/v1",
            Self::DeviceMapper => "dm-uuid/v1",
            Self::Md => "md-uuid/v1",
            Self::LoopNode => "loop-node/v1",
            Self::SparseNode => "sparse-node/v1",
            Self::Partition => "partition/v1",
        })
    }
}

impl Scheme {
    /// Whether what it takes is unique on one node only.
    #[must_use]
    pub fn is_of_one_node(self) -> bool {
        matches!(
            self,
            Self::NvmeSerialNode
                | Self::ScsiT10Node
                | Self::ScsiSerialNode
                | Self::LoopNode
                | Self::SparseNode
        )
    }
}

/// What tells a device from all others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Where it comes from.
    pub scheme: Scheme,
    /// What was said there.
    pub value: String,
}

impl Identity {
    /// The name of a new object for the device. An object that is there already keeps the name it has.
    #[must_use]
    pub fn object_name(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.scheme.to_string());
        // Neither half can hold a NUL, so no two identities hash the same bytes.
        hash.update([0]);
        hash.update(&self.value);
        let mut name = String::from(PREFIX);
        for byte in hash.finalize().iter().take(HASH_BYTES) {
            name.push_str(&format!("{byte:02x}"));
        }
        name
    }

    /// Whether this is what an object has recorded.
    #[must_use]
    pub fn is(&self, recorded: &Recorded) -> bool {
        recorded.scheme == self.scheme.to_string() && recorded.value == self.value
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.scheme, self.value)
    }
}

impl From<&Identity> for Recorded {
    fn from(identity: &Identity) -> Self {
        Self {
            scheme: identity.scheme.to_string(),
            value: identity.value.clone(),
        }
    }
}

/// Something the device said that is no identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// What it is, such as `the EUI-64`.
    pub what: &'static str,
    /// What was said.
    pub value: String,
    /// Why it is no identity, as the end of a sentence.
    pub why: &'static str,
}

/// Why a device has no identity. The text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unidentified {
    /// Such devices have none.
    #[error("{0}")]
    Kind(&'static str),
    /// A partition of a disk that has none, or that is not known.
    #[error("the disk it is a part of has no identity: {0}")]
    Parent(Box<Unidentified>),
    /// It says nothing that tells it from others.
    #[error("{}; {advice}", sentence(.rejected))]
    Nothing {
        /// What it said.
        rejected: Vec<Rejected>,
        /// What to do.
        advice: &'static str,
    },
}

fn sentence(rejected: &[Rejected]) -> String {
    if rejected.is_empty() {
        return "it says nothing that tells it from other devices".to_owned();
    }
    let parts: Vec<_> = rejected
        .iter()
        .map(|Rejected { what, value, why }| format!("{what} {value:?} {why}"))
        .collect();
    parts.join("; ")
}

/// What tells the device from all others.
///
/// `parent` is the disk of a partition; `node` is the name of the Node, for what is only unique there.
pub fn identify(device: &Device, parent: Option<&Device>, node: &str) -> Result<Identity, Unidentified> {
    said(device, parent, node)?.best()
}

/// Everything that could be the device's identity, the best first. An object that has one of them recorded is the
/// device's, unless another device has it as well.
#[must_use]
pub fn candidates(device: &Device, parent: Option<&Device>, node: &str) -> Vec<Identity> {
    said(device, parent, node).map_or_else(|_| Vec::new(), |said| said.fit)
}

/// What a device said, sorted out.
struct Said {
    fit: Vec<Identity>,
    rejected: Vec<Rejected>,
    advice: &'static str,
}

impl Said {
    fn nothing(advice: &'static str) -> Self {
        Self {
            fit: Vec::new(),
            rejected: Vec::new(),
            advice,
        }
    }

    fn best(self) -> Result<Identity, Unidentified> {
        let Self {
            fit,
            rejected,
            advice,
        } = self;
        fit.into_iter()
            .next()
            .ok_or(Unidentified::Nothing { rejected, advice })
    }

    /// Takes `said` as an identity of `scheme` if it passes `check`.
    fn take(
        &mut self,
        scheme: Scheme,
        what: &'static str,
        said: &str,
        check: fn(&str) -> Result<(), &'static str>,
        value: impl FnOnce() -> String,
    ) {
        match check(said) {
            Ok(()) => {
                let value = value();
                self.fit.push(Identity { scheme, value });
            }
            Err(why) => self.reject(what, said, why),
        }
    }

    fn reject(&mut self, what: &'static str, value: &str, why: &'static str) {
        let value = value.to_owned();
        self.rejected.push(Rejected { what, value, why });
    }
}

fn said(device: &Device, parent: Option<&Device>, node: &str) -> Result<Said, Unidentified> {
    let mut said = Said::nothing(unusable::advice(device));
    match device.kind {
        Kind::Disk => match (&device.nvme, &device.scsi) {
            (Some(nvme), _) => of_nvme(&mut said, device, nvme, node),
            (None, Some(scsi)) => of_scsi(&mut said, device, scsi, node),
            (None, None) => of_serial(&mut said, device),
        },
        Kind::Partition => of_partition(&mut said, device, parent, node)?,
        Kind::Lvm | Kind::Crypt | Kind::Multipath | Kind::DeviceMapper => of_device_mapper(&mut said, device),
        Kind::Md => {
            if let Some(uuid) = &device.md_uuid {
                let value = || lower_digits(uuid);
                said.take(Scheme::Md, "the UUID", uuid, unusable::uuid, value);
            }
        }
        Kind::Loop => of_loop(&mut said, device, node),
        Kind::Sparse => {
            let file = device
                .backing
                .as_ref()
                .map_or(&device.path, |backing| &backing.file);
            let value = joined(&[node, file.as_str()]);
            let scheme = Scheme::SparseNode;
            said.fit.push(Identity { scheme, value });
        }
        Kind::Zvol => {
            return Err(Unidentified::Kind(
                "it is a volume of a ZFS pool, and a pool on it could deadlock: use a disk",
            ));
        }
        Kind::Other => return Err(Unidentified::Kind("such a device keeps nothing: use a disk")),
    }
    Ok(said)
}

fn of_nvme(said: &mut Said, device: &Device, nvme: &Nvme, node: &str) {
    if let Some(uuid) = &nvme.uuid {
        let value = || uuid.to_ascii_lowercase();
        said.take(Scheme::NvmeUuid, "the UUID", uuid, unusable::uuid, value);
    }
    if let Some(nguid) = &nvme.nguid {
        let value = || nguid.to_ascii_lowercase();
        said.take(Scheme::NvmeNguid, "the NGUID", nguid, unusable::nguid, value);
    }
    if let Some(eui64) = &nvme.eui64 {
        let value = || eui64.to_ascii_lowercase();
        said.take(Scheme::NvmeEui64, "the EUI-64", eui64, unusable::eui64, value);
    }
    let Some(serial) = &device.serial else {
        return;
    };
    let Some(namespace) = nvme.namespace else {
        said.reject(
            "the serial number",
            serial,
            "is the controller's, and the number of the namespace is not known",
        );
        return;
    };
    let model = device.model.as_deref().unwrap_or_default();
    let namespace = namespace.to_string();
    if unusable::is_per_node(device) {
        let value = joined(&[node, model, serial, &namespace]);
        let scheme = Scheme::NvmeSerialNode;
        said.fit.push(Identity { scheme, value });
    } else {
        let value = || joined(&[model, serial, &namespace]);
        let check = unusable::serial;
        said.take(Scheme::NvmeSerial, "the serial number", serial, check, value);
    }
}

fn of_scsi(said: &mut Said, device: &Device, scsi: &Scsi, node: &str) {
    // A unit may have several of a kind, in an order that is nobody's promise.
    let of = |kind: DesignatorKind| {
        let mut values: Vec<_> = scsi
            .page83
            .iter()
            .filter(|designator| designator.kind == kind)
            .collect();
        values.sort_by(|one, other| other.value.cmp(&one.value));
        values.into_iter().map(|Designator { value, .. }| value)
    };
    for name in of(DesignatorKind::Naa) {
        let value = || name.to_ascii_lowercase();
        said.take(Scheme::ScsiNaa, "the World Wide Name", name, unusable::naa, value);
    }
    for eui64 in of(DesignatorKind::Eui64) {
        let value = || eui64.to_ascii_lowercase();
        said.take(Scheme::ScsiEui64, "the EUI-64", eui64, unusable::eui64, value);
    }
    let per_node = unusable::is_per_node(device);
    for text in of(DesignatorKind::T10) {
        let text = single_blanks(text);
        match unusable::t10(&text, device, scsi.page80.as_deref()) {
            Ok(()) if per_node => {
                let value = joined(&[node, &text]);
                let scheme = Scheme::ScsiT10Node;
                said.fit.push(Identity { scheme, value });
            }
            Ok(()) => said.fit.push(Identity {
                scheme: Scheme::ScsiT10,
                value: text,
            }),
            Err(why) => said.reject("the T10 designator", &text, why),
        }
    }
    // The kernel reads page 80 at its own time; what else it calls a serial number is not the unit's.
    if let Some(serial) = &scsi.page80 {
        let vendor = device.vendor.as_deref().unwrap_or_default();
        let model = device.model.as_deref().unwrap_or_default();
        let (scheme, nodes): (_, &[&str]) = match per_node {
            true => (Scheme::ScsiSerialNode, &[node]),
            false => (Scheme::ScsiSerial, &[]),
        };
        let value = || joined(&[nodes, &[vendor, model, serial]].concat());
        said.take(scheme, "the serial number", serial, unusable::serial, value);
    }
}

fn of_serial(said: &mut Said, device: &Device) {
    let Some(serial) = &device.serial else {
        return;
    };
    let bus = device.bus.as_deref().unwrap_or_default();
    let check = unusable::serial;
    match bus {
        "virtio" => {
            let value = || serial.clone();
            said.take(Scheme::VirtioSerial, "the serial number", serial, check, value);
        }
        "mmc" if unusable::is_hex(serial, &[32]) => {
            let value = || serial.to_ascii_lowercase();
            said.take(
                Scheme::MmcCid,
                "the card identification",
                serial,
                unusable::nguid,
                value,
            );
        }
        _ => {
            let vendor = device.vendor.as_deref().unwrap_or_default();
            let model = device.model.as_deref().unwrap_or_default();
            let value = || joined(&[bus, vendor, model, serial]);
            said.take(Scheme::Serial, "the serial number", serial, check, value);
        }
    }
}

fn of_partition(
    said: &mut Said,
    device: &Device,
    parent: Option<&Device>,
    node: &str,
) -> Result<(), Unidentified> {
    let number = device.partition.as_ref().map(|partition| partition.number);
    let parent = parent.filter(|parent| device.parent.as_ref() == Some(&parent.name));
    let (Some(number @ 1..), Some(parent)) = (number, parent) else {
        return Err(Unidentified::Kind(
            "it is a partition, and which one of which disk is not known (yet): wait for the next scan",
        ));
    };
    if parent.kind == Kind::Partition {
        return Err(Unidentified::Kind(
            "it is a part of a partition: use the whole of a disk",
        ));
    }
    let of_parent = self::said(parent, None, node)
        .and_then(|said| match said.fit.is_empty() {
            true => Err(said.best().err().unwrap_or(Unidentified::Kind("it has none"))),
            false => Ok(said.fit),
        })
        .map_err(|error| Unidentified::Parent(Box::new(error)))?;
    said.fit = of_parent
        .into_iter()
        .map(|Identity { scheme, value }| Identity {
            scheme: Scheme::Partition,
            value: format!("{scheme}:{value}:{number}"),
        })
        .collect();
    Ok(())
}

fn of_device_mapper(said: &mut Said, device: &Device) {
    let Some(uuid) = device
        .device_mapper
        .as_ref()
        .and_then(|mapper| mapper.uuid.as_ref())
    else {
        return;
    };
    let value = || unusable::without_mapping_name(uuid).to_owned();
    let check = unusable::device_mapper;
    said.take(Scheme::DeviceMapper, "the UUID", uuid, check, value);
}

fn of_loop(said: &mut Said, device: &Device, node: &str) {
    let Some(backing) = &device.backing else {
        return;
    };
    let check = |file: &str| match file.ends_with(DELETED) {
        true => Err("was removed, and another file may have its name"),
        false => Ok(()),
    };
    let file = backing.file.as_str();
    let value = || joined(&[node, file, &backing.offset.to_string()]);
    said.take(Scheme::LoopNode, "the file", file, check, value);
}

/// Several texts as one, such that different texts never become the same.
fn joined(parts: &[&str]) -> String {
    let parts: Vec<_> = parts.iter().map(|part| part.replace(':', "\\x3a")).collect();
    parts.join(":")
}

/// T10 designators and models are padded with blanks, and not by everybody alike.
fn single_blanks(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ")
}

/// md writes its UUID with dashes or colons, depending on who tells it.
fn lower_digits(uuid: &str) -> String {
    let digits = uuid.chars().filter(char::is_ascii_hexdigit);
    digits.map(|digit| digit.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests;
