//! BlockDeviceClaim: which device a claim gets, and giving it back.
//!
//! # Expected flow
//! 1. A claim appears. It names a device, or says what one must be like; then the smallest that fits is chosen, the first by
//!    name among equals.
//! 2. The claim is written into the device: `spec.claimRef`, and the finalizer `openebs.io/bd-protection`, in one write.
//! 3. The device's `status.claimState` becomes `Claimed`; a device that was chosen is written into the claim as
//!    `spec.blockDeviceName`; the claim's phase becomes `Bound`.
//! 4. The claim is deleted. When no finalizer but ours is left, and no pool of ours is on the device, the claim is taken off the
//!    device again, the device becomes `Released`, and the claim goes.
//!
//! # Guarantees
//! - A device has one claim or none. The write of step 2 carries the version of the device that was judged: whoever comes
//!   second is refused by the API server, looks again, and says by whom the device is claimed.
//! - `claimRef` is the truth, and all else is derived from it: after a crash between any two writes the next look finds a
//!   device that has this claim's UID, and goes on from there. It never takes a second device.
//! - A device is chosen only if its agent, which is alive, says that it is blank. One that carries a pool can be had by its name.
//! - Nothing is ever written to a disk, and nothing wiped.
//! - A claim that waits says why no device fits, for each device, and waits for devices to change. It is not tried in between.
//! - A claim annotated `openebs.io/reconcile: "false"` is left alone: no finalizer, no status, no release. A device annotated so is
//!   neither chosen nor written to.
//!
//! # Caveats
//! - Deleting a claim by hand while its disk is in a pool of ours and there: `DeletionBlocked`, until the pool is gone. A disk that
//!   is not there (`Inactive`), or whose node is silent (`Unknown`), is released at once: what the agent said of it is old, and the
//!   claims of a dead node must be removable. That loses nothing, since being claimed never was a leave to write.
//! - Which of several claims gets a disk when all appear at once is chance.
//! - All of it is in one namespace.

mod act;
mod decide;
mod fit;
mod observe;
#[cfg(test)]
mod tests;

use cstor_api::names::finalizer;
use cstor_api::openebs::{BlockDevice, BlockDeviceClaim, BlockDeviceClaimStatus};
use cstor_reconcile::related::RelatedError;
use cstor_reconcile::{
    Class, Classify, Context, Controller, Decision, Engine, Key, Outcome, Related, Trigger, Watch,
};
use kube::{Client, ResourceExt as _};

pub use act::ClaimStep;
pub use observe::Observed;

use crate::block_device::claim_ref;
use crate::patch::{PatchError, Writer};

/// The controller of claims.
pub struct Claims {
    devices: Related<BlockDevice>,
    writer: Writer,
}

/// The controller of the claims in `namespace`, ready to be run.
pub fn engine(client: Client, namespace: &str) -> Engine<Claims> {
    let devices = Related::new(Watch::namespaced(client.clone(), namespace));
    let claims = Claims {
        devices: devices.clone(),
        writer: Writer::new(client.clone(), namespace, Claims::NAME),
    };
    Engine::new(claims, Watch::namespaced(client, namespace)).related(devices, wakes)
}

/// Whom a change of a device concerns: the claim that has it; while nobody has it, whoever may want it. The engine asks about
/// the device before the change as well as after it, so those who wait hear of its being claimed and released.
fn wakes(device: &BlockDevice) -> Vec<Trigger> {
    match claim_ref(device).and_then(|claim| claim.name.clone()) {
        Some(name) => vec![Trigger::One(Key {
            namespace: device.namespace(),
            name,
        })],
        None => vec![Trigger::All],
    }
}

/// What can go wrong with a claim.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The devices cannot be read.
    #[error(transparent)]
    Related(#[from] RelatedError),
    /// A write came to nothing.
    #[error(transparent)]
    Patch(#[from] PatchError),
}

impl Classify for ClaimError {
    fn classify(&self) -> Class {
        match self {
            Self::Related(error) => error.classify(),
            Self::Patch(error) => error.classify(),
        }
    }
}

impl Controller for Claims {
    const NAME: &'static str = "claim";
    const FINALIZER: Option<&'static str> = Some(finalizer::BLOCK_DEVICE_CLAIM);

    type Object = BlockDeviceClaim;
    type Status = BlockDeviceClaimStatus;
    type Observed = Observed;
    type Step = ClaimStep;
    type Error = ClaimError;

    async fn observe(&self, ctx: &Context, object: &BlockDeviceClaim) -> Result<Observed, ClaimError> {
        Ok(observe::observe(self, ctx, object).await?)
    }

    fn decide(observed: &Observed) -> Decision<ClaimStep, BlockDeviceClaimStatus> {
        decide::decide(observed)
    }

    async fn act(&self, ctx: &Context, step: ClaimStep) -> Result<Outcome, ClaimError> {
        act::act(self, ctx, step).await
    }
}
