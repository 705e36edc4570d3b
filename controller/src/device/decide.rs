//! What follows. No I/O, no clock: a function.

use cstor_api::names::phase::BlockDeviceClaimState;
use cstor_api::names::{event, finalizer};
use cstor_api::openebs::{BlockDevice, BlockDeviceStatus};
use cstor_reconcile::{Decision, Event};
use kube::ResourceExt as _;

use super::act::DeviceStep;
use super::observe::{Observed, Owner};
use crate::block_device::{claim_state, is_active, is_blank, is_left_alone};
use crate::patch::Target;

pub(super) fn decide(seen: &Observed) -> Decision<DeviceStep, BlockDeviceStatus> {
    let device = &seen.device;
    if is_left_alone(device) {
        // Neither put the finalizer on nor take it off.
        let held = device
            .finalizers()
            .iter()
            .any(|known| known == finalizer::BLOCK_DEVICE);
        return match held {
            true => Decision::nothing(),
            false => Decision::nothing().release(),
        };
    }
    match &seen.owner {
        Owner::Nobody => {
            let wanted = unclaimed(device);
            told(device, wanted).release()
        }
        Owner::There(owner) | Owner::Unproved(owner) => {
            let decision = told(device, BlockDeviceClaimState::Claimed);
            if device.metadata.deletion_timestamp.is_none() {
                return decision;
            }
            let note = format!(
                "Somebody deletes this BlockDevice, but {owner} has it: it stays until that is deleted"
            );
            decision.event(Event::warning(event::BLOCK_DEVICE_HELD, note).action("Delete"))
        }
        Owner::Gone(claim) => {
            let why = format!("{claim} had this device and no longer exists");
            Decision::nothing().step(DeviceStep::release(Target::of(device), why))
        }
        Owner::Elsewhere { claim, has } => {
            let why = format!("{claim} has {has} and not this device");
            Decision::nothing().step(DeviceStep::release(Target::of(device), why))
        }
    }
}

/// What a device that nobody has is.
fn unclaimed(device: &BlockDevice) -> BlockDeviceClaimState {
    match claim_state(device) {
        // The agent must be alive: what it said before it fell silent may no longer be so.
        Some(BlockDeviceClaimState::Released) if is_blank(device) && is_active(device) => {
            BlockDeviceClaimState::Unclaimed
        }
        Some(BlockDeviceClaimState::Claimed | BlockDeviceClaimState::Released) => {
            BlockDeviceClaimState::Released
        }
        _ => BlockDeviceClaimState::Unclaimed,
    }
}

fn told(device: &BlockDevice, wanted: BlockDeviceClaimState) -> Decision<DeviceStep, BlockDeviceStatus> {
    // All the rest is the agent's and stays as it is: only what differs is written.
    Decision::nothing().status(BlockDeviceStatus {
        claim_state: Some(wanted),
        ..device.status.clone().unwrap_or_default()
    })
}
