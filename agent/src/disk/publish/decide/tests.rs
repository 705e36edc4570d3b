use cstor_blockdev::device::Mount;
use cstor_blockdev::ownership::Record;
use cstor_blockdev::scan::{Found, Inventory};
use cstor_reconcile::{Class, Step as _};
use cstor_zfs::Label;

use super::*;
use crate::disk::fixtures::{
    GIB, NODE, annotated, blank, catalogue, claimed, found, holds, inventory, labelled, mounted, now, object,
    only, partition, view, virtio,
};

/// The object of vdb, and everything as it says: vdb is there, blank, and brought by nobody.
fn seen() -> Observed {
    with([found(virtio("vdb", "alpha"), blank())])
}

/// The object of vdb as it was, and these devices now.
fn with(devices: impl IntoIterator<Item = Found>) -> Observed {
    looking_at(inventory(devices))
}

fn looking_at(inventory: Inventory) -> Observed {
    let before = view([found(virtio("vdb", "alpha"), blank())]);
    let devices = inventory.devices();
    Observed {
        object: object(only(&before)),
        node: NODE.to_owned(),
        view: Some(Arc::new(catalogue().view(&inventory))),
        records: Records::default(),
        objects: Vec::new(),
        better: None,
        matched: Arc::new(Matched::examined(devices.values())),
        our_volumes: BTreeSet::new(),
        failure: None,
        began: now(),
        now: now(),
    }
}

/// What is decided, in short: state, and `type=status/reason` of each condition.
fn told(decided: &Decided) -> (String, Vec<String>) {
    let status = decided.report.status.as_ref().expect("a status is told");
    let mut conditions: Vec<_> = status
        .conditions
        .iter()
        .flatten()
        .map(|one| {
            let reason = one.reason.as_deref().unwrap_or_default();
            format!("{}={:?}/{reason}", one.type_, one.status)
        })
        .collect();
    conditions.sort();
    (format!("{:?}", status.state.as_ref().unwrap()), conditions)
}

fn steps(decided: &Decided) -> Vec<&'static str> {
    decided.steps.iter().map(|step| step.name()).collect()
}

fn events(decided: &Decided) -> Vec<&'static str> {
    decided.report.events.iter().map(|event| event.reason).collect()
}

/// The object after what was decided was written.
fn written(mut seen: Observed, decided: &Decided) -> Observed {
    seen.object.status = decided.report.status.clone();
    for step in &decided.steps {
        if let PublishStep::Describe(description) = step {
            seen.object.spec = description.spec.clone();
        }
    }
    seen
}

#[track_caller]
fn check(seen: &Observed, state: &str, conditions: &[&str], step_names: &[&str], event_reasons: &[&str]) {
    let decided = decide(seen);
    let (is, are) = told(&decided);
    assert_eq!(is, state);
    assert_eq!(are, conditions);
    assert_eq!(steps(&decided), step_names);
    assert_eq!(events(&decided), event_reasons);
    // Once it is written, there is nothing to write, and nothing to tell.
    if !step_names.iter().any(|name| *name != "describe") && seen.object.metadata.annotations.is_none() {
        let again = written(seen.clone(), &decided);
        let second = decide(&again);
        assert_eq!(second.report.status, again.object.status);
        assert!(
            second.steps.is_empty() && second.report.events.is_empty(),
            "{second:?}"
        );
    }
}

#[test]
fn nothing_is_said_before_the_first_look() {
    let mut seen = seen();
    seen.view = None;
    let decided = decide(&seen);
    assert!(decided.steps.is_empty() && decided.report.status.is_none());
}

#[test]
fn a_blank_disk_is_active() {
    check(
        &seen(),
        "Active",
        &[
            "Blank=True/NothingFound",
            "Identified=True/HardwareIdentity",
            "Present=True/Found",
        ],
        &[],
        &[],
    );
}

#[test]
fn a_disk_that_was_not_held_against_the_attachments_is_not_blank() {
    let mut seen = seen();
    seen.matched = Arc::default();
    let (state, conditions) = told(&decide(&seen));
    assert_eq!(
        (state.as_str(), conditions[0].as_str()),
        ("Active", "Blank=Unknown/NotYetMatched")
    );
}

#[test]
fn an_agent_that_starts_leaves_what_was_said_until_it_knows_better_or_a_minute_has_passed() {
    for offered in [true, false] {
        let mut before = seen();
        if !offered {
            let attachment = Bound::Doubtful {
                reason: reason::NO_DEVICE,
                message: "VolumeAttachment csi-1: not known".into(),
            };
            let view = before.view.clone().unwrap();
            let mut matched = Matched::clone(&before.matched);
            matched.bind(only(&view).device(), attachment);
            before.matched = Arc::new(matched);
        }
        let said = decide(&before);
        let mut restarted = written(before.clone(), &said);
        restarted.matched = Arc::default();
        let decided = decide(&restarted);
        assert_eq!(told(&decided), told(&said));
        assert!(
            decided
                .again
                .is_some_and(|again| again <= Duration::from_secs(60))
        );
        restarted.now += jiff::SignedDuration::from_secs(61);
        let (_, conditions) = told(&decide(&restarted));
        assert_eq!(conditions[0], "Blank=Unknown/NotYetMatched");
    }
}

#[test]
fn a_disk_that_is_gone_is_inactive_and_told_once() {
    check(
        &with([]),
        "Inactive",
        &["Present=False/Gone"],
        &[],
        &[event::DEVICE_GONE],
    );
    // The other disks of the node do not matter.
    check(
        &with([found(virtio("vdc", "beta"), blank())]),
        "Inactive",
        &["Present=False/Gone"],
        &[],
        &[event::DEVICE_GONE],
    );
    let mut back = seen();
    back.object.status = decide(&with([])).report.status;
    check(
        &back,
        "Active",
        &[
            "Blank=True/NothingFound",
            "Identified=True/HardwareIdentity",
            "Present=True/Found",
        ],
        &[],
        &[event::DEVICE_FOUND],
    );
}

#[test]
fn a_claimed_disk_that_is_gone_keeps_its_object() {
    let mut seen = with([]);
    seen.object = claimed(labelled(seen.object, label::BLOCK_DEVICE_UNIDENTIFIED, "true"));
    assert!(steps(&decide(&seen)).is_empty());
}

#[test]
fn the_object_of_a_disk_without_identity_goes_with_it() {
    let there = view([found(virtio("vdq", ""), blank())]);
    let mut seen = with([]);
    seen.object = object(only(&there));
    assert_eq!(steps(&decide(&seen)), ["remove"]);
    // It has an identity now, and so another object.
    let mut named = with([found(virtio("vdq", "alpha"), blank())]);
    named.object = object(only(&there));
    assert_eq!(steps(&decide(&named)), ["remove"]);
}

#[test]
fn a_disk_that_is_left_out_is_inactive_unless_it_is_claimed() {
    let device = mounted(virtio("vdb", "alpha"), "/boot");
    let seen = with([found(device, blank())]);
    check(&seen, "Inactive", &["Present=False/Excluded"], &[], &[]);
    let mut seen = seen;
    seen.object = claimed(seen.object);
    assert_eq!(told(&decide(&seen)).0, "Active");
}

#[test]
fn what_may_be_among_the_undescribed_is_unknown_and_never_inactive() {
    let mut inventory = inventory([found(virtio("vdc", "beta"), blank())]);
    inventory
        .undescribed
        .insert("vdd".into(), "the kernel did not answer within 10 s".into());
    check(
        &looking_at(inventory),
        "Unknown",
        &["Blank=Unknown/Undescribed", "Present=Unknown/Undescribed"],
        &[],
        &[],
    );
}

#[test]
fn what_may_be_among_those_that_are_being_asked_stays_as_it_was() {
    let mut inventory = inventory([]);
    inventory
        .awaited
        .insert("vdd".into(), tokio::time::Instant::now());
    assert_eq!(decide(&looking_at(inventory.clone())), Decided::nothing());
    // It was given its time.
    inventory
        .undescribed
        .insert("vdd".into(), "it does not answer".into());
    assert_eq!(told(&decide(&looking_at(inventory))).0, "Unknown");
    // One that is left out is not looked for.
    let mut left_out = self::inventory([found(mounted(virtio("vdb", "alpha"), "/boot"), blank())]);
    left_out.awaited.insert("vdd".into(), tokio::time::Instant::now());
    assert_eq!(told(&decide(&looking_at(left_out))).0, "Inactive");
}

#[test]
fn a_disk_that_does_not_answer_is_unknown_and_told_once() {
    let seen = with([found(virtio("vdb", "alpha"), Probe::NotResponding)]);
    check(
        &seen,
        "Unknown",
        &[
            "Blank=Unknown/NotResponding",
            "Identified=True/HardwareIdentity",
            "Present=Unknown/NotResponding",
        ],
        &[],
        &[event::DEVICE_HANGS],
    );
}

#[test]
fn a_disk_that_answers_with_errors_is_there_and_not_offered() {
    let seen = with([found(virtio("vdb", "alpha"), Probe::Failed("I/O error".into()))]);
    let (state, conditions) = told(&decide(&seen));
    assert_eq!(
        (state.as_str(), conditions[0].as_str()),
        ("Active", "Blank=Unknown/Unreadable")
    );
}

#[test]
fn a_disk_that_is_read_for_the_first_time_is_waited_for() {
    let mut device = found(virtio("vdb", "alpha"), blank());
    (device.probe, device.pending) = (None, true);
    let decided = decide(&with([device]));
    assert!(decided.steps.is_empty() && decided.report.status.is_none());
    // Not so one of which something is known.
    let mut device = found(virtio("vdb", "alpha"), holds("ext4"));
    device.pending = true;
    assert_eq!(told(&decide(&with([device]))).1[0], "Blank=False/FileSystem");
}

#[test]
fn a_file_system_is_told_and_described() {
    let seen = with([found(virtio("vdb", "alpha"), holds("ext4"))]);
    check(
        &seen,
        "Active",
        &[
            "Blank=False/FileSystem",
            "Identified=True/HardwareIdentity",
            "Present=True/Found",
        ],
        &["describe"],
        &[],
    );
}

#[test]
fn a_disk_that_grew_or_shrank_is_told() {
    for size in [9 * GIB, 11 * GIB] {
        let mut device = virtio("vdb", "alpha");
        device.bytes = size;
        let seen = with([found(device, blank())]);
        let decided = decide(&seen);
        assert_eq!(
            (steps(&decided), events(&decided)),
            (vec!["describe"], vec![event::DEVICE_RESIZED])
        );
        let note = &decided.report.events[0].note;
        assert!(
            note.contains(&size.to_string()) && note.contains(&(10 * GIB).to_string()),
            "{note}"
        );
    }
    // An object that NDM made says no identity, and its size is not ours to compare.
    let mut seen = seen();
    seen.object.spec.identity = None;
    seen.object.spec.capacity.storage = 1;
    assert!(events(&decide(&seen)).is_empty());
}

#[test]
fn two_disks_with_one_identity_are_both_quarantined_until_one_goes() {
    let twins = ["vdb", "vdc"].map(|name| found(virtio(name, "alpha"), blank()));
    let seen = with(twins);
    check(
        &seen,
        "Unknown",
        &[
            "Blank=Unknown/DuplicateIdentity",
            "Present=True/Found",
            "Quarantined=True/DuplicateIdentity",
        ],
        &[],
        &[event::DEVICE_QUARANTINED],
    );
    let message = &decide(&seen).report.events[0].note;
    assert!(
        message.contains("/dev/vdb of node-1 and /dev/vdc of node-1"),
        "{message}"
    );
    let mut alone = self::seen();
    alone.object.status = decide(&seen).report.status;
    check(
        &alone,
        "Active",
        &[
            "Blank=True/NothingFound",
            "Identified=True/HardwareIdentity",
            "Present=True/Found",
            "Quarantined=False/UniqueIdentity",
        ],
        &[],
        &[],
    );
}

/// Else another node would take the silence for true that is over.
#[test]
fn an_agent_that_is_back_says_so_of_disks_with_doubles_too() {
    let twins = ["vdb", "vdc"].map(|name| found(virtio(name, "alpha"), blank()));
    let mut second = seen();
    second.better = Some("blockdevice-better".into());
    for mut seen in [with(twins), second] {
        let silent = Condition::new(
            condition::PRESENT,
            ConditionStatus::Unknown,
            reason::AGENT_SILENT,
            "",
        );
        seen.object.status.as_mut().unwrap().conditions = Some(vec![silent]);
        let told = told(&decide(&seen)).1;
        assert!(told.contains(&"Present=True/Found".to_owned()), "{told:?}");
    }
}

#[test]
fn what_was_certain_of_a_disk_is_not_when_it_has_a_twin() {
    let mut certain = seen();
    bound(&mut certain, Bound::Certain(attachment("pv-1")));
    let before = decide(&certain).report.status;
    assert!(before.as_ref().unwrap().attachment.is_some());
    let mut twins = with(["vdb", "vdc"].map(|name| found(virtio(name, "alpha"), blank())));
    twins.object.status = before;
    let correlated = |seen: &Observed| {
        let told = told(&decide(seen)).1;
        told.into_iter().find(|one| one.starts_with("Correlated"))
    };
    assert_eq!(correlated(&twins), None);
    let doubt = Bound::Doubtful {
        reason: reason::AMBIGUOUS,
        message: "two disks".into(),
    };
    bound(&mut twins, doubt);
    assert_eq!(correlated(&twins).as_deref(), Some("Correlated=False/Ambiguous"));
    assert_eq!(decide(&twins).report.status.unwrap().attachment, None);
}

#[test]
fn a_disk_that_another_node_has_too_is_quarantined() {
    let mut seen = seen();
    seen.object = labelled(seen.object, &label::also_on("node-2"), "");
    let decided = decide(&seen);
    assert_eq!(told(&decided).0, "Unknown");
    let note = &decided.report.events[0].note;
    assert!(note.contains("a disk of node-2"), "{note}");
    let advice = "If node-2 is gone for good, remove the label also-on.cstor.openebs.io/node-2.";
    assert!(note.ends_with(advice), "{note}");
    // Our own label is left from before we had the object: it is no other node.
    let mut seen = self::seen();
    seen.object = labelled(seen.object, &label::also_on(NODE), "");
    assert_eq!(told(&decide(&seen)).0, "Active");
    // It is gone from here, whoever else has it: that node may take the object over.
    let mut seen = with([]);
    seen.object = labelled(seen.object, &label::also_on("node-2"), "");
    assert_eq!(told(&decide(&seen)).0, "Inactive");
}

#[test]
fn an_object_that_says_so_is_left_alone() {
    let mut device = virtio("vdb", "alpha");
    device.bytes = 1;
    let changed = with([found(device, holds("ext4"))]);
    let left = [
        labelled(changed.object.clone(), label::BLOCK_DEVICE_MANAGED, "false"),
        annotated(
            changed.object.clone(),
            annotation::BLOCK_DEVICE_RECONCILE,
            "false",
        ),
    ];
    for object in left {
        let decided = decide(&Observed {
            object,
            ..changed.clone()
        });
        assert!(decided.steps.is_empty() && decided.report.status.is_none() && decided.again.is_none());
    }
    let ours = labelled(changed.object.clone(), label::BLOCK_DEVICE_MANAGED, "true");
    assert!(
        !decide(&Observed {
            object: ours,
            ..changed
        })
        .steps
        .is_empty()
    );
}

#[test]
fn the_claim_state_is_not_ours_to_change() {
    for state in [BlockDeviceClaimState::Claimed, BlockDeviceClaimState::Released] {
        let mut seen = with([]);
        seen.object.status.as_mut().unwrap().claim_state = Some(state.clone());
        let status = decide(&seen).report.status.unwrap();
        assert_eq!(status.claim_state, Some(state));
    }
    let mut seen = seen();
    seen.object.status = None;
    let status = decide(&seen).report.status.unwrap();
    assert_eq!(status.claim_state, Some(BlockDeviceClaimState::Unclaimed));
}

fn attachment(volume: &str) -> Attachment {
    Attachment {
        volume_attachment_name: format!("csi-{volume}"),
        persistent_volume_name: volume.to_owned(),
        driver: "a.driver".into(),
        volume_handle: Some("handle".into()),
        method: Some("serial".into()),
        serial: Some("alpha".into()),
    }
}

fn bound(seen: &mut Observed, bound: Bound) {
    let devices = seen.view.as_ref().unwrap().devices.clone();
    let mut matched = Matched::examined(devices.values());
    matched.bind(&devices["vdb"], bound);
    seen.matched = Arc::new(matched);
}

#[test]
fn a_disk_that_an_attachment_brought_is_whose_the_volume_is() {
    let mut seen = seen();
    bound(&mut seen, Bound::Certain(attachment("pv-1")));
    let decided = decide(&seen);
    assert_eq!(
        told(&decided).1[..2],
        ["Blank=False/ForeignAttachment", "Correlated=True/Matched"]
    );
    assert_eq!(
        decided.report.status.unwrap().attachment,
        Some(attachment("pv-1"))
    );
    seen.our_volumes.insert("pv-1".into());
    let decided = decide(&seen);
    assert_eq!(
        told(&decided).1[..2],
        ["Blank=True/NothingFound", "Correlated=True/Matched"]
    );
}

#[test]
fn a_match_that_settles_is_neither_recorded_nor_taken_back_nor_offered() {
    let mut seen = seen();
    bound(&mut seen, Bound::Settling(attachment("pv-1")));
    let status = decide(&seen);
    assert_eq!(told(&status).1[0], "Blank=False/ForeignAttachment");
    assert_eq!(status.report.status.unwrap().attachment, None);
    // After a restart of the agent it settles again.
    seen.object.status.as_mut().unwrap().attachment = Some(attachment("pv-1"));
    assert_eq!(
        decide(&seen).report.status.unwrap().attachment,
        Some(attachment("pv-1"))
    );
    // Another volume's is not kept.
    seen.object.status.as_mut().unwrap().attachment = Some(attachment("pv-2"));
    assert_eq!(decide(&seen).report.status.unwrap().attachment, None);
}

#[test]
fn a_doubt_is_told_and_the_disk_not_offered_and_goes_when_it_is_cleared() {
    let mut seen = seen();
    let doubt = Bound::Doubtful {
        reason: reason::AMBIGUOUS,
        message: "two disks".into(),
    };
    bound(&mut seen, doubt);
    let decided = decide(&seen);
    assert_eq!(
        told(&decided).1[..2],
        ["Blank=False/ForeignAttachment", "Correlated=False/Ambiguous"]
    );
    let mut clear = self::seen();
    clear.object.status = decided.report.status;
    assert_eq!(told(&decide(&clear)).1[0], "Blank=True/NothingFound");
    assert!(
        !told(&decide(&clear))
            .1
            .iter()
            .any(|one| one.starts_with("Correlated"))
    );
}

#[test]
fn what_an_attachment_brought_holds_for_its_partitions() {
    let mut disk = virtio("vdb", "alpha");
    let part = partition(&mut disk, 1);
    let mut seen = with([found(disk, blank()), found(part, blank())]);
    seen.object = object(&seen.view.as_ref().unwrap().disks["vdb1"]);
    bound(&mut seen, Bound::Certain(attachment("pv-1")));
    assert_eq!(told(&decide(&seen)).1[0], "Blank=False/ForeignAttachment");
}

const INSTANCE: &str = "f2420c98-ce02-4bc8-b3c0-8266c0b62b69";

/// A disk with the label of a pool of ours.
fn in_our_pool() -> Observed {
    let Probe::Read(mut contents) = blank() else {
        panic!("a blank disk was read");
    };
    contents.zfs = Some(Label {
        pool_name: Some(format!("cstor-{INSTANCE}")),
        pool_guid: Some(5),
        vdev_guid: 6,
        comment: None,
        state: 0,
        txg: 9,
        hostname: None,
        hostid: None,
    });
    let mut seen = with([found(virtio("vdb", "alpha"), Probe::Read(contents))]);
    seen.records = Records::from_iter([Record {
        instance: INSTANCE.parse().unwrap(),
        pool_name: None,
        pool_guid: Some(5),
        vdev_guids: BTreeSet::from([6]),
    }]);
    seen
}

#[test]
fn an_object_that_is_being_deleted_is_let_go() {
    let mut seen = with([]);
    seen.object.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    let decided = decide(&seen);
    assert!(decided.steps.is_empty() && decided.report.status.is_none());
}

mod beneath;
mod told;
mod wipe;
