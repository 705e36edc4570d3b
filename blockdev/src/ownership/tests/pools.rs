//! Whose the pool is that a device is in.

use super::*;

#[test]
fn a_pool_is_ours_by_what_was_recorded() {
    let ours = |name: &str| {
        Ownership::Ours(Ours {
            pool_name: name.into(),
            pool_guid: Some(POOL),
            vdev_guid: VDEV,
            instance_uid: UID.parse().unwrap(),
        })
    };
    let on_the_device = Case::blank().with(|case| case.probe = labelled(label()));
    assert_eq!(on_the_device.ask(&recorded()), ours("tank"));
    let busy = on_the_device.clone().with(|case| case.contents().busy = true);
    assert_eq!(busy.ask(&recorded()), ours("tank"));
    let worn = on_the_device
        .clone()
        .with(|case| case.contents().zfs_damaged = true);
    assert_eq!(worn.ask(&recorded()), ours("tank"));
    assert_eq!(Case::whole(label()).ask(&recorded()), ours("tank"));
    let without_udev = Case::whole(label()).with(|case| {
        for (part, _) in &mut case.partitions {
            part.partition.as_mut().unwrap().type_id = None;
        }
    });
    assert_eq!(without_udev.ask(&recorded()), ours("tank"));
    let on_a_partition = Case::blank_partition().with(|case| case.probe = labelled(label()));
    assert_eq!(on_a_partition.ask(&recorded()), ours("tank"));
    for state in [1, 2] {
        let case = Case::whole(Label { state, ..label() });
        assert_eq!(case.ask(&recorded()), ours("tank"));
    }
    for state in [3, 4] {
        let case = Case::whole(Label {
            state,
            pool_name: None,
            pool_guid: None,
            ..label()
        });
        assert_eq!(case.ask(&recorded()), ours(&format!("cstor-{UID}")));
    }
    // Made by an agent that did not live to record it, in whole or in part.
    for records in [
        record(None, &[]),
        record(Some(POOL), &[]),
        record(Some(POOL), &[1]),
    ] {
        let records = Records::from_iter([records]);
        assert_eq!(
            Case::whole(commented()).ask(&records),
            ours(&format!("cstor-{UID}"))
        );
    }
}

#[test]
fn a_pool_that_was_not_recorded_is_theirs() {
    let strangers = [
        label(),
        Label {
            pool_guid: Some(POOL),
            vdev_guid: 9,
            ..label()
        },
        Label {
            pool_guid: Some(9),
            ..label()
        },
        Label {
            pool_guid: None,
            ..label()
        },
        Label {
            pool_name: Some("tank".into()),
            ..commented()
        },
        Label {
            comment: None,
            ..commented()
        },
        Label {
            comment: Some(UID.into()),
            ..commented()
        },
        Label {
            comment: Some(format!("{COMMENT}\u{fffd}")),
            ..commented()
        },
        Label {
            pool_guid: None,
            ..commented()
        },
    ];
    let records = Records::from_iter([record(Some(POOL), &[1])]);
    for stranger in strangers {
        for case in [
            Case::whole(stranger.clone()),
            Case::blank().with(|case| case.probe = labelled(stranger.clone())),
        ] {
            let reasons = case.reasons(&records);
            assert_eq!(reasons[0], reason::FOREIGN_POOL, "{stranger:?}");
            let told = reasons.iter().filter(|reason| **reason == reason::FOREIGN_POOL);
            assert_eq!(told.count(), 1, "{stranger:?}");
        }
    }
    // It names an instance that has another pool.
    let other = Case::whole(Label {
        pool_guid: Some(99),
        ..commented()
    });
    assert!(
        matches!(other.ask(&recorded()), Ownership::Theirs(found) if found[0].message.contains("has the pool 11"))
    );
    // Two instances record the same device.
    let twin = Record {
        instance: "another-uid".parse().unwrap(),
        ..record(Some(POOL), &[VDEV])
    };
    let both = Records::from_iter([record(Some(POOL), &[VDEV]), twin]);
    assert_eq!(Case::whole(label()).reasons(&both)[0], reason::FOREIGN_POOL);
}

#[test]
fn what_is_beside_our_label_makes_it_theirs() {
    let beside = [
        Case::blank().with(|case| {
            case.probe = labelled(label());
            case.contents()
                .signatures
                .push(signature("xfs", Some("filesystem")));
        }),
        Case::blank().with(|case| {
            case.probe = labelled(label());
            case.contents().zfs_others.push(Label {
                pool_guid: Some(7),
                ..label()
            });
        }),
        Case::whole(label()).with(|case| {
            case.contents().zfs = Some(Label {
                pool_guid: Some(7),
                ..label()
            })
        }),
        Case::whole(label()).with(|case| case.contents().zfs_damaged = true),
        Case::whole(label()).with(|case| {
            case.contents()
                .signatures
                .push(signature("LVM2_member", Some("raid")))
        }),
    ];
    for case in beside {
        assert_eq!(
            case.reasons(&recorded()).last(),
            Some(&reason::IN_OUR_POOL),
            "{case:?}"
        );
    }
    // Not the layout that ZFS makes: another partition, another type, one that was not looked at.
    let others = [
        Case::whole(label()).with(|case| {
            case.device.partitions.push("sdb2".into());
            case.partitions.push(partition(2, Some(LINUX_DATA), nothing()));
        }),
        Case::whole(label()).with(|case| case.device.partitions.push("sdb2".into())),
        Case::whole(label()).with(|case| case.device.partitions.clear()),
        Case::whole(label()).with(|case| case.partitions.clear()),
        Case::whole(label()).with(|case| case.partitions.truncate(1)),
        Case::whole(label()).with(|case| {
            case.partitions[0].0.partition.as_mut().unwrap().type_id = Some(LINUX_DATA.into());
        }),
        Case::whole(label()).with(|case| case.partitions[0].0.partition.as_mut().unwrap().number = 8),
    ];
    for case in others {
        assert!(
            case.reasons(&recorded()).contains(&reason::PARTITIONED),
            "{case:?}"
        );
    }
}
