//! What holds whatever is seen.

use proptest::prelude::*;

use super::*;

const SERIALS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn on() -> impl Strategy<Value = On> {
    prop_oneof![
        3 => Just(On::Nothing),
        1 => Just(On::FileSystem),
        1 => Just(On::Silence),
        3 => (11..14_u64, 0..5_u64, prop_oneof![Just(0_u64), Just(42)], any::<bool>()).prop_map(|(guid, state, txg, ours)| {
            let mut label = Label { state, txg, ..label(guid) };
            if !ours {
                label.pool_name = Some("tank".into());
                label.comment = None;
                label.pool_guid = Some(99);
            }
            On::Label(label)
        }),
    ]
}

fn state() -> impl Strategy<Value = State> {
    prop_oneof![
        4 => Just(State::Online),
        1 => Just(State::Removed),
        1 => Just(State::Unavailable),
        1 => Just(State::Faulted),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    let groups = prop::collection::vec(
        prop::collection::vec(prop::sample::select(SERIALS.to_vec()), 2..4),
        1..3,
    );
    let facts = (
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        0..60_i64,
    );
    (
        prop::collection::vec(on(), SERIALS.len()),
        groups,
        prop::option::of(prop::collection::vec(state(), 2)),
        prop::sample::select(vec!["mirror", "raidz", "stripe"]),
        facts,
    )
        .prop_map(
            |(ons, groups, imported, kind, (recorded_guid, begun, deleted, elsewhere, age))| {
                let mut case = Case::new(&SERIALS);
                for (disk, on) in ons.into_iter().enumerate() {
                    case.put(disk, on);
                }
                // The schema sees to it that no device is named twice.
                let mut used = BTreeSet::new();
                case.groups = groups
                    .into_iter()
                    .map(|group| {
                        group
                            .into_iter()
                            .filter(|serial| used.insert(*serial))
                            .map(str::to_owned)
                            .collect()
                    })
                    .filter(|group: &Vec<String>| !group.is_empty())
                    .collect();
                case.kind = kind;
                case.deleted = deleted;
                case.age = age;
                if recorded_guid || imported.is_some() {
                    case.status.pool_guid = Some(POOL.to_string());
                    case.status.phase = Some(PoolPhase::Online);
                }
                if begun {
                    case.status.creation = Some(creation(&SERIALS));
                }
                if elsewhere {
                    case.other_nodes.insert("node-2".into());
                }
                if let Some(states) = imported {
                    let children = states
                        .iter()
                        .zip([11, 12])
                        .map(|(state, guid)| device(guid, *state));
                    case.import(vec![group(VdevKind::Mirror, 10, children.collect())]);
                }
                case
            },
        )
}

/// The disks that a step writes to as blank ones.
fn written(step: &PoolStep) -> Vec<&str> {
    let disks: Vec<_> = match step {
        PoolStep::Create { disks, .. } | PoolStep::Add { disks, .. } => disks.iter().collect(),
        PoolStep::Attach { disk, .. } | PoolStep::Replace { disk, .. } => vec![disk.as_ref()],
        _ => vec![],
    };
    disks.into_iter().map(|disk| disk.identity.as_str()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_disk_is_written_that_is_not_blank_and_none_twice(case in case()) {
        let steps = case.steps();
        let all: Vec<&str> = steps.iter().flat_map(written).collect();
        let once: BTreeSet<&str> = all.iter().copied().collect();
        prop_assert_eq!(once.len(), all.len(), "{:?}", steps);
        for serial in all {
            let (_, on) = case.disks.iter().find(|(name, _)| hardware(name) == serial).unwrap();
            prop_assert!(matches!(on, On::Nothing), "{} has {:?}", serial, on);
        }
    }

    #[test]
    fn no_pool_is_made_where_one_may_be(case in case()) {
        let creates = case.steps().iter().any(|step| matches!(step, PoolStep::Create { .. }));
        let may_be = case.status.pool_guid.is_some() || case.ours.is_some() || case.deleted;
        prop_assert!(!(creates && may_be));
    }

    #[test]
    fn only_what_is_left_of_this_pool_is_cleared(case in case()) {
        for step in case.steps() {
            let PoolStep::Clear { disk, .. } = step else { continue };
            let (_, on) = case.disks.iter().find(|(name, _)| hardware(name) == disk.identity).unwrap();
            let On::Label(label) = on else {
                return Err(TestCaseError::fail(format!("{} has {on:?}", disk.identity)));
            };
            prop_assert_eq!(label.pool_guid, Some(POOL));
            prop_assert!(label.state == 2 || label.txg == 0, "{:?}", label);
        }
    }

    #[test]
    fn the_object_is_let_go_only_when_it_is_deleted(case in case()) {
        let decided = case.decide();
        prop_assert!(case.deleted || decided.hold == cstor_reconcile::Hold::Keep);
        let lives = case.ours.is_some();
        prop_assert!(!lives || decided.hold == cstor_reconcile::Hold::Keep);
    }

    #[test]
    fn the_same_is_decided_twice_and_the_status_comes_to_rest(case in case()) {
        prop_assert_eq!(case.decide(), case.decide());
        let told = case.recorded();
        let again = told.clone().recorded();
        prop_assert_eq!(again.clone().recorded().status, again.status);
    }
}
