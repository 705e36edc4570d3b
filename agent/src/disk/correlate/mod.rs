//! Node: finds the disk that each VolumeAttachment on this node brought.
//!
//! # Expected flow
//! 1. A VolumeAttachment names this node. Its PersistentVolume says what the driver calls the volume.
//! 2. Among the disks of the node the one is looked for that says it is that volume, by the rules of
//!    [`cstor_blockdev::attachment`]. Only a single one that fits and stays the same for a while counts.
//! 3. The result is noted at both ends: in the BlockDevice's status (by [`publish`](super::publish)) and in annotations of
//!    the VolumeAttachment, as a condition that says what is wrong if there is none.
//! 4. The attachment goes, or the disk changes: the note is taken back at once.
//!
//! # Guarantees
//! - A disk that a foreign attachment brought, or may have brought, is not offered: a disk counts as blank only after it was
//!   held against all attachments of the node, those included that are still under way, as the API server had them then. While
//!   the disk of an attachment is not known, every disk of its size may be it.
//! - Nothing but two annotations is written, and those only when they differ.
//!
//! # Caveats
//! - The API server offers no selector for the node of a VolumeAttachment, so all are watched; those of other nodes are
//!   dropped on arrival.

mod act;
mod again;
mod decide;
mod observe;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use camino::Utf8PathBuf;
use cstor_api::openebs::BlockDevice;
use cstor_blockdev::attachment::{Settling, published};
use cstor_reconcile::related::RelatedError;
use cstor_reconcile::{Class, Classify, Context, Controller, Decision, Outcome, Related, Step};
use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Client;

pub use decide::{Found, Observed};

use super::matches::Matches;
use super::service::Disks;

/// The controller of the VolumeAttachments of a node.
#[derive(Clone)]
pub struct Correlate {
    /// The way to the API server.
    pub client: Client,
    /// The name of the node.
    pub node: String,
    /// Where the kubelet keeps its things.
    pub kubelet: Utf8PathBuf,
    /// What was seen of the node's disks.
    pub disks: Disks,
    /// All VolumeAttachments.
    pub attachments: Related<VolumeAttachment>,
    /// The objects of the node's disks.
    pub objects: Related<BlockDevice>,
    /// Where the result is noted.
    pub matches: Matches,
    /// What was found before.
    pub settling: Arc<Mutex<Settling>>,
    /// The volumes that were read. What is asked of them does not change, but for the size.
    pub volumes: Arc<Mutex<BTreeMap<String, PersistentVolume>>>,
}

/// One effect.
#[derive(Debug, Clone, PartialEq)]
pub enum CorrelateStep {
    /// Write the annotations of a VolumeAttachment.
    Annotate {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
        /// The BlockDevice it brought.
        block_device: Option<String>,
        /// The condition, as JSON.
        condition: String,
    },
}

impl Step for CorrelateStep {
    fn name(&self) -> &'static str {
        match self {
            Self::Annotate { .. } => "annotate",
        }
    }
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum CorrelateError {
    /// The API server refused, or could not be reached.
    #[error("{doing} {name}")]
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
    /// Looking at what the kubelet hands to pods did not come to an end.
    #[error("the look at what the kubelet hands to pods was broken off")]
    BrokenOff,
    /// What the kubelet hands to pods could not be read.
    #[error(transparent)]
    Published(#[from] published::Error),
}

impl Classify for CorrelateError {
    fn classify(&self) -> Class {
        match self {
            Self::Api { source, .. } => source.classify(),
            Self::Related(error) => error.classify(),
            Self::Published(_) | Self::BrokenOff => Class::new("kubelet_unreadable", "KubeletUnreadable"),
        }
    }
}

impl Controller for Correlate {
    const NAME: &'static str = "attachments";

    type Object = Node;
    type Status = ();
    type Observed = Observed;
    type Step = CorrelateStep;
    type Error = CorrelateError;

    async fn observe(&self, ctx: &Context, _: &Node) -> Result<Observed, CorrelateError> {
        observe::observe(self, ctx).await
    }

    fn decide(observed: &Observed) -> Decision<CorrelateStep, ()> {
        decide::decide(observed)
    }

    async fn act(&self, _: &Context, step: CorrelateStep) -> Result<Outcome, CorrelateError> {
        act::act(self, step).await
    }
}
