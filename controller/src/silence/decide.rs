//! What follows. No I/O, no clock: a function.

use std::time::Duration;

use cstor_api::names::lease::AGENT_PREFIX;
use cstor_api::names::phase::BlockDeviceState;
use cstor_api::names::{condition, reason};
use cstor_api::openebs::BlockDeviceStatus;
use cstor_api::{Condition, ConditionStatus, set_condition};
use cstor_reconcile::{Decision, Event};

use super::agents::Heard;
use super::observe::{Node, Observed};
use super::{GRACE, NoStep};
use crate::block_device::{condition as said_of, is_left_alone, state};

/// What the node's agent is to a device.
enum Agent {
    /// It is heard of, or should be given this long.
    LookAgain(Duration),
    /// It is silent, and why we say so.
    Silent(String),
}

pub(super) fn decide(seen: &Observed) -> Decision<NoStep, BlockDeviceStatus> {
    let (device, nothing) = (&seen.device, Decision::nothing());
    let Some(node) = seen.node.as_ref().filter(|_| !is_left_alone(device)) else {
        return nothing;
    };
    let is_told = match state(device) {
        // An agent that died before it said anything of the device is as silent as one that died after.
        Some(BlockDeviceState::Active) | None => false,
        Some(BlockDeviceState::Unknown) => {
            let present = said_of(device, condition::PRESENT);
            present.is_some_and(|present| present.reason.as_deref() == Some(reason::AGENT_SILENT))
        }
        _ => return nothing,
    };
    match agent(node, device.spec.identity.is_some()) {
        Agent::LookAgain(wait) if !is_told => nothing.again(wait),
        Agent::LookAgain(_) => nothing,
        Agent::Silent(why) => {
            let note = format!("{why}: nothing is known of this device until it is back");
            let told = nothing.event(Event::warning(reason::AGENT_SILENT, note).action("Watch"));
            if is_told {
                return told;
            }
            // All the rest is the agent's and stays as it is: only what differs is written.
            let mut status = device.status.clone().unwrap_or_default();
            status.state = Some(BlockDeviceState::Unknown);
            let mut silent = Condition::new(
                condition::PRESENT,
                ConditionStatus::Unknown,
                reason::AGENT_SILENT,
                format!(
                    "The agent of node {name} is not heard of, and what is said of this device is from before: look at the \
                     node, at the agent on it, and at its Lease {AGENT_PREFIX}{name}.",
                    name = node.name
                ),
            );
            silent.observed_generation = None;
            set_condition(status.conditions.get_or_insert_default(), silent, seen.now);
            told.status(status)
        }
    }
}

fn agent(node: &Node, published_by_us: bool) -> Agent {
    let name = &node.name;
    match node.agent {
        // Also if the Node is gone: an agent that beats is alive, whatever became of the object.
        Heard::Yes(left) => Agent::LookAgain(left),
        Heard::Expired => Agent::Silent(format!("The agent of node {name} does not renew its Lease")),
        Heard::Missing(_) if !node.exists => Agent::Silent(format!("Node {name} no longer exists")),
        Heard::Missing(Duration::ZERO) if published_by_us => {
            Agent::Silent(format!("The agent of node {name} has no Lease"))
        }
        Heard::Missing(left) if published_by_us => Agent::LookAgain(left),
        Heard::Missing(_) => Agent::LookAgain(GRACE),
    }
}
