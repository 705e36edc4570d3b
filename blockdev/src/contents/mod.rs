//! What is written on a device: signatures, partition tables, ZFS labels, data.
//!
//! [`Prober::probe`] reads it. It never writes, never opens for writing, and keeps nothing open.
//!
//! Two readers look at the same bytes. `wipefs` knows the names of what others put on disks, and says nothing when it
//! could not read one of the places where it looks. So it names; that there is nothing is shown by our own reading of both
//! ends of the device, where all these things begin.

mod prober;
mod raw;
mod signatures;

pub use prober::Prober;

use serde::Serialize;

/// Something that says what a device is used for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Signature {
    /// What it is, in libblkid's words: `ext4`, `LVM2_member`, `zfs_member`, `gpt`…
    pub kind: String,
    /// What such a thing is for: `filesystem`, `raid`, `crypto`, `partition-table`, `other`.
    pub usage: Option<String>,
    /// Where it was found.
    pub offset: u64,
    /// The UUID it carries.
    pub uuid: Option<String>,
    /// The label it carries.
    pub label: Option<String>,
}

/// What was read from a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Contents {
    /// The signatures, in the order of their offsets.
    pub signatures: Vec<Signature>,
    /// The ZFS label with the highest transaction group, if there is one.
    pub zfs: Option<cstor_zfs::Label>,
    /// ZFS labels that speak of another pool or another device than `zfs` does.
    pub zfs_others: Vec<cstor_zfs::Label>,
    /// There is a ZFS label that cannot be understood.
    pub zfs_damaged: bool,
    /// There is a ZFS uberblock: a pool has written to the device at least once.
    pub zfs_written: bool,
    /// Where the first byte is that differs from the others of its region, if the beginning or the end of the device is
    /// not uniformly 0x00 or 0xff.
    pub data_at: Option<u64>,
    /// Whether the kernel refused to open it for us alone: somebody has it. Tried only where nothing else was found, for
    /// it stands in the way of others who want it alone, if for no longer than an `open` and a `close` take.
    pub busy: bool,
}

/// What came of reading a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Probe {
    /// It was read.
    Read(Contents),
    /// It answered with an error.
    Failed(String),
    /// It does not answer. Nothing is known of what is on it.
    NotResponding,
}
