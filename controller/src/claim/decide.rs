//! What follows. No I/O, no clock: a function.

use std::collections::BTreeMap;

use cstor_api::names::phase::{BlockDeviceClaimPhase, BlockDeviceClaimState};
use cstor_api::names::{annotation, condition, finalizer, reason};
use cstor_api::openebs::{BlockDevice, BlockDeviceClaimStatus};
use cstor_api::{Condition, ConditionStatus, set_condition};
use cstor_reconcile::failure::shorten;
use cstor_reconcile::{Decision, Event, Failure, Step as _};
use kube::ResourceExt as _;

use super::act::{Claim, ClaimStep, Device};
use super::fit::{Misfit, Nonsense, Wish, why};
use super::observe::{Devices, Observed};
use crate::block_device::{claim_ref, claim_state, condition, is_active, is_left_alone, node_name, state};
use crate::patch::Target;

type Decided = Decision<ClaimStep, BlockDeviceClaimStatus>;

/// The longest message of a condition.
const MESSAGE_LIMIT: usize = 16_384;

pub(super) fn decide(seen: &Observed) -> Decided {
    if seen.is_left_alone() {
        // Neither put the finalizer on nor take it off.
        return match seen.is_held() {
            true => Decision::nothing(),
            false => Decision::nothing().release(),
        };
    }
    if seen.claim.metadata.deletion_timestamp.is_some() {
        return let_go(seen);
    }
    match seen.own() {
        Some(device) => bind(seen, device),
        None => look_for_one(seen),
    }
}

impl Observed {
    fn is_left_alone(&self) -> bool {
        let wish = self.claim.annotations().get(annotation::BLOCK_DEVICE_RECONCILE);
        wish.is_some_and(|wish| wish == "false")
    }

    fn is_held(&self) -> bool {
        let finalizers = self.claim.finalizers();
        finalizers
            .iter()
            .any(|known| known == finalizer::BLOCK_DEVICE_CLAIM)
    }

    /// The device that has this claim's UID. Should there be several (two processes that both thought they lead), the first by
    /// name: the controller of devices takes the claim off the others once this one is written into the claim.
    fn own(&self) -> Option<&BlockDevice> {
        let uid = self.claim.metadata.uid.as_deref().filter(|uid| !uid.is_empty())?;
        let is_ours =
            |device: &&BlockDevice| claim_ref(device).is_some_and(|claim| claim.uid.as_deref() == Some(uid));
        match &self.devices {
            Devices::Named(device) => Some(&**device).filter(is_ours),
            Devices::All(devices, _) => devices
                .iter()
                .map(|device| &**device)
                .filter(is_ours)
                .min_by_key(|device| device.name_any()),
            Devices::Missing(_) | Devices::Unreadable(_) => None,
        }
    }

    /// The failure of a step that is to be tried again. Another one may be remembered, of what has been done since.
    fn failure_of(&self, decision: &Decided) -> Option<&Failure> {
        let again = |failure: &&Failure| decision.steps.iter().any(|step| failure.is_of_step(step.name()));
        self.failure.as_ref().filter(again)
    }

    fn current(&self) -> BlockDeviceClaimStatus {
        self.claim.status.clone().unwrap_or_default()
    }

    fn status(&self, phase: BlockDeviceClaimPhase, bound: Condition) -> BlockDeviceClaimStatus {
        let status = BlockDeviceClaimStatus {
            phase: Some(phase),
            observed_generation: self.claim.metadata.generation,
            ..self.current()
        };
        self.with(status, bound)
    }

    fn with(&self, mut status: BlockDeviceClaimStatus, mut fresh: Condition) -> BlockDeviceClaimStatus {
        fresh.observed_generation = self.claim.metadata.generation;
        fresh.message = fresh.message.map(|message| shorten(message, MESSAGE_LIMIT));
        set_condition(status.conditions.get_or_insert_default(), fresh, self.now);
        status
    }

    /// The claim waits, and why.
    fn waits(
        &self,
        phase: BlockDeviceClaimPhase,
        reason: &'static str,
        message: String,
        note: String,
    ) -> Decided {
        let bound = Condition::new(condition::BOUND, ConditionStatus::False, reason, message);
        Decision::nothing()
            .status(self.status(phase, bound))
            .event(Event::warning(reason, note).action("Claim"))
    }
}

/// Goes on from the moment the claim was written into `device`.
fn bind(seen: &Observed, device: &BlockDevice) -> Decided {
    let target = || Device(Target::of(device));
    let marked = claim_state(device) == Some(&BlockDeviceClaimState::Claimed) || is_left_alone(device);
    let named = !matches!(seen.devices, Devices::All(..));
    let mut decision = Decision::nothing();
    if !marked {
        decision = decision.step(ClaimStep::MarkClaimed(target()));
    } else if !named {
        let claim = Claim(Target::of(&seen.claim));
        decision = decision.step(ClaimStep::NameDevice(claim, device.name_any()));
    }
    let was_bound = seen.current().phase == Some(BlockDeviceClaimPhase::Bound);
    if named && (marked || was_bound) {
        let mut message = device.name_any();
        if let Some(node) = node_name(device) {
            message = format!("{message} on node {node}");
        }
        if !is_active(device) {
            let state = state(device).map_or("not known yet", |state| state.as_str());
            message = format!("{message}, which is not Active but {state}");
        }
        if device.metadata.deletion_timestamp.is_some() {
            message = format!(
                "{message}; somebody deletes the BlockDevice, and it stays for as long as this claim does"
            );
        }
        let bound = Condition::new(
            condition::BOUND,
            ConditionStatus::True,
            reason::DEVICE_BOUND,
            message,
        );
        return decision.status(seen.status(BlockDeviceClaimPhase::Bound, bound));
    }
    told(seen, decision)
}

/// Says what failed, if one of the steps did, of a decision that has no status.
fn told(seen: &Observed, decision: Decided) -> Decided {
    let Some(failure) = seen.failure_of(&decision) else {
        return decision;
    };
    let bound = Condition::new(
        condition::BOUND,
        ConditionStatus::False,
        failure.class.reason,
        failure.message.clone(),
    );
    decision
        .status(seen.status(BlockDeviceClaimPhase::Pending, bound))
        .event(Event::warning(failure.class.reason, failure.message.clone()).action("Claim"))
}

fn look_for_one(seen: &Observed) -> Decided {
    let wish = match Wish::of(&seen.claim.spec) {
        Ok(wish) => wish,
        Err(Nonsense::Capacity(text)) => {
            let phase = BlockDeviceClaimPhase::InvalidCapacity;
            return seen.waits(phase, reason::INVALID_REQUEST, text.clone(), text);
        }
        Err(Nonsense::Other(text)) => {
            let phase = BlockDeviceClaimPhase::Pending;
            return seen.waits(phase, reason::INVALID_REQUEST, text.clone(), text);
        }
    };
    let pending = BlockDeviceClaimPhase::Pending;
    let claim = |device: &BlockDevice| {
        let step = ClaimStep::Claim(Device(Target::of(device)));
        told(seen, Decision::nothing().step(step))
    };
    match &seen.devices {
        Devices::Missing(name) => {
            let namespace = seen.claim.namespace().unwrap_or_default();
            let text = format!(
                "There is no BlockDevice {name} in namespace {namespace}: plug the disk in, or delete this claim and name another"
            );
            seen.waits(pending, reason::DEVICE_NOT_FOUND, text.clone(), text)
        }
        Devices::Unreadable(why) => {
            let text = format!("The device cannot be judged: {why}");
            seen.waits(pending, reason::NO_DEVICE_FITS, text.clone(), text)
        }
        Devices::Named(device) => match wish.fits(device) {
            Ok(()) => claim(device),
            Err(misfit) => {
                let text = format!("{} {misfit}", device.name_any());
                seen.waits(pending, misfit.reason(), text.clone(), text)
            }
        },
        Devices::All(devices, malformed) => match wish.choose(devices.iter().map(|device| &**device)) {
            Ok(device) => claim(device),
            Err(misfits) => none_fits(seen, misfits, malformed),
        },
    }
}

fn none_fits(
    seen: &Observed,
    mut misfits: BTreeMap<String, Misfit>,
    malformed: &BTreeMap<String, String>,
) -> Decided {
    misfits.extend(malformed.keys().map(|name| (name.clone(), Misfit::Malformed)));
    let message = if misfits.is_empty() {
        let namespace = seen.claim.namespace().unwrap_or_default();
        format!("There is no BlockDevice in namespace {namespace}")
    } else {
        format!("No BlockDevice fits. {}", why(&misfits))
    };
    // The event says less than the condition, so that it stays the same event while disks come and go.
    let note = "No BlockDevice fits; the condition Bound says why each does not".to_owned();
    seen.waits(
        BlockDeviceClaimPhase::Pending,
        reason::NO_DEVICE_FITS,
        message,
        note,
    )
}

/// The claim is being deleted.
fn let_go(seen: &Observed) -> Decided {
    let blocked = |why: &'static str, message: String| {
        let condition = Condition::new(
            condition::DELETION_BLOCKED,
            ConditionStatus::True,
            why,
            message.clone(),
        );
        let event = Event::warning(why, message).action("Release");
        Decision::nothing()
            .status(seen.with(seen.current(), condition))
            .event(event)
    };
    if let Devices::Unreadable(why) = &seen.devices {
        return blocked(
            reason::RETRYING,
            format!("It cannot be told whether this claim has its device: {why}"),
        );
    }
    let Some(device) = seen.own() else {
        return match &seen.devices {
            // Our own release went through, and what follows from it did not.
            Devices::Named(device)
                if claim_ref(device).is_none()
                    && claim_state(device) == Some(&BlockDeviceClaimState::Claimed)
                    && !is_left_alone(device) =>
            {
                Decision::nothing().step(ClaimStep::MarkReleased(Device(Target::of(&**device))))
            }
            _ => Decision::nothing().release(),
        };
    };
    let name = device.name_any();
    let others: Vec<&str> = seen
        .claim
        .finalizers()
        .iter()
        .map(String::as_str)
        .filter(|known| *known != finalizer::BLOCK_DEVICE_CLAIM)
        .collect();
    if !others.is_empty() {
        return blocked(
            reason::IN_USE,
            format!(
                "{name} is released once these finalizers are gone: {}",
                others.join(", ")
            ),
        );
    }
    if is_left_alone(device) {
        return blocked(
            reason::RECONCILE_DISABLED,
            format!("{name} {}", Misfit::LeftAlone),
        );
    }
    if let Some(pool) = pool_of_ours(device) {
        return blocked(
            reason::IN_USE,
            format!("{name} is in use: {pool}. Delete the pool, and the claim goes"),
        );
    }
    let decision = Decision::nothing().step(ClaimStep::Release(Device(Target::of(device))));
    match seen.failure_of(&decision) {
        None => decision,
        Some(failure) => {
            let told = blocked(failure.class.reason, failure.message.clone());
            Decision {
                report: told.report,
                ..decision
            }
        }
    }
}

/// The pool of ours that the agent, which is alive, says the device is in.
fn pool_of_ours(device: &BlockDevice) -> Option<String> {
    let blank = condition(device, condition::BLANK)?;
    let in_pool =
        blank.status == ConditionStatus::False && blank.reason.as_deref() == Some(reason::IN_OUR_POOL);
    if !in_pool || !is_active(device) {
        return None;
    }
    let message = blank.message.clone().unwrap_or_default();
    let message = message.trim_end_matches('.');
    Some(if message.is_empty() {
        "it is in a pool of ours".into()
    } else {
        message.to_owned()
    })
}
