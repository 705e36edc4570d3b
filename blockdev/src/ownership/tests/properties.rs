use std::collections::BTreeSet;

use proptest::prelude::*;

use super::using::{flaws, uses};
use super::*;

fn contents() -> impl Strategy<Value = Contents> {
    let kinds = prop::sample::select(vec!["ext4", "zfs_member", "gpt", "LVM2_member", "swap", "new"]);
    let usage = prop::option::of(prop::sample::select(vec![
        "filesystem",
        "raid",
        "crypto",
        "partition-table",
        "other",
    ]));
    let signatures = prop::collection::vec((kinds, usage), 0..3);
    let labels = prop::collection::vec((0..3_u64, 0..3_u64), 0..2);
    let zfs = prop::option::of((0..3_u64, 0..3_u64));
    (
        signatures,
        zfs,
        labels,
        any::<bool>(),
        prop::option::of(0..GIB),
        any::<bool>(),
    )
        .prop_map(|(signatures, zfs, others, zfs_damaged, data_at, busy)| {
            let label = |(pool, vdev)| Label {
                pool_guid: Some(pool),
                vdev_guid: vdev,
                ..label()
            };
            Contents {
                signatures: signatures
                    .into_iter()
                    .map(|(kind, usage)| signature(kind, usage))
                    .collect(),
                zfs: zfs.map(label),
                zfs_others: others.into_iter().map(label).collect(),
                zfs_damaged,
                zfs_written: zfs_damaged,
                data_at,
                busy,
            }
        })
}

fn probe() -> impl Strategy<Value = Probe> {
    prop_oneof![
        4 => contents().prop_map(Probe::Read),
        2 => Just(nothing()),
        1 => Just(Probe::NotResponding),
        1 => Just(Probe::Failed("error".into())),
    ]
}

proptest! {
    /// Blank takes everything, and ours takes the record and nobody else: whatever else is changed.
    #[test]
    fn blank_and_ours_take_proof(
        probe in probe(),
        parts in prop::collection::vec((1..10_u32, probe_or_nothing()), 0..3),
        named in any::<bool>(),
        using in prop::collection::btree_set(0..uses().len(), 0..2),
        flawed in prop::collection::btree_set(0..flaws().len(), 0..2),
        attached in any::<bool>(),
    ) {
        let numbers: BTreeSet<u32> = parts.iter().map(|(number, _)| *number).collect();
        prop_assume!(numbers.len() == parts.len());
        let case = Case::blank().with(|case| {
            case.probe = probe;
            if named {
                case.device.partitions = numbers.iter().map(|number| format!("sdb{number}")).collect();
            }
            case.partitions = parts.into_iter().map(|(number, probe)| partition(number, None, probe)).collect();
            using.iter().for_each(|index| uses()[*index].1(&mut case.device));
            flawed.iter().for_each(|index| flaws()[*index](&mut case.device));
            case.foreign_attachment = attached.then(|| "somebody".into());
        });
        let free = using.is_empty() && !attached;
        let records = Records::from_iter([record(Some(1), &[1, 2])]);
        match case.ask(&records) {
            Ownership::Blank => {
                prop_assert!(free && flawed.is_empty() && case.partitions.is_empty());
                prop_assert_eq!(case.probe, nothing());
            }
            Ownership::Ours(ours) => {
                prop_assert!(free);
                prop_assert_eq!(ours.pool_guid, Some(1));
                prop_assert!([1, 2].contains(&ours.vdev_guid));
                prop_assert!(case.partitions.is_empty() || numbers == BTreeSet::from([1, 9]));
            }
            Ownership::Theirs(findings) => prop_assert!(!findings.is_empty()),
            Ownership::Unknown { .. } => {
                let unread = |probe: &Probe| !matches!(probe, Probe::Read(_));
                prop_assert!(free && (unread(&case.probe) || case.partitions.iter().any(|(_, probe)| unread(probe))));
            }
        }
    }
}

fn probe_or_nothing() -> impl Strategy<Value = Probe> {
    prop_oneof![probe(), Just(nothing())]
}
