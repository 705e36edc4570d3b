//! Hosts with disks and a ZFS in memory, for fast tests.
//!
//! [`SimHosts`] is a world of disks that can be plugged into hosts, pulled, moved, swapped, cloned, made to fail or to hang.
//! [`SimZfs`] is the ZFS of one host, and does what [`Pools`](crate::Pools) and [`Datasets`](crate::Datasets) promise. What a
//! pool is lies on its disks: each holds the pool as it was when that disk was last written. A host that loses its power
//! forgets everything else; a disk that was pulled for a while is behind; two hosts that both write to a pool is a disaster
//! that can happen, and is [told](SimHosts::violations).
//!
//! # Expected flow
//! A test makes a world ([`SimHosts::new`]), makes disks and plugs them in ([`SimHosts::add_disk`], [`SimHosts::plug`]), and gives
//! each process on a host a ZFS of its own ([`SimHosts::zfs`]). What a host finds on its disks it is told by
//! [`SimHosts::disks`] and [`SimHosts::labels`]. A process that is to end at an effect is waited for with [`SimZfs::halted`], and
//! the next one gets a new [`SimZfs`].
//!
//! It can misbehave on purpose: see [`Faults`] for chances, [`SimHosts::fault`] for one call, [`SimHosts::halt`] for a
//! caller that dies at an effect, [`SimHosts::power_off_after`] for a host that dies between two writes.
//!
//! # Guarantees
//! - Every write to a disk is in a [log](SimHosts::log), with what was there before: see [`SimHosts::unproven`].
//! - No time passes that tokio does not pass, unless it is [skipped](SimHosts::advance), and all chance comes from one seed: with
//!   paused time, a run can be repeated.
//! - As on Linux, a whole disk that is given to ZFS gets partitions, and the labels are in the first of them: who wants to import
//!   the pool, or to clear the labels, names the partition. Paths of loop devices and below `/dev/mapper` are used as they are.
//! - A device that becomes part of a pool gets a label of transaction group 0 first, which names the pool but not its comment; it
//!   is in the pool when the pool is written. A pool is written disk by disk, and is what was written with the first of them.
//! - A device that is detached gets a label of transaction group 0 as well, before the pool is written without it: only the pool
//!   tells whether it has left. A vdev that is removed is told so afterwards.
//!
//! # Caveats
//! - The data of file systems, encryption, bookmarks, checkpoints and deduplication do not exist. Nothing compresses, and
//!   metadata takes no space.
//! - What ZFS says in words is only roughly what it says here. Nobody decides by it.
//! - No label is ever torn, and the four of a device are one.
//! - A caller who goes away before his call had its effect takes the call with him. ZFS's programs would go on;
//!   [`Fault::TimeoutLate`] is what that looks like.
//! - Disks fail when they are written, not when they are read: only a resilver finds damage.

mod calls;
mod consistency;
mod dataset;
mod devices;
mod disk;
mod extents;
mod faults;
mod hosts;
mod job;
mod plugging;
mod pool;
mod pools;
mod progress;
mod properties;
mod status;
mod stream;
#[cfg(test)]
mod tests;
mod topology;
mod tree;
mod users;
mod values;
mod vdev;
mod volumes;
mod world;
mod zpool;

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use calls::{Call, CallRecord};
pub use disk::{Behaviour, DiskWrite, Found, Written};
pub use faults::{Fault, Faults, Moment};
pub use plugging::{Held, SeenDisk, Unreadable};
pub use users::Piece;
pub use world::Violation;

use self::world::World;

/// A world of hosts and disks. Cheap to clone: clones are the same world.
#[derive(Clone)]
pub struct SimHosts {
    inner: Arc<Inner>,
}

/// The ZFS of one host, as one process uses it. Cheap to clone: clones are the same process.
#[derive(Clone)]
pub struct SimZfs {
    inner: Arc<Inner>,
    host: Arc<str>,
    process: u64,
    /// How often the power of the host had been cut when it was started.
    cuts: u64,
}

struct Inner {
    world: Mutex<World>,
    /// Wakes those who wait for something to happen.
    news: tokio::sync::Notify,
    processes: AtomicU64,
}

impl Inner {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SimHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let world = self.inner.world();
        f.debug_struct("SimHosts")
            .field("hosts", &world.hosts.keys())
            .field("disks", &world.disks.keys())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for SimZfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimZfs")
            .field("host", &self.host)
            .field("process", &self.process)
            .finish_non_exhaustive()
    }
}
