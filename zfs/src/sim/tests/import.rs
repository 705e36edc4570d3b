use super::*;
use crate::State;

/// A pool that was let go of by `a`, and its number.
async fn exported(hosts: &SimHosts, layout: Layout) -> (SimZfs, Guid) {
    let zfs = with_pool(hosts, layout).await;
    let guid = status(&zfs).await.guid;
    zfs.export(&tank()).await.unwrap();
    (zfs, guid)
}

#[tokio::test(start_paused = true)]
async fn a_pool_is_taken_up_from_the_devices_that_are_named() {
    let hosts = world();
    let (zfs, guid) = exported(&hosts, mirror("bc")).await;
    assert!(said(zfs.import(&import_of(guid, parts("de"))).await).contains("no such pool available"));
    // Who looks at a whole disk does not find what is in its partition.
    let whole = vec![device('b'), device('c')];
    said(zfs.import(&import_of(guid, whole)).await);
    zfs.import(&import_of(guid, parts("bc"))).await.unwrap();
    assert_eq!(
        line(&status(&zfs).await),
        "Online mirror-0=Online (b1=Online c1=Online)"
    );
    said(zfs.import(&import_of(guid, parts("bc"))).await);
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn it_may_be_given_another_name_and_properties() {
    let hosts = world();
    let (zfs, guid) = exported(&hosts, mirror("bc")).await;
    let name = PoolName::new("other").unwrap();
    let import = Import {
        name: Some(name.clone()),
        properties: set(&[("cachefile", "none")]),
        ..import_of(guid, parts("bc"))
    };
    zfs.import(&import).await.unwrap();
    assert_eq!(zfs.properties(&name).await.unwrap()["cachefile"], "none");
    let label = hosts.labels("a", &part('b')).unwrap().best.unwrap();
    assert_eq!(label.pool_name.as_deref(), Some("other"));
    said(zfs.status(&tank()).await);
}

#[tokio::test(start_paused = true)]
async fn a_device_that_is_not_there_leaves_the_pool_degraded() {
    let hosts = world();
    let (zfs, guid) = exported(&hosts, mirror("bc")).await;
    hosts.pull("C");
    zfs.import(&import_of(guid, parts("bc"))).await.unwrap();
    let degraded = status(&zfs).await;
    assert_eq!(
        line(&degraded),
        "Degraded mirror-0=Degraded (b1=Online c1=Unavailable/OPEN_FAILED)"
    );
    let lost = degraded
        .devices()
        .find(|vdev| vdev.state != State::Online)
        .unwrap();
    assert!(lost.not_present);
    assert_eq!(degraded.message_id.as_deref(), Some("ZFS-8000-2Q"));
    // It was written to meanwhile, so what comes back is filled.
    hosts.plug("a", "C", &[device('c')]);
    zfs.online(&tank(), lost.guid, crate::Online::AsIs).await.unwrap();
    assert!(status(&zfs).await.is_resilvering());
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn too_many_missing_devices_keep_it_from_being_taken_up() {
    for (layout, there, imports) in [
        (data(Redundancy::Stripe, "bc"), "b", false),
        (mirror("bcd"), "d", true),
        (data(Redundancy::Raidz(1), "bcd"), "bc", true),
        (data(Redundancy::Raidz(1), "bcd"), "b", false),
        (data(Redundancy::Raidz(2), "bcde"), "bc", true),
        (data(Redundancy::Raidz(2), "bcde"), "b", false),
    ] {
        let hosts = world();
        let (zfs, guid) = exported(&hosts, layout.clone()).await;
        let before = hosts.log().len();
        let imported = zfs.import(&import_of(guid, parts(there))).await;
        if imports {
            imported.unwrap();
            assert_eq!(status(&zfs).await.state, State::Degraded, "{layout:?}");
        } else {
            assert!(said(imported).contains("currently unavailable"), "{layout:?}");
            assert_eq!(hosts.log().len(), before, "a failed import writes nothing");
        }
        sound(&hosts);
    }
}

#[tokio::test(start_paused = true)]
async fn without_its_log_it_is_taken_up_only_when_told_to() {
    let hosts = world();
    let layout = Layout {
        log: vec![group(Redundancy::Stripe, "d")],
        ..mirror("bc")
    };
    let (zfs, guid) = exported(&hosts, layout).await;
    hosts.pull("D");
    let import = import_of(guid, parts("bcd"));
    assert!(said(zfs.import(&import).await).contains("log device is missing"));
    let import = Import {
        without_log: true,
        ..import
    };
    zfs.import(&import).await.unwrap();
    assert_eq!(
        line(&status(&zfs).await),
        "Degraded mirror-0=Online (b1=Online c1=Online) log d1=Unavailable/OPEN_FAILED"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_another_host_did_not_let_go_of_is_taken_only_when_told_to() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let guid = status(&zfs).await.guid;
    hosts.power_off("a");
    let other = hosts.zfs("b");
    for letter in ['b', 'c'] {
        hosts.move_disk(&letter.to_uppercase().to_string(), "b", &[device(letter)]);
    }
    let import = import_of(guid, parts("bc"));
    assert!(said(other.import(&import).await).contains("last accessed by a"));
    let import = Import {
        although_in_use: true,
        ..import
    };
    other.import(&import).await.unwrap();
    let label = hosts.labels("b", &part('b')).unwrap().best.unwrap();
    assert_eq!(label.hostname.as_deref(), Some("b"));
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn a_host_takes_up_again_what_it_had_without_being_told_to() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let guid = status(&zfs).await.guid;
    hosts.reboot("a");
    let gone = zfs.list().await.unwrap_err();
    assert!(
        matches!(gone, Error::CannotRun { .. }),
        "nobody outlives a reboot: {gone}"
    );
    let zfs = hosts.zfs("a");
    assert_eq!(zfs.list().await, Ok(Vec::new()));
    zfs.import(&import_of(guid, parts("bc"))).await.unwrap();
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn two_hosts_with_one_pool_are_told() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let guid = status(&zfs).await.guid;
    let other = hosts.zfs("b");
    for letter in ['b', 'c'] {
        hosts.plug("b", &letter.to_uppercase().to_string(), &[device(letter)]);
    }
    let import = Import {
        although_in_use: true,
        ..import_of(guid, parts("bc"))
    };
    other.import(&import).await.unwrap();
    let both = Violation::DoubleImport {
        pool: guid,
        had: "a".into(),
        took: "b".into(),
    };
    assert_eq!(hosts.violations(), [both]);
}

#[tokio::test(start_paused = true)]
async fn multihost_keeps_a_pool_from_being_taken_while_it_is_in_use() {
    let hosts = world();
    let zfs = hosts.zfs("a");
    let mut new = new_pool(mirror("bc"));
    new.properties = set(&[("multihost", "on")]);
    zfs.create(&new).await.unwrap();
    let guid = status(&zfs).await.guid;
    let other = hosts.zfs("b");
    for letter in ['b', 'c'] {
        hosts.plug("b", &letter.to_uppercase().to_string(), &[device(letter)]);
    }
    let import = Import {
        although_in_use: true,
        ..import_of(guid, parts("bc"))
    };
    assert!(said(other.import(&import).await).contains("in use by a"));
    sound(&hosts);
    hosts.power_off("a");
    other.import(&import).await.unwrap();
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn read_only_changes_nothing() {
    let hosts = world();
    let (zfs, guid) = exported(&hosts, mirror("bc")).await;
    let before = hosts.log().len();
    let import = Import {
        read_only: true,
        ..import_of(guid, parts("bc"))
    };
    zfs.import(&import).await.unwrap();
    said(zfs.set(&tank(), "comment", "theirs").await);
    assert_eq!(zfs.properties(&tank()).await.unwrap()["readonly"], "on");
    zfs.export(&tank()).await.unwrap();
    assert_eq!(hosts.log().len(), before);
    sound(&hosts);
}
