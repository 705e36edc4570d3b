//! BlockDevice: tells of a disk what is true of it.
//!
//! # Expected flow
//! 1. The object is there: [`announce`](super::announce) made it, or NDM did.
//! 2. The disk it is about is looked for among those of the node, by identity. What was found is written into `spec`
//!    (all of it but the claim, which is the cluster controller's) and into `status`: whether it is there, whose it is.
//! 3. The disk goes, comes back under another name, grows, gets a file system, stops answering: the same again.
//! 4. A person asks for the disk to be wiped, by an annotation that names its identity. It is wiped if it is
//!    nobody's, or it is told why not; the annotation is removed either way.
//!
//! # Guarantees
//! - Nothing is written while nothing is different.
//! - A disk that cannot be looked at is `Unknown`, never `Inactive`: only one that is positively not there is.
//! - Of two disks with one identity neither is offered; of two objects about one disk, one.
//! - Nothing on a disk is changed but by a wipe, and a wipe proves anew that the disk is the one that was named, is not
//!   claimed and is not used by anybody.
//! - An object with `ndm.io/managed: "false"` or `openebs.io/reconcile: "false"` is left alone.
//!
//! # Caveats
//! - An object of a disk that is gone for good stays until a person deletes it: it may be claimed, or come back.
//! - The objects of a node whose agent is silent are the cluster controller's to mark.

mod act;
mod decide;
mod describe;
mod observe;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cstor_api::cstor::CStorPoolInstance;
use cstor_api::dao::Storage;
use cstor_api::openebs::{BlockDevice, BlockDeviceStatus};
use cstor_reconcile::failure::Failure;
use cstor_reconcile::related::RelatedError;
use cstor_reconcile::{
    Class, Classify, Context, Controller, Decision, Outcome, Related, Report, Retry, Step,
};
use jiff::Timestamp;
use kube::Client;

pub use decide::Observed;
pub use describe::Description;

use super::announce::Doubles;
use super::matches::{Bound, Matches};
use super::service::Disks;
use super::wipe::{WipeError, Wiper};

/// The controller of BlockDevices.
#[derive(Clone)]
pub struct Publish {
    /// The way to the API server.
    pub client: Client,
    /// The name of the node.
    pub node: String,
    /// What was seen of the node's disks.
    pub disks: Disks,
    /// The objects of the node's disks, for what is claimed of a disk and its partitions.
    pub objects: Related<BlockDevice>,
    /// The pools of the node, which say whose disks are ours.
    pub pools: Related<CStorPoolInstance>,
    /// The disks that were attached to the node on our behalf.
    pub storages: Related<Storage>,
    /// Which disks VolumeAttachments brought.
    pub matches: Matches,
    /// Which objects are about a disk that has another.
    pub doubles: Doubles,
    /// The one who wipes.
    pub wiper: Wiper,
    /// When this agent first looked.
    pub began: Arc<OnceLock<Timestamp>>,
}

/// One effect.
#[derive(Debug, Clone, PartialEq)]
pub enum PublishStep {
    /// Write what was found into `spec` and labels.
    Describe(Box<Description>),
    /// Remove the object of a disk without identity: the disk is gone, or has one now.
    Remove,
    /// Wipe the disk that has this identity.
    Wipe {
        /// `spec.identity.value`, as the annotation named it.
        identity: String,
        /// What VolumeAttachments had to do with the disk when this was decided.
        bound: Option<Bound>,
    },
    /// Remove the annotation that asked for a wipe: it was answered.
    ForgetWipe {
        /// What it said. Another request is not answered by this.
        request: String,
    },
}

impl Step for PublishStep {
    fn name(&self) -> &'static str {
        match self {
            Self::Describe(_) => "describe",
            Self::Remove => "remove",
            Self::Wipe { .. } => "wipe",
            Self::ForgetWipe { .. } => "forget_wipe",
        }
    }
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The API server refused, or could not be reached.
    #[error("{doing} the BlockDevice")]
    Api {
        /// What was being done.
        doing: &'static str,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// Other objects could not be read.
    #[error(transparent)]
    Related(#[from] RelatedError),
    /// The disk was not wiped.
    #[error(transparent)]
    Wipe(#[from] WipeError),
}

impl Classify for PublishError {
    fn classify(&self) -> Class {
        match self {
            Self::Api { source, .. } => source.classify(),
            Self::Related(error) => error.classify(),
            // Told at the next look, at once, and the request is taken off.
            Self::Wipe(error) => {
                Class::new("wipe_failed", error.reason()).retry(Retry::After(Duration::ZERO))
            }
        }
    }
}

impl Controller for Publish {
    const NAME: &'static str = "disk";

    type Object = BlockDevice;
    type Status = BlockDeviceStatus;
    type Observed = Observed;
    type Step = PublishStep;
    type Error = PublishError;

    async fn observe(&self, ctx: &Context, object: &BlockDevice) -> Result<Observed, PublishError> {
        observe::observe(self, ctx, object).await
    }

    fn decide(observed: &Observed) -> Decision<PublishStep, BlockDeviceStatus> {
        decide::decide(observed)
    }

    async fn act(&self, ctx: &Context, step: PublishStep) -> Result<Outcome, PublishError> {
        act::act(self, ctx, step).await
    }

    fn unobserved(_: &BlockDevice, _: &Failure, _: Timestamp) -> Report<BlockDeviceStatus> {
        // The pools or storages could not be read. What was last seen of the disk is still true.
        Report::default()
    }
}
