//! What follows. No I/O, no clock: a function.

mod devices;
mod keep;
mod make;
mod remove;
mod shape;
mod tell;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cstor_api::cstor::{CStorPoolInstance, CStorPoolInstanceStatus};
use cstor_api::ids::CspiUid;
use cstor_api::names::{annotation, event, reason};
use cstor_api::openebs::{BlockDevice, BlockDeviceClaim};
use cstor_blockdev::ownership::Records;
use cstor_reconcile::{Decision, Event, Failure};
use cstor_zfs::{Dataset, Guid, PoolName, PoolStatus, PoolSummary};
use jiff::Timestamp;

use super::PoolStep;
use crate::disk::matches::Matched;
use crate::disk::view::View;
use crate::disk::whose::Judge;
use devices::Devices;
use tell::Telling;

/// Who has claimed a device.
#[derive(Debug, Clone, PartialEq)]
pub enum Claimed {
    /// Nobody.
    Nobody,
    /// Somebody whose claim could be read.
    By(Box<BlockDeviceClaim>),
    /// The claim that the device names is not there (any more).
    Missing(String),
}

/// Our pool, imported, as far as it could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// As it is.
    pub status: PoolStatus,
    /// Its properties. Not asked for while the pool is suspended: that may hang.
    pub properties: BTreeMap<String, String>,
    /// The dataset at its top, likewise.
    pub root: Option<Dataset>,
    /// The names of all other datasets, likewise.
    pub datasets: Vec<String>,
}

/// What ZFS says.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolsSeen {
    /// All pools of the node.
    pub all: Vec<PoolSummary>,
    /// Ours, if it is among them.
    pub ours: Option<Result<Imported, cstor_zfs::Error>>,
}

/// Everything the decision rests on.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The object.
    pub object: CStorPoolInstance,
    /// Its UID.
    pub uid: CspiUid,
    /// The name of the node.
    pub node: String,
    /// The number by which ZFS tells this host from others.
    pub host_id: Option<u64>,
    /// What was seen of the disks; `None` before the first look.
    pub view: Option<Arc<View>>,
    /// The objects of the node's disks, by name.
    pub devices: BTreeMap<String, Arc<BlockDevice>>,
    /// Who has claimed the devices that are not in the pool yet.
    pub claims: BTreeMap<String, Claimed>,
    /// The pools that are ours.
    pub records: Records,
    /// Which disks VolumeAttachments brought.
    pub matched: Arc<Matched>,
    /// The PersistentVolumes that were attached on our behalf.
    pub our_volumes: BTreeSet<String>,
    /// What ZFS says, or why it says nothing.
    pub zfs: Result<PoolsSeen, cstor_zfs::Error>,
    /// Nodes of the cluster that a label names as users of the pool, and that exist.
    pub other_nodes: BTreeSet<String>,
    /// The replicas that the API server has for this pool, looked up when the instance is being deleted.
    pub replicas: Vec<String>,
    /// The step that failed last.
    pub failure: Option<Failure>,
    /// When this agent first looked.
    pub began: Timestamp,
    /// The time.
    pub now: Timestamp,
}

type Decided = Decision<PoolStep, CStorPoolInstanceStatus>;

impl Observed {
    fn status(&self) -> CStorPoolInstanceStatus {
        self.object.status.clone().unwrap_or_default()
    }

    /// The GUID of the pool, if one was ever recorded.
    pub(super) fn recorded_guid(&self) -> Option<Guid> {
        let status = self.object.status.as_ref()?;
        status.pool_guid.as_ref()?.parse().ok().map(Guid)
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.object.metadata.annotations.as_ref()?;
        annotations.get(key).map(String::as_str)
    }

    /// The pool that a person says is to be this instance's.
    pub(super) fn adopted(&self) -> Option<Guid> {
        self.annotation(annotation::ADOPT_POOL)?.parse().ok().map(Guid)
    }

    /// What the comment of our pool is: the UID, without dashes because a comment has 32 characters at most.
    fn comment(&self) -> String {
        self.uid.as_str().replace('-', "")
    }

    /// The failure that people are told of: not that something had changed before a step was done, for then it is decided
    /// anew.
    fn told_failure(&self) -> Option<&Failure> {
        let failure = self.failure.as_ref();
        failure.filter(|failure| failure.class.reason != reason::CHANGED)
    }

    fn is_deleted(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    fn judge<'a>(&'a self, view: &'a View) -> Judge<'a> {
        Judge {
            view,
            records: &self.records,
            matched: &self.matched,
            our_volumes: &self.our_volumes,
        }
    }

    /// The name of a new pool.
    fn new_name(&self) -> Option<PoolName> {
        PoolName::new(self.uid.pool_name()).ok()
    }
}

pub(super) fn decide(seen: &Observed) -> Decided {
    if seen.annotation(annotation::RECONCILE_DISABLED) == Some("true") {
        return Decided::nothing();
    }
    let Some(view) = seen.view.as_deref() else {
        return Decided::nothing();
    };
    let devices = Devices::new(seen, view);
    let mut telling = Telling::new(seen);
    let decided = match &seen.zfs {
        Err(error) => silent(&mut telling, error),
        Ok(PoolsSeen {
            ours: Some(Err(error)),
            ..
        }) => silent(&mut telling, error),
        Ok(pools) if seen.is_deleted() => remove::decide(seen, &devices, pools, &mut telling),
        Ok(PoolsSeen {
            ours: Some(Ok(pool)), ..
        }) => keep::decide(seen, &devices, pool, &mut telling),
        Ok(pools) => make::decide(seen, &devices, pools, &mut telling),
    };
    let failed = seen.told_failure().map(|failure| {
        let kind = match failure.during.label() {
            "create" => event::FAIL_CREATE,
            "destroy" | "clear" => event::FAIL_DESTROY,
            "set_pool" | "set_root" => event::FAILED_TO_SET_PROPERTIES,
            _ => event::FAILED_SYNC,
        };
        Event::warning(kind, failure.message.clone())
    });
    let decided = match failed {
        Some(event) => decided.event(event),
        None => decided,
    };
    decided.status(telling.status())
}

/// How soon a pool is looked at again that does not answer, or waits for something.
const SOON: Duration = Duration::from_secs(5);

/// ZFS does not say what is the case with the pool.
fn silent(telling: &mut Telling<'_>, error: &cstor_zfs::Error) -> Decided {
    let (why, help) = if error.is_hang() {
        (
            reason::POOL_HANGS,
            "A disk of the pool may be dead: look at the kernel's messages on the node, and pull the disk or restart the node",
        )
    } else {
        (reason::ZFS_FAILED, "Look at `zpool status` on the node")
    };
    telling.unknown(why, format!("{error}. {help}."));
    Decided::nothing().again(SOON)
}

#[cfg(test)]
mod tests;
