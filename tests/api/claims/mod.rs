//! Claims of block devices on the real API server, with the controllers as the ServiceAccount of the manifests.

mod binding;
mod idle;
mod rights;
mod silent_node;

use std::time::Duration;

use cstor_api::names::lease::{AGENT_COMPONENT, AGENT_PREFIX, COMPONENT_LABEL};
use cstor_api::openebs::{BlockDevice, BlockDeviceClaim};
use cstor_controller::{PROGRAM, claim, device, silence};
use cstor_reconcile::{Backoff, Controller, Engine, Services};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use self::rights::{account, allow};
use crate::engine::{Running, until};
use crate::support;

const GI: u64 = 1 << 30;

struct Cluster {
    admin: Client,
    account: Client,
    namespace: String,
    claims: Api<BlockDeviceClaim>,
    devices: Api<BlockDevice>,
    node: String,
}

/// The controllers, running. Dropped, they die as a process does.
struct Controllers(#[expect(dead_code, reason = "held, not read")] [Box<dyn Send>; 3]);

impl Cluster {
    async fn new() -> Self {
        let admin = support::client().await;
        let namespace = support::namespace(&admin).await;
        allow(&admin, &namespace).await;
        let node = format!("node-{namespace}");
        let cluster = Self {
            account: account(&namespace).await,
            claims: Api::namespaced(admin.clone(), &namespace),
            devices: Api::namespaced(admin.clone(), &namespace),
            namespace,
            admin,
            node,
        };
        let node = serde_json::from_value(json!({"metadata": {"name": cluster.node}})).unwrap();
        cluster
            .nodes()
            .create(&PostParams::default(), &node)
            .await
            .unwrap();
        // Rules take a moment to be known.
        until("the account may list devices", async || {
            let devices: Api<BlockDevice> = Api::namespaced(cluster.account.clone(), &cluster.namespace);
            devices.list(&ListParams::default()).await.ok()
        })
        .await;
        cluster
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.admin.clone())
    }

    fn run(&self) -> Controllers {
        let services = Services::new(self.account.clone(), PROGRAM, "process-1");
        let (client, namespace) = (self.account.clone(), &self.namespace);
        Controllers([
            Box::new(Running::start(
                quick(claim::engine(client.clone(), namespace)),
                services.clone(),
            )),
            Box::new(Running::start(
                quick(device::engine(client.clone(), namespace)),
                services.clone(),
            )),
            Box::new(Running::start(
                quick(silence::engine(client, namespace)),
                services,
            )),
        ])
    }

    /// What the agent says of a disk: by server-side apply, spec and status.
    async fn publish(&self, name: &str, size: u64, found: &str) {
        let disk = json!({
            "apiVersion": "openebs.io/v1alpha1", "kind": "BlockDevice",
            "metadata": {"name": name},
            "spec": {
                "path": format!("/dev/{name}"), "capacity": {"storage": size},
                "nodeAttributes": {"nodeName": self.node},
                "identity": {"scheme": "serial/v1", "value": name},
            },
        });
        let params = PatchParams::apply("cstor-agent").force();
        self.devices
            .patch(name, &params, &Patch::Apply(&disk))
            .await
            .unwrap();
        let blank = if found == "NothingFound" { "True" } else { "False" };
        let status = json!({
            "apiVersion": "openebs.io/v1alpha1", "kind": "BlockDevice",
            "metadata": {"name": name},
            "status": {"state": "Active", "conditions": [{
                "type": "Blank", "status": blank, "reason": found, "message": "What was found.",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]},
        });
        self.devices
            .patch_status(name, &params, &Patch::Apply(&status))
            .await
            .unwrap();
    }

    async fn claim(&self, name: &str, spec: Value) {
        self.claim_with(name, spec, json!({})).await;
    }

    async fn claim_with(&self, name: &str, spec: Value, mut metadata: Value) {
        metadata["name"] = json!(name);
        let claim = json!({
            "apiVersion": "openebs.io/v1alpha1", "kind": "BlockDeviceClaim", "metadata": metadata, "spec": spec,
        });
        let claim = serde_json::from_value(claim).unwrap();
        self.claims.create(&PostParams::default(), &claim).await.unwrap();
    }

    async fn delete(&self, claim: &str) {
        self.claims.delete(claim, &DeleteParams::default()).await.unwrap();
    }

    async fn device(&self, name: &str) -> Value {
        json!(self.devices.get(name).await.unwrap())
    }

    /// Waits until the claim is in `phase`, for `reason`.
    async fn is(&self, claim: &str, phase: &str, reason: &str) -> Value {
        until(&format!("{claim} is {phase}, {reason}"), async || {
            let claim = json!(self.claims.get(claim).await.unwrap());
            let so = claim["status"]["phase"] == phase && bound(&claim)["reason"] == reason;
            so.then_some(claim)
        })
        .await
    }

    async fn device_is(&self, name: &str, field: &str, value: &str) -> Value {
        until(&format!("{field} of {name} is {value}"), async || {
            let device = self.device(name).await;
            (device["status"][field] == value).then_some(device)
        })
        .await
    }

    async fn gone(&self, claim: &str) {
        until("the claim is gone", async || {
            self.claims.get_opt(claim).await.unwrap().is_none().then_some(())
        })
        .await;
    }

    async fn beat(&self, seconds: i32) {
        let leases: Api<Lease> = Api::namespaced(self.admin.clone(), &self.namespace);
        let name = format!("{AGENT_PREFIX}{}", self.node);
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "labels": {COMPONENT_LABEL: AGENT_COMPONENT}},
            "spec": {
                "holderIdentity": self.node, "leaseDurationSeconds": seconds,
                "renewTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
            },
        });
        let params = PatchParams::apply("cstor-heartbeat").force();
        leases.patch(&name, &params, &Patch::Apply(&lease)).await.unwrap();
    }

    async fn events(&self, reason: &str) -> Vec<Event> {
        let events: Api<Event> = Api::namespaced(self.admin.clone(), &self.namespace);
        let params = ListParams::default().fields(&format!("reason={reason}"));
        events.list(&params).await.unwrap().items
    }
}

fn quick<C: Controller>(engine: Engine<C>) -> Engine<C> {
    engine.backoff(Backoff {
        base: Duration::from_millis(100),
        ..Backoff::default()
    })
}

fn bound(claim: &Value) -> Value {
    let mut conditions = claim["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .find(|condition| condition["type"] == "Bound")
        .cloned()
        .unwrap_or_default()
}

fn size(size: &str) -> Value {
    json!({"resources": {"requests": {"storage": size}}})
}
