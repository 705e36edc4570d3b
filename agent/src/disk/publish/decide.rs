//! What follows. No I/O, no clock: a function.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cstor_api::names::phase::{BlockDeviceClaimState, BlockDeviceState};
use cstor_api::names::{annotation, condition, event, label, reason};
use cstor_api::openebs::{Attachment, BlockDevice, BlockDeviceStatus};
use cstor_api::{Condition, ConditionStatus, set_condition};
use cstor_blockdev::contents::Probe;
use cstor_blockdev::ownership::{Examined, Ownership, Records, Subject, ownership};
use cstor_reconcile::{Decision, Event, Failure};
use jiff::Timestamp;

use super::{Description, PublishStep};
use crate::disk::is_left_alone;
use crate::disk::matches::{Bound, Matched};
use crate::disk::view::{Disk, View};

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
            present(&mut status, disk)
        }
        _ => quarantined(&mut status, &found, &others),
    };
    let decision = if state == BlockDeviceState::Active {
        decision
    } else {
        refuse_unseen(&mut status, decision)
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
    let seen = status.seen;
    let here = found
        .iter()
        .map(|disk| format!("{} of {}", disk.device().path, seen.node));
    let there = others.iter().map(|node| format!("a disk of {node}"));
    let all: Vec<_> = here.chain(there).collect();
    let message = format!(
        "{} have one identity, so none of them is used: give each its own serial number, or detach all but one.",
        all.join(" and ")
    );
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

fn present(status: &mut Status<'_>, disk: &Disk) -> (BlockDeviceState, Decided) {
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
    let message = format!("The disk is {path} of {}.", seen.node);
    status.say(condition::PRESENT, ConditionStatus::True, reason::FOUND, message);

    let (attachment, brought) = attachment(status, disk);
    status.attachment = attachment;
    let owned = whose(seen, disk, &brought);
    let as_before = matches!(&owned, Ownership::Unknown { reason, .. } if *reason == reason::NOT_YET_MATCHED);
    let grace =
        BEGINNING.saturating_sub(Duration::try_from(seen.now.duration_since(seen.began)).unwrap_or_default());
    if as_before && status.has(condition::BLANK) && !grace.is_zero() {
        decision = decision.again(grace);
    } else {
        say_whose(status, &owned);
    }
    let decision = wipe(status, disk, &owned, &brought, decision);
    (BlockDeviceState::Active, decision)
}

/// How long an agent that has just started leaves what was said of a disk as it is, if all that is missing is to hold it
/// against the VolumeAttachments: that is done in a moment, and a start would else be told by a write at every disk, twice.
const BEGINNING: Duration = Duration::from_secs(60);

/// Which disk of the node the object's is part of, for what is asked of the whole.
fn whole<'a>(seen: &'a Observed, disk: &'a Disk) -> &'a Disk {
    seen.view.as_ref().map_or(disk, |view| view.whole(disk))
}

/// Says which VolumeAttachment brought the disk, and returns who else than us it was brought for.
fn attachment(status: &mut Status<'_>, disk: &Disk) -> (Option<Attachment>, Brought) {
    let seen = status.seen;
    let current = seen
        .object
        .status
        .as_ref()
        .and_then(|status| status.attachment.clone());
    let foreign = |attachment: &Attachment| {
        let name = &attachment.persistent_volume_name;
        match seen.our_volumes.contains(name) {
            true => Brought::ForUs,
            false => Brought::ForOthers(format!("PersistentVolume {name} of {}", attachment.driver)),
        }
    };
    match seen.matched.of(whole(seen, disk).device()) {
        None => (current, Brought::Unknown),
        Some(None) => {
            status.forget(condition::CORRELATED);
            (None, Brought::ForUs)
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
            (Some(attachment.clone()), foreign(attachment))
        }
        Some(Some(Bound::Settling(attachment))) => {
            // Neither recorded nor taken back before it has stayed the same for a while.
            (
                current.filter(|current| current.is_same_volume(attachment)),
                foreign(attachment),
            )
        }
        Some(Some(Bound::Doubtful { reason, message })) => {
            status.say(
                condition::CORRELATED,
                ConditionStatus::False,
                reason,
                message.clone(),
            );
            (None, Brought::ForOthers(message.clone()))
        }
    }
}

/// Whom a disk was brought for.
enum Brought {
    /// Nobody by an attachment, or us.
    ForUs,
    /// Somebody else, for certain or maybe.
    ForOthers(String),
    /// It was not held against the attachments yet.
    Unknown,
}

fn whose(seen: &Observed, disk: &Disk, brought: &Brought) -> Ownership {
    let not_read = Probe::NotResponding;
    let examined = |found: &'_ cstor_blockdev::scan::Found| -> Probe {
        found.probe.clone().unwrap_or(Probe::NotResponding)
    };
    let probes: Vec<_> = disk.partitions.iter().map(examined).collect();
    let partitions: Vec<_> = disk
        .partitions
        .iter()
        .zip(&probes)
        .map(|(found, probe)| Examined {
            device: &found.device,
            probe,
        })
        .collect();
    let parent = disk.device().parent.as_ref().map(|_| whole(seen, disk));
    let subject = Subject {
        examined: Examined {
            device: disk.device(),
            probe: disk.found.probe.as_ref().unwrap_or(&not_read),
        },
        partitions: &partitions,
        parent: parent.map(|parent| Examined {
            device: parent.device(),
            probe: parent.found.probe.as_ref().unwrap_or(&not_read),
        }),
        foreign_attachment: match brought {
            Brought::ForOthers(whom) => Some(whom),
            Brought::ForUs | Brought::Unknown => None,
        },
    };
    let unknown = |reason, message: &str| Ownership::Unknown {
        reason,
        message: message.to_owned(),
    };
    let pending = is_being_read(disk);
    match (ownership(&subject, &seen.records), brought) {
        _ if disk.excluded.is_some() => unknown(
            reason::EXCLUDED,
            "The agent's configuration leaves the disk out, so it is not looked at.",
        ),
        (Ownership::Blank, Brought::Unknown) => unknown(
            reason::NOT_YET_MATCHED,
            "It was not held against the VolumeAttachments of the node yet.",
        ),
        (Ownership::Blank, _) if pending => unknown(
            reason::BEING_READ,
            "Something has changed on it, and it is being read anew.",
        ),
        (owned, _) => owned,
    }
}

/// Whether what is known of the disk or of a part of it is from before a change.
fn is_being_read(disk: &Disk) -> bool {
    disk.found.changed || disk.partitions.iter().any(|found| found.changed)
}

fn say_whose(status: &mut Status<'_>, owned: &Ownership) {
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
            let all: Vec<_> = findings.iter().map(|finding| finding.message.as_str()).collect();
            let message = format!("The disk is in use: {}.", all.join("; "));
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

/// What is found that a wipe must not touch: somebody uses the disk now.
const IN_USE: [&str; 6] = [
    reason::MOUNTED,
    reason::SWAP,
    reason::HELD,
    reason::EXPORTED,
    reason::FOREIGN_ATTACHMENT,
    reason::UNSUITABLE,
];

/// How soon a request to wipe is looked at again that cannot be answered yet.
const WIPE_AGAIN: Duration = Duration::from_secs(5);

/// What comes of the request for a wipe, if there is one.
///
/// A request is answered once, by a wipe or by a refusal, and taken off: one that stayed would wipe the disk on the day
/// when whoever uses it lets go of it for a moment.
fn wipe(
    status: &mut Status<'_>,
    disk: &Disk,
    owned: &Ownership,
    brought: &Brought,
    decision: Decided,
) -> Decided {
    let seen = status.seen;
    let annotations = seen.object.metadata.annotations.as_ref();
    let Some(wanted) = annotations.and_then(|all| all.get(annotation::WIPE)) else {
        return decision;
    };
    if matches!(brought, Brought::Unknown) || is_being_read(disk) {
        return decision.again(WIPE_AGAIN);
    }
    if let Some((why, message)) = refusal(seen, disk, owned, wanted) {
        let event = Event::warning(event::DEVICE_WIPE, message.clone()).action("Wipe");
        status.say(condition::WIPED, ConditionStatus::False, why, message);
        let request = wanted.clone();
        return decision.event(event).step(PublishStep::ForgetWipe { request });
    }
    if matches!(owned, Ownership::Blank) {
        status.say(
            condition::WIPED,
            ConditionStatus::True,
            reason::WIPE_DONE,
            "The disk was to be wiped, and is blank.",
        );
        let request = wanted.clone();
        return decision.step(PublishStep::ForgetWipe { request });
    }
    decision.step(PublishStep::Wipe {
        identity: wanted.clone(),
        bound: seen.matched.of(whole(seen, disk).device()).flatten().cloned(),
    })
}

/// A request for a disk that is not there, does not answer or has a double is refused as well: it must not wait for the disk.
fn refuse_unseen(status: &mut Status<'_>, decision: Decided) -> Decided {
    let annotations = status.seen.object.metadata.annotations.as_ref();
    let Some(request) = annotations.and_then(|all| all.get(annotation::WIPE)).cloned() else {
        return decision;
    };
    let message = "The disk was not wiped: it is not there, does not answer, or another has its identity. Ask again when \
                   that has changed.";
    let event = Event::warning(event::DEVICE_WIPE, message).action("Wipe");
    status.say(condition::WIPED, ConditionStatus::False, reason::CHANGED, message);
    decision.event(event).step(PublishStep::ForgetWipe { request })
}

/// Why a disk is not wiped, if it is not: the reason and the message.
fn refusal(seen: &Observed, disk: &Disk, owned: &Ownership, wanted: &str) -> Option<(&'static str, String)> {
    let again = "Ask again when that has changed.";
    let identity = seen
        .object
        .spec
        .identity
        .as_ref()
        .map(|identity| identity.value.as_str());
    if identity != Some(wanted) || disk.identity.is_err() {
        let message = format!(
            "The annotation {} must name the identity of this disk, {:?}, and said {wanted:?}.",
            annotation::WIPE,
            identity.unwrap_or_default(),
        );
        return Some((reason::WRONG_IDENTITY, message));
    }
    if let Some(object) = claimed(seen, disk) {
        let message = format!(
            "The disk was not wiped: {object} is claimed. Delete its BlockDeviceClaim, and ask again."
        );
        return Some((reason::CLAIMED, message));
    }
    let use_of_it = match owned {
        Ownership::Blank => None,
        Ownership::Ours(ours) => Some((
            reason::IN_OUR_POOL,
            format!("it belongs to pool {}", ours.pool_name),
        )),
        Ownership::Unknown { reason, message } => Some((*reason, message.trim_end_matches('.').to_owned())),
        Ownership::Theirs(findings) => findings
            .iter()
            .find(|finding| IN_USE.contains(&finding.reason))
            .map(|finding| (finding.reason, finding.message.clone()))
            .or_else(|| our_pool_on_a_partition(seen, disk)),
    };
    if let Some((why, what)) = use_of_it {
        return Some((why, format!("The disk was not wiped: {what}. {again}")));
    }
    let failure = seen
        .failure
        .as_ref()
        .filter(|failure| failure.is_of_step("wipe"))?;
    Some((failure.class.reason, format!("{}. {again}", failure.message)))
}

/// The object that has a claim on this disk, on the disk it is a part of or on a part of it.
fn claimed(seen: &Observed, disk: &Disk) -> Option<String> {
    let view = seen.view.as_ref()?;
    let parts = disk.device().partitions.iter().chain(&disk.device().parent);
    let related: Vec<_> = parts
        .filter_map(|name| view.disks.get(name))
        .chain([disk])
        .collect();
    let has_it = |object: &BlockDevice| {
        let state = object
            .status
            .as_ref()
            .and_then(|status| status.claim_state.as_ref());
        let claimed = object.spec.claim_ref.is_some() || state == Some(&BlockDeviceClaimState::Claimed);
        claimed && related.iter().any(|disk| disk.is(object))
    };
    let own = std::iter::once(&seen.object).filter(|object| has_it(object));
    let others = seen
        .objects
        .iter()
        .map(AsRef::as_ref)
        .filter(|object| has_it(object));
    own.chain(others).find_map(|object| object.metadata.name.clone())
}

/// A partition of the disk that is in a pool of ours.
fn our_pool_on_a_partition(seen: &Observed, disk: &Disk) -> Option<(&'static str, String)> {
    disk.partitions.iter().find_map(|found| {
        let probe = found.probe.as_ref()?;
        let subject = Subject {
            examined: Examined {
                device: &found.device,
                probe,
            },
            partitions: &[],
            parent: None,
            foreign_attachment: None,
        };
        seen.records.instance_on(&subject).map(|instance| {
            let path = &found.device.path;
            (
                reason::IN_OUR_POOL,
                format!("{path} belongs to the pool of instance {instance}"),
            )
        })
    })
}

#[cfg(test)]
mod tests;
