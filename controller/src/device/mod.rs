//! BlockDevice: whose it is, derived from `spec.claimRef` alone.
//!
//! # Expected flow
//! 1. A device appears, with no claim: its `status.claimState` becomes `Unclaimed`.
//! 2. A claim is written into it (see [`claim`](crate::claim)): `Claimed`, and the finalizer `openebs.io/bd-protection` is on it.
//! 3. The claim is taken off it: `Released`, and the finalizer goes. Nothing is wiped.
//! 4. The agent finds the device blank, because nothing was ever on it or because somebody had it wiped: `Unclaimed`.
//!
//! # Guarantees
//! - `Claimed` if and only if there is a `claimRef`. Whatever else is written there, or lost in a crash, is put right.
//! - A device whose claim is *positively* gone is released: the API server says, to a fresh read, that there is no claim of that name,
//!   or that it is another one (another UID). So is a device whose claim has another device, which happens when two processes
//!   chose for one claim at the same time. Not being able to read the claim releases nothing.
//! - A device that a person deletes while it is claimed stays until the claim is gone; an event says so.
//! - Nothing but `spec.claimRef`, `status.claimState` and the finalizer is written. The rest is the agent's.
//! - A device with the annotation `openebs.io/reconcile: "false"` or the label `ndm.io/managed: "false"` is left alone.
//!
//! # Caveats
//! - A claim of another namespace, or an owner that is no BlockDeviceClaim, cannot be checked, and keeps the device for ever.
//! - A claim that was removed by force, with its finalizer taken off by hand, loses a device even if a pool is on it. The pool stays as it
//!   is: the device is not blank, so nobody gets it but by its name.

mod act;
mod decide;
mod observe;
#[cfg(test)]
mod tests;

use cstor_api::names::finalizer;
use cstor_api::openebs::{BlockDevice, BlockDeviceClaim, BlockDeviceStatus};
use cstor_reconcile::related::RelatedError;
use cstor_reconcile::{
    Class, Classify, Context, Controller, Decision, Engine, Key, Outcome, Related, Trigger, Watch,
};
use kube::{Client, ResourceExt as _};

pub use act::DeviceStep;
pub use observe::Observed;

use crate::patch::{PatchError, Writer};

/// The controller of devices.
pub struct Devices {
    claims: Related<BlockDeviceClaim>,
    writer: Writer,
}

/// The controller of the devices in `namespace`, ready to be run.
pub fn engine(client: Client, namespace: &str) -> Engine<Devices> {
    let claims = Related::new(Watch::namespaced(client.clone(), namespace));
    let devices = Devices {
        claims: claims.clone(),
        writer: Writer::new(client.clone(), namespace, Devices::NAME),
    };
    Engine::new(devices, Watch::namespaced(client, namespace)).related(claims, wakes)
}

/// Whom a change of a claim concerns: the device it names; any device, if it names none yet.
fn wakes(claim: &BlockDeviceClaim) -> Vec<Trigger> {
    match claim
        .spec
        .block_device_name
        .as_ref()
        .filter(|name| !name.is_empty())
    {
        Some(name) => vec![Trigger::One(Key {
            namespace: claim.namespace(),
            name: name.clone(),
        })],
        None => vec![Trigger::All],
    }
}

/// What can go wrong with a device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The claim cannot be read.
    #[error(transparent)]
    Related(#[from] RelatedError),
    /// A write came to nothing.
    #[error(transparent)]
    Patch(#[from] PatchError),
}

impl Classify for DeviceError {
    fn classify(&self) -> Class {
        match self {
            Self::Related(error) => error.classify(),
            Self::Patch(error) => error.classify(),
        }
    }
}

impl Controller for Devices {
    const NAME: &'static str = "device";
    const FINALIZER: Option<&'static str> = Some(finalizer::BLOCK_DEVICE);

    type Object = BlockDevice;
    type Status = BlockDeviceStatus;
    type Observed = Observed;
    type Step = DeviceStep;
    type Error = DeviceError;

    async fn observe(&self, ctx: &Context, object: &BlockDevice) -> Result<Observed, DeviceError> {
        Ok(observe::observe(self, ctx, object).await?)
    }

    fn decide(observed: &Observed) -> Decision<DeviceStep, BlockDeviceStatus> {
        decide::decide(observed)
    }

    async fn act(&self, _: &Context, step: DeviceStep) -> Result<Outcome, DeviceError> {
        act::act(self, step).await
    }
}
