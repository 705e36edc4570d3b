//! What follows. No I/O, no clock: a function.

use std::time::Duration;

use cstor_api::{Condition, ConditionStatus, set_condition};
use cstor_reconcile::{Decision, Event, Failure};
use jiff::Timestamp;

use super::super::host::Volume;
use super::{Breakage, READY, VolumeSetSpec, VolumeSetStatus, VolumeStep};

#[derive(Clone, Debug)]
pub struct Observed {
    pub owner: String,
    pub deleting: bool,
    pub generation: Option<i64>,
    pub spec: VolumeSetSpec,
    pub status: VolumeSetStatus,
    pub volumes: Vec<Volume>,
    /// The tag to have: none wanted, wanted but the profile is missing, or this one.
    pub tag: Option<Option<String>>,
    pub failure: Option<Failure>,
    pub now: Timestamp,
    pub breakage: Breakage,
}

pub fn decide(seen: &Observed) -> Decision<VolumeStep, VolumeSetStatus> {
    let mut decision = Decision::nothing();
    let mut steps = Vec::new();
    let owner = &seen.owner;
    if seen.deleting {
        let delete = |volume: &Volume| VolumeStep::Delete {
            owner: owner.clone(),
            name: volume.name.clone(),
        };
        steps.extend(seen.volumes.iter().map(delete));
        if seen.breakage == Breakage::LetsGoEarly {
            steps.clear();
        }
        if steps.is_empty() {
            decision = decision.release();
        }
    } else {
        steps = wanted_steps(seen);
        for too_large in too_large(seen) {
            decision = decision.event(Event::warning("CannotShrink", too_large));
        }
    }
    if seen.breakage == Breakage::LetsGoInAdvance && !steps.is_empty() {
        decision = decision.release();
    }
    if let Some(failure) = &seen.failure {
        decision = decision.event(Event::warning("StepFailed", failure.message.clone()));
    }
    let status = status(seen, &steps);
    if seen.tag == Some(None) && !seen.deleting {
        decision = decision.again(Duration::from_secs(20));
    }
    decision.steps(steps).status(status)
}

fn wanted_steps(seen: &Observed) -> Vec<VolumeStep> {
    let (owner, mut steps) = (&seen.owner, Vec::new());
    for volume in &seen.volumes {
        if !seen.spec.volumes.iter().any(|wanted| wanted.name == volume.name) {
            steps.push(VolumeStep::Delete {
                owner: owner.clone(),
                name: volume.name.clone(),
            });
        }
    }
    for wanted in &seen.spec.volumes {
        let (owner, name, size) = (owner.clone(), wanted.name.clone(), wanted.size);
        match seen.volumes.iter().find(|volume| volume.name == wanted.name) {
            None => steps.push(VolumeStep::Create { owner, name, size }),
            Some(volume) if volume.size < size => steps.push(VolumeStep::Grow { owner, name, size }),
            Some(volume) => {
                if let Some(Some(tag)) = &seen.tag
                    && volume.tag.as_ref() != Some(tag)
                {
                    steps.push(VolumeStep::Tag {
                        owner,
                        name,
                        tag: tag.clone(),
                    });
                }
            }
        }
    }
    steps
}

fn too_large(seen: &Observed) -> Vec<String> {
    let larger = |volume: &&Volume| {
        seen.spec
            .volumes
            .iter()
            .any(|wanted| wanted.name == volume.name && wanted.size < volume.size)
    };
    let say = |volume: &Volume| {
        format!(
            "volume {} cannot be shrunk: set its size to {}",
            volume.name, volume.size
        )
    };
    seen.volumes.iter().filter(larger).map(say).collect()
}

fn status(seen: &Observed, steps: &[VolumeStep]) -> VolumeSetStatus {
    let mut conditions = seen.status.conditions.clone();
    let mut say = |kind: &str, status: ConditionStatus, reason: &str, message: &str| {
        let condition = Condition {
            observed_generation: seen.generation,
            ..Condition::new(kind, status, reason, message)
        };
        set_condition(&mut conditions, condition, seen.now);
    };
    let mut unready = |reason: &str, message: &str| say(READY, ConditionStatus::False, reason, message);
    let shrink = too_large(seen);
    if let Some(failure) = &seen.failure {
        unready(failure.class.reason, &failure.message);
    } else if !steps.is_empty() {
        unready("Working", "the volumes are not yet as they were asked for");
    } else if seen.tag == Some(None) {
        unready("NoProfile", "the profile does not exist: create it");
    } else if let Some(first) = shrink.first() {
        unready("CannotShrink", first);
    } else {
        say(READY, ConditionStatus::True, "AsAsked", "");
    }
    let mut volumes = seen.volumes.clone();
    match seen.breakage {
        Breakage::StatusLies => {
            let claim = |wanted: &super::Wanted| Volume {
                name: wanted.name.clone(),
                size: wanted.size,
                tag: seen.tag.clone().flatten(),
            };
            volumes = seen.spec.volumes.iter().map(claim).collect();
        }
        Breakage::NeverDone => {
            say("Checked", ConditionStatus::True, "Now", &seen.now.to_string());
        }
        _ => {}
    }
    volumes.sort_by(|a, b| a.name.cmp(&b.name));
    VolumeSetStatus {
        observed_generation: seen.generation,
        volumes,
        conditions,
    }
}
