//! Node: every disk of this node has a BlockDevice, and only one.
//!
//! # Expected flow
//! 1. A disk appears. If an object for its identity exists (ours by name, or one that NDM made for the same disk), it is
//!    that one's; if not, an object is made. [`publish`](super::publish) fills it.
//! 2. The object names another node, because the disk was there before: once that node no longer has the disk, the object
//!    is taken over.
//! 3. The other node still has a disk of that identity after a while: this node puts a label on the object, by which
//!    both know that there are two, and neither is offered. The label goes when the disk goes.
//! 4. A disk without identity gets an object that says so and what to do, named after node and path.
//!
//! # Guarantees
//! - An object is never made for a disk that has one, whatever crashed when: its name follows from the identity.
//! - An object is taken over only from a node that says the disk is gone, or that is silent.
//! - Of several objects about one disk (NDM left such behind), one is used: the claimed one, else the oldest.
//! - One object that cannot be written does not keep the others from it.
//!
//! # Caveats
//! - It looks up objects of other nodes by name, one by one, and only for disks that have none on this node.

mod act;
mod decide;
mod observe;

use std::collections::BTreeMap;

use cstor_api::openebs::BlockDevice;
use cstor_reconcile::related::RelatedError;
use cstor_reconcile::{Class, Classify, Context, Controller, Decision, Outcome, Related, Step};
use k8s_openapi::api::core::v1::Node;
use kube::Client;

pub use decide::{Known, Observed};

use super::notice::Notice;
use super::publish::Description;
use super::service::Disks;

/// The controller of the disks of a node as a whole.
#[derive(Clone)]
pub struct Announce {
    /// The way to the API server.
    pub client: Client,
    /// The namespace of the objects.
    pub namespace: String,
    /// The name of the node.
    pub node: String,
    /// What was seen of the node's disks.
    pub disks: Disks,
    /// The objects that name this node.
    pub here: Related<BlockDevice>,
    /// The objects of other nodes that carry this node's label.
    pub marked: Related<BlockDevice>,
    /// Where it is noted which objects are about a disk that has another.
    pub doubles: Doubles,
}

/// The objects of this node about a disk that has another object, each with the one that is to be used instead.
pub type Doubles = Notice<BTreeMap<String, String>>;

/// One effect.
#[derive(Debug, Clone, PartialEq)]
pub enum AnnounceStep {
    /// Make the object of a disk.
    Make {
        /// Its name.
        name: String,
        /// What it says.
        description: Box<Description>,
    },
    /// Write this node into an object that names another, if that has not changed.
    TakeOver {
        /// Its name.
        name: String,
        /// The version that was looked at.
        resource_version: String,
        /// The node it names.
        from: String,
        /// What it is to say.
        description: Box<Description>,
    },
    /// Put this node's label on the object of another node.
    Mark {
        /// Its name.
        name: String,
    },
    /// Take this node's label off.
    Unmark {
        /// Its name.
        name: String,
    },
}

impl Step for AnnounceStep {
    fn name(&self) -> &'static str {
        match self {
            Self::Make { .. } => "make",
            Self::TakeOver { .. } => "take_over",
            Self::Mark { .. } => "mark",
            Self::Unmark { .. } => "unmark",
        }
    }
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum AnnounceError {
    /// The API server refused, or could not be reached.
    #[error("{doing} BlockDevice {name}")]
    Api {
        /// What was being done.
        doing: &'static str,
        /// The object.
        name: String,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// Other objects could not be read.
    #[error(transparent)]
    Related(#[from] RelatedError),
}

impl Classify for AnnounceError {
    fn classify(&self) -> Class {
        match self {
            Self::Api { source, .. } => source.classify(),
            Self::Related(error) => error.classify(),
        }
    }
}

impl Controller for Announce {
    const NAME: &'static str = "disks";

    type Object = Node;
    type Status = ();
    type Observed = Observed;
    type Step = AnnounceStep;
    type Error = AnnounceError;

    async fn observe(&self, ctx: &Context, _: &Node) -> Result<Observed, AnnounceError> {
        observe::observe(self, ctx).await
    }

    fn decide(observed: &Observed) -> Decision<AnnounceStep, ()> {
        decide::decide(observed)
    }

    async fn act(&self, _: &Context, step: AnnounceStep) -> Result<Outcome, AnnounceError> {
        act::act(self, step).await
    }
}
