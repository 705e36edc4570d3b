//! Volumes, backups, and claims on block devices.

use serde_json::{Value, json};

use super::Case;
use crate::fixtures;

pub fn cases() -> Vec<Case> {
    let mut cases = volume_cases();
    cases.extend(claim_cases());
    cases
}

fn volume_cases() -> Vec<Case> {
    let old = |kind: &str| fixtures::old(kind).remove(0);
    let policy = || old("CStorVolumePolicy");
    let config = || old("CStorVolumeConfig");
    let pools = |names: &[&str]| -> Value { names.iter().map(|name| json!({ "poolName": name })).collect() };
    vec![
        Case {
            kind: "CStorVolumeReplica",
            at: "spec",
            says: "The id of a replica",
            base: old("CStorVolumeReplica"),
            before: Some(vec![]),
            accepted: vec![
                vec![("/spec/capacity", json!("5Gi"))],
                vec![("/spec/capacity", json!(""))],
                vec![("/spec/targetIP", json!("10.0.0.1"))],
            ],
            refused: vec![
                vec![("/spec/replicaid", json!("2"))],
                vec![("/spec/replicaid", Value::Null)],
            ],
        },
        Case {
            kind: "CStorVolumeReplica",
            at: "spec.compression",
            says: "Unknown compression",
            base: old("CStorVolumeReplica"),
            before: None,
            accepted: ["", "on", "off", "lz4", "lzjb", "zle", "gzip-9", "zstd"]
                .map(|name| vec![("/spec/compression", json!(name))])
                .to_vec(),
            refused: ["lz5", "gzip-0"]
                .map(|name| vec![("/spec/compression", json!(name))])
                .to_vec(),
        },
        Case {
            kind: "CStorVolumeReplica",
            at: "spec.blockSize",
            says: "The block size of a volume",
            base: old("CStorVolumeReplica"),
            before: None,
            accepted: [json!(0), json!(512), json!(131_072), Value::Null]
                .map(|size| vec![("/spec/blockSize", size)])
                .to_vec(),
            refused: [1, 5000, 262_144]
                .map(|size| vec![("/spec/blockSize", json!(size))])
                .to_vec(),
        },
        Case {
            kind: "CStorVolume",
            at: "spec",
            says: "No write could ever succeed",
            base: old("CStorVolume"),
            before: None,
            accepted: vec![
                vec![("/spec/consistencyFactor", json!(3))],
                vec![
                    ("/spec/consistencyFactor", json!(0)),
                    ("/spec/replicationFactor", json!(0)),
                ],
                vec![("/spec/replicationFactor", Value::Null)],
            ],
            refused: vec![vec![("/spec/consistencyFactor", json!(4))]],
        },
        Case {
            kind: "CStorVolumePolicy",
            at: "spec.replicaPoolInfo",
            says: "A pool can hold one replica",
            base: policy(),
            before: None,
            accepted: vec![vec![("/spec/replicaPoolInfo", pools(&["p", "q", "r"]))]],
            refused: vec![vec![("/spec/replicaPoolInfo", pools(&["p", "q", "p"]))]],
        },
        Case {
            kind: "CStorVolumePolicy",
            at: "spec.provision.blockSize",
            says: "The block size of a volume",
            base: policy(),
            before: None,
            accepted: [0, 512, 131_072]
                .map(|size| vec![("/spec/provision/blockSize", json!(size))])
                .to_vec(),
            refused: [1, 5000, 262_144]
                .map(|size| vec![("/spec/provision/blockSize", json!(size))])
                .to_vec(),
        },
        Case {
            kind: "CStorVolumeConfig",
            at: "spec.policy.replicaPoolInfo",
            says: "A pool can hold one replica",
            base: config(),
            before: None,
            accepted: vec![vec![("/spec/policy/replicaPoolInfo", pools(&["p", "q", "r"]))]],
            refused: vec![vec![("/spec/policy/replicaPoolInfo", pools(&["p", "q", "p"]))]],
        },
        Case {
            kind: "CStorVolumeConfig",
            at: "spec.policy.provision.blockSize",
            says: "The block size of a volume",
            base: config(),
            before: None,
            accepted: vec![vec![("/spec/policy/provision/blockSize", json!(4096))]],
            refused: vec![vec![("/spec/policy/provision/blockSize", json!(4095))]],
        },
        Case {
            kind: "CStorVolumeConfig",
            at: "spec.capacity",
            says: "A volume can grow and not shrink",
            base: config(),
            before: Some(vec![]),
            accepted: vec![
                vec![("/spec/capacity/storage", json!("5120Mi"))],
                vec![("/spec/capacity/storage", json!("6Gi"))],
                vec![("/spec/capacity/storage", json!(5_368_709_121_u64))],
            ],
            refused: vec![
                vec![("/spec/capacity/storage", json!("4Gi"))],
                vec![("/spec/capacity/storage", json!("5G"))],
                vec![("/spec/capacity", json!({}))],
            ],
        },
        Case {
            kind: "CStorVolumeConfig",
            at: "spec.provision",
            says: "What a volume was made with",
            base: config(),
            before: Some(vec![]),
            accepted: vec![vec![("/spec/capacity/storage", json!("6Gi"))]],
            refused: vec![
                vec![("/spec/provision/replicaCount", json!(4))],
                vec![("/spec/provision/capacity/storage", json!("6Gi"))],
            ],
        },
        Case {
            kind: "CStorVolumeConfig",
            at: "spec",
            says: "Replicas are taken away one at a time",
            base: config(),
            before: Some(vec![("/spec/policy/replicaPoolInfo", pools(&["p", "q", "r"]))]),
            accepted: vec![
                vec![("/spec/policy/replicaPoolInfo", pools(&["r", "p", "q"]))],
                vec![("/spec/policy/replicaPoolInfo", pools(&["p", "q", "r", "s", "t"]))],
                vec![("/spec/policy/replicaPoolInfo", pools(&["p", "r"]))],
            ],
            refused: vec![
                vec![("/spec/policy/replicaPoolInfo", pools(&["p"]))],
                vec![("/spec/policy/replicaPoolInfo", pools(&["p", "q", "s"]))],
                vec![("/spec/policy/replicaPoolInfo", pools(&["p", "s"]))],
                vec![("/spec/policy/replicaPoolInfo", Value::Null)],
            ],
        },
        Case {
            kind: "CStorBackup",
            at: "spec",
            says: "A backup is of one snapshot",
            base: old("CStorBackup"),
            before: Some(vec![]),
            accepted: vec![vec![("/spec/backupDest", json!("10.0.0.1:9000"))]],
            refused: vec![
                vec![("/spec/volumeName", json!("other"))],
                vec![("/spec/snapName", json!("other"))],
            ],
        },
        Case {
            kind: "CStorRestore",
            at: "spec",
            says: "A restore fills one volume",
            base: old("CStorRestore"),
            before: Some(vec![]),
            accepted: vec![vec![("/spec/retrycount", json!(1))]],
            refused: vec![vec![("/spec/volumeName", json!("other"))]],
        },
    ]
}

fn claim_cases() -> Vec<Case> {
    let base = || fixtures::old("BlockDeviceClaim").remove(0);
    let says = "A claim that has a block device";
    let refused = || {
        vec![
            vec![("/spec/blockDeviceName", json!("other"))],
            vec![("/spec/blockDeviceName", json!(""))],
            vec![("/spec/blockDeviceName", Value::Null)],
        ]
    };
    let labelled = || vec![vec![("/metadata/labels", json!({ "a": "b" }))]];
    vec![
        Case {
            kind: "BlockDeviceClaim",
            at: "spec",
            says,
            base: base(),
            before: Some(vec![]),
            accepted: labelled(),
            refused: refused(),
        },
        Case {
            kind: "BlockDeviceClaim",
            at: "spec",
            says,
            base: base(),
            // Not bound yet, in the two ways there are.
            before: Some(vec![("/spec/blockDeviceName", json!(""))]),
            accepted: vec![
                vec![("/spec/blockDeviceName", json!("other"))],
                vec![("/spec/blockDeviceName", Value::Null)],
            ],
            refused: vec![],
        },
    ]
}
