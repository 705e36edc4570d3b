//! The largest objects we allow are within the API server's budget for rules, when created and when changed.
//!
//! The budget is counted while rules run, so no check of the definitions can show this.

use serde_json::{Value, json};

use crate::kind::Kind;
use crate::support::{client, namespace};

fn pool(node: usize, groups: usize, devices: usize) -> Value {
    let group = |group: usize| -> Value {
        let device = |device: usize| json!({ "blockDeviceName": format!("blockdevice-{node:08}{group:08}{device:016}") });
        json!({ "blockDevices": (0..devices).map(device).collect::<Vec<_>>() })
    };
    json!({
        "nodeSelector": { "kubernetes.io/hostname": format!("worker-node-{node}.storage.example.com") },
        "poolConfig": { "dataRaidGroupType": "raidz2" },
        "dataRaidGroups": (0..groups).map(group).collect::<Vec<_>>(),
    })
}

async fn can_be_created_and_changed(kind: &str, spec: Value, pointer: &str) {
    let client = client().await;
    let namespace = namespace(&client).await;
    let kind = Kind::named(kind);
    let object = json!({
        "apiVersion": "cstor.openebs.io/v1",
        "kind": kind.name(),
        "metadata": { "name": "large" },
        "spec": spec,
    });
    let mut made = kind.create(&client, &namespace, &object, false).await.unwrap();
    crate::schema::put(&mut made, pointer, "zstd".into());
    kind.update(&client, &namespace, &made, false).await.unwrap();
}

/// 64 nodes with a JBOD of 100 disks each.
#[tokio::test]
async fn a_cluster_of_6400_disks() {
    let pools: Vec<_> = (0..64).map(|node| pool(node, 10, 10)).collect();
    can_be_created_and_changed(
        "CStorPoolCluster",
        json!({ "pools": pools }),
        "/spec/pools/0/poolConfig/compression",
    )
    .await;
}

/// As many and as large groups as there may be.
#[tokio::test]
async fn a_pool_of_3600_disks() {
    can_be_created_and_changed(
        "CStorPoolInstance",
        pool(1, 60, 60),
        "/spec/poolConfig/compression",
    )
    .await;
}
