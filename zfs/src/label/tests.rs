use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A list as ZFS writes it: pairs of a name and an encoded value with its type.
#[derive(Default)]
struct List(Vec<u8>);

impl List {
    fn new() -> Self {
        Self([1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1].to_vec())
    }

    fn pair(mut self, name: &str, kind: u32, value: &[u8]) -> Self {
        let mut body = string(name);
        body.extend(kind.to_be_bytes());
        body.extend(1_u32.to_be_bytes());
        body.extend(value);
        self.0.extend((body.len() as u32 + 8).to_be_bytes());
        self.0.extend(1_u32.to_be_bytes());
        self.0.extend(body);
        self
    }

    fn number(self, name: &str, value: u64) -> Self {
        self.pair(name, TYPE_U64, &value.to_be_bytes())
    }

    fn text(self, name: &str, value: &str) -> Self {
        let value = string(value);
        self.pair(name, TYPE_STRING, &value)
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend([0; 8]);
        self.0.resize(LIST, 0);
        self.0
    }
}

fn string(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn list(pool: u64, vdev: u64, txg: u64) -> List {
    List::new()
        .text("name", "tank")
        .number("state", 0)
        .number("txg", txg)
        .number("pool_guid", pool)
        .number("guid", vdev)
}

fn label(pool: u64, vdev: u64, txg: u64) -> Label {
    Label {
        pool_name: Some("tank".into()),
        pool_guid: Some(pool),
        vdev_guid: vdev,
        comment: None,
        state: 0,
        txg,
        hostname: None,
        hostid: None,
    }
}

fn ring(magic: [u8; 8], slot: usize) -> Vec<u8> {
    let mut ring = vec![0; RING];
    ring[slot * UBERBLOCK..][..8].copy_from_slice(&magic);
    ring
}

/// A device that is zero but for what was put somewhere.
struct Image {
    bytes: u64,
    parts: BTreeMap<u64, Vec<u8>>,
}

impl Image {
    fn new(bytes: u64, parts: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Self {
        Self {
            bytes,
            parts: parts.into_iter().collect(),
        }
    }

    fn labels(&self) -> Labels {
        Labels::read(self.bytes, |offset, length| {
            assert!(
                offset + length as u64 <= self.bytes,
                "{offset}+{length} is not on the device"
            );
            let mut part = self.parts.get(&offset).cloned().unwrap_or_default();
            part.resize(length, 0);
            Ok(part)
        })
        .unwrap()
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn each_of_the_four_labels_suffices() {
    // The size is no multiple of a label's.
    let bytes = 100 * MIB + 4096;
    for place in [0, 256 << 10, 100 * MIB - (512 << 10), 100 * MIB - (256 << 10)] {
        let image = Image::new(bytes, [(place + LIST_AT, list(1, 2, 3).end())]);
        let expected = Labels {
            best: Some(label(1, 2, 3)),
            ..Labels::default()
        };
        assert_eq!(image.labels(), expected);
    }
}

#[test]
fn the_latest_label_counts_and_another_life_is_told() {
    let bytes = 64 * MIB;
    let end = bytes - (256 << 10);
    let parts = |first: Vec<u8>, last: Vec<u8>| [(LIST_AT, first), (end + LIST_AT, last)];
    let torn = Image::new(bytes, parts(list(1, 2, 9).end(), list(1, 2, 10).end()));
    assert_eq!(torn.labels().best, Some(label(1, 2, 10)));
    assert_eq!(torn.labels().others, []);
    for (first, last) in [(9, 5), (5, 5)] {
        let image = Image::new(bytes, parts(list(1, 2, first).end(), list(7, 8, last).end()));
        assert_eq!(image.labels().best, Some(label(1, 2, first)));
        assert_eq!(image.labels().others, [label(7, 8, last)]);
    }
}

#[test]
fn a_device_without_labels_has_none_and_is_not_read_beyond_its_end() {
    for bytes in [0, 1, 512, MIB - 1, MIB, MIB + 1, 64 * MIB, u64::MAX] {
        assert_eq!(Image::new(bytes, []).labels(), Labels::default());
    }
}

#[test]
fn a_label_that_cannot_be_understood_is_told_by_its_uberblocks() {
    let bytes = 64 * MIB;
    for magic in [UBERBLOCK_MAGIC.to_le_bytes(), UBERBLOCK_MAGIC.to_be_bytes()] {
        for place in places(bytes) {
            for slot in [0, 1, 127] {
                let damaged = Image::new(bytes, [(place + RING_AT, ring(magic, slot))]).labels();
                assert!(damaged.damaged && damaged.best.is_none());
            }
        }
    }
    let mut one_good = Image::new(bytes, [(LIST_AT, list(1, 2, 3).end())]);
    one_good
        .parts
        .insert(LABEL + RING_AT, ring(UBERBLOCK_MAGIC.to_le_bytes(), 4));
    let labels = one_good.labels();
    assert!(labels.damaged && labels.best == Some(label(1, 2, 3)));
}

#[test]
fn a_read_that_fails_is_no_absent_label() {
    for failing in 0..4 {
        let mut reads = 0;
        let result = Labels::read(64 * MIB, |_, length| {
            reads += 1;
            if reads > failing {
                Err(io::Error::from_raw_os_error(5))
            } else {
                Ok(vec![0; length])
            }
        });
        assert_eq!(result.unwrap_err().raw_os_error(), Some(5));
    }
}

#[test]
fn what_does_not_add_up_is_no_label() {
    let good = list(1, 2, 3);
    assert!(Label::decode(&good.end()).is_some());
    let cases: [(&str, Vec<u8>); 8] = [
        ("nothing", Vec::new()),
        ("zeros", vec![0; LIST]),
        ("a name twice", list(1, 2, 3).number("guid", 4).end()),
        ("no state", List::new().number("guid", 1).end()),
        ("no guid", List::new().number("state", 0).end()),
        ("no end", list(1, 2, 3).0),
        ("native encoding", {
            let mut bytes = list(1, 2, 3).end();
            bytes[0] = 0;
            bytes
        }),
        ("a version to come", {
            let mut bytes = list(1, 2, 3).end();
            bytes[7] = 1;
            bytes
        }),
    ];
    for (what, bytes) in cases {
        assert_eq!(Label::decode(&bytes), None, "{what}");
    }
    // Sizes that reach out of the list, or do not even hold themselves.
    for size in [1_u32, 7, 8, 12, LIST as u32, u32::MAX] {
        let mut bytes = list(1, 2, 3).end();
        bytes[12..16].copy_from_slice(&size.to_be_bytes());
        assert_eq!(Label::decode(&bytes), None, "size {size}");
    }
    for length in [21_u32, LIST as u32, u32::MAX - 3, u32::MAX] {
        let mut bytes = list(1, 2, 3).end();
        bytes[20..24].copy_from_slice(&length.to_be_bytes());
        assert_eq!(Label::decode(&bytes), None, "length {length}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
        let _ = Label::decode(&bytes);
        let mut headed = vec![1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        headed.extend(bytes);
        let _ = Label::decode(&headed);
    }

    #[test]
    fn what_is_decoded_is_what_was_written(
        pool in any::<u64>(), vdev in any::<u64>(), txg in any::<u64>(), state in 0..5_u64,
        name in "[a-z][a-z0-9_.:-]{0,40}", comment in prop::option::of("[ -~]{1,32}"), hostname in "\\PC{0,64}",
        other in prop::collection::vec(any::<u8>(), 0..64), kind in 10..28_u32,
    ) {
        let mut list = List::new()
            .pair("vdev_tree", kind, &other)
            .number("state", state).number("guid", vdev).number("hostid", 9)
            .text("name", &name).text("hostname", &hostname)
            .number("txg", txg).number("pool_guid", pool);
        if let Some(comment) = &comment {
            list = list.text("comment", comment);
        }
        let expected = Label {
            pool_name: Some(name), pool_guid: Some(pool), vdev_guid: vdev, comment, state, txg,
            hostname: Some(hostname), hostid: Some(9),
        };
        prop_assert_eq!(Label::decode(&list.end()), Some(expected));
    }
}

/// Labels of real pools (OpenZFS 2.3), without the zeros behind the list.
const FIXTURES: [(&str, &[u8]); 6] = [
    ("active", include_bytes!("../../fixtures/labels/active.nvlist")),
    ("log", include_bytes!("../../fixtures/labels/log.nvlist")),
    ("spare", include_bytes!("../../fixtures/labels/spare.nvlist")),
    ("cache", include_bytes!("../../fixtures/labels/cache.nvlist")),
    (
        "exported",
        include_bytes!("../../fixtures/labels/exported.nvlist"),
    ),
    (
        "destroyed",
        include_bytes!("../../fixtures/labels/destroyed.nvlist"),
    ),
];

fn fixture(name: &str) -> Vec<u8> {
    let (_, bytes) = FIXTURES.iter().find(|(fixture, _)| *fixture == name).unwrap();
    let mut bytes = bytes.to_vec();
    bytes.resize(LIST, 0);
    bytes
}

#[test]
fn labels_of_real_pools_say_what_zfs_said_of_them() {
    let read = |name| Label::decode(&fixture(name)).unwrap();
    // As `zdb -l` and `zpool get guid` showed them.
    let active = Label {
        pool_name: Some("cstor-f2420c98-ce02-4bc8-b3c0-8266c0b62b69".into()),
        pool_guid: Some(17_827_434_312_728_862_327),
        vdev_guid: 17_839_133_348_453_443_316,
        comment: Some("f2420c98ce024bc8b3c08266c0b62b69".into()),
        state: 0,
        txg: 4,
        hostname: Some("node-1".into()),
        hostid: Some(1_668_481_025),
    };
    assert_eq!(read("active"), active);
    let vdev_guid = 12_365_024_574_303_707_577;
    assert_eq!(read("log"), Label { vdev_guid, ..active });
    for (name, state) in [("spare", 3), ("cache", 4)] {
        let label = read(name);
        assert_eq!(
            (label.state, label.pool_name, label.pool_guid, label.txg),
            (state, None, None, 0)
        );
        assert_ne!(label.vdev_guid, 0);
    }
    for (name, pool, state) in [("exported", "away", 1), ("destroyed", "gone", 2)] {
        let label = read(name);
        assert_eq!(
            (label.state, label.pool_name.as_deref(), label.comment),
            (state, Some(pool), None)
        );
        assert!(label.pool_guid.is_some() && label.txg > 0);
    }
}

proptest! {
    #[test]
    fn damaged_labels_are_decoded_without_a_panic(
        which in 0..FIXTURES.len(), length in 0..2048_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let mut bytes = fixture(FIXTURES[which].0);
        bytes.truncate(length);
        for (index, value) in changes {
            if !bytes.is_empty() {
                let index = index.index(bytes.len());
                bytes[index] = value;
            }
        }
        let _ = Label::decode(&bytes);
    }
}
