use cstor_api::names::condition;
use cstor_zfs::{Online, Scan, ScanFunction, ScanState, ScrubCommand};

use super::*;
use crate::disk::fixtures::GIB;

fn spare(guid: u64, state: State) -> Vdev {
    Vdev {
        class: VdevClass::Spare,
        ..device(guid, state)
    }
}

fn mirror(children: Vec<Vdev>) -> Vec<Vdev> {
    vec![group(VdevKind::Mirror, 10, children)]
}

#[test]
fn a_healthy_pool_is_left_alone_and_told() {
    let case = Case::online(&["a", "b"]);
    assert_eq!(case.steps(), []);
    let told = case.clone().recorded();
    assert_eq!(
        told.clone().recorded().status,
        told.status,
        "nothing changes, nothing is written"
    );
    let status = told.status;
    assert_eq!(status.pool_guid, Some(POOL.to_string()));
    let capacity = status.capacity.unwrap();
    assert_eq!(
        (capacity.used.to_string(), capacity.total.to_string()),
        ("100".into(), "1000".into())
    );
    let names: Vec<_> = status
        .vdevs
        .unwrap()
        .into_iter()
        .map(|vdev| vdev.block_device_name)
        .collect();
    assert_eq!(names, [None, Some(bd("a")), Some(bd("b"))]);
    assert_eq!(case.says(condition::READY).1, reason::POOL_ONLINE);
}

#[test]
fn a_device_that_is_gone_is_named_and_switched_on_when_it_is_back() {
    let mut case = Case::online(&["a", "b"]);
    let gone = case.disks.remove(1);
    case.import(mirror(vec![
        device(11, State::Online),
        device(12, State::Removed),
    ]));
    assert_eq!(case.steps(), []);
    let (status, _, message) = case.says(condition::DISK_UNAVAILABLE);
    assert_eq!(status, "True");
    assert!(
        message.contains(&bd("b")) && message.contains("REMOVED"),
        "{message}"
    );
    assert_eq!(case.says(condition::READY).1, reason::POOL_DEGRADED);

    case.disks.push(gone);
    let back = PoolStep::Online {
        pool: PoolName::new(format!("cstor-{UID}")).unwrap(),
        device: Guid(12),
        how: Online::AsIs,
    };
    assert_eq!(case.step(), back);
    // And then it is well again, which is told once.
    let mut case = case.recorded();
    case.import(mirror(vec![device(11, State::Online), device(12, State::Online)]));
    assert_eq!(case.says(condition::DISK_UNAVAILABLE).0, "False");
}

#[test]
fn zfs_is_made_to_notice_that_a_disk_was_pulled() {
    let case = Case::online(&["a", "b"]);
    let mut seen = case.observed();
    let mut without = case.clone();
    without.disks.remove(1);
    seen.view = without.observed().view;
    let reopen = PoolStep::Reopen {
        pool: PoolName::new(format!("cstor-{UID}")).unwrap(),
        gone: Guid(12),
    };
    assert_eq!(decide(&seen).steps, [reopen]);
}

#[test]
fn a_spare_stands_in_and_is_relieved() {
    let mut case = Case::online(&["a", "b", "s"]);
    case.spares = vec!["s".into()];
    case.put(
        2,
        On::Label(Label {
            pool_guid: None,
            pool_name: None,
            comment: None,
            state: 3,
            txg: 0,
            ..label(20)
        }),
    );
    case.status.vdevs.as_mut().unwrap().push(recorded(20, "s"));
    case.disks.remove(1);
    let mut vdevs = mirror(vec![device(11, State::Online), device(12, State::Unavailable)]);
    vdevs.push(spare(20, State::Available));
    case.import(vdevs);
    let PoolStep::UseSpare {
        failed, spare: path, ..
    } = case.step()
    else {
        panic!("{:?}", case.steps());
    };
    assert_eq!((failed, path.as_str()), (Guid(12), "/dev/disk/by-id/20"));

    let standing = |first: State| {
        let pair = group(
            VdevKind::Spare,
            30,
            vec![device(12, first), device(21, State::Online)],
        );
        let mut vdevs = mirror(vec![device(11, State::Online), pair]);
        vdevs.push(spare(20, State::InUse));
        vdevs
    };
    case.import(standing(State::Unavailable));
    assert_eq!(case.steps(), [], "it is covered");
    case.import(standing(State::Online));
    let PoolStep::Detach { device, .. } = case.step() else {
        panic!("{:?}", case.steps());
    };
    assert_eq!(device, Guid(21));
}

#[test]
fn a_device_of_the_spec_takes_the_place_of_one_that_is_not() {
    let mut case = Case::online(&["a", "b", "c"]);
    case.groups = vec![vec!["a".into(), "c".into()]];
    let PoolStep::Replace { old, disk, .. } = case.step() else {
        panic!("{:?}", case.steps());
    };
    assert_eq!((old, disk.block_device), (Guid(12), bd("c")));
    assert_eq!(case.says(condition::DISK_REPLACEMENT).0, "True");

    // While it runs nothing else is begun in the group.
    let pair = group(
        VdevKind::Replacing,
        30,
        vec![device(12, State::Online), device(13, State::Online)],
    );
    case.import(mirror(vec![device(11, State::Online), pair]));
    case.put(2, On::Label(label(13)));
    assert_eq!(case.steps(), []);
    let (status, _, message) = case.says(condition::DISK_REPLACEMENT);
    assert_eq!(status, "True");
    assert!(
        message.contains(&format!("{} by {}", bd("b"), bd("c"))),
        "{message}"
    );
    // It is done.
    let mut case = case.recorded();
    case.import(mirror(vec![device(11, State::Online), device(13, State::Online)]));
    assert_eq!(
        case.says(condition::DISK_REPLACEMENT).1,
        reason::REPLACEMENT_SUCCEEDED
    );
}

#[test]
fn a_wrong_wish_that_is_taken_back_leaves_no_trace() {
    let mut case = Case::online(&["a", "b", "c"]);
    case.put(2, On::FileSystem);
    case.groups = vec![vec!["a".into(), "c".into()]];
    assert_eq!(case.steps(), []);
    assert!(case.says(condition::DISK_REPLACEMENT).2.contains("ext4"));
    let mut case = case.recorded();
    case.groups = vec![vec!["a".into(), "b".into()]];
    assert_eq!(case.steps(), []);
    assert_eq!(case.says(condition::DISK_REPLACEMENT).0, "False");
}

#[test]
fn the_claim_says_which_device_goes() {
    let mut case = Case::online(&["a", "b", "c"]);
    case.groups = vec![vec!["c".into(), "b".into()]];
    let mut seen = case.observed();
    let claim = json!({
        "apiVersion": "openebs.io/v1alpha1", "kind": "BlockDeviceClaim",
        "metadata": {
            "name": "claim", "labels": { "openebs.io/cstor-pool-instance": "pool" },
            "annotations": { "openebs.io/bd-predecessor": bd("a") },
        },
        "spec": {},
    });
    let claim = Claimed::By(Box::new(serde_json::from_value(claim).unwrap()));
    seen.claims.insert(bd("c"), claim);
    let PoolStep::Replace { old, .. } = decide(&seen).steps.remove(0) else {
        panic!("no replacement");
    };
    assert_eq!(old, Guid(11));
}

#[test]
fn a_pool_grows_by_groups_copies_and_larger_disks() {
    let mut case = Case::online(&["a", "b", "c", "d"]);
    case.groups.push(vec!["c".into(), "d".into()]);
    let PoolStep::Add { layout, disks, .. } = case.step() else {
        panic!("{:?}", case.steps());
    };
    assert_eq!((layout.data.len(), disks.len()), (1, 2));
    assert_eq!(case.says(condition::POOL_EXPANSION).0, "True");

    let mut case = Case::online(&["a", "b", "c"]);
    case.groups = vec![vec!["a".into(), "b".into(), "c".into()]];
    let PoolStep::Attach { to, disk, .. } = case.step() else {
        panic!("{:?}", case.steps());
    };
    assert_eq!((to, disk.block_device), (Guid(11), bd("c")));

    // By what ZFS says, and by what the disk is.
    for (expandable, size) in [(1 << 30, 0), (0, 9 * GIB)] {
        let mut case = Case::online(&["a", "b"]);
        let grown = Vdev {
            expandable,
            size,
            ..device(11, State::Online)
        };
        case.import(mirror(vec![grown, device(12, State::Online)]));
        let PoolStep::Online { device, how, .. } = case.step() else {
            panic!("{:?}", case.steps());
        };
        assert_eq!((device, how), (Guid(11), Online::Expand));
    }
    let mut case = Case::online(&["a", "b"]);
    let full = Vdev {
        size: 10 * GIB - (9 << 20),
        ..device(11, State::Online)
    };
    case.import(mirror(vec![full, device(12, State::Online)]));
    assert_eq!(case.steps(), []);
}

#[test]
fn a_disk_that_does_not_answer_is_still_the_device_it_was() {
    let mut case = Case::online(&["a", "b"]);
    case.put(1, On::Silence);
    assert_eq!(case.steps(), []);
    let conditions = case.decide().report.status.unwrap().conditions.unwrap();
    assert!(
        conditions
            .iter()
            .all(|condition| condition.type_ != condition::DISK_REPLACEMENT)
    );
}

#[test]
fn at_the_threshold_nothing_new_is_admitted() {
    let mut case = Case::online(&["a", "b"]);
    let root = case.pool().root.as_mut().unwrap();
    root.properties.get_mut("used").unwrap().text = "850".into();
    root.properties.get_mut("available").unwrap().text = "150".into();
    assert_eq!(case.says(condition::READ_ONLY).0, "True");
    assert_eq!(case.decide().report.status.unwrap().read_only, Some(true));
    let PoolStep::SetPool { property, value, .. } = case.step() else {
        panic!("{:?}", case.steps());
    };
    assert_eq!((property.as_str(), value.as_str()), (property::READ_ONLY, "on"));
    let mut case = case.recorded();
    case.pool()
        .properties
        .insert(property::READ_ONLY.into(), "on".into());
    case.pool()
        .root
        .as_mut()
        .unwrap()
        .properties
        .get_mut("used")
        .unwrap()
        .text = "10".into();
    assert_eq!(case.says(condition::READ_ONLY).0, "False");
    assert!(matches!(case.step(), PoolStep::SetPool { value, .. } if value == "off"));
}

#[test]
fn drift_is_corrected_and_an_adopted_pool_is_left_as_it_is() {
    let mut case = Case::online(&["a", "b"]);
    let compression = |case: &mut Case| {
        let root = case.pool().root.as_mut().unwrap();
        root.properties.get_mut("compression").unwrap().text = "off".into();
    };
    compression(&mut case);
    let PoolStep::SetRoot { properties, .. } = case.step() else {
        panic!("{:?}", case.steps());
    };
    assert_eq!(properties, [("compression".to_owned(), "lz4".to_owned())].into());
    case.pool()
        .properties
        .insert("comment".into(), "somebody else's".into());
    assert_eq!(case.steps(), []);
}

#[test]
fn a_property_that_cannot_be_set_does_not_keep_the_pool_from_growing() {
    let mut case = Case::online(&["a", "b", "c", "d"]);
    case.groups.push(vec!["c".into(), "d".into()]);
    let root = case.pool().root.as_mut().unwrap();
    root.properties.get_mut("compression").unwrap().text = "off".into();
    let names = |steps: Vec<PoolStep>| steps.iter().map(cstor_reconcile::Step::name).collect::<Vec<_>>();
    assert_eq!(names(case.steps()), ["set_root", "add"]);
    let mut seen = case.observed();
    seen.failure = Some(Failure {
        during: cstor_reconcile::failure::During::Step("set_root"),
        class: cstor_reconcile::Class::new("zfs_refused", reason::ZFS_REFUSED),
        message: "out of space".into(),
        since: now(),
        count: 1,
    });
    assert_eq!(names(decide(&seen).steps), ["add", "set_root"]);
}

#[test]
fn the_devices_of_a_group_are_not_all_replaced_at_once_and_those_of_an_adopted_pool_only_by_name() {
    let mut case = Case::online(&["a", "b", "c", "d"]);
    case.groups = vec![vec!["c".into(), "d".into()]];
    assert_eq!(case.steps(), []);
    assert!(
        case.decide()
            .report
            .events
            .iter()
            .any(|event| event.note.contains("one after the other"))
    );

    let mut case = Case::online(&["a", "b", "c"]);
    case.pool()
        .properties
        .insert("comment".into(), "somebody else's".into());
    case.pool().status.vdevs.push(Vdev {
        class: VdevClass::Log,
        ..device(40, State::Online)
    });
    assert_eq!(case.steps(), [], "a log that the spec does not name stays");
    case.groups = vec![vec!["a".into(), "c".into()]];
    assert!(
        !case
            .steps()
            .iter()
            .any(|step| matches!(step, PoolStep::Replace { .. }))
    );
}

#[test]
fn a_suspended_pool_goes_on_when_its_disks_are_back() {
    let mut case = Case::online(&["a", "b"]);
    case.pool().status.state = State::Suspended;
    case.pool().root = None;
    assert!(matches!(case.step(), PoolStep::Resume { .. }));
    assert_eq!(case.says(condition::READY).1, reason::POOL_SUSPENDED);
    case.disks.remove(1);
    assert_eq!(case.steps(), []);
}

#[test]
fn a_scrub_begins_when_it_is_due_and_never_beside_another_scan() {
    let mut case = Case::online(&["a", "b"]);
    let long_ago = Timestamp::from_second(now().as_second() - 60 * 24 * 3600).unwrap();
    case.status.last_scrub_time = Some(long_ago.into());
    let PoolStep::Scrub { what, .. } = case.step() else {
        panic!("{:?}", case.steps());
    };
    assert_eq!(what, ScrubCommand::Start);
    assert_eq!(case.says(condition::SCRUB_OVERDUE).0, "True");
    case.pool().status.scan = Some(Scan {
        function: ScanFunction::Resilver,
        state: ScanState::Scanning,
        started: Some(now()),
        ended: None,
        to_examine: 1000,
        examined: 500,
        issued: 250,
        processed: 0,
        errors: 0,
    });
    assert_eq!(case.steps(), []);
    let scan = case.decide().report.status.unwrap().scan.unwrap();
    assert_eq!(scan.percent, Some(25));
}
