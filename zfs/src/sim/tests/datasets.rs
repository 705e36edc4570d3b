use super::*;
use crate::{Dataset, DatasetKind, Datasets, SnapshotName, Source};

fn snapshot(name: &str) -> SnapshotName {
    SnapshotName::new(format!("tank/{name}")).unwrap()
}

async fn names(zfs: &SimZfs, kinds: &[DatasetKind]) -> Vec<String> {
    let list = Datasets::list(zfs, &tank(), kinds, &[]).await.unwrap();
    list.into_iter().map(|dataset| dataset.name).collect()
}

async fn get(zfs: &SimZfs, name: &str, properties: &[&str]) -> Dataset {
    zfs.get(name, properties).await.unwrap()
}

/// A piece in the first bytes of a volume.
fn piece(bytes: u64, value: u64) -> Piece {
    Piece { at: 0, bytes, value }
}

const ALL: [DatasetKind; 3] = [
    DatasetKind::FileSystem,
    DatasetKind::Volume,
    DatasetKind::Snapshot,
];

#[tokio::test(start_paused = true)]
async fn volumes_are_made_listed_and_destroyed() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    zfs.create_file_system(&volume("group"), &set(&[("canmount", "off")]))
        .await
        .unwrap();
    let mut new = new_volume("group/one", GIB + 1);
    new.properties = set(&[("rs.cstor:volume", "pvc-1"), ("volblocksize", "65536")]);
    zfs.create_volume(&new).await.unwrap();
    assert_eq!(names(&zfs, &ALL).await, ["tank", "tank/group", "tank/group/one"]);
    let asked = [
        "volsize",
        "volblocksize",
        "rs.cstor:volume",
        "rs.cstor:none",
        "compression",
        "origin",
        "quota",
    ];
    let list = Datasets::list(&zfs, &tank(), &[DatasetKind::Volume], &asked)
        .await
        .unwrap();
    let [one] = list.as_slice() else {
        panic!("{list:?}");
    };
    assert_eq!(
        (one.kind, one.name.as_str()),
        (DatasetKind::Volume, "tank/group/one")
    );
    assert_eq!(
        one.number("volsize"),
        Some(GIB + 65536),
        "rounded up to whole blocks"
    );
    assert_eq!(one.text("rs.cstor:volume"), Some("pvc-1"));
    assert_eq!(one.properties["rs.cstor:volume"].source, Source::Local);
    assert_eq!(one.text("rs.cstor:none"), None);
    assert_eq!(one.properties["compression"].source, Source::Default);
    assert_eq!((one.text("origin"), one.text("quota")), (None, None));
    said(zfs.create_volume(&new).await);
    said(zfs.create_volume(&new_volume("nowhere/one", GIB)).await);
    said(zfs.create_volume(&new_volume("group/one/below", GIB)).await);
    said(zfs.create_volume(&new_volume("none", 0)).await);
    said(Datasets::destroy(&zfs, "tank/group").await);
    said(Datasets::destroy(&zfs, "tank").await);
    Datasets::destroy(&zfs, "tank/group/one").await.unwrap();
    Datasets::destroy(&zfs, "tank/group").await.unwrap();
    assert_eq!(names(&zfs, &ALL).await, ["tank"]);
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_no_pool_is_an_error() {
    let hosts = world();
    let zfs = hosts.zfs("a");
    said(Datasets::list(&zfs, &tank(), &ALL, &[]).await);
    let zfs = with_pool(&hosts, mirror("bc")).await;
    said(Datasets::list(&zfs, &tank(), &[], &[]).await);
    said(Datasets::list(&zfs, &tank(), &ALL, &["made_up"]).await);
}

#[tokio::test(start_paused = true)]
async fn properties_are_inherited_set_and_taken_back() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    zfs.create_file_system(&volume("group"), &set(&[("rs.cstor:who", "us")]))
        .await
        .unwrap();
    zfs.create_volume(&new_volume("group/one", GIB)).await.unwrap();
    let who =
        async || get(&zfs, "tank/group/one", &["rs.cstor:who"]).await.properties["rs.cstor:who"].clone();
    assert_eq!(who().await.source, Source::Inherited("tank/group".into()));
    Datasets::set(
        &zfs,
        &volume("group/one"),
        &set(&[("rs.cstor:who", "me"), ("compression", "lz4")]),
    )
    .await
    .unwrap();
    assert_eq!(
        (who().await.text.as_str(), who().await.source),
        ("me", Source::Local)
    );
    // All or none.
    said(
        Datasets::set(
            &zfs,
            &volume("group/one"),
            &set(&[("rs.cstor:who", "you"), ("used", "1")]),
        )
        .await,
    );
    assert_eq!(who().await.text, "me");
    zfs.inherit(&volume("group/one"), "rs.cstor:who").await.unwrap();
    assert_eq!(who().await.text, "us");
    said(zfs.inherit(&volume("group/one"), "volsize").await);
    said(Datasets::set(&zfs, &volume("group/one"), &set(&[("volblocksize", "4096")])).await);
    said(Datasets::set(&zfs, &volume("group/one"), &BTreeMap::new()).await);
}

#[tokio::test(start_paused = true)]
async fn a_volume_only_grows() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let thick = NewVolume {
        thin: false,
        ..new_volume("one", GIB)
    };
    zfs.create_volume(&thick).await.unwrap();
    let sizes = async || {
        let one = get(&zfs, "tank/one", &["volsize", "refreservation"]).await;
        (
            one.number("volsize").unwrap(),
            one.number("refreservation").unwrap(),
        )
    };
    assert_eq!(sizes().await, (GIB, GIB));
    zfs.grow(&volume("one"), 2 * GIB).await.unwrap();
    zfs.grow(&volume("one"), 2 * GIB).await.unwrap();
    assert_eq!(
        sizes().await,
        (2 * GIB, 2 * GIB),
        "what is set aside grows with it"
    );
    said(zfs.grow(&volume("one"), GIB).await);
    said(zfs.grow(&volume("one"), 2 * GIB + 1).await);
    assert_eq!(said(zfs.grow(&volume("one"), 8 * GIB).await), "out of space");
    said(zfs.grow(&tank().root(), GIB).await);
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn space_is_counted_once() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    zfs.create_volume(&new_volume("one", GIB)).await.unwrap();
    hosts.write("a", &volume("one"), piece(100 * MIB, 1)).unwrap();
    zfs.snapshot(&[snapshot("one@a")], &BTreeMap::new())
        .await
        .unwrap();
    hosts.write("a", &volume("one"), piece(30 * MIB, 2)).unwrap();
    zfs.clone_snapshot(&snapshot("one@a"), &volume("copy"), &BTreeMap::new())
        .await
        .unwrap();
    let numbers = async |name: &str, properties: [&str; 3]| {
        let dataset = get(&zfs, name, &properties).await;
        properties.map(|property| dataset.number(property).unwrap() / MIB)
    };
    assert_eq!(
        numbers("tank/one", ["used", "referenced", "written"]).await,
        [130, 100, 30]
    );
    assert_eq!(
        numbers("tank/one", ["usedbydataset", "usedbysnapshots", "usedbychildren"]).await,
        [100, 30, 0]
    );
    assert_eq!(
        numbers("tank/one@a", ["used", "referenced", "written"]).await,
        [0, 100, 100]
    );
    assert_eq!(
        numbers("tank/copy", ["used", "referenced", "written"]).await,
        [0, 100, 0]
    );
    assert_eq!(
        zfs.properties(&tank()).await.unwrap()["allocated"],
        (130 * MIB).to_string()
    );
    hosts.write("a", &volume("one"), piece(2 * GIB, 2)).unwrap_err();
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn snapshots_keep_what_was_written_and_stay_while_they_are_needed() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    for name in ["one", "two"] {
        zfs.create_volume(&new_volume(name, GIB)).await.unwrap();
    }
    hosts.write("a", &volume("one"), piece(MIB, 1)).unwrap();
    let why = set(&[("rs.cstor:why", "daily")]);
    zfs.snapshot(&[snapshot("one@a"), snapshot("two@a")], &why)
        .await
        .unwrap();
    hosts.write("a", &volume("one"), piece(MIB, 2)).unwrap();
    assert_eq!(hosts.read("a", "tank/one@a"), Some(vec![piece(MIB, 1)]));
    assert_eq!(hosts.read("a", "tank/one"), Some(vec![piece(MIB, 2)]));
    assert_eq!(
        get(&zfs, "tank/one@a", &["rs.cstor:why"])
            .await
            .text("rs.cstor:why"),
        Some("daily")
    );
    assert_eq!(
        names(&zfs, &[DatasetKind::Snapshot]).await,
        ["tank/one@a", "tank/two@a"]
    );
    // All or none.
    said(
        zfs.snapshot(&[snapshot("two@b"), snapshot("one@a")], &BTreeMap::new())
            .await,
    );
    assert_eq!(names(&zfs, &[DatasetKind::Snapshot]).await.len(), 2);
    said(zfs.snapshot(&[], &BTreeMap::new()).await);
    said(Datasets::destroy(&zfs, "tank/one").await);
    zfs.hold(&snapshot("one@a"), "kept").await.unwrap();
    said(zfs.hold(&snapshot("one@a"), "kept").await);
    zfs.hold(&snapshot("one@a"), "kept too").await.unwrap();
    assert_eq!(zfs.holds(&snapshot("one@a")).await.unwrap(), ["kept", "kept too"]);
    assert_eq!(
        get(&zfs, "tank/one@a", &["userrefs"]).await.number("userrefs"),
        Some(2)
    );
    said(Datasets::destroy(&zfs, "tank/one@a").await);
    for tag in ["kept", "kept too"] {
        zfs.release(&snapshot("one@a"), tag).await.unwrap();
    }
    said(zfs.release(&snapshot("one@a"), "kept").await);
    Datasets::destroy(&zfs, "tank/one@a").await.unwrap();
    Datasets::destroy(&zfs, "tank/one").await.unwrap();
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn a_clone_and_its_origin_are_turned_around() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    zfs.create_volume(&new_volume("one", GIB)).await.unwrap();
    for (value, name) in [(1, "one@a"), (2, "one@b"), (3, "one@c")] {
        hosts.write("a", &volume("one"), piece(MIB, value)).unwrap();
        zfs.snapshot(&[snapshot(name)], &BTreeMap::new()).await.unwrap();
    }
    zfs.clone_snapshot(&snapshot("one@b"), &volume("copy"), &BTreeMap::new())
        .await
        .unwrap();
    assert_eq!(hosts.read("a", "tank/copy"), Some(vec![piece(MIB, 2)]));
    assert_eq!(
        get(&zfs, "tank/copy", &["volsize"]).await.number("volsize"),
        Some(GIB)
    );
    assert_eq!(
        get(&zfs, "tank/copy", &["origin"]).await.text("origin"),
        Some("tank/one@b")
    );
    assert_eq!(
        get(&zfs, "tank/one@b", &["clones"]).await.text("clones"),
        Some("tank/copy")
    );
    assert!(said(Datasets::destroy(&zfs, "tank/one@b").await).contains("dependent clones"));
    said(zfs.promote(&volume("one")).await);
    zfs.promote(&volume("copy")).await.unwrap();
    assert_eq!(
        names(&zfs, &[DatasetKind::Snapshot]).await,
        ["tank/copy@a", "tank/copy@b", "tank/one@c"]
    );
    assert_eq!(
        get(&zfs, "tank/one", &["origin"]).await.text("origin"),
        Some("tank/copy@b")
    );
    assert_eq!(get(&zfs, "tank/copy", &["origin"]).await.text("origin"), None);
    Datasets::destroy(&zfs, "tank/one@c").await.unwrap();
    Datasets::destroy(&zfs, "tank/one").await.unwrap();
    assert_eq!(hosts.read("a", "tank/copy@a"), Some(vec![piece(MIB, 1)]));
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn a_dataset_keeps_its_number_under_another_name() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    zfs.create_file_system(&volume("group"), &BTreeMap::new())
        .await
        .unwrap();
    zfs.create_volume(&new_volume("group/one", GIB)).await.unwrap();
    zfs.snapshot(&[snapshot("group/one@a")], &BTreeMap::new())
        .await
        .unwrap();
    let guid = zfs.guid("tank/group/one").await.unwrap();
    hosts.open("a", &volume("group/one"), true);
    zfs.rename("tank/group", "tank/others").await.unwrap();
    zfs.rename("tank/others/one@a", "tank/others/one@b")
        .await
        .unwrap();
    assert_eq!(
        names(&zfs, &ALL).await,
        ["tank", "tank/others", "tank/others/one", "tank/others/one@b"]
    );
    assert_eq!(zfs.guid("tank/others/one").await, Ok(guid));
    for (from, to) in [
        ("tank", "tank2"),
        ("tank/others", "tank/others/below"),
        ("tank/others/one", "tank/others"),
        ("tank/others/one@b", "tank/others@b"),
        ("tank/others/one@b", "tank/b"),
        ("tank/none", "tank/some"),
    ] {
        said(zfs.rename(from, to).await);
    }
    // It is still open.
    Datasets::destroy(&zfs, "tank/others/one@b").await.unwrap();
    assert!(said(Datasets::destroy(&zfs, "tank/others/one").await).contains("busy"));
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn what_is_open_is_neither_destroyed_nor_let_go_of() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    zfs.create_volume(&new_volume("one", GIB)).await.unwrap();
    hosts.open("a", &volume("one"), true);
    assert!(said(Datasets::destroy(&zfs, "tank/one").await).contains("busy"));
    assert!(said(zfs.export(&tank()).await).contains("busy"));
    assert!(said(Pools::destroy(&zfs, &tank()).await).contains("busy"));
    hosts.open("a", &volume("one"), false);
    Datasets::destroy(&zfs, "tank/one").await.unwrap();
    zfs.export(&tank()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_was_written_is_on_the_disks() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let guid = status(&zfs).await.guid;
    zfs.create_volume(&new_volume("one", GIB)).await.unwrap();
    let parts_written = [(0, 3, 1), (MIB, 2, 2)];
    for (at, blocks, value) in parts_written {
        let bytes = blocks * 16384;
        hosts
            .write("a", &volume("one"), Piece { at, bytes, value })
            .unwrap();
    }
    hosts.reboot("a");
    assert_eq!(hosts.read("a", "tank/one"), None);
    hosts
        .zfs("a")
        .import(&import_of(guid, parts("bc")))
        .await
        .unwrap();
    let read = hosts.read("a", "tank/one").unwrap();
    let read: Vec<_> = read
        .iter()
        .map(|piece| (piece.at, piece.bytes / 16384, piece.value))
        .collect();
    assert_eq!(read, parts_written);
    sound(&hosts);
}
