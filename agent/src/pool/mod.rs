//! CStorPoolInstance: a zpool that is made once, found again, kept in shape, and told the truth about.
//!
//! # Expected flow
//! 1. A CStorPoolInstance names this node. Its devices are looked up by their BlockDevices; when every one of them is proved
//!    blank, `status.creation` says which they are, and then the pool is made of all of them by one command.
//! 2. The pool is found in ZFS, is known by its comment, and its GUID is recorded in `status.poolGuid`. From now on it is
//!    looked for and never made again.
//! 3. At boot, or when its disks come from another node, the pool is found by the labels on the node's disks and imported by
//!    its GUID, from these devices and no others.
//! 4. The pool is compared with the wish, and mended one step at a time: properties, a device that came back, a spare for one
//!    that failed, a replacement, a wider or a further group, a disk that grew, a scrub that is due.
//! 5. The instance is deleted: if nothing lives in the pool, it is destroyed, its disks are cleared, the finalizer goes.
//!
//! # Guarantees
//! - A disk is written only if it was proved blank a moment ago, or carries the label of a device of this very pool.
//! - A pool that was ever recorded, or of which a disk says that it may exist, is never made anew: a failed import is told.
//! - What cannot be read is told as unknown, and nothing follows from it.
//! - A pool that hangs is told so and delays no other.
//! - Nothing is destroyed while datasets or replicas are in the pool; they are named.
//! - Nothing is written to the API server while nothing changes.
//!
//! # Caveats
//! - Space in use and error counters are looked at once a minute; what ZFS tells by an event is told within seconds.
//! - A pool whose devices are not all there is imported without them only after [`PATIENCE`]: disks may still be on their
//!   way after a boot.

mod act;
mod decide;
mod hands;
mod observe;
mod schedule;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use camino::Utf8PathBuf;
use cstor_api::cstor::{CStorPoolInstance, CStorPoolInstanceStatus};
use cstor_api::dao::Storage;
use cstor_api::names::{finalizer, reason};
use cstor_api::openebs::BlockDevice;
use cstor_reconcile::process::App;
use cstor_reconcile::related::RelatedError;
use cstor_reconcile::{
    Class, Classify, Context, Controller, Decision, Engine, Outcome, Related, Retry, Step, Trigger, Watch,
};
use cstor_zfs::{Datasets, Guid, Import, Layout, NewPool, Online, PoolName, Pools, ScrubCommand};
use futures::StreamExt as _;
use jiff::Timestamp;
use kube::Client;

pub use decide::{Claimed, Imported, Observed, PoolsSeen};
pub use hands::{Hands, HostHands};

use crate::disk::matches::Matches;
use crate::disk::service::Disks;
use crate::disk::wipe::{WipeError, Wiper};
use crate::disk::{Seen, Settings};

/// How long an import waits for devices of the pool that are not there yet, from when the agent first looked.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How many pools are looked at at a time: one that hangs must not delay the others.
const AT_ONCE: usize = 8;

/// The controller of pools.
#[derive(Clone)]
pub struct PoolKeeper<Z, H> {
    /// The way to the API server.
    pub client: Client,
    /// The name of the node.
    pub node: String,
    /// The ZFS of the node.
    pub zfs: Z,
    /// What is done to disks beside ZFS.
    pub hands: H,
    /// What was seen of the node's disks.
    pub disks: Disks,
    /// The objects of the node's disks.
    pub devices: Related<BlockDevice>,
    /// The pools of the node.
    pub pools: Related<CStorPoolInstance>,
    /// The disks that were attached to the node on our behalf.
    pub storages: Related<Storage>,
    /// Which disks VolumeAttachments brought.
    pub matches: Matches,
    /// When this agent first looked.
    pub began: Arc<OnceLock<Timestamp>>,
}

/// A disk that a step is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The name of its BlockDevice.
    pub block_device: String,
    /// The kernel's name for it.
    pub name: String,
    /// What tells it from all others.
    pub identity: String,
    /// By which path ZFS is to know it.
    pub path: Utf8PathBuf,
}

/// One effect.
#[derive(Debug, Clone, PartialEq)]
pub enum PoolStep {
    /// Make the pool, of disks that are blank.
    Create {
        /// The pool.
        new: Box<NewPool>,
        /// Its disks.
        disks: Vec<Target>,
    },
    /// Take the pool up.
    Import(Box<Import>),
    /// Set a property of the pool.
    SetPool {
        /// The pool.
        pool: PoolName,
        /// The property.
        property: String,
        /// The value.
        value: String,
    },
    /// Set properties of the dataset at the top of the pool.
    SetRoot {
        /// The pool.
        pool: PoolName,
        /// The properties.
        properties: BTreeMap<String, String>,
    },
    /// Add groups or devices, of disks that are blank.
    Add {
        /// The pool.
        pool: PoolName,
        /// What is added.
        layout: Box<Layout>,
        /// Its disks.
        disks: Vec<Target>,
    },
    /// Make a blank disk a further copy, or widen a raidz group by it.
    Attach {
        /// The pool.
        pool: PoolName,
        /// The device or group it is attached to.
        to: Guid,
        /// The disk.
        disk: Box<Target>,
    },
    /// Put a blank disk in the place of a device.
    Replace {
        /// The pool.
        pool: PoolName,
        /// The device that goes.
        old: Guid,
        /// The disk that comes.
        disk: Box<Target>,
    },
    /// Have a spare stand in for a device that failed.
    UseSpare {
        /// The pool.
        pool: PoolName,
        /// The device that failed.
        failed: Guid,
        /// The path of the spare.
        spare: Utf8PathBuf,
    },
    /// Take a device out that is not needed any more: a spare that stood in, or the old one of a replacement that is gone.
    Detach {
        /// The pool.
        pool: PoolName,
        /// The device.
        device: Guid,
    },
    /// Switch a device on that came back, or at the size it has grown to.
    Online {
        /// The pool.
        pool: PoolName,
        /// The device.
        device: Guid,
        /// How.
        how: Online,
    },
    /// Have ZFS notice that a device is gone.
    Reopen {
        /// The pool.
        pool: PoolName,
        /// The device.
        gone: Guid,
    },
    /// Remove a log, cache or spare device.
    Remove {
        /// The pool.
        pool: PoolName,
        /// The device or group.
        vdev: Guid,
    },
    /// Begin, go on with or interrupt a scrub.
    Scrub {
        /// The pool.
        pool: PoolName,
        /// What.
        what: ScrubCommand,
    },
    /// Have a suspended pool try again.
    Resume {
        /// The pool.
        pool: PoolName,
    },
    /// Destroy the pool, which is empty.
    Destroy {
        /// The pool.
        pool: PoolName,
        /// Its number.
        guid: Guid,
    },
    /// Make a disk blank again that holds nothing but what is left of this pool.
    Clear {
        /// The disk.
        disk: Box<Target>,
        /// What it is proved by.
        left: Left,
    },
}

/// What is left of the pool on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// The label of this device of the pool, which is destroyed.
    Label(Guid),
    /// What a `zpool create` had written that did not live to make a pool.
    Beginnings,
}

impl Step for PoolStep {
    fn name(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Import(_) => "import",
            Self::SetPool { .. } => "set_pool",
            Self::SetRoot { .. } => "set_root",
            Self::Add { .. } => "add",
            Self::Attach { .. } => "attach",
            Self::Replace { .. } => "replace",
            Self::UseSpare { .. } => "use_spare",
            Self::Detach { .. } => "detach",
            Self::Online { .. } => "online",
            Self::Reopen { .. } => "reopen",
            Self::Remove { .. } => "remove",
            Self::Scrub { .. } => "scrub",
            Self::Resume { .. } => "resume",
            Self::Destroy { .. } => "destroy",
            Self::Clear { .. } => "clear",
        }
    }

    fn deadline(&self) -> Duration {
        // ZFS's own deadlines come first; this is for disks that are read anew beforehand, too.
        Duration::from_secs(300)
    }
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The API server refused, or could not be reached.
    #[error("{doing}")]
    Api {
        /// What was being done.
        doing: String,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// Other objects could not be read.
    #[error(transparent)]
    Related(#[from] RelatedError),
    /// ZFS refused, or does not answer.
    #[error(transparent)]
    Zfs(#[from] cstor_zfs::Error),
    /// The object has no UID that a pool could carry.
    #[error("the CStorPoolInstance has no UID that a pool could carry")]
    Uid {
        /// Why not.
        source: cstor_api::ids::Error,
    },
    /// What was decided does not hold any more.
    #[error("{0} was not done: what it was decided on has changed in the meantime")]
    Changed(&'static str),
    /// A disk is in use.
    #[error("{path} of BlockDevice {block_device} is held by somebody: nothing was written to any disk")]
    Held {
        /// The BlockDevice.
        block_device: String,
        /// Its path.
        path: Utf8PathBuf,
    },
    /// A disk was not made blank.
    #[error(transparent)]
    Clear(#[from] WipeError),
}

impl Classify for PoolError {
    fn classify(&self) -> Class {
        match self {
            Self::Api { source, .. } => source.classify(),
            Self::Related(error) => error.classify(),
            Self::Zfs(error) if error.is_hang() => Class::new("zfs_hangs", reason::POOL_HANGS),
            Self::Zfs(cstor_zfs::Error::Refused { .. }) => Class::new("zfs_refused", reason::ZFS_REFUSED),
            Self::Zfs(_) => Class::new("zfs_failed", reason::ZFS_FAILED),
            Self::Uid { .. } => Class::new("uid", reason::INVALID_REQUEST).retry(Retry::OnChange),
            // Not at once: what changes all the time would be looked at all the time.
            Self::Changed(_) => {
                Class::new("changed", reason::CHANGED).retry(Retry::After(Duration::from_secs(1)))
            }
            Self::Held { .. } => Class::new("held", reason::HELD),
            Self::Clear(error) => Class::new("clear_failed", error.reason()),
        }
    }
}

impl<Z: Pools + Datasets, H: Hands> Controller for PoolKeeper<Z, H> {
    const NAME: &'static str = "pool";
    const FINALIZER: Option<&'static str> = Some(finalizer::POOL_PROTECTION);

    type Object = CStorPoolInstance;
    type Status = CStorPoolInstanceStatus;
    type Observed = Observed;
    type Step = PoolStep;
    type Error = PoolError;

    async fn observe(&self, ctx: &Context, object: &CStorPoolInstance) -> Result<Observed, PoolError> {
        observe::observe(self, ctx, object).await
    }

    fn decide(observed: &Observed) -> Decision<PoolStep, CStorPoolInstanceStatus> {
        decide::decide(observed)
    }

    async fn act(&self, ctx: &Context, step: PoolStep) -> Result<Outcome, PoolError> {
        act::act(self, ctx, step).await
    }
}

/// Makes the controller of the pools of this node.
pub fn controller<Z: Pools + Datasets, H: Hands>(
    client: &Client,
    settings: &Settings,
    seen: &Seen,
    zfs: &Z,
    hands: H,
) -> Engine<PoolKeeper<Z, H>> {
    let Settings {
        node,
        namespace,
        host,
        ..
    } = settings;
    let here = || {
        Watch::<CStorPoolInstance>::namespaced(client.clone(), namespace)
            .fields(&format!("spec.hostName={host}"))
    };
    let devices = Related::new(
        Watch::<BlockDevice>::namespaced(client.clone(), namespace)
            .fields(&format!("spec.nodeAttributes.nodeName={node}")),
    );
    let pools = Related::new(here());
    let storages = Related::new(
        Watch::<Storage>::namespaced(client.clone(), namespace).fields(&format!("spec.nodeName={node}")),
    );
    let keeper = PoolKeeper {
        client: client.clone(),
        node: node.clone(),
        zfs: zfs.clone(),
        hands,
        disks: seen.disks.clone(),
        devices: devices.clone(),
        pools: pools.clone(),
        storages: storages.clone(),
        matches: seen.matches.clone(),
        began: Arc::default(),
    };
    Engine::new(keeper, here())
        .related(devices, |_| vec![Trigger::All])
        // What another pool of the node has recorded is looked at, and wakes nobody: it would wake itself.
        .related(pools, |_| vec![])
        .related(storages, |_| vec![Trigger::All])
        .trigger("disks", seen.disks.changes().map(|()| Trigger::All))
        .trigger("attachments", seen.matches.changes().map(|()| Trigger::All))
        .trigger("zpool events", Pools::events(zfs).map(|_| Trigger::All))
        .concurrency(AT_ONCE)
}

/// Runs the controller of pools in the agent.
///
/// # Errors
/// The programs of ZFS are not there.
pub fn install(app: &mut App, settings: &Settings, seen: &Seen) -> Result<(), cstor_zfs::Error> {
    let zfs = cstor_zfs::Zfs::find(cstor_zfs::Deadlines::default())?;
    let hands = HostHands {
        wiper: Wiper::new(settings.places.clone(), &settings.node),
    };
    app.controller(controller(&app.client(), settings, seen, &zfs, hands));
    Ok(())
}
