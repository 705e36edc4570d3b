//! A pool as it is: state, vdevs, scans.

use camino::Utf8PathBuf;
use jiff::Timestamp;

use crate::{Guid, PoolName};

/// The state of a pool or vdev. ZFS has two vocabularies for it, one for pools and one for vdevs; this has both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Everything is there.
    Online,
    /// Something is missing that is not needed.
    Degraded,
    /// Too much is wrong with it.
    Faulted,
    /// Switched off by a person.
    Offline,
    /// Pulled out.
    Removed,
    /// Cannot be opened.
    Unavailable,
    /// All I/O waits: too many devices failed under the pool.
    Suspended,
    /// A spare that waits.
    Available,
    /// A spare that stands in for another.
    InUse,
    /// In the middle of becoming another pool.
    Split,
    /// Not opened (yet).
    Closed,
    /// A word of a later ZFS.
    Unknown,
}

/// A pool in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSummary {
    /// Its name.
    pub name: PoolName,
    /// Its number.
    pub guid: Guid,
    /// Its state.
    pub state: State,
}

/// What a vdev is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum VdevKind {
    /// A disk, or a partition of one.
    Disk,
    /// A file.
    File,
    /// A group of equal copies.
    Mirror,
    /// A group with parity.
    Raidz,
    /// A group with spread parity.
    Draid,
    /// Spare space of a draid group.
    DraidSpare,
    /// An old and a new device, while the new one is filled.
    Replacing,
    /// A device and the spare that stands in for it.
    Spare,
    /// Where a removed vdev was, or one whose device is not known.
    Hole,
    /// What was moved off a removed vdev.
    Indirect,
    /// A device that was not there when the pool was imported.
    Missing,
    /// A word of a later ZFS, or none.
    Other(String),
}

/// What a vdev is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VdevClass {
    /// The data itself.
    Data,
    /// Synchronous writes.
    Log,
    /// Metadata and small blocks.
    Special,
    /// The table of deduplicated blocks.
    Dedup,
    /// Copies of what is read often.
    Cache,
    /// Waits for others to fail.
    Spare,
}

/// A device or group of devices of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vdev {
    /// What `zpool status` calls it.
    pub name: String,
    /// What it is.
    pub kind: VdevKind,
    /// What it is for.
    pub class: VdevClass,
    /// Its number.
    pub guid: Guid,
    /// The path by which the pool last knew the device.
    pub path: Option<Utf8PathBuf>,
    /// The state.
    pub state: State,
    /// Why it is in that state, in ZFS's words.
    pub why: Option<String>,
    /// Whether the device was not there when the pool was imported.
    pub not_present: bool,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Reads that gave something else than was written.
    pub checksum_errors: u64,
    /// I/Os that took very long.
    pub slow_ios: u64,
    /// By how many bytes it could grow, if what it is made of has grown.
    pub expandable: u64,
    /// Of a device its size, of a group the space that its devices give, in bytes; zero where ZFS does not say.
    pub size: u64,
    /// In use, in bytes.
    pub allocated: u64,
    /// The parts.
    pub children: Vec<Vdev>,
}

impl Vdev {
    /// This vdev and all below it, each before its parts.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        let mut next = vec![self];
        std::iter::from_fn(move || {
            let vdev = next.pop()?;
            next.extend(vdev.children.iter().rev());
            Some(vdev)
        })
    }

    /// Whether it is a device rather than a group.
    #[must_use]
    pub fn is_device(&self) -> bool {
        self.children.is_empty()
    }
}

/// Why a pool is read through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScanFunction {
    /// To check it.
    Scrub,
    /// To restore redundancy.
    Resilver,
    /// To look at known errors again.
    ErrorScrub,
}

/// How far a scan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScanState {
    /// Running.
    Scanning,
    /// Interrupted by somebody, to be resumed.
    Paused,
    /// Done.
    Finished,
    /// Broken off.
    Canceled,
}

/// A scrub or resilver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// Which.
    pub function: ScanFunction,
    /// How far.
    pub state: ScanState,
    /// When it began.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Bytes to be looked at.
    pub to_examine: u64,
    /// Bytes looked at.
    pub examined: u64,
    /// Bytes read from the devices.
    pub issued: u64,
    /// Bytes mended.
    pub processed: u64,
    /// Errors found.
    pub errors: u64,
}

/// A raidz group that is being widened by a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expansion {
    /// Whether it runs.
    pub running: bool,
    /// Bytes to be moved.
    pub to_reflow: u64,
    /// Bytes moved.
    pub reflowed: u64,
    /// When it began.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
}

/// A pool as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolStatus {
    /// Its name.
    pub name: PoolName,
    /// Its number.
    pub guid: Guid,
    /// Its state.
    pub state: State,
    /// What is wrong with it, in ZFS's words.
    pub status: Option<String>,
    /// What ZFS says to do about it.
    pub action: Option<String>,
    /// ZFS's code for what is wrong, such as ZFS-8000-2Q.
    pub message_id: Option<String>,
    /// The last or running scrub or resilver.
    pub scan: Option<Scan>,
    /// The last or running expansion of a raidz group.
    pub expansion: Option<Expansion>,
    /// The vdevs below the pool, by what they are for.
    pub vdevs: Vec<Vdev>,
    /// Blocks that are damaged for good.
    pub data_errors: u64,
}

impl PoolStatus {
    /// All vdevs, each before its parts.
    pub fn all(&self) -> impl Iterator<Item = &Vdev> {
        self.vdevs.iter().flat_map(Vdev::all)
    }

    /// All devices.
    pub fn devices(&self) -> impl Iterator<Item = &Vdev> {
        self.all().filter(|vdev| vdev.is_device())
    }

    /// The vdev of this number.
    #[must_use]
    pub fn vdev(&self, guid: Guid) -> Option<&Vdev> {
        self.all().find(|vdev| vdev.guid == guid)
    }

    /// Whether redundancy is being restored.
    #[must_use]
    pub fn is_resilvering(&self) -> bool {
        let running =
            |scan: &Scan| scan.function == ScanFunction::Resilver && scan.state == ScanState::Scanning;
        self.scan.as_ref().is_some_and(running)
    }
}
