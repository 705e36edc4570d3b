//! Whose a device is.
//!
//! [`ownership`] is the one answer. It is *theirs* unless there is proof: blank takes everything to say so, ours takes a
//! ZFS label that we recorded. Anything that speaks against either is told, each with its place, for people to act on.
//!
//! The answer is as old as what it was made from. Whoever writes to a device on account of it looks anew first, and opens
//! the device for itself alone.
//!
//! Two devices may both say that they are the same device of the same pool: a disk and its clone. That cannot be seen by
//! looking at one of them; it shows as one [`Ours::vdev_guid`] twice.

mod findings;
mod records;

use cstor_api::ids::CspiUid;
use cstor_api::names::reason;
use cstor_zfs::Label;
use serde::{Serialize, Serializer};

pub use findings::DATA_PARTITIONS;
pub use records::{Record, Records};

use crate::contents::{Contents, Probe};
use crate::{Device, Kind};

/// ZFS takes no device that is smaller.
pub const SMALLEST: u64 = 64 << 20;

/// Whose a device is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Ownership {
    /// Nothing is on it, nobody uses it, and ZFS can use it.
    Blank,
    /// It is in a pool of ours.
    Ours(Ours),
    /// It is somebody else's, or no use to us; what was found.
    Theirs(Vec<Finding>),
    /// Nothing speaks for somebody else, and it could not be read.
    Unknown {
        /// Why, for machines: a reason of [`reason`].
        reason: &'static str,
        /// Why, for people.
        message: String,
    },
}

/// Which device of which pool of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ours {
    /// The name of the pool.
    pub pool_name: String,
    /// The GUID of the pool. Absent for a spare or a cache device of an instance that has recorded no pool yet.
    pub pool_guid: Option<u64>,
    /// The GUID of the device in the pool.
    pub vdev_guid: u64,
    /// The UID of the CStorPoolInstance.
    #[serde(serialize_with = "text")]
    pub instance_uid: CspiUid,
}

fn text<S: Serializer>(uid: &CspiUid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(uid)
}

/// Something that makes a device somebody else's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What it is, for machines: a reason of [`reason`].
    pub reason: &'static str,
    /// What it is and where, for people.
    pub message: String,
}

/// A device and what is on it.
#[derive(Debug, Clone, Copy)]
pub struct Examined<'a> {
    /// The device.
    pub device: &'a Device,
    /// What came of reading it.
    pub probe: &'a Probe,
}

impl<'a> Examined<'a> {
    fn contents(&self) -> Option<&'a Contents> {
        match self.probe {
            Probe::Read(contents) => Some(contents),
            Probe::Failed(_) | Probe::NotResponding => None,
        }
    }
}

/// All that is looked at to tell whose a device is.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The device itself.
    pub examined: Examined<'a>,
    /// Its partitions, all of them.
    pub partitions: &'a [Examined<'a>],
    /// The disk it is a part of.
    pub parent: Option<Examined<'a>>,
    /// The VolumeAttachment that brought the device, or the disk it is a part of, if it is not one of ours: driver and
    /// PersistentVolume.
    pub foreign_attachment: Option<&'a str>,
}

/// Whose a device is.
#[must_use]
pub fn ownership(subject: &Subject<'_>, records: &Records) -> Ownership {
    let mut against = findings::of_use(subject);
    let labelled = match labelled(subject) {
        Labelled::No => None,
        Labelled::Here(at) => Some(at),
        Labelled::Unread(at) => {
            against.extend(findings::of_kind(subject.examined.device));
            return if against.is_empty() {
                unknown(at)
            } else {
                Ownership::Theirs(against)
            };
        }
    };
    let mut told = None;
    if let Some(at) = labelled
        && let Some(label) = at.contents().and_then(|contents| contents.zfs.as_ref())
    {
        match records.instance_of(label) {
            Ok(record) => {
                against.extend(findings::beside_our_label(subject, at));
                if against.is_empty() {
                    return Ownership::Ours(ours(label, record));
                }
                against.push(findings::our_label(at, label, record));
                return Ownership::Theirs(against);
            }
            Err(refusal) => against.push(findings::foreign_label(at, label, &refusal)),
        }
        told = Some(label);
    }
    against.extend(findings::of_kind(subject.examined.device));
    against.extend(findings::of_division(subject, told));
    match subject.examined.contents() {
        Some(contents) => against.extend(findings::of_contents(subject.examined.device, contents, told)),
        None if against.is_empty() => return unknown(subject.examined),
        None => {}
    }
    if against.is_empty() {
        Ownership::Blank
    } else {
        Ownership::Theirs(against)
    }
}

/// Whether a device holds nothing but what a `zpool create` of the pool of this name writes before the pool exists: the
/// partitions of ZFS, or a part of their table, and labels that no pool ever wrote to.
///
/// It is no proof that the device was blank before: who cleans up must have that on record.
#[must_use]
pub fn is_beginning(subject: &Subject<'_>, pool_name: &str) -> bool {
    if !findings::of_use(subject).is_empty() || !findings::of_kind(subject.examined.device).is_empty() {
        return false;
    }
    let disk = subject.examined;
    let first = match subject.partitions {
        [] if disk.device.partitions.is_empty() => None,
        partitions => match findings::zfs_layout(disk.device, partitions) {
            Some(first) => Some(first),
            None => return false,
        },
    };
    let unwritten = |contents: &Contents| {
        let ours = |label: &Label| label.txg == 0 && label.pool_name.as_deref() == Some(pool_name);
        let labels = contents.zfs.iter().chain(&contents.zfs_others);
        !contents.zfs_written && !contents.zfs_damaged && labels.clone().all(ours)
    };
    let all = subject.partitions.iter().chain([&disk]);
    let read = all.clone().all(|one| one.contents().is_some_and(unwritten));
    // Beside these there is the partition table, if the device is one that ZFS makes one on, and nothing else.
    let plain = disk.contents().is_some_and(findings::is_zfs_table);
    let inside = subject
        .partitions
        .iter()
        .all(|one| one.contents().is_some_and(findings::is_zfs_label));
    let something = first.is_some()
        || disk
            .contents()
            .is_some_and(|contents| !contents.signatures.is_empty());
    read && plain && inside && something
}

/// Where the ZFS label of a device is.
enum Labelled<'a> {
    /// There is none, or none that can be ours.
    No,
    /// Here, if anywhere.
    Here(Examined<'a>),
    /// Here, if anywhere, but this was not read.
    Unread(Examined<'a>),
}

/// ZFS puts its label on the device it is given, unless that is a whole disk: then it makes two partitions, 1 for itself
/// and 9 to keep room, and the label is on the first.
fn labelled<'a>(subject: &Subject<'a>) -> Labelled<'a> {
    let at = match subject.partitions {
        [] if subject.examined.device.partitions.is_empty() => subject.examined,
        partitions => match findings::zfs_layout(subject.examined.device, partitions) {
            Some(first) => first,
            None => return Labelled::No,
        },
    };
    match (at.probe, subject.examined.probe) {
        (Probe::Read(_), Probe::Read(_)) => Labelled::Here(at),
        (Probe::Read(_), _) => Labelled::Unread(subject.examined),
        _ => Labelled::Unread(at),
    }
}

fn ours(label: &Label, record: &Record) -> Ours {
    let name = label.pool_name.clone().or_else(|| record.pool_name.clone());
    Ours {
        pool_name: name.unwrap_or_else(|| record.instance.pool_name()),
        pool_guid: label.pool_guid.or(record.pool_guid),
        vdev_guid: label.vdev_guid,
        instance_uid: record.instance.clone(),
    }
}

fn unknown(examined: Examined<'_>) -> Ownership {
    let path = &examined.device.path;
    let (reason, message) = match examined.probe {
        Probe::Failed(error) => (reason::UNREADABLE, format!("{path} cannot be read: {error}")),
        Probe::NotResponding | Probe::Read(_) => (
            reason::NOT_RESPONDING,
            format!("{path} does not answer; what is on it is not known"),
        ),
    };
    Ownership::Unknown { reason, message }
}

/// Whether a pool can be on a device of this kind at all.
fn is_offered(kind: Kind) -> bool {
    match kind {
        Kind::Disk
        | Kind::Partition
        | Kind::Loop
        | Kind::Lvm
        | Kind::Crypt
        | Kind::Multipath
        | Kind::DeviceMapper
        | Kind::Md
        | Kind::Sparse => true,
        Kind::Zvol | Kind::Other => false,
    }
}

#[cfg(test)]
mod tests;
