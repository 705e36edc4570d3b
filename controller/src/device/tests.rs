use std::collections::BTreeMap;

use cstor_api::names::phase::BlockDeviceState;
use cstor_api::names::{annotation, condition, finalizer, label, reason};
use cstor_api::openebs::{BlockDevice, BlockDeviceSpec};
use cstor_api::{Condition, ConditionStatus};
use cstor_reconcile::{Decision, Hold, Step as _};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::decide::decide;
use super::observe::{Observed, Owner};

fn device(claim_state: Option<&str>, blank: bool, state: BlockDeviceState) -> BlockDevice {
    let mut device = BlockDevice::new("disk", BlockDeviceSpec::default());
    let status = device.status.get_or_insert_default();
    status.claim_state = claim_state.map(Into::into);
    status.state = Some(state);
    let truth = if blank {
        ConditionStatus::True
    } else {
        ConditionStatus::False
    };
    status.conditions = Some(vec![Condition::new(
        condition::BLANK,
        truth,
        reason::FILE_SYSTEM,
        "",
    )]);
    device
}

fn look(device: &BlockDevice, owner: Owner) -> Decision<super::DeviceStep, super::BlockDeviceStatus> {
    decide(&Observed {
        device: device.clone(),
        owner,
    })
}

#[test]
fn what_is_written_of_whose_it_is() {
    use BlockDeviceState::{Active, Inactive, Unknown};
    let somebody = || Owner::There("BlockDeviceClaim openebs/a".into());
    for (before, blank, state, owner, after) in [
        (None, true, Active, Owner::Nobody, "Unclaimed"),
        (Some(""), true, Active, Owner::Nobody, "Unclaimed"),
        (Some("Odd"), false, Inactive, Owner::Nobody, "Unclaimed"),
        (Some("Unclaimed"), false, Active, Owner::Nobody, "Unclaimed"),
        // It was claimed, and the crash was before this was written.
        (Some("Claimed"), false, Active, Owner::Nobody, "Released"),
        (Some("Claimed"), true, Active, Owner::Nobody, "Released"),
        (Some("Released"), false, Active, Owner::Nobody, "Released"),
        (Some("Released"), true, Active, Owner::Nobody, "Unclaimed"),
        // What a silent agent said of it is old.
        (Some("Released"), true, Unknown, Owner::Nobody, "Released"),
        (Some("Released"), true, Inactive, Owner::Nobody, "Released"),
        (None, true, Active, somebody(), "Claimed"),
        (Some("Released"), true, Active, somebody(), "Claimed"),
        (Some("Unclaimed"), false, Unknown, somebody(), "Claimed"),
        (
            Some("Unclaimed"),
            false,
            Unknown,
            Owner::Unproved("Pod a/b".into()),
            "Claimed",
        ),
    ] {
        let device = device(before, blank, state);
        let decision = look(&device, owner.clone());
        let mut expected = device.status.clone().unwrap();
        expected.claim_state = Some(after.into());
        assert_eq!(decision.report.status, Some(expected), "{before:?} {owner:?}");
        assert_eq!(decision.steps, []);
        let hold = if owner == Owner::Nobody {
            Hold::Release
        } else {
            Hold::Keep
        };
        assert_eq!(decision.hold, hold, "protected while it is somebody's");
    }
}

#[test]
fn a_claim_that_is_gone_or_elsewhere_is_taken_off() {
    let device = device(Some("Claimed"), false, BlockDeviceState::Active);
    for owner in [
        Owner::Gone("BlockDeviceClaim openebs/a".into()),
        Owner::Elsewhere {
            claim: "BlockDeviceClaim openebs/a".into(),
            has: "other".into(),
        },
    ] {
        let decision = look(&device, owner);
        let names: Vec<_> = decision.steps.iter().map(|step| step.name()).collect();
        assert_eq!((names, decision.report.status), (vec!["release_orphan"], None));
    }
}

#[test]
fn a_claimed_device_that_is_deleted_stays_and_says_so() {
    let mut device = device(Some("Claimed"), false, BlockDeviceState::Active);
    device.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let decision = look(&device, Owner::There("BlockDeviceClaim openebs/a".into()));
    assert_eq!((decision.hold, decision.report.events.len()), (Hold::Keep, 1));
    let decision = look(&device, Owner::Nobody);
    assert_eq!((decision.hold, decision.report.events.len()), (Hold::Release, 0));
}

#[test]
fn left_alone_is_neither_held_nor_let_go() {
    let mut by_annotation = device(Some("Claimed"), true, BlockDeviceState::Active);
    let mut by_label = by_annotation.clone();
    by_annotation.metadata.annotations = Some(BTreeMap::from([(
        annotation::BLOCK_DEVICE_RECONCILE.into(),
        "false".into(),
    )]));
    by_label.metadata.labels = Some(BTreeMap::from([(
        label::BLOCK_DEVICE_MANAGED.into(),
        "false".into(),
    )]));
    for mut device in [by_annotation, by_label] {
        for (finalizers, hold) in [
            (vec![finalizer::BLOCK_DEVICE.to_owned()], Hold::Keep),
            (vec!["other".to_owned()], Hold::Release),
        ] {
            device.metadata.finalizers = Some(finalizers);
            for owner in [Owner::Nobody, Owner::Gone("a".into()), Owner::There("a".into())] {
                let nothing = Decision {
                    hold,
                    ..Decision::nothing()
                };
                assert_eq!(look(&device, owner), nothing);
            }
        }
    }
}
