//! What is done: one write each, which the API server refuses if the object is no longer the one that was decided on.

use cstor_api::names::event;
use cstor_api::names::phase::BlockDeviceClaimState;
use cstor_api::openebs::{BlockDevice, BlockDeviceClaim};
use cstor_reconcile::{Context, Event, Outcome, Step};
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::json;

use super::{ClaimError, Claims};
use crate::patch::Target;

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimStep {
    /// Write the claim into the device.
    Claim(Device),
    /// Write down that the device is claimed.
    MarkClaimed(Device),
    /// Write the device that was chosen into the claim.
    NameDevice(Claim, String),
    /// Take the claim off the device.
    Release(Device),
    /// Write down that the device was released.
    MarkReleased(Device),
}

/// A device as it was when it was decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device(pub(super) Target);

/// A claim as it was when it was decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim(pub(super) Target);

impl Step for ClaimStep {
    fn name(&self) -> &'static str {
        match self {
            Self::Claim(_) => "claim",
            Self::MarkClaimed(_) => "mark_claimed",
            Self::NameDevice(..) => "name_device",
            Self::Release(_) => "release",
            Self::MarkReleased(_) => "mark_released",
        }
    }
}

pub(super) async fn act(claims: &Claims, ctx: &Context, step: ClaimStep) -> Result<Outcome, ClaimError> {
    let writer = &claims.writer;
    match step {
        ClaimStep::Claim(Device(device)) => {
            let claim_ref = ObjectReference {
                // The version of the claim would be out of date with the next write, and say nothing.
                resource_version: None,
                field_path: None,
                ..ctx.reference().clone()
            };
            writer.claim(&device, &json!(claim_ref)).await?;
            let note = format!("Claimed {}", device.name);
            Ok(Outcome::changed().event(Event::normal(event::BLOCK_DEVICE_CLAIMED, note).action("Claim")))
        }
        ClaimStep::MarkClaimed(Device(device)) => {
            let status = json!({ "claimState": BlockDeviceClaimState::Claimed });
            writer
                .status::<BlockDevice>("mark as claimed", &device, &status)
                .await?;
            Ok(Outcome::changed())
        }
        ClaimStep::NameDevice(Claim(claim), device) => {
            let spec = json!({ "blockDeviceName": device });
            writer
                .spec::<BlockDeviceClaim>("name the device of", &claim, &spec)
                .await?;
            Ok(Outcome::changed())
        }
        ClaimStep::Release(Device(device)) => {
            writer.unclaim(&device).await?;
            let note = format!("Released {}; what is on it stays", device.name);
            Ok(Outcome::changed().event(Event::normal(event::BLOCK_DEVICE_RELEASED, note).action("Release")))
        }
        ClaimStep::MarkReleased(Device(device)) => {
            let status = json!({ "claimState": BlockDeviceClaimState::Released });
            writer
                .status::<BlockDevice>("mark as released", &device, &status)
                .await?;
            Ok(Outcome::changed())
        }
    }
}
