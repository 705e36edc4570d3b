//! The planner's kinds.

use serde_json::{Value, json};

use super::{Case, Edits};
use crate::fixtures;

pub fn cases() -> Vec<Case> {
    let config =
        |says, at: &'static str, before: Option<Edits>, accepted: Vec<Edits>, refused: Vec<Edits>| Case {
            kind: "CStorClusterConfig",
            at,
            says,
            base: fixtures::full("CStorClusterConfig").remove(0),
            before,
            accepted,
            refused,
        };
    let raid = |name: &'static str, count: i64| {
        vec![
            ("/spec/poolConfig/raidType", json!(name)),
            ("/spec/diskConfig/minCount", json!(count)),
        ]
    };
    let term = |pointer: &'static str| {
        (
            vec![
                vec![(pointer, json!({ "matchLabels": { "a": "b" } }))],
                vec![(pointer, json!({ "matchAnnotations": { "a": "b" } }))],
            ],
            vec![
                vec![(pointer, json!({}))],
                vec![(pointer, json!({ "matchLabels": {} }))],
            ],
        )
    };
    let selector = json!({ "blockDeviceSelector": { "selectorTerms": [{ "matchLabels": { "a": "b" } }] } });
    let cache = |pointer: &'static str| {
        (
            vec![
                vec![(pointer, json!({ "disable": true }))],
                vec![(
                    pointer,
                    json!({ "csiAttacherName": "x", "storageClassName": "y" }),
                )],
            ],
            vec![
                vec![(pointer, json!({}))],
                vec![(pointer, json!({ "csiAttacherName": "x" }))],
                vec![(pointer, json!({ "disable": false, "storageClassName": "y" }))],
            ],
        )
    };
    let (nodes_yes, nodes_no) = term("/spec/allowedNodes/nodeSelectorTerms/0");
    let (disks_yes, disks_no) = term("/spec/diskConfig/local/blockDeviceSelector/selectorTerms/0");
    let (write_yes, write_no) = cache("/spec/poolConfig/writeCache");
    let (read_yes, read_no) = cache("/spec/poolConfig/readCache");
    let set = || fixtures::full("CStorClusterStorageSet").remove(0);
    let local = fixtures::full("CStorClusterConfig").remove(1);
    vec![
        config(
            "There cannot be more pools",
            "spec",
            None,
            vec![
                vec![("/spec/minPoolCount", json!(5))],
                vec![
                    ("/spec/minPoolCount", json!(6)),
                    ("/spec/maxPoolCount", Value::Null),
                ],
            ],
            vec![vec![("/spec/minPoolCount", json!(6))]],
        ),
        config(
            "The raid type of a cluster",
            "spec",
            Some(vec![]),
            vec![raid("raidz", 6)],
            vec![
                raid("mirror", 2),
                vec![("/spec/poolConfig", Value::Null)],
                vec![("/spec/poolConfig/raidType", Value::Null)],
            ],
        ),
        config(
            "The raid type of a cluster",
            "spec",
            Some(vec![("/spec/poolConfig", Value::Null)]),
            vec![
                vec![("/spec/poolConfig", json!({ "raidType": "stripe" }))],
                vec![("/spec/poolConfig", json!({ "spare": true }))],
            ],
            vec![vec![("/spec/poolConfig", json!({ "raidType": "raidz" }))]],
        ),
        config(
            "Disks come in whole raid groups",
            "spec",
            None,
            vec![
                raid("stripe", 1),
                raid("mirror", 4),
                raid("raidz", 6),
                raid("raidz2", 12),
                vec![
                    ("/spec/poolConfig", Value::Null),
                    ("/spec/diskConfig/minCount", json!(7)),
                ],
            ],
            vec![raid("mirror", 3), raid("raidz", 4), raid("raidz2", 8)],
        ),
        config(
            "An empty term would match everything",
            "spec.allowedNodes.nodeSelectorTerms[]",
            None,
            nodes_yes,
            nodes_no,
        ),
        Case {
            base: local,
            ..config(
                "An empty term would match everything",
                "spec.diskConfig.local.blockDeviceSelector.selectorTerms[]",
                None,
                disks_yes,
                disks_no,
            )
        },
        config(
            "Say where disks come from",
            "spec.diskConfig",
            None,
            vec![vec![
                ("/spec/diskConfig/externalProvisioner", Value::Null),
                ("/spec/diskConfig/local", selector.clone()),
            ]],
            vec![
                vec![("/spec/diskConfig/local", selector)],
                vec![("/spec/diskConfig/externalProvisioner", Value::Null)],
            ],
        ),
        config(
            "Say where the disks of the cache",
            "spec.poolConfig.writeCache",
            None,
            write_yes,
            write_no,
        ),
        config(
            "Say where the disks of the cache",
            "spec.poolConfig.readCache",
            None,
            read_yes,
            read_no,
        ),
        Case {
            kind: "CStorClusterStorageSet",
            at: "spec.externalProvisioner",
            says: "Disks that were made",
            base: set(),
            before: Some(vec![]),
            accepted: vec![vec![("/spec/node", json!({ "name": "other", "uid": "1" }))]],
            refused: vec![vec![(
                "/spec/externalProvisioner/storageClassName",
                json!("other"),
            )]],
        },
        Case {
            kind: "CStorClusterStorageSet",
            at: "spec.disk.count",
            says: "Disks cannot be taken out",
            base: set(),
            before: Some(vec![]),
            accepted: vec![vec![("/spec/disk/count", json!(4))]],
            refused: vec![vec![("/spec/disk/count", json!(2))]],
        },
        Case {
            kind: "CStorClusterStorageSet",
            at: "spec.disk.capacity",
            says: "A disk can grow and not shrink",
            base: set(),
            before: Some(vec![]),
            accepted: vec![
                vec![("/spec/disk/capacity", json!("200Gi"))],
                vec![("/spec/disk/capacity", json!(107_374_182_400_u64))],
            ],
            refused: vec![
                vec![("/spec/disk/capacity", json!("100G"))],
                vec![("/spec/disk/capacity", json!(1))],
            ],
        },
        Case {
            kind: "Storage",
            at: "spec.capacity",
            says: "A disk can grow and not shrink",
            base: fixtures::full("Storage").remove(0),
            before: Some(vec![]),
            accepted: vec![
                vec![("/spec/capacity", json!("200Gi"))],
                vec![("/spec/nodeName", json!("other"))],
            ],
            refused: vec![vec![("/spec/capacity", json!("99Gi"))]],
        },
    ]
}
