//! Datasets and holds.

use super::*;
use crate::{Dataset, DatasetKind, Source};

const ASKED: [&str; 12] = [
    "guid",
    "creation",
    "used",
    "referenced",
    "volsize",
    "volblocksize",
    "refreservation",
    "origin",
    "compression",
    "userrefs",
    "rs.cstor:volume",
    "rs.cstor:why",
];

fn list(name: &str) -> Vec<Dataset> {
    datasets(&fixture(&format!("{name}.json")), &ASKED).unwrap()
}

fn named<'a>(list: &'a [Dataset], name: &str) -> &'a Dataset {
    list.iter().find(|dataset| dataset.name == name).unwrap()
}

#[test]
fn everything_in_a_pool() {
    let all = list("datasets");
    let kinds: Vec<_> = all.iter().map(|one| (one.name.as_str(), one.kind)).collect();
    assert_eq!(
        kinds,
        [
            ("fx", DatasetKind::FileSystem),
            ("fx/group", DatasetKind::FileSystem),
            ("fx/group/copy", DatasetKind::Volume),
            ("fx/group/one", DatasetKind::Volume),
            ("fx/group/one@first", DatasetKind::Snapshot),
            ("fx/group/one@with a space", DatasetKind::Snapshot),
            ("fx/group/one#first", DatasetKind::Bookmark),
            ("fx/group/received", DatasetKind::Volume),
            ("fx/group/received@first", DatasetKind::Snapshot),
            ("fx/group/two", DatasetKind::Volume),
            ("fx/group/two@first", DatasetKind::Snapshot),
        ]
    );
    let of_kind = |kind| {
        all.iter()
            .filter(|one| one.kind == kind)
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(list("volumes"), of_kind(DatasetKind::Volume));
    assert_eq!(list("snapshots"), of_kind(DatasetKind::Snapshot));
}

#[test]
fn values_and_where_they_come_from() {
    let list = list("datasets");
    let (one, copy) = (named(&list, "fx/group/one"), named(&list, "fx/group/copy"));
    assert_eq!(
        (one.number("volsize"), one.number("volblocksize")),
        (Some(64 << 20), Some(16 << 10))
    );
    assert_eq!(one.text("rs.cstor:volume"), Some("pvc-1"));
    assert_eq!(copy.text("origin"), Some("fx/group/one@first"));
    let source = |dataset: &Dataset, property: &str| dataset.properties[property].source.clone();
    assert_eq!(source(one, "compression"), Source::Local);
    assert_eq!(source(one, "volblocksize"), Source::Default);
    assert_eq!(source(one, "used"), Source::None);
    assert_eq!(source(copy, "compression"), Source::Inherited("fx".into()));
    let received = named(&list, "fx/group/received");
    assert_eq!(received.text("rs.cstor:volume"), Some("pvc-1"));
    assert_eq!(source(received, "rs.cstor:volume"), Source::Received);
    assert_eq!(
        named(&list, "fx/group/two").number("refreservation"),
        Some(36_175_872)
    );
    assert_eq!(named(&list, "fx/group/one@first").number("userrefs"), Some(2));
}

#[test]
fn what_is_not_there_has_no_source() {
    // ZFS prints the source of the property before it.
    assert!(fixture("datasets.json").contains(r#""userrefs":{"value":"-","source":{"type":"LOCAL""#));
    let list = list("datasets");
    let one = named(&list, "fx/group/one");
    for property in ["userrefs", "rs.cstor:why"] {
        assert_eq!(one.text(property), None);
        assert_eq!(one.properties[property].source, Source::None);
    }
    assert_eq!(named(&list, "fx").number("volsize"), None);
}

#[test]
fn none_are_an_empty_list() {
    assert_eq!(list("volumes-none"), []);
    assert!(datasets("", &[]).is_err());
    assert!(datasets("{}", &[]).is_err());
}

#[test]
fn names_alone() {
    let list = datasets(&fixture("names.json"), &[]).unwrap();
    let names: Vec<_> = list.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "fx/group/copy",
            "fx/group/one",
            "fx/group/received",
            "fx/group/two"
        ]
    );
    assert!(list.iter().all(|one| one.properties.is_empty()));
    assert!(datasets(&fixture("names.json"), &["name"]).is_ok());
}

#[test]
fn everything_that_was_asked_for_must_be_told() {
    let text = fixture("dataset.json");
    let asked = ["guid", "volsize", "rs.cstor:volume", "rs.cstor:none"];
    let one = dataset(&text, "fx/group/one", &asked).unwrap();
    assert_eq!((one.kind, one.text("rs.cstor:none")), (DatasetKind::Volume, None));
    let error = dataset(&text, "fx/group/one", &["guid", "quota"]).unwrap_err();
    assert_eq!(error, "it does not tell quota of fx/group/one");
    assert!(datasets(&fixture("volumes.json"), &["quota"]).is_err());
}

#[test]
fn one_of_each_kind() {
    for (name, file, kind) in [
        ("fx/group", "file-system", DatasetKind::FileSystem),
        ("fx/group/one", "type", DatasetKind::Volume),
        ("fx/group/one@with a space", "snapshot", DatasetKind::Snapshot),
        ("fx/group/one#first", "bookmark", DatasetKind::Bookmark),
    ] {
        let text = fixture(&format!("{file}.json"));
        let one = dataset(&text, name, &[]).unwrap();
        assert_eq!((one.name.as_str(), one.kind), (name, kind));
        assert!(dataset(&text, "fx/group/two", &[]).is_err());
    }
}

#[test]
fn holds_by_their_tags() {
    let first = SnapshotName::new("fx/group/one@first").unwrap();
    let spaced = SnapshotName::new("fx/group/one@with a space").unwrap();
    assert_eq!(
        holds(&fixture("holds.tsv"), &first).unwrap(),
        ["kept", "kept too"]
    );
    assert_eq!(holds(&fixture("holds-none.tsv"), &spaced).unwrap(), [""; 0]);
    assert!(holds(&fixture("holds.tsv"), &spaced).is_err());
    for wrong in [
        "fx/group/one@first\tkept",
        "fx/group/one@first\t\t1",
        "fx/group/one@first kept 1",
        "fx/group/one@first\tkept\tThu",
        "\n",
    ] {
        assert!(holds(wrong, &first).is_err(), "{wrong:?}");
    }
}
