//! What happens in a run: agents that publish disks and beat, a user who makes and deletes claims.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cstor_api::names::lease::{AGENT_COMPONENT, AGENT_PREFIX, COMPONENT_LABEL};
use cstor_api::openebs::{BlockDevice, BlockDeviceClaim};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};

use super::world::{NAMESPACE, Plan};

const GI: u64 = 1 << 30;

/// The node whose agent is never silent.
pub const ALIVE: &str = "node-1";
/// The node whose agent falls silent in the end.
const DYING: &str = "node-2";
/// The node that is deleted in the end, with its Lease.
const GOING: &str = "node-3";
/// Two claims for one disk.
pub const RIVALS: [&str; 2] = ["rival-x", "rival-y"];

/// The agents of all nodes.
#[derive(Clone)]
pub struct Agents {
    client: Client,
    alive: Arc<Mutex<BTreeSet<&'static str>>>,
}

impl Agents {
    pub fn new(client: Client) -> Self {
        Self {
            client,
            alive: Arc::new(Mutex::new([ALIVE, DYING, GOING].into())),
        }
    }

    /// Beats, and says of each device that was called unknown what it is.
    pub async fn live(self) {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        let devices: Api<BlockDevice> = Api::namespaced(self.client.clone(), NAMESPACE);
        for beat in 0.. {
            let alive = self.alive.lock().unwrap().clone();
            for node in &alive {
                let name = format!("{AGENT_PREFIX}{node}");
                let lease = json!({
                    "metadata": {"name": name, "labels": {COMPONENT_LABEL: AGENT_COMPONENT}},
                    "spec": {
                        "holderIdentity": node, "leaseDurationSeconds": 40,
                        // A clock that is years away from the controller's.
                        "renewTime": format!("2001-01-01T00:{:02}:{:02}.000000Z", beat / 60 % 60, beat % 60),
                    },
                });
                if leases.get_opt(&name).await.unwrap().is_none() {
                    let lease = serde_json::from_value(lease).unwrap();
                    leases.create(&PostParams::default(), &lease).await.unwrap();
                } else {
                    let params = PatchParams::default();
                    leases.patch(&name, &params, &Patch::Merge(&lease)).await.unwrap();
                }
            }
            let unknown = |device: &BlockDevice| {
                let device = json!(device);
                let node = device["spec"]["nodeAttributes"]["nodeName"].as_str();
                device["status"]["state"] == "Unknown" && node.is_some_and(|node| alive.contains(node))
            };
            for device in devices
                .list(&ListParams::default())
                .await
                .unwrap()
                .items
                .into_iter()
                .filter(unknown)
            {
                let name = device.metadata.name.as_deref().unwrap();
                status(&devices, name, json!({"state": "Active"})).await;
            }
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
    }

    fn dies(&self, node: &str) {
        self.alive.lock().unwrap().retain(|known| *known != node);
    }
}

async fn status(devices: &Api<BlockDevice>, name: &str, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    devices
        .patch_status(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

struct User {
    claims: Api<BlockDeviceClaim>,
    devices: Api<BlockDevice>,
}

impl User {
    /// An agent publishes a disk.
    async fn disk(&self, name: &str, node: &str, size: u64, found: &str) {
        let disk = json!({
            "apiVersion": "openebs.io/v1alpha1", "kind": "BlockDevice",
            "metadata": {"name": name},
            "spec": {
                "path": format!("/dev/{name}"), "capacity": {"storage": size * GI},
                "nodeAttributes": {"nodeName": node},
                "identity": {"scheme": "serial/v1", "value": name},
            },
        });
        let disk = serde_json::from_value(disk).unwrap();
        self.devices.create(&PostParams::default(), &disk).await.unwrap();
        let blank = if found == "NothingFound" { "True" } else { "False" };
        let condition = json!({"type": "Blank", "status": blank, "reason": found, "message": ""});
        status(
            &self.devices,
            name,
            json!({"state": "Active", "conditions": [condition]}),
        )
        .await;
    }

    async fn claim(&self, name: &str, spec: Value, metadata: Value) {
        let mut claim = json!({
            "apiVersion": "openebs.io/v1alpha1", "kind": "BlockDeviceClaim",
            "metadata": metadata, "spec": spec,
        });
        claim["metadata"]["name"] = json!(name);
        let claim = serde_json::from_value(claim).unwrap();
        self.claims.create(&PostParams::default(), &claim).await.unwrap();
    }

    async fn claim_disk(&self, name: &str, disk: &str) {
        self.claim(name, json!({"blockDeviceName": disk}), json!({}))
            .await;
    }

    async fn claim_size(&self, name: &str, size: &str) {
        let spec = json!({
            "resources": {"requests": {"storage": size}},
            "blockDeviceNodeAttributes": {"nodeName": ALIVE},
        });
        self.claim(name, spec, json!({})).await;
    }

    async fn delete(&self, name: &str) {
        self.claims.delete(name, &DeleteParams::default()).await.unwrap();
    }

    async fn is_bound(&self, name: &str) -> bool {
        let claim = self.claims.get_opt(name).await.unwrap();
        claim.is_some_and(|claim| json!(claim)["status"]["phase"] == "Bound")
    }

    async fn bound(&self, name: &str) {
        while !self.is_bound(name).await {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn gone(&self, name: &str) {
        while self.claims.get_opt(name).await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// What the user does. In a faulty run the moments differ, but never the order, nor the end.
pub async fn use_it(client: Client, agents: Agents, plan: Plan) {
    let mut rng = SmallRng::seed_from_u64(plan.seed ^ 0x05e2);
    let mut pause = async || {
        let milliseconds = if plan.faults {
            rng.random_range(0..8000)
        } else {
            4000
        };
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    };
    let nodes: Api<Node> = Api::all(client.clone());
    for node in [ALIVE, DYING, GOING] {
        let node = serde_json::from_value(json!({"metadata": {"name": node}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
    }
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let user = User {
        claims: Api::namespaced(client.clone(), NAMESPACE),
        devices: Api::namespaced(client, NAMESPACE),
    };
    for (name, node, size, found) in [
        ("a", ALIVE, 10, "NothingFound"),
        ("b", ALIVE, 20, "NothingFound"),
        ("c", ALIVE, 20, "NothingFound"),
        ("d", ALIVE, 40, "FileSystem"),
        ("e", DYING, 10, "NothingFound"),
        ("f", ALIVE, 5, "NothingFound"),
        ("g", GOING, 30, "NothingFound"),
        ("pooled", DYING, 30, "ForeignPool"),
    ] {
        user.disk(name, node, size, found).await;
    }
    let alone = json!({"annotations": {"openebs.io/reconcile": "false"}});
    user.claim("alone", json!({"blockDeviceName": "c"}), alone).await;
    user.claim_disk("named", "e").await;
    user.claim_size("second", "15Gi").await;
    user.claim_size("huge", "1Ti").await;
    user.claim_size("nonsense", "0").await;
    user.bound("second").await;
    user.claim_size("third", "15Gi").await;
    user.bound("third").await;
    pause().await;
    // Nothing is left for this one, until the second is given back.
    user.claim_size("fourth", "15Gi").await;
    pause().await;
    user.delete("second").await;
    user.bound("fourth").await;

    // Two claims for one disk; the loser gets it in the end.
    for rival in RIVALS {
        user.claim_disk(rival, "f").await;
    }
    let (winner, loser) = loop {
        match (user.is_bound(RIVALS[0]).await, user.is_bound(RIVALS[1]).await) {
            (true, true) => panic!("both have it"),
            (true, false) => break (RIVALS[0], RIVALS[1]),
            (false, true) => break (RIVALS[1], RIVALS[0]),
            (false, false) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    };
    pause().await;
    assert!(!user.is_bound(loser).await, "both have it");
    user.delete(winner).await;
    user.bound(loser).await;
    // Too late: the disk has been had all the time.
    user.claim_disk("late", "e").await;

    // A claim that is removed by force, with nobody asked.
    let kept = json!({"finalizers": ["test/keep"]});
    user.claim("forced", json!({"blockDeviceName": "pooled"}), kept)
        .await;
    user.bound("forced").await;
    user.delete("forced").await;
    pause().await;
    let force = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    user.claims
        .patch("forced", &PatchParams::default(), &force)
        .await
        .unwrap();

    // A BlockDevice that is deleted while it is claimed, and goes when the claim does.
    user.claim_disk("held", "a").await;
    user.bound("held").await;
    user.devices.delete("a", &DeleteParams::default()).await.unwrap();
    pause().await;
    assert!(
        user.devices.get_opt("a").await.unwrap().is_some(),
        "a claimed device stays"
    );
    user.delete("held").await;
    user.gone("held").await;
    // One that goes before anybody may have noticed it.
    user.claim_size("fleeting", "1Gi").await;
    user.delete("fleeting").await;
    pause().await;

    agents.dies(DYING);
    agents.dies(GOING);
    // The beat that is under way may still come.
    tokio::time::sleep(Duration::from_secs(1)).await;
    nodes.delete(GOING, &DeleteParams::default()).await.unwrap();
    let lease = format!("{AGENT_PREFIX}{GOING}");
    leases.delete(&lease, &DeleteParams::default()).await.unwrap();
}
