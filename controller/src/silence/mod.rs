//! BlockDevice: nothing is known of it while the agent of its node is silent.
//!
//! # Expected flow
//! 1. The agent of a node renews its heartbeat Lease. Nothing happens here.
//! 2. The Lease has not changed for its whole duration: the node's devices become `Unknown`, with an event and with
//!    `Present=Unknown`, reason `AgentSilent`, which says since when and where to look. By it another node that has the disk now
//!    knows that it may take the object over, so it is written to those that were `Unknown` for another reason as well.
//! 3. The agent is back, looks, and says of each device what it is. That is its word, not ours.
//!
//! # Guarantees
//! - Nobody's wall clock is compared with another's: the Lease is judged by [`LeaseObserver`], and a controller that has just started
//!   waits a full duration before it calls anybody silent.
//! - Before a device is called unknown, the Lease and the Node are read from the API server; the write is refused if the agent wrote the
//!   device in between.
//! - A device never becomes `Inactive` here: that it is gone is for its agent to say. One that is `Inactive` stays so.
//! - No writes while nothing changes, however often Leases are renewed: a renewal wakes nobody. Each device is looked at when the Lease
//!   that was last seen would expire, and then found alive, in the cache.
//! - A device that is to be left alone is.
//!
//! # Caveats
//! - A node without a Lease has no agent. If our agent once published the device (it has an identity), that is silence, after
//!   [`GRACE`]. If not, the device is somebody else's to keep, until its Node is gone.
//! - An agent that is alive and not able to write its devices is not silent.

mod agents;
mod decide;
mod observe;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::time::Duration;

use cstor_api::names::lease;
use cstor_api::openebs::{BlockDevice, BlockDeviceStatus};
#[cfg(doc)]
use cstor_reconcile::lease::LeaseObserver;
use cstor_reconcile::related::RelatedError;
use cstor_reconcile::{
    Class, Classify, Context, Controller, Decision, Engine, Outcome, Related, Step, Watch,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::core::PartialObjectMeta;

pub use observe::Observed;

use self::agents::Agents;

/// How long a node may be without a Lease: as long as a Lease of ours lasts.
pub const GRACE: Duration = Duration::from_secs(40);

/// The controller of silence.
#[derive(Debug)]
pub struct Silence {
    namespace: String,
    leases: Related<Lease>,
    nodes: Related<PartialObjectMeta<Node>>,
    agents: Agents,
}

/// The controller of silence for the devices in `namespace`, ready to be run.
pub fn engine(client: Client, namespace: &str) -> Engine<Silence> {
    let label = format!("{}={}", lease::COMPONENT_LABEL, lease::AGENT_COMPONENT);
    let leases = Related::new(Watch::namespaced(client.clone(), namespace).labels(&label));
    let nodes = Related::new(Watch::all(client.clone()));
    let agents = Agents::default();
    let silence = Silence {
        namespace: namespace.to_owned(),
        leases: leases.clone(),
        nodes: nodes.clone(),
        agents: agents.clone(),
    };
    // A renewal wakes nobody. It is noted when it comes, so that silence is counted from then and not from the next look.
    let note = move |lease: &Lease| {
        agents.note(lease);
        Vec::new()
    };
    Engine::new(silence, Watch::namespaced(client, namespace))
        .related(leases, note)
        .related(nodes, |_| Vec::new())
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum SilenceError {
    /// The Lease or the Node cannot be read.
    #[error(transparent)]
    Related(#[from] RelatedError),
}

impl Classify for SilenceError {
    fn classify(&self) -> Class {
        match self {
            Self::Related(error) => error.classify(),
        }
    }
}

/// There are no steps: the status is all that is written, and the engine does that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoStep(Infallible);

impl Step for NoStep {
    fn name(&self) -> &'static str {
        match self.0 {}
    }
}

impl Controller for Silence {
    const NAME: &'static str = "silence";

    type Object = BlockDevice;
    type Status = BlockDeviceStatus;
    type Observed = Observed;
    type Step = NoStep;
    type Error = SilenceError;

    async fn observe(&self, ctx: &Context, object: &BlockDevice) -> Result<Observed, SilenceError> {
        Ok(observe::observe(self, ctx, object).await?)
    }

    fn decide(observed: &Observed) -> Decision<NoStep, BlockDeviceStatus> {
        decide::decide(observed)
    }

    async fn act(&self, _: &Context, step: NoStep) -> Result<Outcome, SilenceError> {
        match step.0 {}
    }
}
