//! What is done: one write, which the API server refuses if the device is no longer the one that was decided on.
//!
//! That the claim is gone need not be asked again: the engine decided it on a fresh read, and a UID never comes back, nor does a
//! claim change its device.

use cstor_api::names::event;
use cstor_reconcile::{Event, Outcome, Step};

use super::{DeviceError, Devices};
use crate::patch::Target;

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceStep {
    device: Target,
    why: String,
}

impl DeviceStep {
    /// Takes off the device a claim that no longer has it, for a reason that is told.
    pub(super) const fn release(device: Target, why: String) -> Self {
        Self { device, why }
    }
}

impl Step for DeviceStep {
    fn name(&self) -> &'static str {
        "release_orphan"
    }
}

pub(super) async fn act(devices: &Devices, step: DeviceStep) -> Result<Outcome, DeviceError> {
    devices.writer.unclaim(&step.device).await?;
    let note = format!("Released, what is on it stays: {}", step.why);
    Ok(Outcome::changed().event(Event::warning(event::BLOCK_DEVICE_RELEASED, note).action("Release")))
}
