//! Pools on real ZFS and real disks: made, found again, mended, grown, moved and destroyed by CStorPoolInstances.

mod grown;
mod life;
mod mended;
mod refused;

use std::time::Duration;

use cstor_api::cstor::CStorPoolInstance;
use cstor_api::names::phase::PoolPhase;
use cstor_harness::cluster::Cluster;
use cstor_harness::deploy::Installation;
use cstor_harness::disk::Disk;
use cstor_harness::node::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::{Value, json};

use crate::published::Objects;

const NAMESPACE: &str = "openebs";

/// How long a change may take to be told, on an emulated node that shares two processors with others. What a person is
/// promised is seconds.
const TOLD_WITHIN: Duration = Duration::from_secs(240);

/// A node with the product, and disks.
struct Stage {
    cluster: Cluster,
    installation: Installation,
    objects: Objects,
    pools: Api<CStorPoolInstance>,
}

impl Stage {
    async fn new(name: &str) -> Self {
        let cluster = Cluster::start(name, 1).await.unwrap();
        let installation = cluster.install().await.unwrap();
        let client = installation.client().await.unwrap();
        Self {
            objects: Objects::new(&client),
            pools: Api::namespaced(client, NAMESPACE),
            cluster,
            installation,
        }
    }

    fn node(&mut self) -> &mut Node {
        self.cluster.node(0)
    }

    /// Plugs blank disks, and returns them with the names of their BlockDevices.
    async fn disks(&mut self, size: &str, serials: &[&str]) -> Vec<(Disk, String)> {
        let mut disks = Vec::new();
        for serial in serials {
            disks.push(self.node().plug_disk(size, serial).await.unwrap());
        }
        let mut named = Vec::new();
        for (disk, serial) in disks.into_iter().zip(serials) {
            named.push((disk, self.objects.blank(serial).await));
        }
        named
    }

    async fn create(&self, name: &str, spec: Value) {
        let object = instance(name, spec);
        self.pools.create(&PostParams::default(), &object).await.unwrap();
    }

    async fn patch(&self, name: &str, patch: Value) {
        let params = PatchParams::default();
        self.pools
            .patch(name, &params, &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    /// Waits until the pool says something.
    async fn until(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&CStorPoolInstance) -> bool,
    ) -> CStorPoolInstance {
        let told = await_condition(self.pools.clone(), name, |object: Option<&CStorPoolInstance>| {
            object.is_some_and(&holds)
        });
        match tokio::time::timeout(TOLD_WITHIN, told).await {
            Ok(object) => object.unwrap().unwrap(),
            Err(_) => {
                let object = self.pools.get_opt(name).await.unwrap();
                panic!(
                    "{name} never was {what}: {}",
                    serde_json::to_string_pretty(&object).unwrap()
                );
            }
        }
    }

    async fn online(&self, name: &str) -> CStorPoolInstance {
        self.until(name, "online", |pool| {
            is_in(pool, &PoolPhase::Online) && is_observed(pool)
        })
        .await
    }

    /// Deletes an instance, and waits until it is gone.
    async fn delete(&self, name: &str) {
        let object = self.pools.get(name).await.unwrap();
        self.pools.delete(name, &DeleteParams::default()).await.unwrap();
        let gone = await_condition(
            self.pools.clone(),
            name,
            conditions::is_deleted(object.metadata.uid.as_deref().unwrap()),
        );
        if tokio::time::timeout(TOLD_WITHIN, gone).await.is_err() {
            let object = self.pools.get_opt(name).await.unwrap();
            panic!(
                "{name} was never gone: {}",
                serde_json::to_string_pretty(&object).unwrap()
            );
        }
    }

    /// A volume with data in the pool, made by hand, and the checksum of the data.
    async fn fill(&mut self, pool: &CStorPoolInstance, mebibytes: u32) -> String {
        let name = pool_name(pool);
        let script = format!(
            "zfs create -V {mebibytes}M -s {name}/data && udevadm settle && \
             dd if=/dev/urandom of=/dev/zvol/{name}/data bs=1M count={mebibytes} oflag=direct status=none && zpool sync {name}"
        );
        self.node().sh(&script).await.unwrap();
        self.checksum(pool).await
    }

    async fn checksum(&mut self, pool: &CStorPoolInstance) -> String {
        let name = pool_name(pool);
        let script =
            format!("udevadm settle; dd if=/dev/zvol/{name}/data bs=1M iflag=direct status=none | md5sum");
        self.node().sh(&script).await.unwrap().trim().to_owned()
    }
}

fn instance(name: &str, spec: Value) -> CStorPoolInstance {
    serde_json::from_value(json!({
        "apiVersion": "cstor.openebs.io/v1",
        "kind": "CStorPoolInstance",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": spec,
    }))
    .unwrap()
}

/// A pool on the first node, of these data groups.
fn spec(kind: &str, groups: &[&[&str]]) -> Value {
    json!({
        "hostName": "node-1",
        "nodeSelector": { "kubernetes.io/hostname": "node-1" },
        "poolConfig": { "dataRaidGroupType": kind },
        "dataRaidGroups": data(groups),
    })
}

fn data(groups: &[&[&str]]) -> Value {
    groups
        .iter()
        .map(|devices| json!({ "blockDevices": named(devices) }))
        .collect()
}

fn named(devices: &[&str]) -> Value {
    devices
        .iter()
        .map(|name| json!({ "blockDeviceName": name }))
        .collect()
}

fn is_in(pool: &CStorPoolInstance, phase: &PoolPhase) -> bool {
    pool.status.as_ref().and_then(|status| status.phase.as_ref()) == Some(phase)
}

fn is_observed(pool: &CStorPoolInstance) -> bool {
    let observed = pool.status.as_ref().and_then(|status| status.observed_generation);
    observed == pool.metadata.generation
}

/// Whether a condition says this, as (status, reason).
fn says(pool: &CStorPoolInstance, kind: &str, status: &str, reason: &str) -> bool {
    let conditions = pool
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions.clone().any(|condition| {
        condition.type_ == kind
            && condition.status.as_str() == status
            && condition.reason.as_deref() == Some(reason)
    })
}

fn message<'a>(pool: &'a CStorPoolInstance, kind: &str) -> &'a str {
    let conditions = pool
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let found = conditions.clone().find(|condition| condition.type_ == kind);
    found
        .and_then(|condition| condition.message.as_deref())
        .unwrap_or_default()
}

fn pool_name(pool: &CStorPoolInstance) -> String {
    pool.status.as_ref().unwrap().pool_name.clone().unwrap()
}

fn pool_guid(pool: &CStorPoolInstance) -> String {
    pool.status.as_ref().unwrap().pool_guid.clone().unwrap()
}

/// The states of the devices, by the name of the BlockDevice.
fn states(pool: &CStorPoolInstance) -> std::collections::BTreeMap<String, String> {
    let vdevs = pool
        .status
        .iter()
        .flat_map(|status| status.vdevs.iter().flatten());
    vdevs
        .filter_map(|vdev| Some((vdev.block_device_name.clone()?, vdev.state.clone())))
        .collect()
}

fn total(pool: &CStorPoolInstance) -> u64 {
    let capacity = pool.status.as_ref().unwrap().capacity.as_ref().unwrap();
    capacity.total.bytes().unwrap().0
}
