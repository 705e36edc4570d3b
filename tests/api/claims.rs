//! Claims of block devices on the real API server, with the controllers as the ServiceAccount of the manifests.

use std::time::Duration;

use cstor_api::names::lease::{AGENT_COMPONENT, AGENT_PREFIX, COMPONENT_LABEL};
use cstor_api::openebs::{BlockDevice, BlockDeviceClaim};
use cstor_controller::{PROGRAM, claim, device, silence};
use cstor_reconcile::{Backoff, Controller, Engine, Services};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::engine::{Running, until};
use crate::support;

const GI: u64 = 1 << 30;
const MANIFEST: &str = include_str!("../../manifests/controller-rbac.yaml");

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

/// Installs the controller's rules, for a namespace of the test instead of the real one.
async fn allow(admin: &Client, namespace: &str) {
    let text = MANIFEST.replace("namespace: openebs", &format!("namespace: {namespace}"));
    for document in text.split("\n---\n") {
        let mut object: Value = serde_saphyr::from_str(document).unwrap();
        let kind = object["kind"].as_str().unwrap().to_owned();
        if kind.starts_with("Cluster") {
            // The names of these are the whole cluster's.
            let name = format!("cstor-controller-{namespace}");
            object["metadata"]["name"] = json!(name);
            if kind == "ClusterRoleBinding" {
                object["roleRef"]["name"] = json!(name);
            }
        }
        let (all, here) = (admin.clone(), admin.clone());
        match kind.as_str() {
            "ServiceAccount" => create::<ServiceAccount>(Api::namespaced(here, namespace), object).await,
            "Role" => create::<Role>(Api::namespaced(here, namespace), object).await,
            "RoleBinding" => create::<RoleBinding>(Api::namespaced(here, namespace), object).await,
            "ClusterRole" => create::<ClusterRole>(Api::all(all), object).await,
            "ClusterRoleBinding" => create::<ClusterRoleBinding>(Api::all(all), object).await,
            other => panic!("the manifest has a {other}, which this test does not know"),
        }
    }
}

async fn create<K: Clone + std::fmt::Debug + DeserializeOwned + Serialize>(api: Api<K>, object: Value) {
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// A client that has the rights of the controller's account, and no others.
async fn account(namespace: &str) -> Client {
    let kubeconfig = Kubeconfig::read_from(std::env::var(support::KUBECONFIG).unwrap()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    config.auth_info.impersonate = Some(format!("system:serviceaccount:{namespace}:cstor-controller"));
    config.auth_info.impersonate_groups = Some(vec![
        "system:serviceaccounts".into(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".into(),
    ]);
    Client::try_from(config).unwrap()
}

#[tokio::test]
async fn the_account_may_do_what_is_listed_and_no_more() {
    let cluster = Cluster::new().await;
    cluster.publish("disk", GI, "NothingFound").await;
    let devices: Api<BlockDevice> = Api::namespaced(cluster.account.clone(), &cluster.namespace);
    let error = devices
        .delete("disk", &DeleteParams::default())
        .await
        .unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 403),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_claim_gets_the_disk_it_names_and_gives_it_back() {
    let cluster = Cluster::new().await;
    let _running = cluster.run();
    cluster.publish("disk", 10 * GI, "NothingFound").await;
    cluster.device_is("disk", "claimState", "Unclaimed").await;
    cluster.claim("mine", json!({"blockDeviceName": "disk"})).await;
    let claim = cluster.is("mine", "Bound", "DeviceBound").await;
    assert_eq!(
        claim["metadata"]["finalizers"],
        json!(["openebs.io/bdc-protection"])
    );
    let device = cluster.device("disk").await;
    assert_eq!(
        device["spec"]["claimRef"],
        json!({
            "apiVersion": "openebs.io/v1alpha1", "kind": "BlockDeviceClaim", "name": "mine",
            "namespace": cluster.namespace, "uid": claim["metadata"]["uid"],
        })
    );
    assert_eq!(device["status"]["claimState"], "Claimed");
    assert_eq!(
        device["metadata"]["finalizers"],
        json!(["openebs.io/bd-protection"])
    );

    // The agent goes on saying what it sees, and takes nothing away.
    cluster.publish("disk", 11 * GI, "InOurPool").await;
    let device = cluster.device("disk").await;
    assert_eq!(device["spec"]["capacity"]["storage"], 11 * GI);
    assert_eq!(device["spec"]["claimRef"]["name"], "mine");
    assert_eq!(device["status"]["claimState"], "Claimed");
    assert_eq!(
        device["metadata"]["finalizers"],
        json!(["openebs.io/bd-protection"])
    );

    // While a pool is on it, the claim stays.
    cluster.delete("mine").await;
    until("the claim says why it stays", async || {
        let claim = json!(cluster.claims.get("mine").await.unwrap());
        let mut conditions = claim["status"]["conditions"].as_array().unwrap().iter();
        conditions
            .any(|condition| condition["type"] == "DeletionBlocked" && condition["reason"] == "InUse")
            .then_some(())
    })
    .await;
    assert_eq!(cluster.device("disk").await["spec"]["claimRef"]["name"], "mine");
    cluster.publish("disk", 11 * GI, "UnrecognisedData").await;
    cluster.gone("mine").await;
    let device = cluster.device_is("disk", "claimState", "Released").await;
    assert_eq!(
        (&device["spec"]["claimRef"], &device["metadata"]["finalizers"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(device["status"]["state"], "Active");
    // Cleared by somebody, it is to be had again.
    cluster.publish("disk", 11 * GI, "NothingFound").await;
    cluster.device_is("disk", "claimState", "Unclaimed").await;
    for reason in ["BlockDeviceClaimed", "BlockDeviceReleased", "InUse"] {
        assert_eq!(cluster.events(reason).await.len(), 1, "{reason}");
    }
}

#[tokio::test]
async fn a_claim_by_size_gets_the_smallest_that_fits_and_says_why_not() {
    let cluster = Cluster::new().await;
    let running = cluster.run();
    cluster.claim("mine", size("10Gi")).await;
    let claim = cluster.is("mine", "Pending", "NoDeviceFits").await;
    assert!(
        bound(&claim)["message"]
            .as_str()
            .unwrap()
            .starts_with("There is no BlockDevice"),
        "{claim}"
    );
    cluster.publish("small", 5 * GI, "NothingFound").await;
    cluster.publish("formatted", 20 * GI, "FileSystem").await;
    until("every device has its reason", async || {
        let claim = json!(cluster.claims.get("mine").await.unwrap());
        let expected = "No BlockDevice fits. not blank (FileSystem): formatted; smaller than 10Gi: small";
        (bound(&claim)["message"] == expected).then_some(())
    })
    .await;
    // Disks that come while nobody looks are there all at once for the next process.
    drop(running);
    for (name, size) in [("large", 40), ("twin", 20), ("middle", 20)] {
        cluster.publish(name, size * GI, "NothingFound").await;
    }
    let _running = cluster.run();
    let claim = cluster.is("mine", "Bound", "DeviceBound").await;
    assert_eq!(claim["spec"]["blockDeviceName"], "middle");
    assert_eq!(
        claim["status"]["observedGeneration"],
        claim["metadata"]["generation"]
    );
    cluster.claim("nonsense", size("0")).await;
    cluster
        .is("nonsense", "Invalid Capacity Request", "InvalidRequest")
        .await;
}

#[tokio::test]
async fn of_many_claims_each_disk_has_one() {
    let cluster = Cluster::new().await;
    let _running = cluster.run();
    let disks = ["a", "b", "c"];
    for disk in disks {
        cluster.publish(disk, 10 * GI, "NothingFound").await;
    }
    let claims: Vec<String> = (0..6).map(|number| format!("claim-{number}")).collect();
    for (number, claim) in claims.iter().enumerate() {
        let spec = if number % 2 == 0 {
            size("1Gi")
        } else {
            json!({"blockDeviceName": "b"})
        };
        cluster.claim(claim, spec).await;
    }
    let settled = async || {
        let list = cluster.claims.list(&ListParams::default()).await.unwrap().items;
        let phases: Vec<Value> = list
            .iter()
            .map(|claim| json!(claim)["status"]["phase"].clone())
            .collect();
        let count = |phase: &str| phases.iter().filter(|known| **known == phase).count();
        (count("Bound") == 3 && count("Pending") == 3).then_some(list)
    };
    let list = until("three have a disk and three have not", settled).await;
    let mut owners = Vec::new();
    for disk in disks {
        owners.push(
            cluster.device(disk).await["spec"]["claimRef"]["name"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    for claim in list.iter().map(|claim| json!(claim)) {
        let name = claim["metadata"]["name"].as_str().unwrap();
        let has = owners.iter().filter(|owner| *owner == name).count();
        assert_eq!(has == 1, claim["status"]["phase"] == "Bound", "{claim}");
        let number: usize = name.trim_start_matches("claim-").parse().unwrap();
        if has == 0 && number % 2 == 1 {
            let message = format!(
                "b is claimed by BlockDeviceClaim {}/{}",
                cluster.namespace, owners[1]
            );
            assert_eq!(bound(&claim)["message"], message.as_str());
        }
    }
}

#[tokio::test]
async fn what_is_to_be_left_alone_is() {
    let cluster = Cluster::new().await;
    let _running = cluster.run();
    cluster.publish("disk", GI, "NothingFound").await;
    cluster.publish("untouched", GI, "NothingFound").await;
    let alone = json!({"annotations": {"openebs.io/reconcile": "false"}});
    let patch = Patch::Merge(json!({"metadata": alone.clone()}));
    cluster
        .devices
        .patch("untouched", &PatchParams::default(), &patch)
        .await
        .unwrap();
    cluster
        .claim_with("alone", json!({"blockDeviceName": "disk"}), alone)
        .await;
    cluster.claim("other", json!({"blockDeviceName": "disk"})).await;
    cluster.is("other", "Bound", "DeviceBound").await;
    let claim = json!(cluster.claims.get("alone").await.unwrap());
    assert_eq!(
        (&claim["status"], &claim["metadata"]["finalizers"]),
        (&Value::Null, &Value::Null)
    );
    cluster
        .claim("wants-it", json!({"blockDeviceName": "untouched"}))
        .await;
    cluster.is("wants-it", "Pending", "NoDeviceFits").await;
    assert_eq!(cluster.device("untouched").await["spec"]["claimRef"], Value::Null);
    cluster.delete("alone").await;
    cluster.gone("alone").await;
}

#[tokio::test]
async fn a_claim_removed_by_force_leaves_no_disk_behind() {
    let cluster = Cluster::new().await;
    let _running = cluster.run();
    cluster.publish("disk", GI, "ForeignPool").await;
    let kept = json!({"finalizers": ["test.cstor.io/keep"]});
    cluster
        .claim_with("forced", json!({"blockDeviceName": "disk"}), kept)
        .await;
    cluster.is("forced", "Bound", "DeviceBound").await;
    // A person deletes the BlockDevice, too. It stays while it is claimed.
    cluster
        .devices
        .delete("disk", &DeleteParams::default())
        .await
        .unwrap();
    until("it says why it stays", async || {
        (!cluster.events("BlockDeviceHeld").await.is_empty()).then_some(())
    })
    .await;
    cluster.delete("forced").await;
    let force = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    cluster
        .claims
        .patch("forced", &PatchParams::default(), &force)
        .await
        .unwrap();
    until("the device is let go", async || {
        cluster
            .devices
            .get_opt("disk")
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
    // Once more, with a disk that stays.
    cluster.publish("disk", GI, "ForeignPool").await;
    let kept = json!({"finalizers": ["test.cstor.io/keep"]});
    cluster
        .claim_with("forced", json!({"blockDeviceName": "disk"}), kept)
        .await;
    cluster.is("forced", "Bound", "DeviceBound").await;
    cluster.delete("forced").await;
    cluster
        .claims
        .patch("forced", &PatchParams::default(), &force)
        .await
        .unwrap();
    let device = cluster.device_is("disk", "claimState", "Released").await;
    assert_eq!(
        (&device["spec"]["claimRef"], &device["metadata"]["finalizers"]),
        (&Value::Null, &Value::Null)
    );
    // Its successor of the same name has it.
    cluster.claim("forced", json!({"blockDeviceName": "disk"})).await;
    cluster.is("forced", "Bound", "DeviceBound").await;
}

#[tokio::test]
async fn nothing_is_known_of_the_disks_of_a_silent_node() {
    let cluster = Cluster::new().await;
    cluster.beat(3).await;
    cluster.publish("disk", GI, "NothingFound").await;
    cluster.publish("pulled", GI, "NothingFound").await;
    let inactive = Patch::Merge(json!({"status": {"state": "Inactive"}}));
    cluster
        .devices
        .patch_status("pulled", &PatchParams::default(), &inactive)
        .await
        .unwrap();
    let _running = cluster.run();
    let device = cluster.device_is("disk", "state", "Unknown").await;
    assert_eq!(
        device["status"]["conditions"][0]["reason"], "NothingFound",
        "the rest is the agent's"
    );
    assert_eq!(cluster.device("pulled").await["status"]["state"], "Inactive");
    until("it is told", async || {
        (!cluster.events("AgentSilent").await.is_empty()).then_some(())
    })
    .await;

    // The agent is back, with a Lease that does not run out during this test, and says what it sees.
    cluster.beat(3600).await;
    cluster.publish("disk", GI, "NothingFound").await;
    cluster.claim("mine", json!({"blockDeviceName": "disk"})).await;
    cluster.is("mine", "Bound", "DeviceBound").await;
    assert_eq!(cluster.device("disk").await["status"]["state"], "Active");

    // The node is gone, and its Lease with it.
    let leases: Api<Lease> = Api::namespaced(cluster.admin.clone(), &cluster.namespace);
    let lease = format!("{AGENT_PREFIX}{}", cluster.node);
    cluster
        .nodes()
        .delete(&cluster.node, &DeleteParams::default())
        .await
        .unwrap();
    leases.delete(&lease, &DeleteParams::default()).await.unwrap();
    // Nothing wakes the device before its Lease would have expired, but a change of its own.
    let touch = Patch::Merge(json!({"metadata": {"labels": {"touched": "yes"}}}));
    cluster
        .devices
        .patch("disk", &PatchParams::default(), &touch)
        .await
        .unwrap();
    cluster.device_is("disk", "state", "Unknown").await;
    cluster.is("mine", "Bound", "DeviceBound").await;
}

/// By the objects' versions, over many resyncs.
#[tokio::test]
async fn idle_is_no_writes() {
    let cluster = Cluster::new().await;
    cluster.beat(3600).await;
    for disk in ["a", "b"] {
        cluster.publish(disk, GI, "NothingFound").await;
    }
    let services = Services::new(cluster.account.clone(), PROGRAM, "process-1");
    let resync = Duration::from_millis(300);
    let (client, namespace) = (cluster.account.clone(), &cluster.namespace);
    let claims = Running::start(
        claim::engine(client.clone(), namespace).resync(resync),
        services.clone(),
    );
    let devices = Running::start(
        device::engine(client.clone(), namespace).resync(resync),
        services.clone(),
    );
    let silence = Running::start(silence::engine(client, namespace).resync(resync), services);
    cluster.claim("mine", json!({"blockDeviceName": "a"})).await;
    cluster.claim("waits", size("1Ti")).await;
    cluster.is("mine", "Bound", "DeviceBound").await;
    cluster.is("waits", "Pending", "NoDeviceFits").await;
    cluster.device_is("b", "claimState", "Unclaimed").await;
    let versions = async || {
        let list = ListParams::default();
        let claims = cluster
            .claims
            .list(&list)
            .await
            .unwrap()
            .items
            .into_iter()
            .map(|claim| claim.metadata);
        let devices = cluster
            .devices
            .list(&list)
            .await
            .unwrap()
            .items
            .into_iter()
            .map(|device| device.metadata);
        let all: Vec<_> = claims
            .chain(devices)
            .map(|metadata| (metadata.name, metadata.resource_version))
            .collect();
        all
    };
    let all = [&claims.metrics, &devices.metrics, &silence.metrics];
    let later = async |resyncs: u64| {
        let wanted: Vec<u64> = all.iter().map(|metrics| metrics.resyncs() + resyncs).collect();
        until("resyncs", async || {
            let enough = all
                .iter()
                .zip(&wanted)
                .all(|(metrics, wanted)| metrics.resyncs() >= *wanted);
            enough.then_some(())
        })
        .await;
    };
    later(3).await;
    let before = versions().await;
    later(10).await;
    assert_eq!(versions().await, before);
}
