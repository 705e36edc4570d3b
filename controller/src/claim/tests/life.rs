//! How a claim gets its device, keeps it, and gives it back.

use super::*;

#[test]
fn it_goes_on_from_each_crash() {
    // The claim was written into the device, and nothing else.
    let mut disk = device("disk", GI);
    claimed_by(&mut disk, "mine", "uid-mine");
    disk.status.as_mut().unwrap().claim_state = Some(BlockDeviceClaimState::Unclaimed);
    let smaller = device("a-smaller-one", GI / 2);
    let decision = look(claim(spec("1")), all([smaller.clone(), disk.clone()]));
    assert_eq!(
        steps(&decision),
        ["mark_claimed"],
        "it never takes a second device"
    );
    assert_eq!(decision.report.status, None);
    // Not into the claim.
    disk.status.as_mut().unwrap().claim_state = Some(BlockDeviceClaimState::Claimed);
    let decision = look(claim(spec("1")), all([smaller, disk.clone()]));
    assert_eq!(steps(&decision), ["name_device"]);
    assert_eq!(decision.report.status, None);
    // Not its status.
    let mut mine = spec("1");
    mine.block_device_name = Some("disk".into());
    let decision = look(claim(mine.clone()), one(disk.clone()));
    assert_eq!(
        (steps(&decision), phase(&decision)),
        (vec![], Some(BlockDeviceClaimPhase::Bound))
    );
    assert_eq!(
        said(&decision, condition::BOUND),
        (
            ConditionStatus::True,
            reason::DEVICE_BOUND.into(),
            "disk on node node-1".into()
        )
    );
    // The same again is the same status: no write.
    let mut bound = claim(mine);
    bound.status = decision.report.status.clone();
    let again = decide(&Observed {
        claim: bound.clone(),
        devices: one(disk.clone()),
        failure: None,
        now: Timestamp::from_second(1_900_000_000).unwrap(),
    });
    assert_eq!(
        (&again.report.status, again.report.events.len()),
        (&decision.report.status, 0)
    );
    // Whatever becomes of the device, it stays bound while the device has the claim.
    disk.status.as_mut().unwrap().claim_state = None;
    disk.status.as_mut().unwrap().state = Some(BlockDeviceState::Inactive);
    let decision = look(bound.clone(), one(disk.clone()));
    assert_eq!(
        (steps(&decision), phase(&decision)),
        (vec!["mark_claimed"], Some(BlockDeviceClaimPhase::Bound))
    );
    assert_eq!(
        said(&decision, condition::BOUND).2,
        "disk on node node-1, which is not Active but Inactive"
    );
    // And says so if it has not.
    for (lost, why) in [
        (Devices::Missing("disk".into()), reason::DEVICE_NOT_FOUND),
        (Devices::Unreadable("odd".into()), reason::NO_DEVICE_FITS),
    ] {
        let decision = look(bound.clone(), lost);
        assert_eq!(phase(&decision), Some(BlockDeviceClaimPhase::Pending));
        assert_eq!(said(&decision, condition::BOUND).1, why);
    }
    // A device that was made anew is claimed anew.
    let mut fresh = device("disk", GI);
    found(&mut fresh, reason::IN_OUR_POOL);
    assert_eq!(steps(&look(bound, one(fresh))), ["claim"]);
}

#[test]
fn of_two_devices_the_first_by_name_is_kept() {
    let mut devices = [device("b", GI), device("a", GI)];
    for disk in &mut devices {
        claimed_by(disk, "mine", "uid-mine");
    }
    let decision = look(claim(spec("1")), all(devices));
    assert!(matches!(decision.steps.as_slice(), [ClaimStep::NameDevice(_, name)] if name == "a"));
}

#[test]
fn left_alone_is_neither_held_nor_let_go() {
    let mut alone = claim(named("disk"));
    alone.metadata.annotations = Some(BTreeMap::from([(
        annotation::BLOCK_DEVICE_RECONCILE.into(),
        "false".into(),
    )]));
    let mut disk = device("disk", GI);
    claimed_by(&mut disk, "mine", "uid-mine");
    for deleted in [None, Some(Time(now()))] {
        alone.metadata.deletion_timestamp = deleted;
        for (finalizers, hold) in [
            (vec![finalizer::BLOCK_DEVICE_CLAIM.to_owned()], Hold::Keep),
            (vec![], Hold::Release),
        ] {
            alone.metadata.finalizers = Some(finalizers);
            let decision = look(alone.clone(), one(disk.clone()));
            let nothing = Decision {
                hold,
                ..Decision::nothing()
            };
            assert_eq!(decision, nothing);
        }
    }
}

fn deleted(finalizers: &[&str]) -> BlockDeviceClaim {
    let mut claim = claim(named("disk"));
    claim.metadata.deletion_timestamp = Some(Time(now()));
    claim.metadata.finalizers = Some(finalizers.iter().map(|name| (*name).into()).collect());
    claim
}

#[test]
fn it_lets_go_in_order() {
    let ours = &[finalizer::BLOCK_DEVICE_CLAIM];
    let mut disk = device("disk", GI);
    claimed_by(&mut disk, "mine", "uid-mine");
    let decision = look(deleted(ours), one(disk.clone()));
    assert_eq!((steps(&decision), decision.hold), (vec!["release"], Hold::Keep));
    disk.spec.claim_ref = None;
    let decision = look(deleted(ours), one(disk.clone()));
    assert_eq!(
        (steps(&decision), decision.hold),
        (vec!["mark_released"], Hold::Keep)
    );
    disk.status.as_mut().unwrap().claim_state = Some(BlockDeviceClaimState::Released);
    let gone = Decision::nothing().release();
    assert_eq!(look(deleted(ours), one(disk)), gone);
    // The device may be gone, somebody else's, or never have been chosen.
    let mut theirs = device("disk", GI);
    claimed_by(&mut theirs, "theirs", "uid-theirs");
    assert_eq!(look(deleted(ours), Devices::Missing("disk".into())), gone);
    assert_eq!(look(deleted(ours), one(theirs.clone())), gone);
    assert_eq!(look(deleted(ours), all([theirs])), gone);
}

#[test]
fn what_keeps_a_claim_from_going() {
    let ours = &[finalizer::BLOCK_DEVICE_CLAIM];
    let blocked = |claim: BlockDeviceClaim, devices: Devices| {
        let decision = look(claim, devices);
        assert_eq!((steps(&decision), decision.hold), (vec![], Hold::Keep));
        let (truth, why, message) = said(&decision, condition::DELETION_BLOCKED);
        assert_eq!(truth, ConditionStatus::True);
        (why, message)
    };
    let mut disk = device("disk", GI);
    claimed_by(&mut disk, "mine", "uid-mine");
    let both = &[finalizer::BLOCK_DEVICE_CLAIM, finalizer::POOL_CLUSTER];
    let (why, message) = blocked(deleted(both), one(disk.clone()));
    assert_eq!(why, reason::IN_USE);
    assert!(message.contains(finalizer::POOL_CLUSTER), "{message}");

    let mut pooled = disk.clone();
    says(
        &mut pooled,
        condition::BLANK,
        ConditionStatus::False,
        reason::IN_OUR_POOL,
        "It is in pool cstor-1.",
    );
    let (why, message) = blocked(deleted(ours), one(pooled.clone()));
    assert_eq!(
        (why.as_str(), message.as_str()),
        (
            reason::IN_USE,
            "disk is in use: It is in pool cstor-1. Delete the pool, and the claim goes"
        )
    );
    // Of a disk that is not there, or a silent node, the agent's word is old.
    for state in [BlockDeviceState::Inactive, BlockDeviceState::Unknown] {
        pooled.status.as_mut().unwrap().state = Some(state);
        assert_eq!(steps(&look(deleted(ours), one(pooled.clone()))), ["release"]);
    }
    // A foreign pool is no reason: it was theirs before, and is theirs after.
    let mut foreign = disk.clone();
    found(&mut foreign, reason::FOREIGN_POOL);
    assert_eq!(steps(&look(deleted(ours), one(foreign))), ["release"]);

    let mut alone = disk.clone();
    alone.metadata.annotations = Some(BTreeMap::from([(
        annotation::BLOCK_DEVICE_RECONCILE.into(),
        "false".into(),
    )]));
    assert_eq!(blocked(deleted(ours), one(alone)).0, reason::RECONCILE_DISABLED);
    assert_eq!(
        blocked(deleted(ours), Devices::Unreadable("odd".into())).0,
        reason::RETRYING
    );
}

#[test]
fn a_failed_step_is_told() {
    let failed = |step: &'static str, claim: BlockDeviceClaim, devices: Devices| {
        decide(&Observed {
            claim,
            devices,
            failure: Some(Failure {
                during: During::Step(step),
                class: Class::new("api_forbidden", "Forbidden"),
                message: format!("{step} disk: forbidden"),
                since: now(),
                count: 1,
            }),
            now: now(),
        })
    };
    let decision = failed("claim", claim(named("disk")), one(device("disk", GI)));
    assert_eq!(steps(&decision), ["claim"]);
    assert_eq!(said(&decision, condition::BOUND).1, "Forbidden");
    let mut disk = device("disk", GI);
    claimed_by(&mut disk, "mine", "uid-mine");
    let going = || deleted(&[finalizer::BLOCK_DEVICE_CLAIM]);
    let decision = failed("release", going(), one(disk.clone()));
    assert_eq!(steps(&decision), ["release"]);
    assert_eq!(
        said(&decision, condition::DELETION_BLOCKED).2,
        "release disk: forbidden"
    );
    // What failed earlier, and went through all the same, is no reason for anything now.
    let decision = failed("claim", going(), one(disk));
    assert_eq!(
        (steps(&decision), &decision.report.status),
        (vec!["release"], &None)
    );
}
