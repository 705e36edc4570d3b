//! Which devices fit which claims, and what is said of those that do not.

use super::*;

#[test]
fn an_unfit_device_is_never_chosen_and_the_reason_is_told() {
    for (number, (expected, spoil)) in SPOILS.iter().enumerate() {
        let mut bad = device("bad", 10 * GI);
        assert_eq!(
            Wish::of(&spec("10Gi")).unwrap().fits(&bad),
            Ok(()),
            "fit before it was spoilt"
        );
        spoil(&mut bad);
        let decision = look(claim(spec("10Gi")), all([bad.clone()]));
        assert_eq!(decision.steps, [], "{number}: {expected}");
        assert_eq!(phase(&decision), Some(BlockDeviceClaimPhase::Pending));
        let (truth, why, message) = said(&decision, condition::BOUND);
        assert_eq!(
            (truth, why.as_str()),
            (ConditionStatus::False, reason::NO_DEVICE_FITS)
        );
        assert_eq!(
            message,
            format!("No BlockDevice fits. {expected}: bad"),
            "{number}"
        );
        // A larger one that fits is taken instead.
        let decision = look(claim(spec("10Gi")), all([bad, device("good", 100 * GI)]));
        assert_eq!(chosen(&decision).as_deref(), Some("good"), "{number}: {expected}");
    }
}

#[test]
fn a_name_does_not_override_that_a_device_has_no_identity() {
    let mut by_name = spec("10Gi");
    by_name.block_device_name = Some("disk".into());
    let mut disk = device("disk", 10 * GI);
    disk.spec.identity = None;
    let wish = Wish::of(&by_name).unwrap();
    assert_eq!(wish.fits(&disk), Ok(()), "an object that NDM made");
    says(
        &mut disk,
        condition::IDENTIFIED,
        ConditionStatus::False,
        reason::NO_IDENTITY,
        "",
    );
    assert_eq!(wish.fits(&disk), Err(Misfit::NoIdentity));
}

/// Which of those a claim by name minds, and in which words.
#[test]
fn what_a_name_overrides_and_what_not() {
    let allowed = [
        "sparse files, claimed by name only",
        "partitions, which allowPartition does not allow",
        "released and not blank",
        "without an identity",
        "not blank (InOurPool)",
    ];
    let mut by_name = spec("10Gi");
    by_name.block_device_name = Some("disk".into());
    for (number, (group, spoil)) in SPOILS.iter().enumerate() {
        let mut disk = device("disk", 10 * GI);
        spoil(&mut disk);
        // A pool is fine if the agent is sure that it is one.
        let sure = disk
            .status
            .as_ref()
            .unwrap()
            .conditions
            .iter()
            .flatten()
            .any(|known| {
                known.status == ConditionStatus::False
                    && known.reason.as_deref() == Some(reason::FOREIGN_POOL)
            });
        let decision = look(claim(by_name.clone()), one(disk));
        if allowed.contains(group) || sure {
            assert_eq!(chosen(&decision).as_deref(), Some("disk"), "{number}: {group}");
            assert_eq!(decision.report.status, None, "nothing is known yet");
        } else {
            assert_eq!(decision.steps, [], "{number}: {group}");
            let (_, why, message) = said(&decision, condition::BOUND);
            assert!(message.starts_with("disk "), "{message}");
            let claimed = group.contains("claimed") || *group == "being released";
            assert_eq!(why == reason::CLAIMED, claimed, "{group}: {why}");
            assert_eq!(decision.report.events.len(), 1);
            assert_eq!(decision.report.events[0].note, message);
        }
    }
}

#[test]
fn a_claimed_device_says_by_whom() {
    let mut disk = device("disk", GI);
    claimed_by(&mut disk, "theirs", "uid-theirs");
    let decision = look(claim(named("disk")), one(disk));
    let (_, why, message) = said(&decision, condition::BOUND);
    assert_eq!(why, reason::CLAIMED);
    assert_eq!(message, "disk is claimed by BlockDeviceClaim openebs/theirs");
}

#[test]
fn the_name_of_this_claim_with_another_uid_is_another_claim() {
    let mut disk = device("disk", GI);
    claimed_by(&mut disk, "mine", "uid-of-an-earlier-one");
    let decision = look(claim(named("disk")), one(disk));
    assert_eq!(decision.steps, []);
    assert_eq!(said(&decision, condition::BOUND).1, reason::CLAIMED);
}

#[test]
fn the_smallest_that_fits_and_the_first_by_name() {
    let devices = [
        device("d", 40 * GI),
        device("c", 20 * GI),
        device("b", 20 * GI),
        device("a", 5 * GI),
    ];
    let pick = |size: &str| chosen(&look(claim(spec(size)), all(devices.clone())));
    assert_eq!(pick("10Gi").as_deref(), Some("b"));
    assert_eq!(pick("1").as_deref(), Some("a"));
    assert_eq!(
        pick("20Gi").as_deref(),
        Some("b"),
        "as large as asked for is large enough"
    );
    assert_eq!(pick("21Gi").as_deref(), Some("d"));
    assert_eq!(pick("41Gi"), None);
}

#[test]
fn what_a_claim_can_ask_for() {
    let with = |change: &dyn Fn(&mut BlockDeviceClaimSpec)| {
        let mut wish = spec("1Gi");
        change(&mut wish);
        Wish::of(&wish).unwrap()
    };
    let disk = device("disk", GI);
    let node = |node: Option<&str>, host: Option<&str>| ClaimNodeAttributes {
        node_name: node.map(Into::into),
        host_name: host.map(Into::into),
    };
    for (fits, node) in [
        (true, node(Some("node-1"), None)),
        (true, node(Some(""), Some(""))),
        (true, node(Some("node-1"), Some("host-1"))),
        (false, node(Some("node-2"), None)),
        (false, node(None, Some("host-2"))),
        (false, node(None, Some("node-1"))),
    ] {
        let wish = with(&|spec| spec.block_device_node_attributes = Some(node.clone()));
        assert_eq!(wish.fits(&disk).is_ok(), fits, "{node:?}");
    }
    assert_eq!(
        with(&|spec| spec.host_name = Some("host-1".into())).fits(&disk),
        Ok(())
    );
    assert_eq!(
        with(&|spec| spec.host_name = Some("host-2".into())).fits(&disk),
        Err(Misfit::OtherNode)
    );
    for (fits, wanted) in [
        (true, "SSD"),
        (true, "ssd"),
        (true, "Disk"),
        (true, ""),
        (false, "HDD"),
        (false, "lvm"),
    ] {
        let wish = with(&|spec| spec.device_type = Some(wanted.into()));
        assert_eq!(wish.fits(&disk).is_ok(), fits, "{wanted}");
    }
    let partition = {
        let mut partition = disk.clone();
        partition.spec.details.as_mut().unwrap().device_type = Some(DeviceType::Partition);
        partition
    };
    let wish = with(&|spec| {
        spec.device_claim_details = Some(DeviceClaimDetails {
            allow_partition: Some(true),
            ..DeviceClaimDetails::default()
        });
    });
    assert_eq!((wish.fits(&partition), wish.fits(&disk)), (Ok(()), Ok(())));
}

#[test]
fn selectors_and_tags() {
    let select = |labels: &[(&str, &str)], expressions: &[(&str, &str, &[&str])]| {
        let mut wish = spec("1Gi");
        wish.selector = Some(LabelSelector {
            match_labels: Some(
                labels
                    .iter()
                    .map(|(key, value)| ((*key).into(), (*value).into()))
                    .collect(),
            ),
            match_expressions: Some(
                expressions
                    .iter()
                    .map(|(key, operator, values)| LabelSelectorRequirement {
                        key: (*key).into(),
                        operator: (*operator).into(),
                        values: (!values.is_empty()).then(|| values.iter().map(|v| (*v).into()).collect()),
                    })
                    .collect(),
            ),
        });
        Wish::of(&wish)
    };
    let mut gold = device("gold", GI);
    labelled(&mut gold, label::BLOCK_DEVICE_TAG, "gold");
    let tag = label::BLOCK_DEVICE_TAG;
    assert_eq!(select(&[(tag, "gold")], &[]).unwrap().fits(&gold), Ok(()));
    assert_eq!(
        select(&[], &[(tag, "In", &["gold", "silver"])])
            .unwrap()
            .fits(&gold),
        Ok(())
    );
    // These select it, but do not name its tag.
    for expression in [
        (tag, "Exists", &[] as &[&str]),
        (tag, "NotIn", &["silver"]),
        ("x", "DoesNotExist", &[]),
    ] {
        let wish = select(&[], &[expression]).unwrap();
        assert_eq!(
            wish.fits(&gold),
            Err(Misfit::Tagged("gold".into())),
            "{expression:?}"
        );
    }
    let plain = device("plain", GI);
    assert_eq!(
        select(&[(tag, "gold")], &[]).unwrap().fits(&plain),
        Err(Misfit::Labels)
    );
    let mut nobodys = device("nobodys", GI);
    labelled(&mut nobodys, tag, "");
    assert_eq!(
        select(&[(tag, "")], &[]).unwrap().fits(&nobodys),
        Err(Misfit::EmptyTag)
    );
    assert!(matches!(
        select(&[], &[("a", "Near", &["b"])]),
        Err(Nonsense::Other(_))
    ));
    assert!(matches!(
        select(&[], &[("a", "In", &[])]),
        Err(Nonsense::Other(_))
    ));
}

#[test]
fn a_claim_of_a_file_system_wants_one_that_is_mounted() {
    let wish = |format: Option<&str>| {
        let mut wish = spec("1Gi");
        wish.block_device_name = Some("disk".into());
        wish.device_claim_details = Some(DeviceClaimDetails {
            block_volume_mode: Some(BlockVolumeMode::FileSystem),
            format_type: format.map(Into::into),
            ..DeviceClaimDetails::default()
        });
        Wish::of(&wish).unwrap()
    };
    let mut disk = device("disk", GI);
    assert_eq!(wish(None).fits(&disk), Err(Misfit::NotMounted));
    disk.spec.filesystem = Some(Filesystem {
        fs_type: Some("ext4".into()),
        mount_point: Some("/data".into()),
    });
    found(&mut disk, reason::MOUNTED);
    assert_eq!(wish(None).fits(&disk), Ok(()));
    assert_eq!(wish(Some("ext4")).fits(&disk), Ok(()));
    assert_eq!(
        wish(Some("xfs")).fits(&disk),
        Err(Misfit::OtherFormat("ext4".into()))
    );
    // What is mounted is not given away unless somebody has said that it may be.
    let mut automatic = spec("1Gi");
    automatic.device_claim_details = Some(DeviceClaimDetails {
        block_volume_mode: Some(BlockVolumeMode::FileSystem),
        ..DeviceClaimDetails::default()
    });
    assert_eq!(Wish::of(&automatic).unwrap().fits(&disk), Err(Misfit::NotChosen));
    let tag = label::BLOCK_DEVICE_TAG;
    let mut tagged = disk.clone();
    tagged
        .metadata
        .labels
        .get_or_insert_default()
        .insert(tag.into(), "scratch".into());
    automatic.selector = Some(LabelSelector {
        match_labels: Some(BTreeMap::from([(tag.into(), "scratch".into())])),
        ..LabelSelector::default()
    });
    assert_eq!(Wish::of(&automatic).unwrap().fits(&tagged), Ok(()));
    found(&mut disk, reason::FOREIGN_ATTACHMENT);
    assert!(matches!(wish(None).fits(&disk), Err(Misfit::Contents { .. })));
    disk.spec.filesystem.as_mut().unwrap().mount_point = Some(String::new());
    assert_eq!(wish(None).fits(&disk), Err(Misfit::NotMounted));
}

#[test]
fn a_size_that_makes_no_sense() {
    let mut nothing = spec("1Gi");
    nothing.resources = None;
    let mut elsewhere = spec("1Gi");
    elsewhere.resources.as_mut().unwrap().requests = BTreeMap::from([("cpu".into(), "1Gi".into())]);
    for wish in [
        nothing,
        elsewhere,
        spec("0"),
        spec("ten"),
        spec("100m"),
        spec("99999Ei"),
    ] {
        let decision = look(claim(wish.clone()), all([device("disk", GI)]));
        assert_eq!(decision.steps, [], "{wish:?}");
        assert_eq!(phase(&decision), Some(BlockDeviceClaimPhase::InvalidCapacity));
        assert_eq!(said(&decision, condition::BOUND).1, reason::INVALID_REQUEST);
    }
    // By name, any size will do, and a bad one is still bad.
    assert_eq!(
        chosen(&look(claim(named("disk")), one(device("disk", GI)))).as_deref(),
        Some("disk")
    );
    let mut bad = named("disk");
    bad.resources = spec("100m").resources;
    let decision = look(claim(bad), one(device("disk", GI)));
    assert_eq!(
        (decision.steps.len(), phase(&decision)),
        (0, Some(BlockDeviceClaimPhase::InvalidCapacity))
    );
}

#[test]
fn every_rejected_device_has_its_reason_within_bounds() {
    let mut misfits: BTreeMap<String, Misfit> = (0..1000)
        .map(|number| {
            (
                format!("blockdevice-{number:04}"),
                Misfit::Claimed(format!("claim {number}")),
            )
        })
        .collect();
    misfits.insert("blockdevice-x".into(), Misfit::Quarantined);
    assert_eq!(
        why(&misfits),
        format!(
            "claimed: {} and 990 more; quarantined: blockdevice-x",
            (0..10)
                .map(|n| format!("blockdevice-{n:04}"))
                .collect::<Vec<_>>()
                .join(", ")
        )
    );
    let many = (0..100)
        .map(|number| (format!("d{number}"), Misfit::Tagged(number.to_string())))
        .collect();
    assert!(why(&many).ends_with("and 75 other reasons"));

    let decision = decide(&Observed {
        claim: claim(spec("1Gi")),
        devices: Devices::All(Vec::new(), BTreeMap::from([("odd".into(), "no spec".into())])),
        failure: None,
        now: now(),
    });
    assert_eq!(
        said(&decision, condition::BOUND).2,
        "No BlockDevice fits. malformed: odd"
    );
    let decision = look(claim(spec("1Gi")), all([]));
    assert_eq!(
        said(&decision, condition::BOUND).2,
        "There is no BlockDevice in namespace openebs"
    );
}
