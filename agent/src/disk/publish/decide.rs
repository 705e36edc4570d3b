//! What follows. No I/O, no clock: a function.

mod wipe;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cstor_api::names::phase::{BlockDeviceClaimState, BlockDeviceState};
use cstor_api::names::{annotation, condition, event, label, reason};
use cstor_api::openebs::{Attachment, BlockDevice, BlockDeviceStatus};
use cstor_api::{Condition, ConditionStatus, set_condition};
use cstor_blockdev::Kind;
use cstor_blockdev::contents::Probe;
use cstor_blockdev::ownership::{Finding, Ownership, Records};
use cstor_reconcile::{Decision, Event, Failure};
use jiff::Timestamp;
use kube::api::ObjectMeta;

use super::{Description, PublishStep};
use crate::disk::is_left_alone;
use crate::disk::matches::{Bound, Matched};
use crate::disk::view::{Disk, View};
use crate::disk::whose::Judge;

/// Everything the decision rests on.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The object.
    pub object: BlockDevice,
    /// The name of the node.
    pub node: String,
    /// What was seen of the disks; `None` before the first look.
    pub view: Option<Arc<View>>,
    /// The pools that are ours.
    pub records: Records,
    /// All objects of the node's disks, if a wipe was asked for.
    pub objects: Vec<Arc<BlockDevice>>,
    /// The object that is used for this disk, if it is another.
    pub better: Option<String>,
    /// Which disks VolumeAttachments brought.
    pub matched: Arc<Matched>,
    /// The PersistentVolumes that were attached on our behalf.
    pub our_volumes: BTreeSet<String>,
    /// The step that failed last.
    pub failure: Option<Failure>,
    /// When this agent first looked.
    pub began: Timestamp,
    /// The time.
    pub now: Timestamp,
}

type Decided = Decision<PublishStep, BlockDeviceStatus>;

/// The status in the making.
struct Status<'a> {
    seen: &'a Observed,
    conditions: Vec<Condition>,
    attachment: Option<Attachment>,
}

impl Status<'_> {
    fn say(&mut self, kind: &str, status: ConditionStatus, reason: &str, message: impl Into<String>) {
        let mut condition = Condition::new(kind, status, reason, message);
        condition.observed_generation = None;
        set_condition(&mut self.conditions, condition, self.seen.now);
    }

    fn forget(&mut self, kind: &str) {
        self.conditions.retain(|condition| condition.type_ != kind);
    }

    fn has(&self, kind: &str) -> bool {
        self.conditions.iter().any(|known| known.type_ == kind)
    }

    fn says(&self, kind: &str, reason: &str) -> bool {
        let same = |known: &&Condition| known.type_ == kind && known.reason.as_deref() == Some(reason);
        self.conditions.iter().find(same).is_some()
    }
}

pub(super) fn decide(seen: &Observed) -> Decided {
    let object = &seen.object;
    let Some(view) = &seen.view else {
        return Decided::nothing();
    };
    if object.metadata.deletion_timestamp.is_some() || is_left_alone(object) {
        return Decided::nothing();
    }
    let current = object.status.clone().unwrap_or_default();
    let mut status = Status {
        seen,
        conditions: current.conditions.clone().unwrap_or_default(),
        attachment: None,
    };
    let others = other_nodes(object, &seen.node);
    let claimed = object.spec.claim_ref.is_some();
    // A claimed disk stays what it is, whatever the configuration says now.
    let found: Vec<_> = view
        .matching(object)
        .into_iter()
        .filter(|disk| claimed || disk.excluded.is_none())
        .collect();
    let (state, decision) = match found.as_slice() {
        // It may be one of those that are still being asked. What was said of it stays for the moment.
        [] if !view.awaited.is_empty() && view.matching(object).is_empty() => return Decided::nothing(),
        [] => absent(&mut status, view),
        // It is being read for the first time. What was said of it stays for the moment.
        [disk] if disk.found.pending && disk.found.probe.is_none() => return Decided::nothing(),
        [disk] if others.is_empty() && seen.better.is_some() => {
            let better = seen.better.clone().unwrap_or_default();
            double(&mut status, disk, &better)
        }
        [disk] if others.is_empty() => {
            let quarantined = [reason::DUPLICATE_IDENTITY, reason::DUPLICATE_OBJECT];
            if quarantined
                .iter()
                .any(|why| status.says(condition::QUARANTINED, why))
            {
                let message = "No other disk has this identity any more.";
                status.say(
                    condition::QUARANTINED,
                    ConditionStatus::False,
                    reason::UNIQUE_IDENTITY,
                    message,
                );
            }
            present(&mut status, view, disk)
        }
        _ => quarantined(&mut status, &found, &others),
    };
    let decision = if state == BlockDeviceState::Active {
        decision
    } else {
        wipe::refuse_unseen(&mut status, decision)
    };
    let fresh = BlockDeviceStatus {
        // The claim is the cluster controller's; an object that it has not seen yet is nobody's.
        claim_state: current
            .claim_state
            .clone()
            .or(Some(BlockDeviceClaimState::Unclaimed)),
        state: Some(state),
        attachment: status.attachment,
        conditions: Some(status.conditions),
        observed_generation: object.metadata.generation,
    };
    decision.status(fresh)
}

/// Another object is about the same disk, and is the one that counts.
fn double(status: &mut Status<'_>, disk: &Disk, better: &str) -> (BlockDeviceState, Decided) {
    say_present(status, &[disk]);
    let message = format!(
        "BlockDevice {better} is about {} too, and is the one that is used: delete this one.",
        disk.device().path
    );
    let mut decision = Decided::nothing();
    if !status.says(condition::QUARANTINED, reason::DUPLICATE_OBJECT) {
        let event = Event::warning(event::DEVICE_QUARANTINED, message.clone()).action("Publish");
        decision = decision.event(event);
    }
    status.say(
        condition::QUARANTINED,
        ConditionStatus::True,
        reason::DUPLICATE_OBJECT,
        message,
    );
    unknown_contents(status, reason::DUPLICATE_OBJECT);
    (BlockDeviceState::Unknown, decision)
}

/// The other nodes that say they have a disk of this identity.
fn other_nodes(object: &BlockDevice, node: &str) -> Vec<String> {
    let own = label::also_on(node);
    let labels = object.metadata.labels.iter().flatten();
    labels
        .filter(|(key, _)| **key != own)
        .filter_map(|(key, _)| key.strip_prefix(label::ALSO_ON_PREFIX))
        .map(str::to_owned)
        .collect()
}

fn absent(status: &mut Status<'_>, view: &View) -> (BlockDeviceState, Decided) {
    let object = &status.seen.object;
    let node = &status.seen.node;
    let mut decision = Decided::nothing();
    let labels = object.metadata.labels.as_ref();
    let unidentified = labels.is_some_and(|labels| labels.contains_key(label::BLOCK_DEVICE_UNIDENTIFIED));
    let excluded = view
        .matching(object)
        .into_iter()
        .find_map(|disk| Some((disk.device().path.clone(), disk.excluded.clone()?)));
    if let Some((path, why)) = excluded {
        let message = format!("{path} of {node} is left out: {why}.");
        status.say(
            condition::PRESENT,
            ConditionStatus::False,
            reason::EXCLUDED,
            message,
        );
    } else if let Some((name, why)) = view.undescribed.iter().next() {
        // It may be one of those. That it is gone would be a guess.
        let message = format!(
            "{node} has devices that cannot be described, and this may be one of them: {name}: {why}"
        );
        status.say(
            condition::PRESENT,
            ConditionStatus::Unknown,
            reason::UNDESCRIBED,
            message,
        );
        status.attachment = current_attachment(status.seen);
        unknown_contents(status, reason::UNDESCRIBED);
        return (BlockDeviceState::Unknown, decision);
    } else {
        if unidentified && object.spec.claim_ref.is_none() {
            decision = decision.step(PublishStep::Remove);
        }
        let message = format!(
            "No disk of {node} has this identity. It was {} when it was last seen.",
            object.spec.path
        );
        if !status.says(condition::PRESENT, reason::GONE) {
            decision = decision.event(Event::warning(event::DEVICE_GONE, message.clone()).action("Publish"));
        }
        status.say(condition::PRESENT, ConditionStatus::False, reason::GONE, message);
    }
    status.forget(condition::BLANK);
    status.forget(condition::CORRELATED);
    (BlockDeviceState::Inactive, decision)
}

/// Says where the disk is. Of several with one identity each is told, for what was said before of one may be wrong of all.
fn say_present(status: &mut Status<'_>, found: &[&Disk]) {
    let paths: Vec<_> = found.iter().map(|disk| disk.device().path.as_str()).collect();
    let message = format!("The disk is {} of {}.", paths.join(" or "), status.seen.node);
    status.say(condition::PRESENT, ConditionStatus::True, reason::FOUND, message);
}

fn current_attachment(seen: &Observed) -> Option<Attachment> {
    seen.object
        .status
        .as_ref()
        .and_then(|status| status.attachment.clone())
}

fn unknown_contents(status: &mut Status<'_>, why: &str) {
    let message = "What is on the disk is not known at the moment, and so it is not offered.";
    status.say(condition::BLANK, ConditionStatus::Unknown, why, message);
}

fn quarantined(status: &mut Status<'_>, found: &[&Disk], others: &[String]) -> (BlockDeviceState, Decided) {
    say_present(status, found);
    let seen = status.seen;
    let here = found
        .iter()
        .map(|disk| format!("{} of {}", disk.device().path, seen.node));
    let there = others.iter().map(|node| format!("a disk of {node}"));
    let all: Vec<_> = here.chain(there).collect();
    let mut message = format!(
        "{} have one identity, so none of them is used: give each its own serial number, or detach all but one.",
        all.join(" and ")
    );
    for node in others {
        // Its agent takes the label off, unless the node is no more.
        message += &format!(
            " If {node} is gone for good, remove the label {}{node}.",
            label::ALSO_ON_PREFIX
        );
    }
    let mut decision = Decided::nothing();
    if !status.says(condition::QUARANTINED, reason::DUPLICATE_IDENTITY) {
        let event = Event::warning(event::DEVICE_QUARANTINED, message.clone()).action("Publish");
        decision = decision.event(event);
    }
    status.say(
        condition::QUARANTINED,
        ConditionStatus::True,
        reason::DUPLICATE_IDENTITY,
        message,
    );
    // What was certain of one disk is not of two.
    let doubt = found
        .iter()
        .find_map(|disk| match seen.matched.of(whole(seen, disk).device()) {
            Some(Some(Bound::Doubtful { reason, message })) => Some((reason, message)),
            _ => None,
        });
    match doubt {
        Some((why, message)) => status.say(
            condition::CORRELATED,
            ConditionStatus::False,
            why,
            message.clone(),
        ),
        None => status.forget(condition::CORRELATED),
    }
    unknown_contents(status, reason::DUPLICATE_IDENTITY);
    (BlockDeviceState::Unknown, decision)
}

fn present(status: &mut Status<'_>, view: &View, disk: &Disk) -> (BlockDeviceState, Decided) {
    let seen = status.seen;
    let object = &seen.object;
    let mut decision = Decided::nothing();
    let mut description = Description::of(disk, &seen.node);
    if object.metadata.name.as_deref() != Some(&disk.object_name) {
        // An object that NDM made is kept, with or without identity.
        description.labels.remove(label::BLOCK_DEVICE_UNIDENTIFIED);
    }
    let grown =
        object.spec.capacity.storage != description.spec.capacity.storage && object.spec.identity.is_some();
    if grown {
        let (old, new) = (object.spec.capacity.storage, description.spec.capacity.storage);
        let note = format!("{} has {new} bytes now; it had {old}.", description.spec.path);
        decision = decision.event(Event::normal(event::DEVICE_RESIZED, note).action("Publish"));
    }
    if !description.is_said_by(object) {
        decision = decision.step(PublishStep::Describe(Box::new(description)));
    }

    match &disk.identity {
        Ok(identity) => {
            let message = format!("The hardware identifies itself: {identity}.");
            status.say(
                condition::IDENTIFIED,
                ConditionStatus::True,
                reason::HARDWARE_IDENTITY,
                message,
            );
        }
        Err(why) => {
            let message = format!("This disk is not offered, because nothing tells it from others: {why}.");
            status.say(
                condition::IDENTIFIED,
                ConditionStatus::False,
                reason::NO_IDENTITY,
                message,
            );
        }
    }

    let path = &disk.device().path;
    if matches!(disk.found.probe, Some(Probe::NotResponding)) {
        let message = format!("{path} does not answer: check the disk, its cable and its controller.");
        if !status.says(condition::PRESENT, reason::NOT_RESPONDING) {
            decision = decision.event(Event::warning(event::DEVICE_HANGS, message.clone()).action("Publish"));
        }
        status.say(
            condition::PRESENT,
            ConditionStatus::Unknown,
            reason::NOT_RESPONDING,
            message,
        );
        status.attachment = current_attachment(status.seen);
        unknown_contents(status, reason::NOT_RESPONDING);
        return (BlockDeviceState::Unknown, decision);
    }
    if status.says(condition::PRESENT, reason::GONE)
        || status.says(condition::PRESENT, reason::NOT_RESPONDING)
    {
        let note = format!("{path} is there again.");
        decision = decision.event(Event::normal(event::DEVICE_FOUND, note).action("Publish"));
    }
    say_present(status, &[disk]);

    status.attachment = attachment(status, disk);
    let judge = Judge {
        view,
        records: &seen.records,
        matched: &seen.matched,
        our_volumes: &seen.our_volumes,
    };
    let owned = judge.whose(disk);
    let as_before = matches!(&owned, Ownership::Unknown { reason, .. } if *reason == reason::NOT_YET_MATCHED);
    let grace =
        BEGINNING.saturating_sub(Duration::try_from(seen.now.duration_since(seen.began)).unwrap_or_default());
    if as_before && status.has(condition::BLANK) && !grace.is_zero() {
        decision = decision.again(grace);
    } else {
        say_whose(status, disk, &owned);
    }
    let decision = wipe::wipe(status, disk, &owned, decision);
    (BlockDeviceState::Active, decision)
}

/// How long an agent that has just started leaves what was said of a disk as it is, if all that is missing is to hold it
/// against the VolumeAttachments: that is done in a moment, and a start would else be told by a write at every disk, twice.
const BEGINNING: Duration = Duration::from_secs(60);

/// Which disk of the node the object's is part of, for what is asked of the whole.
fn whole<'a>(seen: &'a Observed, disk: &'a Disk) -> &'a Disk {
    seen.view.as_ref().map_or(disk, |view| view.whole(disk))
}

/// Says which VolumeAttachment brought the disk.
fn attachment(status: &mut Status<'_>, disk: &Disk) -> Option<Attachment> {
    let seen = status.seen;
    let current = current_attachment(seen);
    match seen.matched.of(whole(seen, disk).device()) {
        None => current,
        Some(None) => {
            status.forget(condition::CORRELATED);
            None
        }
        Some(Some(Bound::Certain(attachment))) => {
            let message = format!(
                "VolumeAttachment {} brought PersistentVolume {} as this disk.",
                attachment.volume_attachment_name, attachment.persistent_volume_name
            );
            status.say(
                condition::CORRELATED,
                ConditionStatus::True,
                reason::MATCHED,
                message,
            );
            Some(attachment.clone())
        }
        // Neither recorded nor taken back before it has stayed the same for a while.
        Some(Some(Bound::Settling(attachment))) => {
            current.filter(|current| current.is_same_volume(attachment))
        }
        Some(Some(Bound::Doubtful { reason, message })) => {
            status.say(
                condition::CORRELATED,
                ConditionStatus::False,
                reason,
                message.clone(),
            );
            None
        }
    }
}

fn say_whose(status: &mut Status<'_>, disk: &Disk, owned: &Ownership) {
    match owned {
        Ownership::Blank => status.say(
            condition::BLANK,
            ConditionStatus::True,
            reason::NOTHING_FOUND,
            "Nothing was found on the disk, and nobody uses it.",
        ),
        Ownership::Ours(ours) => {
            let message = format!(
                "The disk belongs to pool {} of instance {}.",
                ours.pool_name, ours.instance_uid
            );
            status.say(
                condition::BLANK,
                ConditionStatus::False,
                reason::IN_OUR_POOL,
                message,
            );
        }
        Ownership::Theirs(findings) => {
            let first = findings
                .first()
                .map_or(reason::SIGNATURE, |finding| finding.reason);
            let message = told_of(status.seen, disk, findings);
            status.say(condition::BLANK, ConditionStatus::False, first, message);
        }
        Ownership::Unknown { reason, message } => {
            status.say(
                condition::BLANK,
                ConditionStatus::Unknown,
                reason,
                message.clone(),
            );
        }
    }
}

/// What was found on a disk that is not ours, and what a person can do about it.
fn told_of(seen: &Observed, disk: &Disk, findings: &[Finding]) -> String {
    let all: Vec<_> = findings.iter().map(|finding| finding.message.as_str()).collect();
    let all = all.join("; ");
    let any = |wanted: &[&str]| findings.iter().any(|finding| wanted.contains(&finding.reason));
    if any(&wipe::IN_USE) {
        return format!("The disk is in use: {all}.");
    }
    if any(&[reason::UNSUITABLE]) {
        return format!("The disk is not suitable: {all}.");
    }
    let message = format!("The disk is not blank: {all}.");
    // Wiping a partition does not make it one of another type.
    let is_partition = disk.device().kind == Kind::Partition;
    let helps = |finding: &Finding| !is_partition || finding.reason != reason::PARTITIONED;
    let object = &seen.object;
    let free = object.spec.claim_ref.is_none() && findings.iter().all(helps);
    match (&object.spec.identity, &object.metadata) {
        (
            Some(identity),
            ObjectMeta {
                name: Some(name),
                namespace,
                ..
            },
        ) if free => format!(
            "{message} Nobody uses it now. If nobody needs what is on it, have it wiped: kubectl annotate bd -n {} {name} \
             {}='{}'",
            namespace.as_deref().unwrap_or_default(),
            annotation::WIPE,
            identity.value
        ),
        _ => message,
    }
}

#[cfg(test)]
mod tests;
