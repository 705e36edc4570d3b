use cstor_api::names::condition;
use cstor_zfs::Redundancy;

use super::super::super::{Left, PATIENCE};
use super::*;

#[test]
fn a_pool_is_made_of_blank_disks_once_it_is_recorded_of_which() {
    let case = Case::new(&["a", "b", "c"]);
    let decided = case.decide();
    assert_eq!(decided.steps, [], "first it is recorded");
    let status = decided.report.status.unwrap();
    assert_eq!(status.creation.unwrap().devices, ["serial-a", "serial-b"]);
    assert_eq!(status.phase, Some(PoolPhase::Pending));

    let case = case.recorded();
    let PoolStep::Create { new, disks } = case.step() else {
        panic!("{:?}", case.steps());
    };
    assert_eq!(new.name.as_str(), format!("cstor-{UID}"));
    assert_eq!(new.properties["comment"], COMMENT);
    assert_eq!(new.root["compression"], "lz4");
    assert_eq!(new.layout.data.len(), 1);
    assert_eq!(new.layout.data[0].redundancy, Redundancy::Mirror);
    assert_eq!(
        new.layout.data[0].devices,
        [
            "/dev/disk/by-id/virtio-serial-a",
            "/dev/disk/by-id/virtio-serial-b"
        ]
    );
    assert_eq!(disks.len(), 2);
    // Recorded twice it would never come to an end.
    assert_eq!(case.clone().recorded().status.creation, case.status.creation);
}

#[test]
fn a_wish_that_changes_before_the_pool_is_made_is_recorded_anew() {
    let mut case = Case::new(&["a", "b", "c"]).recorded();
    case.groups = vec![vec!["a".into(), "c".into()]];
    assert_eq!(case.steps(), []);
    let case = case.recorded();
    assert_eq!(
        case.status.creation.as_ref().unwrap().devices,
        ["serial-a", "serial-c"]
    );
    assert!(matches!(case.step(), PoolStep::Create { .. }));
}

#[test]
fn one_unfit_device_is_enough_to_make_nothing() {
    for (on, why) in [
        (On::FileSystem, reason::FILE_SYSTEM),
        (On::Silence, reason::NOT_RESPONDING),
    ] {
        let mut case = Case::new(&["a", "b"]).recorded();
        case.put(1, on);
        assert_eq!(case.steps(), []);
        let (status, reason, message) = case.says(condition::READY);
        assert_eq!((status.as_str(), reason.as_str()), ("False", why));
        assert!(
            message.contains(&bd("b")) && message.contains("nothing was written"),
            "{message}"
        );
    }
    let mut case = Case::new(&["a"]).recorded();
    case.groups = vec![vec!["a".into(), "missing".into()]];
    assert_eq!(case.says(condition::READY).1, reason::DEVICE_NOT_FOUND);
    assert_eq!(case.steps(), []);
}

#[test]
fn a_device_that_somebody_else_claimed_is_not_used() {
    let case = Case::new(&["a", "b"]).recorded();
    let mut seen = case.observed();
    let claim = |labels: serde_json::Value| -> Claimed {
        let claim = json!({
            "apiVersion": "openebs.io/v1alpha1", "kind": "BlockDeviceClaim",
            "metadata": { "name": "claim", "labels": labels }, "spec": {},
        });
        Claimed::By(Box::new(serde_json::from_value(claim).unwrap()))
    };
    for (claimed, used) in [
        (Claimed::Nobody, true),
        (claim(json!({})), false),
        (claim(json!({ "openebs.io/cstor-pool-instance": "pool" })), true),
        (
            claim(json!({ "openebs.io/cstor-pool-instance": "another" })),
            false,
        ),
        (
            claim(json!({ "openebs.io/cstor-pool-cluster": "cluster" })),
            false,
        ),
        (Claimed::Missing("gone".into()), false),
    ] {
        seen.claims.insert(bd("b"), claimed.clone());
        assert_eq!(decide(&seen).steps.len(), usize::from(used), "{claimed:?}");
    }
    let labels = [("openebs.io/cstor-pool-cluster".to_owned(), "cluster".to_owned())];
    seen.object.metadata.labels = Some(labels.into());
    seen.claims.insert(
        bd("b"),
        claim(json!({ "openebs.io/cstor-pool-cluster": "cluster" })),
    );
    assert_eq!(decide(&seen).steps.len(), 1);
}

#[test]
fn what_a_create_left_when_the_power_failed_is_cleared_if_it_was_recorded() {
    let mut begun = label(11);
    begun.txg = 0;
    let mut case = Case::new(&["a", "b"]);
    case.put(0, On::Label(begun.clone()));
    // Nobody recorded that it was blank.
    assert_eq!(case.steps(), []);
    case.status.creation = Some(creation(&["a", "b"]));
    let PoolStep::Clear { disk, left } = case.step() else {
        panic!("{:?}", case.steps());
    };
    assert_eq!((disk.identity.as_str(), left), ("serial-a", Left::Beginnings));
    // A pool of another name was begun there: it is not what we left.
    begun.pool_name = Some("tank".into());
    case.put(0, On::Label(begun));
    assert_eq!(case.steps(), []);
}

#[test]
fn a_pool_that_may_exist_is_imported_and_never_made() {
    let mut case = Case::new(&["a", "b"]);
    case.status.creation = Some(creation(&["a", "b"]));
    case.put(0, On::Label(label(11)));
    let PoolStep::Import(import) = case.step() else {
        panic!("{:?}", case.steps());
    };
    assert_eq!(import.guid, Guid(POOL));
    assert_eq!(import.devices, ["/dev/disk/by-id/virtio-serial-a"]);
    assert!(!import.although_in_use);
}

#[test]
fn a_recorded_pool_without_a_disk_is_lost() {
    let mut case = Case::online(&["a", "b"]);
    case.ours = None;
    case.pools.clear();
    case.put(0, On::Nothing);
    case.put(1, On::Nothing);
    assert_eq!(case.steps(), [], "blank disks are no reason to make it again");
    let (status, _, message) = case.says(condition::POOL_LOST);
    assert_eq!(status, "True");
    assert!(
        message.contains(&bd("a")) && message.contains(annotation::DELETE_LOST_POOL),
        "{message}"
    );
    // One that cStor had, of which we know nothing.
    let mut case = Case::new(&["a", "b"]);
    case.status.phase = Some(PoolPhase::Online);
    assert_eq!(case.steps(), []);
    assert!(case.says(condition::POOL_LOST).2.contains(annotation::ADOPT_POOL));
}

fn dormant() -> Case {
    let mut case = Case::online(&["a", "b"]);
    case.ours = None;
    case.pools.clear();
    case
}

#[test]
fn an_import_waits_for_missing_devices_but_not_for_ever() {
    let mut case = dormant();
    assert!(matches!(case.step(), PoolStep::Import(_)));
    case.disks.remove(1);
    case.age = 1;
    assert_eq!(case.steps(), []);
    let (_, reason, message) = case.says(condition::READY);
    assert_eq!(reason, reason::WAITING_FOR_DISKS);
    assert!(message.contains(&bd("b")), "{message}");
    case.age = i64::try_from(PATIENCE.as_secs()).unwrap();
    assert!(matches!(case.step(), PoolStep::Import(_)));
}

#[test]
fn a_pool_that_another_host_has_is_not_imported() {
    let mut case = dormant();
    let mut theirs = label(11);
    theirs.hostid = Some(8);
    theirs.hostname = Some("node-2".into());
    case.put(0, On::Label(theirs.clone()));
    case.other_nodes.insert("node-2".into());
    assert_eq!(case.steps(), []);
    let (_, reason, message) = case.says(condition::READY);
    assert_eq!(reason, reason::POOL_IN_USE);
    assert!(
        message.contains("node-2") && message.contains(annotation::IMPORT_IN_USE),
        "{message}"
    );

    let forced = |case: &Case| match case.step() {
        PoolStep::Import(import) => import.although_in_use,
        other => panic!("{other:?}"),
    };
    // Somebody says that it is off; another pool's number says nothing.
    case.annotations
        .insert(annotation::IMPORT_IN_USE.into(), "1".into());
    assert_eq!(case.steps(), []);
    case.annotations
        .insert(annotation::IMPORT_IN_USE.into(), POOL.to_string());
    assert!(forced(&case));
    // Its Node is gone.
    case.annotations.clear();
    case.other_nodes.clear();
    assert!(forced(&case));
    // It let go of it.
    theirs.state = 1;
    case.put(0, On::Label(theirs));
    case.other_nodes.insert("node-2".into());
    assert!(!forced(&case));
}

#[test]
fn copies_destroyed_pools_and_names_that_are_taken() {
    let mut case = dormant();
    case.put(1, On::Label(label(11)));
    assert_eq!(case.steps(), []);
    assert_eq!(case.says(condition::READY).1, reason::DUPLICATE_IDENTITY);

    let mut case = dormant();
    for (disk, guid) in [(0, 11), (1, 12)] {
        let mut destroyed = label(guid);
        destroyed.state = 2;
        case.put(disk, On::Label(destroyed));
    }
    assert_eq!(case.steps(), []);
    assert_eq!(case.says(condition::POOL_LOST).0, "True");

    let mut case = Case::new(&["a", "b"]).recorded();
    case.pools = vec![PoolSummary {
        name: PoolName::new(format!("cstor-{UID}")).unwrap(),
        guid: Guid(5),
        state: State::Online,
    }];
    assert_eq!(case.steps(), []);
    assert_eq!(case.says(condition::READY).1, reason::NAME_CLASH);
}

#[test]
fn a_pool_is_adopted_by_its_number() {
    let mut case = Case::new(&["a", "b"]);
    let mut foreign = label(11);
    (foreign.pool_name, foreign.comment, foreign.pool_guid) = (Some("tank".into()), None, Some(99));
    case.put(0, On::Label(foreign));
    assert_eq!(case.steps(), []);
    case.annotations
        .insert(annotation::ADOPT_POOL.into(), "99".into());
    let PoolStep::Import(import) = case.step() else {
        panic!("{:?}", case.steps());
    };
    assert_eq!(import.guid, Guid(99));
    case.annotations
        .insert(annotation::ADOPT_POOL.into(), "98".into());
    assert_eq!(case.steps(), []);
    assert_eq!(case.says(condition::READY).1, reason::POOL_NOT_FOUND);
    // One that was adopted and is gone is lost like any other.
    case.status.pool_guid = Some("98".into());
    assert_eq!(case.steps(), []);
    assert_eq!(case.says(condition::POOL_LOST).0, "True");
}
