use cstor_blockdev::scan::Found;
use cstor_reconcile::Step as _;

use cstor_api::Condition;

use super::*;
use crate::disk::fixtures::{NODE, blank, claimed, found, labelled, object, only, partition, view, virtio};

fn disks(found: impl IntoIterator<Item = Found>) -> Observed {
    Observed {
        node: NODE.to_owned(),
        view: Some(view(found)),
        seen_for: BTreeMap::new(),
        here: Vec::new(),
        malformed: BTreeSet::new(),
        marked: BTreeMap::new(),
        elsewhere: BTreeMap::new(),
    }
}

fn steps(decided: &Decided) -> Vec<String> {
    let told = |step: &AnnounceStep| {
        let (AnnounceStep::Make { name, .. }
        | AnnounceStep::TakeOver { name, .. }
        | AnnounceStep::Mark { name }
        | AnnounceStep::Unmark { name }) = step;
        format!("{} {name}", step.name())
    };
    decided.steps.iter().map(told).collect()
}

#[test]
fn before_the_first_look_nothing_is_concluded() {
    let mut seen = disks([]);
    seen.view = None;
    let there = view([found(virtio("vdb", "alpha"), blank())]);
    seen.marked.insert("left".into(), object(only(&there)));
    let decided = decide(&seen);
    assert!(decided.steps.is_empty() && decided.again.is_none());
}

#[test]
fn a_disk_that_has_no_object_gets_one_under_the_name_of_its_identity() {
    let mut seen = disks([found(virtio("vdb", "alpha"), blank())]);
    seen.elsewhere.insert("vdb".into(), Known::Nothing);
    let name = only(seen.view.as_ref().unwrap()).object_name.clone();
    assert!(name.starts_with("blockdevice-"), "{name}");
    assert_eq!(steps(&decide(&seen)), [format!("make {name}")]);
    // It went between the look and now.
    seen.elsewhere.insert("vdz".into(), Known::Nothing);
    assert_eq!(steps(&decide(&seen)), [format!("make {name}")]);
}

#[test]
fn a_disk_without_identity_gets_an_object_that_says_so() {
    let mut seen = disks([found(virtio("vdb", ""), blank())]);
    seen.elsewhere.insert("vdb".into(), Known::Nothing);
    let decided = decide(&seen);
    assert_eq!(steps(&decided), ["make unidentified-node-1-vdb"]);
    let AnnounceStep::Make { description, .. } = &decided.steps[0] else {
        panic!("{decided:?}");
    };
    assert_eq!(description.labels[label::BLOCK_DEVICE_UNIDENTIFIED], "true");
    assert_eq!(description.spec.identity, None);
}

#[test]
fn two_disks_of_one_identity_make_one_object() {
    let both = ["vdb", "vdc"];
    let mut seen = disks(both.map(|name| found(virtio(name, "alpha"), blank())));
    for name in both {
        seen.elsewhere.insert(name.into(), Known::Nothing);
    }
    assert_eq!(decide(&seen).steps.len(), 1);
}

#[test]
fn a_partition_of_a_claimed_disk_has_no_object() {
    let mut disk = virtio("vdb", "alpha");
    let part = partition(&mut disk, 1);
    let mut seen = disks([found(disk, blank()), found(part, blank())]);
    let whole = object(&seen.view.as_ref().unwrap().disks["vdb"]);
    seen.elsewhere.insert("vdb1".into(), Known::Nothing);
    seen.here = vec![whole.clone()];
    assert_eq!(decide(&seen).steps.len(), 1, "of a disk that is nobody's it has");
    seen.here = vec![claimed(whole)];
    assert!(decide(&seen).steps.is_empty());
}

#[test]
fn a_claimed_partition_keeps_no_other_partition_from_its_object() {
    let mut disk = virtio("vdb", "alpha");
    let parts = [partition(&mut disk, 1), partition(&mut disk, 2)];
    let mut seen = disks(
        parts
            .map(|part| found(part, blank()))
            .into_iter()
            .chain([found(disk, blank())]),
    );
    seen.here = vec![claimed(object(&seen.view.as_ref().unwrap().disks["vdb1"]))];
    seen.elsewhere.insert("vdb2".into(), Known::Nothing);
    assert_eq!(decide(&seen).steps.len(), 1);
}

#[test]
fn a_name_that_is_about_another_disk_is_told_and_left() {
    let mut seen = disks([found(virtio("vdb", "alpha"), blank())]);
    seen.elsewhere
        .insert("vdb".into(), Known::Disputed("blockdevice-x".into()));
    let decided = decide(&seen);
    assert!(decided.steps.is_empty());
    let [event] = decided.report.events.as_slice() else {
        panic!("{decided:?}");
    };
    assert_eq!(event.reason, event::DEVICE_NOT_WRITTEN);
    assert!(
        event.note.contains("/dev/vdb") && event.note.contains("blockdevice-x"),
        "{}",
        event.note
    );
}

/// The disk is here, and its object names `node` and is in `state`, `labels` on it; we have seen it for so many seconds.
fn moved(
    node: Option<&str>,
    state: Option<BlockDeviceState>,
    labels: &[&str],
    seconds: u64,
) -> (String, bool) {
    let mut seen = disks([found(virtio("vdb", "alpha"), blank())]);
    let mut there = object(only(seen.view.as_ref().unwrap()));
    there.spec.node_attributes.as_mut().unwrap().node_name = node.map(str::to_owned);
    let status = there.status.as_mut().unwrap();
    let (truth, why) = match state {
        Some(BlockDeviceState::Unknown) => (ConditionStatus::Unknown, reason::AGENT_SILENT),
        _ => (ConditionStatus::True, reason::FOUND),
    };
    status.state = state;
    status.conditions = Some(vec![Condition::new(condition::PRESENT, truth, why, "")]);
    for on in labels {
        there = labelled(there, &label::also_on(on), "");
        if *on == NODE {
            seen.marked
                .insert(there.metadata.name.clone().unwrap(), there.clone());
        }
    }
    seen.seen_for.insert("vdb".into(), Duration::from_secs(seconds));
    seen.elsewhere
        .insert("vdb".into(), Known::Object(Box::new(there.clone())));
    let decided = decide(&seen);
    for step in &decided.steps {
        if let AnnounceStep::TakeOver {
            resource_version,
            from,
            description,
            name,
        } = step
        {
            assert_eq!(
                (resource_version.as_str(), from.as_str()),
                ("7", node.unwrap_or_default())
            );
            assert_eq!(
                Some(name),
                there.metadata.name.as_ref(),
                "the object keeps its name"
            );
            let node = description.spec.node_attributes.as_ref().unwrap();
            assert_eq!(node.node_name.as_deref(), Some(NODE));
        }
    }
    let names: Vec<_> = decided.steps.iter().map(|step| step.name()).collect();
    (names.join(" "), decided.again.is_some())
}

#[test]
fn an_object_of_another_node_is_taken_over_marked_or_waited_for() {
    use BlockDeviceState::{Active, Inactive, Unknown};
    let before = MOVE_WITHIN.as_secs() - 1;
    let after = MOVE_WITHIN.as_secs();
    let other = Some("node-2");
    let none: &[&str] = &[];
    for (node, state, labels, seconds, expected, again) in [
        // Its node says that the disk is gone, or is silent: it is here.
        (other, Some(Inactive), none, 0, "take_over", false),
        (other, Some(Unknown), none, 0, "take_over", false),
        // Its agent has not said anything yet.
        (other, None, none, 0, "", true),
        (None, Some(Active), none, 0, "take_over", false),
        // Its node has the disk, or has not noticed yet.
        (other, Some(Active), none, 0, "", true),
        (other, Some(Active), none, before, "", true),
        (other, Some(Active), none, after, "mark", true),
        // Marked already.
        (other, Some(Active), &[NODE], after, "", true),
        // Its own node has it no more, or was found silent after we marked it, and nobody else has it.
        (other, Some(Inactive), &[NODE], after, "take_over", true),
        (other, Some(Unknown), &[NODE], after, "take_over", true),
        // A third node has it too.
        (other, Some(Inactive), &[NODE, "node-3"], after, "", true),
        (other, Some(Unknown), &[NODE, "node-3"], after, "", true),
        (other, Some(Inactive), &["node-3"], before, "", true),
        (other, Some(Inactive), &["node-3"], after, "mark", true),
        // Our list is behind.
        (Some(NODE), Some(Active), none, after, "", true),
    ] {
        let (steps, looks_again) = moved(node, state.clone(), labels, seconds);
        let case = format!("{node:?} {state:?} {labels:?} {seconds} s");
        assert_eq!((steps.as_str(), looks_again), (expected, again), "{case}");
    }
}

/// What is done about an object of another node that is `Unknown` and says this, with our mark on it and without.
fn unknown_elsewhere(conditions: &[Condition]) -> [Vec<&'static str>; 2] {
    [false, true].map(|marked| {
        let mut seen = disks([found(virtio("vdb", "alpha"), blank())]);
        let mut there = object(only(seen.view.as_ref().unwrap()));
        there.spec.node_attributes.as_mut().unwrap().node_name = Some("node-2".into());
        let status = there.status.as_mut().unwrap();
        status.state = Some(BlockDeviceState::Unknown);
        status.conditions = Some(conditions.to_vec());
        if marked {
            there = labelled(there, &label::also_on(NODE), "");
        }
        seen.elsewhere
            .insert("vdb".into(), Known::Object(Box::new(there)));
        decide(&seen).steps.iter().map(|step| step.name()).collect()
    })
}

#[test]
fn an_object_that_its_own_node_cannot_tell_of_stays_there() {
    use ConditionStatus::{True, Unknown};
    let quarantined = Condition::new(condition::QUARANTINED, True, reason::DUPLICATE_IDENTITY, "");
    let present = |truth, why| Condition::new(condition::PRESENT, truth, why, "");
    let nothing: [Vec<&str>; 2] = Default::default();
    for conditions in [
        vec![],
        vec![present(Unknown, reason::NOT_RESPONDING)],
        vec![present(Unknown, reason::UNDESCRIBED)],
        vec![present(True, reason::FOUND), quarantined.clone()],
        // It had a disk of this identity when there were two, and may have it still.
        vec![present(Unknown, reason::AGENT_SILENT), quarantined],
    ] {
        assert_eq!(unknown_elsewhere(&conditions), nothing, "{conditions:?}");
    }
}

#[test]
fn an_object_of_a_silent_node_is_taken_over_marked_or_not() {
    let of_old = Condition::new(condition::PRESENT, ConditionStatus::True, reason::FOUND, "");
    let silent = Condition::new(
        condition::PRESENT,
        ConditionStatus::Unknown,
        reason::AGENT_SILENT,
        "",
    );
    let unique = Condition::new(
        condition::QUARANTINED,
        ConditionStatus::False,
        reason::UNIQUE_IDENTITY,
        "",
    );
    for conditions in [vec![silent.clone()], vec![silent, unique], vec![of_old]] {
        let taken = [vec!["take_over"], vec!["take_over"]];
        assert_eq!(unknown_elsewhere(&conditions), taken, "{conditions:?}");
    }
}

#[test]
fn the_mark_goes_with_the_disk() {
    let mut seen = disks([]);
    let there = view([found(virtio("vdb", "alpha"), blank())]);
    let there = labelled(object(only(&there)), &label::also_on(NODE), "");
    let name = there.metadata.name.clone().unwrap();
    seen.marked.insert(name.clone(), there);
    assert_eq!(steps(&decide(&seen)), [format!("unmark {name}")]);
}
