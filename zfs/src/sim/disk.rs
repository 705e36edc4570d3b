//! Disks: what is on them, where they are plugged in, how they behave.

use std::collections::BTreeMap;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

use super::pool::Pool;
use crate::{Guid, Label};

/// ZFS takes no device that is smaller.
pub(super) const SMALLEST: u64 = 64 << 20;
/// What ZFS keeps of a device for its labels and for boot loaders.
const RESERVED: u64 = (4 << 20) + (512 << 10);
/// What is lost of a whole disk by the partitions ZFS makes: in front of the first, and the last one.
const PARTITIONS: u64 = 9 << 20;
/// Space is used in multiples of this.
const METASLAB: u64 = 16 << 20;

/// How a disk behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// As it should.
    Good,
    /// Every read and write fails.
    Failing,
    /// No read or write comes to an end.
    Hanging,
}

/// What is found on a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// Partitions that ZFS made, with nothing in them.
    EmptyPartitions,
    /// Something that is not ZFS's, such as `ext4`.
    Other(String),
    /// A ZFS label.
    Zfs(Label),
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The disk.
    Whole,
    /// The first partition on it.
    First,
}

/// What was written to a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// The partitions that ZFS makes on a whole disk. What was there is lost.
    Partitions {
        /// The device that the disk is to be.
        vdev: Guid,
    },
    /// A label of a device of a pool, with what is new in the pool. That of a device that is not yet part of the pool is of
    /// the transaction group 0.
    Label {
        /// The pool.
        pool: Guid,
        /// The device.
        vdev: Guid,
        /// The transaction group.
        txg: u64,
    },
    /// A label that says that this is a spare.
    SpareLabel {
        /// The device.
        vdev: Guid,
    },
    /// A label that says that this is a cache device.
    CacheLabel {
        /// The device.
        vdev: Guid,
    },
    /// A label that says that the device is in no pool any more.
    LeftLabel {
        /// The pool it was in.
        pool: Guid,
        /// The device.
        vdev: Guid,
    },
    /// ZFS labels were cleared.
    LabelsCleared,
    /// All was wiped.
    Wiped,
    /// Somebody put something else there.
    Other(String),
}

impl Written {
    /// The device on whose behalf it was written.
    #[must_use]
    pub fn vdev(&self) -> Option<Guid> {
        match self {
            Self::Partitions { vdev }
            | Self::Label { vdev, .. }
            | Self::SpareLabel { vdev }
            | Self::CacheLabel { vdev }
            | Self::LeftLabel { vdev, .. } => Some(*vdev),
            Self::LabelsCleared | Self::Wiped | Self::Other(_) => None,
        }
    }
}

/// One write to a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskWrite {
    /// The disk.
    pub serial: String,
    /// The host that wrote; none if the disk was prepared by the test.
    pub host: Option<String>,
    /// What was there before.
    pub found: Found,
    /// What was written.
    pub written: Written,
}

/// A label, and the pool as it was when the label was written.
#[derive(Debug, Clone)]
pub(super) struct Stamp {
    pub(super) label: Label,
    /// None on spares, cache devices, and devices that are not yet in their pool.
    pub(super) image: Option<Arc<Pool>>,
}

#[derive(Debug, Clone)]
pub(super) enum Content {
    Nothing,
    Other(String),
    Zfs(Stamp),
}

#[derive(Debug, Clone)]
pub(super) struct Disk {
    pub(super) bytes: u64,
    pub(super) partitioned: bool,
    pub(super) content: Content,
    pub(super) behaviour: Behaviour,
    /// The hosts it is plugged into, and the paths it has there.
    pub(super) plugged: BTreeMap<String, Vec<Utf8PathBuf>>,
}

impl Disk {
    pub(super) fn new(bytes: u64) -> Self {
        Self {
            bytes,
            partitioned: false,
            content: Content::Nothing,
            behaviour: Behaviour::Good,
            plugged: BTreeMap::new(),
        }
    }

    pub(super) fn found(&self) -> Found {
        match &self.content {
            Content::Nothing if self.partitioned => Found::EmptyPartitions,
            Content::Nothing => Found::Nothing,
            Content::Other(what) => Found::Other(what.clone()),
            Content::Zfs(stamp) => Found::Zfs(stamp.label.clone()),
        }
    }

    pub(super) fn stamp(&self) -> Option<&Stamp> {
        match &self.content {
            Content::Zfs(stamp) => Some(stamp),
            Content::Nothing | Content::Other(_) => None,
        }
    }

    /// What a host finds on it at a path.
    pub(super) fn place(&self, host: &str, path: &Utf8Path) -> Option<Place> {
        let paths = self.plugged.get(host)?;
        if paths.iter().any(|own| own == path) {
            return Some(Place::Whole);
        }
        let is_first = self.partitioned && paths.iter().any(|own| used_path(own) == path);
        is_first.then_some(Place::First)
    }

    /// The label that a host finds at a path. Who looks at a whole disk does not see what is inside its partitions.
    pub(super) fn stamp_at(&self, host: &str, path: &Utf8Path) -> Option<&Stamp> {
        let holds = if self.partitioned {
            Place::First
        } else {
            Place::Whole
        };
        self.stamp().filter(|_| self.place(host, path) == Some(holds))
    }

    /// What is new in a pool is on it, although its label does not say so.
    pub(super) fn keep_up(&mut self, pool: &Arc<Pool>, vdev: Guid) {
        if let Content::Zfs(stamp) = &mut self.content
            && (stamp.label.pool_guid, stamp.label.vdev_guid) == (Some(pool.guid.0), vdev.0)
        {
            stamp.image = Some(pool.clone());
        }
    }

    /// What a pool could use of it at this path.
    pub(super) fn used_bytes(&self, host: &str, path: &Utf8Path) -> u64 {
        usable(self.bytes, self.place(host, path) == Some(Place::First))
    }
}

/// Whether ZFS takes what is at this path for a whole disk, on which it makes partitions.
pub(super) fn is_whole_disk(path: &Utf8Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let mapped = path.as_str().starts_with("/dev/mapper/") || name.starts_with("dm-");
    !mapped && !name.starts_with("loop") && !name.contains("-part") && path.starts_with("/dev")
}

/// The path that ZFS uses when it is given this one.
pub(super) fn used_path(path: &Utf8Path) -> Utf8PathBuf {
    let digit = path.as_str().ends_with(|last: char| last.is_ascii_digit());
    let suffix = match path.starts_with("/dev/disk") {
        _ if !is_whole_disk(path) => "",
        true => "-part1",
        false if digit => "p1",
        false => "1",
    };
    Utf8PathBuf::from(format!("{path}{suffix}"))
}

/// What a pool can use of a device of this size, or of the first partition on one.
pub(super) fn usable(bytes: u64, partitioned: bool) -> u64 {
    let lost = RESERVED + if partitioned { PARTITIONS } else { 0 };
    let left = bytes.saturating_sub(lost);
    left - left % METASLAB
}
