use cstor_api::names::condition;
use cstor_reconcile::Hold;

use super::super::super::Left;
use super::*;

fn deleted(mut case: Case) -> Case {
    case.deleted = true;
    case
}

#[test]
fn what_is_in_the_pool_is_named_and_keeps_it() {
    let mut case = deleted(Case::online(&["a", "b"]));
    case.pool().datasets = vec!["tank/volume".into()];
    assert_eq!(case.steps(), []);
    assert!(case.says(condition::DELETION_BLOCKED).2.contains("tank/volume"));
    case.pool().datasets.clear();
    case.replicas = vec!["pvc-1-pool".into()];
    assert_eq!(case.steps(), []);
    assert!(case.says(condition::DELETION_BLOCKED).2.contains("pvc-1-pool"));
    assert_eq!(case.decide().hold, Hold::Keep);
}

#[test]
fn an_empty_pool_is_destroyed_its_disks_cleared_and_the_object_let_go() {
    let case = deleted(Case::online(&["a", "b"]));
    assert!(matches!(case.step(), PoolStep::Destroy { guid, .. } if guid == Guid(POOL)));
    let mut case = case.recorded();
    case.ours = None;
    case.pools.clear();
    // The power failed before it was destroyed: it is looked into once more.
    assert!(matches!(case.step(), PoolStep::Import(_)));
    for (disk, guid) in [(0, 11), (1, 12)] {
        case.put(
            disk,
            On::Label(Label {
                state: 2,
                ..label(guid)
            }),
        );
    }
    let steps = case.steps();
    assert_eq!(steps.len(), 2);
    for (step, guid) in steps.iter().zip([11, 12]) {
        assert!(
            matches!(step, PoolStep::Clear { left, .. } if *left == Left::Label(Guid(guid))),
            "{step:?}"
        );
    }
    case.put(0, On::Nothing);
    assert_eq!(case.steps().len(), 1);
    // A boot that has not brought the disks yet is no sign that they are cleared.
    let mut early = case.clone();
    early.disks.clear();
    assert_eq!(early.decide().hold, Hold::Keep);
    case.put(1, On::Nothing);
    let decided = case.decide();
    assert_eq!((decided.steps, decided.hold), (vec![], Hold::Release));
}

#[test]
fn spares_and_cache_devices_are_cleared_too() {
    let mut case = deleted(Case::online(&["a", "b", "s"])).recorded();
    case.ours = None;
    case.pools.clear();
    case.put(0, On::Nothing);
    case.put(1, On::Nothing);
    // The label of a spare does not say whose it is.
    let spare = Label {
        pool_guid: None,
        pool_name: None,
        comment: None,
        state: 3,
        txg: 0,
        ..label(20)
    };
    case.put(2, On::Label(spare));
    assert_eq!(case.decide().hold, Hold::Release, "nobody recorded it");
    case.status.vdevs.as_mut().unwrap().push(recorded(20, "s"));
    assert!(matches!(case.step(), PoolStep::Clear { left: Left::Label(guid), .. } if guid == Guid(20)));
    case.put(2, On::Nothing);
    assert_eq!(case.decide().hold, Hold::Release);
}

#[test]
fn a_lost_pool_goes_only_by_a_persons_word() {
    let mut case = deleted(Case::online(&["a", "b"]));
    case.ours = None;
    case.pools.clear();
    case.disks.clear();
    let decided = case.decide();
    assert_eq!((decided.steps, decided.hold), (vec![], Hold::Keep));
    assert!(
        case.says(condition::DELETION_BLOCKED)
            .2
            .contains(annotation::DELETE_LOST_POOL)
    );
    case.annotations
        .insert(annotation::DELETE_LOST_POOL.into(), "1".into());
    assert_eq!(case.decide().hold, Hold::Keep);
    case.annotations
        .insert(annotation::DELETE_LOST_POOL.into(), POOL.to_string());
    assert_eq!(case.decide().hold, Hold::Release);
}

#[test]
fn one_that_never_became_a_pool_goes_at_once_and_takes_its_beginnings_along() {
    let case = deleted(Case::new(&["a", "b"]));
    assert_eq!(case.decide().hold, Hold::Release);
    let mut case = deleted(Case::new(&["a", "b"]));
    case.status.creation = Some(creation(&["a", "b"]));
    case.put(0, On::Label(Label { txg: 0, ..label(11) }));
    assert!(matches!(case.step(), PoolStep::Clear { .. }));
    // And a file system that somebody put there is none of our business.
    case.put(0, On::FileSystem);
    assert_eq!(case.decide().hold, Hold::Release);
}
