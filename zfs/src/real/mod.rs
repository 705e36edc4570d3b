//! ZFS as it is on this host, by its programs `zpool` and `zfs`.
//!
//! # Expected flow
//! A verb becomes a [`Command`](command::Command), which is checked before anything is run: names are names, devices are absolute paths.
//! What changes a pool takes its turn in that pool's queue; what only looks does not. The command runs in a task of its
//! own, so that a caller who goes away neither ends it in the middle nor gives its turn to another.
//!
//! # Guarantees
//! - No word of ZFS's messages decides anything; they are handed on to people.
//! - An answer that is not understood is an error, never an empty one.
//! - Every command has a deadline. One that is then stuck in the kernel keeps others away from its own pool, see
//!   [`queue`].
//!
//! # Caveats
//! - Some things of ZFS are locked for all pools at once. Where the kernel holds such a lock for a pool that hangs,
//!   commands on other pools time out as well.
//! - Streams are sent and received outside of the queue: they take hours, and ZFS keeps them apart by itself.

mod call;
mod command;
mod datasets;
mod events;
mod features;
mod grown;
mod labels;
mod parse;
mod pools;
mod queue;

use std::sync::Arc;
use std::time::Duration;

use cstor_exec::Program;

use queue::Queues;

use crate::{Error, Result};

/// How long commands may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// What only looks.
    pub looks: Duration,
    /// What changes something. A pool that is imported is read first, and one that is made writes to all its devices.
    pub changes: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            looks: Duration::from_secs(20),
            changes: Duration::from_secs(120),
        }
    }
}

/// The ZFS of this host.
#[derive(Debug, Clone)]
pub struct Zfs {
    host: Arc<Host>,
}

#[derive(Debug)]
struct Host {
    zpool: Program,
    zfs: Program,
    deadlines: Deadlines,
    queues: Queues,
}

impl Zfs {
    /// Finds the programs, once.
    pub fn find(deadlines: Deadlines) -> Result<Self> {
        let find = |name: &str| {
            Program::find(name).map_err(|error| Error::CannotRun {
                doing: "find the programs of ZFS".to_owned(),
                why: error.to_string(),
            })
        };
        Ok(Self::with(find("zpool")?, find("zfs")?, deadlines))
    }

    /// Uses these programs.
    #[must_use]
    pub fn with(zpool: Program, zfs: Program, deadlines: Deadlines) -> Self {
        let host = Host {
            zpool,
            zfs,
            deadlines,
            queues: Queues::default(),
        };
        Self { host: Arc::new(host) }
    }
}

#[cfg(test)]
mod tests;
