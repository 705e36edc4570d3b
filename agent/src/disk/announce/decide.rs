//! What follows. No I/O, no clock: a function.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cstor_api::ConditionStatus;
use cstor_api::names::phase::BlockDeviceState;
use cstor_api::names::{condition, event, label, reason};
use cstor_api::openebs::{BlockDevice, DeviceType};
use cstor_blockdev::Kind;
use cstor_reconcile::{Decision, Event};

use super::AnnounceStep;
use crate::disk::is_left_alone;
use crate::disk::publish::Description;
use crate::disk::view::{Disk, View};

/// How long another node has to notice that a disk left it, before we say that there are two.
pub(super) const MOVE_WITHIN: Duration = Duration::from_secs(20);

/// How often an object of another node is looked at while we wait for that.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// What there is for a disk that has no object on this node.
#[derive(Debug, Clone)]
pub enum Known {
    /// Nothing.
    Nothing,
    /// An object that is about the disk, and names another node or none.
    Object(Box<BlockDevice>),
    /// An object under the disk's name that is about another one.
    Disputed(String),
}

/// Everything the decision rests on.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The name of the node.
    pub node: String,
    /// What was seen of the disks; `None` before the first look.
    pub view: Option<Arc<View>>,
    /// How long each disk has been there, by the kernel's name.
    pub seen_for: BTreeMap<String, Duration>,
    /// The objects that name this node.
    pub here: Vec<BlockDevice>,
    /// The names of those that cannot be read.
    pub malformed: BTreeSet<String>,
    /// The objects of other nodes that carry this node's label, by name.
    pub marked: BTreeMap<String, BlockDevice>,
    /// What there is for the disks that have no object here, by the kernel's name.
    pub elsewhere: BTreeMap<String, Known>,
}

type Decided = Decision<AnnounceStep, ()>;

pub(super) fn decide(seen: &Observed) -> Decided {
    let Some(view) = &seen.view else {
        return Decided::nothing();
    };
    let mut decision = Decided::nothing();
    let mut kept = BTreeSet::new();
    let mut made = BTreeSet::new();
    for (device, known) in &seen.elsewhere {
        let Some(disk) = view.disks.get(device) else {
            continue;
        };
        match known {
            Known::Nothing if is_part_of_claimed(seen, view, disk) => {}
            // Two disks of one identity have one object; it says that there are two.
            Known::Nothing if made.insert(disk.object_name.clone()) => {
                decision = decision.step(AnnounceStep::Make {
                    name: disk.object_name.clone(),
                    description: Box::new(Description::of(disk, &seen.node)),
                });
            }
            Known::Nothing => {}
            Known::Disputed(name) => {
                let note = format!(
                    "{} should be BlockDevice {name}, which is about another disk: delete that object or correct its spec.identity.",
                    disk.device().path
                );
                decision = decision.event(Event::warning(event::DEVICE_NOT_WRITTEN, note).action("Announce"));
            }
            Known::Object(object) => {
                let name = object.metadata.name.clone().unwrap_or_default();
                let (step, again) = elsewhere(seen, disk, object, &name);
                if matches!(step, Some(AnnounceStep::Mark { .. })) || again {
                    kept.insert(name);
                }
                decision.steps.extend(step);
                if again {
                    decision = decision.again(LOOK_EVERY);
                }
            }
        }
    }
    for name in seen.marked.keys().filter(|name| !kept.contains(*name)) {
        // The disk is gone from here, or the object is ours now.
        decision = decision.step(AnnounceStep::Unmark { name: name.clone() });
    }
    decision
}

/// A claimed disk is one disk: what ZFS or a person puts on it in the way of partitions has no objects of its own.
fn is_part_of_claimed(seen: &Observed, view: &View, disk: &Disk) -> bool {
    if disk.device().kind != Kind::Partition {
        return false;
    }
    let parent = disk
        .device()
        .parent
        .as_ref()
        .and_then(|parent| view.disks.get(parent));
    parent.is_some_and(|parent| {
        let claimed = |object: &BlockDevice| {
            let details = object.spec.details.as_ref();
            let whole = details.is_none_or(|details| details.device_type != Some(DeviceType::Partition));
            whole && object.spec.claim_ref.is_some() && parent.is(object)
        };
        seen.here.iter().any(claimed)
    })
}

/// What to do about a disk whose object names another node, and whether to look again soon.
fn elsewhere(seen: &Observed, disk: &Disk, object: &BlockDevice, name: &str) -> (Option<AnnounceStep>, bool) {
    let node = object
        .spec
        .node_attributes
        .as_ref()
        .and_then(|node| node.node_name.clone());
    let from = node.unwrap_or_default();
    let state = object.status.as_ref().and_then(|status| status.state.clone());
    if from == seen.node {
        // Our list is behind.
        return (None, true);
    }
    if is_left_alone(object) {
        return (None, false);
    }
    let left = from.is_empty() || state == Some(BlockDeviceState::Inactive) || is_silent(object);
    let quarantined = object
        .metadata
        .labels
        .iter()
        .flatten()
        .any(|(key, _)| key.starts_with(label::ALSO_ON_PREFIX));
    if left && !quarantined {
        let step = AnnounceStep::TakeOver {
            name: name.to_owned(),
            resource_version: object.metadata.resource_version.clone().unwrap_or_default(),
            from,
            description: Box::new(Description::of(disk, &seen.node)),
        };
        return (Some(step), false);
    }
    let marked = object
        .metadata
        .labels
        .as_ref()
        .is_some_and(|labels| labels.contains_key(&label::also_on(&seen.node)));
    let waited = seen
        .seen_for
        .get(&disk.device().name)
        .copied()
        .unwrap_or_default();
    if marked || waited < MOVE_WITHIN {
        // The one who has it will say when it is gone.
        return (take_over_marked(seen, disk, object, name, marked, state), true);
    }
    (
        Some(AnnounceStep::Mark {
            name: name.to_owned(),
        }),
        true,
    )
}

/// Whether the node of the object is silent: it cannot say that the disk left it, the disk says so by being here.
///
/// The cluster controller says so in the condition `Present`; before it did, it changed the state and left the condition True.
/// An object that was quarantined when its node fell silent stays there: the node had a disk of this identity while there
/// was another, and may have it still.
fn is_silent(object: &BlockDevice) -> bool {
    let status = object.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let said = |kind: &str| {
        let mut all = conditions.into_iter().flatten();
        all.find(|known| known.type_ == kind)
    };
    let is_told = said(condition::PRESENT).is_some_and(|present| {
        present.reason.as_deref() == Some(reason::AGENT_SILENT) || present.status == ConditionStatus::True
    });
    let quarantined = said(condition::QUARANTINED);
    status.and_then(|status| status.state.as_ref()) == Some(&BlockDeviceState::Unknown)
        && is_told
        && quarantined.is_none_or(|quarantined| quarantined.status != ConditionStatus::True)
}

/// A marked object whose own node says that the disk is gone, or is silent, is ours, if nobody else has marked it.
///
/// A node that died with the disk in it is called silent later than we mark the object, and never takes notice of the mark.
fn take_over_marked(
    seen: &Observed,
    disk: &Disk,
    object: &BlockDevice,
    name: &str,
    marked: bool,
    state: Option<BlockDeviceState>,
) -> Option<AnnounceStep> {
    let own = label::also_on(&seen.node);
    let others = object
        .metadata
        .labels
        .iter()
        .flatten()
        .any(|(key, _)| key.starts_with(label::ALSO_ON_PREFIX) && *key != own);
    let gone = state == Some(BlockDeviceState::Inactive) || is_silent(object);
    (marked && gone && !others).then(|| AnnounceStep::TakeOver {
        name: name.to_owned(),
        resource_version: object.metadata.resource_version.clone().unwrap_or_default(),
        from: object
            .spec
            .node_attributes
            .as_ref()
            .and_then(|node| node.node_name.clone())
            .unwrap_or_default(),
        description: Box::new(Description::of(disk, &seen.node)),
    })
}

#[cfg(test)]
mod tests;
