//! What follows. No I/O, no clock: a function.

use std::time::Duration;

use cstor_api::names::{annotation, condition};
use cstor_api::{Condition, ConditionStatus, set_condition};
use cstor_blockdev::attachment::Correlation;
use cstor_reconcile::Decision;
use jiff::Timestamp;
use k8s_openapi::api::storage::v1::VolumeAttachment;

use super::CorrelateStep;

/// What was found out about an attachment.
#[derive(Debug, Clone)]
pub struct Found {
    /// The attachment.
    pub attachment: VolumeAttachment,
    /// What it came to.
    pub correlation: Correlation,
    /// Whether that is not only for the moment.
    pub settled: bool,
    /// The object of the disk it brought, if that is certain.
    pub block_device: Option<String>,
}

/// Everything the decision rests on.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// The attachments of the node.
    pub found: Vec<Found>,
    /// When to look again, if something is not certain yet.
    pub again: Option<Duration>,
    /// The time; `None` before the first look at the disks.
    pub now: Option<Timestamp>,
}

pub(super) fn decide(seen: &Observed) -> Decision<CorrelateStep, ()> {
    let mut decision = Decision::nothing();
    let Some(now) = seen.now else {
        return decision;
    };
    for found in seen.found.iter().filter(|found| found.settled) {
        decision.steps.extend(annotate(found, now));
    }
    if let Some(again) = seen.again {
        decision = decision.again(again);
    }
    decision
}

fn annotate(found: &Found, now: Timestamp) -> Option<CorrelateStep> {
    let meta = &found.attachment.metadata;
    let said = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key));
    // A disk that has no object yet will have one in a moment.
    let matched = found.correlation.matched().is_some();
    if matched && found.block_device.is_none() {
        return None;
    }
    let status = if matched {
        ConditionStatus::True
    } else {
        ConditionStatus::False
    };
    let fresh = Condition::new(
        condition::CORRELATED,
        status,
        found.correlation.reason(),
        found.correlation.message(),
    );
    let old = said(annotation::CORRELATED).and_then(|text| serde_json::from_str::<Condition>(text).ok());
    let mut list: Vec<_> = old.into_iter().collect();
    let changed = set_condition(&mut list, fresh, now);
    if !changed && said(annotation::ATTACHED_BLOCK_DEVICE) == found.block_device.as_ref() {
        return None;
    }
    Some(CorrelateStep::Annotate {
        name: meta.name.clone()?,
        uid: meta.uid.clone()?,
        block_device: found.block_device.clone(),
        condition: serde_json::to_string(list.first()?).ok()?,
    })
}

#[cfg(test)]
mod tests;
