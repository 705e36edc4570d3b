//! What comes of a request to wipe a disk.

use std::time::Duration;

use cstor_api::ConditionStatus;
use cstor_api::names::phase::BlockDeviceClaimState;
use cstor_api::names::{annotation, condition, event, reason};
use cstor_api::openebs::BlockDevice;
use cstor_blockdev::ownership::{Examined, Finding, Ownership, Subject};
use cstor_reconcile::Event;

use super::{Decided, Observed, Status, whole};
use crate::disk::publish::PublishStep;
use crate::disk::view::Disk;
use crate::disk::whose::is_being_read;

/// What is found where somebody uses the disk now, which a wipe must not touch.
pub(super) const IN_USE: [&str; 6] = [
    reason::MOUNTED,
    reason::SWAP,
    reason::HELD,
    reason::EXPORTED,
    reason::FOREIGN_ATTACHMENT,
    reason::IN_OUR_POOL,
];

/// How soon a request to wipe is looked at again that cannot be answered yet.
const WIPE_AGAIN: Duration = Duration::from_secs(5);

/// What comes of the request for a wipe, if there is one.
///
/// A request is answered once, by a wipe or by a refusal, and taken off: one that stayed would wipe the disk on the day
/// when whoever uses it lets go of it for a moment.
pub(super) fn wipe(status: &mut Status<'_>, disk: &Disk, owned: &Ownership, decision: Decided) -> Decided {
    let seen = status.seen;
    let annotations = seen.object.metadata.annotations.as_ref();
    let Some(wanted) = annotations.and_then(|all| all.get(annotation::WIPE)) else {
        return decision;
    };
    let unmatched = seen.matched.of(whole(seen, disk).device()).is_none();
    if unmatched || is_being_read(disk) {
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
pub(super) fn refuse_unseen(status: &mut Status<'_>, decision: Decided) -> Decided {
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
        Ownership::Theirs(findings) => our_pool(seen, disk).or_else(|| {
            let refused =
                |finding: &&Finding| IN_USE.contains(&finding.reason) || finding.reason == reason::UNSUITABLE;
            let finding = findings.iter().find(refused)?;
            Some((finding.reason, finding.message.clone()))
        }),
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

/// A label of a pool of ours on the disk, on a part of it or on the disk it is a part of, whatever is found beside it: what a
/// person takes for a leftover may be the pool's.
fn our_pool(seen: &Observed, disk: &Disk) -> Option<(&'static str, String)> {
    let around = [&disk.found, &whole(seen, disk).found];
    around.into_iter().chain(&disk.partitions).find_map(|found| {
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
