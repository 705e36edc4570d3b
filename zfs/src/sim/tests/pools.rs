use std::time::Duration;

use super::*;
use crate::{Datasets, PoolSummary, State};

#[tokio::test(start_paused = true)]
async fn a_pool_is_what_it_was_made_of() {
    let hosts = world();
    let layout = Layout {
        data: vec![group(Redundancy::Mirror, "bc"), group(Redundancy::Mirror, "de")],
        log: vec![group(Redundancy::Stripe, "f")],
        cache: vec![device('g')],
        spare: vec![device('h')],
        ..Layout::default()
    };
    let zfs = with_pool(&hosts, layout).await;
    let status = status(&zfs).await;
    assert_eq!(
        line(&status),
        "Online mirror-0=Online (b1=Online c1=Online) mirror-1=Online (d1=Online e1=Online) log f1=Online \
         cache g1=Online spare h1=Available"
    );
    assert_eq!((status.status, status.scan, status.data_errors), (None, None, 0));
    let sizes: Vec<u64> = status.vdevs.iter().map(|vdev| vdev.size).collect();
    assert_eq!(sizes, [USED, USED, USED, USED, USED]);
    let summary = PoolSummary {
        name: tank(),
        guid: status.guid,
        state: State::Online,
    };
    assert_eq!(Pools::list(&zfs).await, Ok(vec![summary]));
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_group_has_the_space_of_its_kind() {
    for (redundancy, letters, raw, usable) in [
        (Redundancy::Stripe, "bc", 2, 2),
        (Redundancy::Mirror, "bcd", 1, 1),
        (Redundancy::Raidz(1), "bcd", 3, 2),
        (Redundancy::Raidz(2), "bcdef", 5, 3),
    ] {
        let hosts = world();
        let zfs = with_pool(&hosts, data(redundancy, letters)).await;
        let size = zfs.properties(&tank()).await.unwrap()["size"].clone();
        assert_eq!(size, (raw * USED).to_string(), "{redundancy:?}");
        // What is too much by ZFS's own share is refused, and what is not is not.
        let most = usable * USED - (usable * USED / 32).max(128 * MIB);
        let mut thick = new_volume("thick", most + 16384);
        thick.thin = false;
        assert_eq!(said(zfs.create_volume(&thick).await), "out of space");
        thick.bytes = most - most % 16384;
        zfs.create_volume(&thick).await.unwrap();
        sound(&hosts);
    }
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_refused_and_nothing_is_written() {
    let hosts = world();
    hosts.add_disk("tiny", 10 * MIB);
    hosts.plug("a", "tiny", &["/dev/sdz"]);
    hosts.put("I", "ext4");
    let zfs = hosts.zfs("a");
    let before = hosts.log();
    for layout in [
        Layout::default(),
        mirror("b"),
        mirror("bb"),
        mirror("bz"),
        mirror("by"),
        mirror("bi"),
        data(Redundancy::Raidz(2), "bc"),
        data(Redundancy::Raidz(4), "bcdefg"),
        Layout {
            data: vec![group(Redundancy::Mirror, "bc"), group(Redundancy::Stripe, "d")],
            ..Layout::default()
        },
        Layout {
            log: vec![group(Redundancy::Raidz(1), "de")],
            ..mirror("bc")
        },
    ] {
        said(zfs.create(&new_pool(layout)).await);
    }
    for (name, value) in [
        ("ashift", "40"),
        ("comment", &"x".repeat(33)),
        ("made_up", "1"),
        ("failmode", "?"),
    ] {
        let mut new = new_pool(mirror("bc"));
        new.properties = set(&[(name, value)]);
        said(zfs.create(&new).await);
    }
    assert_eq!(hosts.log(), before);
    assert_eq!(Pools::list(&zfs).await, Ok(Vec::new()));
    zfs.create(&new_pool(mirror("bc"))).await.unwrap();
    assert_eq!(
        said(zfs.create(&new_pool(mirror("de"))).await),
        "cannot create 'tank': pool already exists"
    );
    let other = NewPool {
        name: PoolName::new("other").unwrap(),
        ..new_pool(mirror("cd"))
    };
    assert!(said(zfs.create(&other).await).ends_with("/dev/sdc is part of active pool 'tank'"));
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn properties_are_what_they_were_set_to() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let all = zfs.properties(&tank()).await.unwrap();
    let expected = [
        ("comment", "ours"),
        ("autoexpand", "off"),
        ("health", "ONLINE"),
        ("allocated", "0"),
        ("capacity", "0"),
    ];
    for (name, value) in expected {
        assert_eq!(all[name], value, "{name}");
    }
    Pools::set(&zfs, &tank(), "rs.cstor:owner", "a text, with = in it")
        .await
        .unwrap();
    Pools::set(&zfs, &tank(), "autoexpand", "on").await.unwrap();
    said(Pools::set(&zfs, &tank(), "autoexpand", "perhaps").await);
    said(Pools::set(&zfs, &tank(), "size", "1").await);
    let all = zfs.properties(&tank()).await.unwrap();
    assert_eq!(all["rs.cstor:owner"], "a text, with = in it");
    assert_eq!(all["autoexpand"], "on");
    // What is set is on the disks.
    hosts.reboot("a");
    let guid = Guid(
        hosts
            .labels("a", &part('b'))
            .unwrap()
            .best
            .unwrap()
            .pool_guid
            .unwrap(),
    );
    let zfs = hosts.zfs("a");
    zfs.import(&import_of(guid, parts("bc"))).await.unwrap();
    assert_eq!(
        zfs.properties(&tank()).await.unwrap()["rs.cstor:owner"],
        "a text, with = in it"
    );
}

#[tokio::test(start_paused = true)]
async fn features_are_there_unless_they_were_disabled() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    assert_eq!(zfs.is_upgradable(&tank()).await, Ok(false));
    let old = NewPool {
        name: PoolName::new("old").unwrap(),
        layout: mirror("de"),
        properties: set(&[("feature@fast_dedup", "disabled")]),
        root: BTreeMap::new(),
    };
    zfs.create(&old).await.unwrap();
    assert_eq!(zfs.is_upgradable(&old.name).await, Ok(true));
}

#[tokio::test(start_paused = true)]
async fn the_label_says_what_became_of_the_pool() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let status = status(&zfs).await;
    let label = |letter| hosts.labels("a", &part(letter)).unwrap().best.unwrap();
    let made = label('b');
    assert_eq!(made.pool_name.as_deref(), Some("tank"));
    assert_eq!(made.pool_guid, Some(status.guid.0));
    assert_eq!(made.vdev_guid, at(&status, &part('b')).0);
    assert_eq!(made.comment.as_deref(), Some("ours"));
    assert_eq!((made.state, made.hostname.as_deref()), (0, Some("a")));
    assert_ne!(label('c').vdev_guid, made.vdev_guid);
    zfs.export(&tank()).await.unwrap();
    let exported = label('b');
    assert_eq!(exported.state, 1);
    assert!(exported.txg > made.txg);
    zfs.import(&import_of(status.guid, parts("bc"))).await.unwrap();
    Pools::destroy(&zfs, &tank()).await.unwrap();
    assert_eq!(label('c').state, 2);
    assert_eq!(Pools::list(&zfs).await, Ok(Vec::new()));
    // A destroyed pool is not there to be imported.
    said(zfs.import(&import_of(status.guid, parts("bc"))).await);
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn labels_are_cleared_where_they_are_of_that_device_and_of_no_pool() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let status = status(&zfs).await;
    let guid = at(&status, &part('b'));
    assert!(said(zfs.clear_labels(&part('b'), guid).await).contains("ACTIVE"));
    Pools::destroy(&zfs, &tank()).await.unwrap();
    said(zfs.clear_labels(&part('b'), at(&status, &part('c'))).await);
    // The labels are in the partition.
    said(zfs.clear_labels(&device('b'), guid).await);
    said(zfs.clear_labels(&part('d'), guid).await);
    zfs.clear_labels(&part('b'), guid).await.unwrap();
    assert_eq!(hosts.found("B"), Some(Found::EmptyPartitions));
    said(zfs.clear_labels(&part('b'), guid).await);
    hosts.wipe("a", &device('b')).unwrap();
    assert_eq!(hosts.found("B"), Some(Found::Nothing));
    assert!(matches!(hosts.found("C"), Some(Found::Zfs(_))));
    // Disks of a destroyed pool are taken without being forced, whatever is left on them.
    zfs.create(&new_pool(mirror("bc"))).await.unwrap();
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn the_labels_of_a_pool_that_was_not_let_go_of_stay() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let guid = at(&status(&zfs).await, &part('b'));
    hosts.reboot("a");
    let zfs = hosts.zfs("a");
    assert!(said(zfs.clear_labels(&part('b'), guid).await).contains("potentially active"));
    assert!(said(zfs.create(&new_pool(mirror("bc"))).await).contains("potentially active pool 'tank'"));
}

#[tokio::test(start_paused = true)]
async fn groups_are_added_that_are_like_those_that_are_there() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    said(zfs.add(&tank(), &data(Redundancy::Stripe, "d")).await);
    said(zfs.add(&tank(), &mirror("cd")).await);
    said(zfs.add(&tank(), &Layout::default()).await);
    zfs.add(&tank(), &mirror("de")).await.unwrap();
    let spare = Layout {
        spare: vec![device('f')],
        ..Layout::default()
    };
    zfs.add(&tank(), &spare).await.unwrap();
    let status = status(&zfs).await;
    assert_eq!(
        line(&status),
        "Online mirror-0=Online (b1=Online c1=Online) mirror-1=Online (d1=Online e1=Online) spare f1=Available"
    );
    let label = hosts.labels("a", &part('f')).unwrap().best.unwrap();
    assert_eq!((label.state, label.pool_guid), (3, None));
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn a_vdev_is_removed_when_the_others_hold_what_it_held() {
    let hosts = world();
    let layout = Layout {
        data: vec![group(Redundancy::Stripe, "bc")],
        log: vec![group(Redundancy::Stripe, "d")],
        ..Layout::default()
    };
    let zfs = with_pool(&hosts, layout).await;
    fill(&hosts, &zfs, GIB).await;
    let before = status(&zfs).await;
    let (data, log) = (at(&before, &part('c')), at(&before, &part('d')));
    zfs.remove(&tank(), log).await.unwrap();
    zfs.remove(&tank(), data).await.unwrap();
    said(zfs.remove(&tank(), at(&before, &part('b'))).await);
    let removing = crate::Activity::Remove;
    assert_eq!(
        zfs.wait(&tank(), removing, Duration::from_secs(1)).await,
        Ok(false)
    );
    assert_eq!(
        zfs.wait(&tank(), removing, Duration::from_secs(60)).await,
        Ok(true)
    );
    assert_eq!(line(&status(&zfs).await), "Online b1=Online");
    assert_eq!(hosts.labels("a", &part('c')).unwrap().best.unwrap().txg, 0);
    zfs.clear_labels(&part('c'), data).await.unwrap();
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn draid_has_spare_space_of_its_own() {
    let hosts = world();
    let shape = crate::DraidShape {
        parity: 1,
        data: Some(2),
        children: 5,
        spares: 1,
    };
    let zfs = with_pool(&hosts, data(Redundancy::Draid(shape), "bcdef")).await;
    let before = status(&zfs).await;
    assert!(
        line(&before).ends_with("spare draid1-0-0=Available"),
        "{}",
        line(&before)
    );
    hosts.pull("B");
    let lost = at(&before, &part('b'));
    zfs.replace(&tank(), lost, &"draid1-0-0".into()).await.unwrap();
    let resilver = crate::Activity::Resilver;
    assert_eq!(
        zfs.wait(&tank(), resilver, Duration::from_secs(60)).await,
        Ok(true)
    );
    let after = line(&status(&zfs).await);
    assert!(
        after.contains("spare-0=Degraded (b1=Removed draid1-0-0=Online)"),
        "{after}"
    );
    assert!(after.ends_with("spare draid1-0-0=InUse"), "{after}");
    sound(&hosts);
}
