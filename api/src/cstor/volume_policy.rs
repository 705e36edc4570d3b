//! CStorVolumePolicy: how volumes are made and served.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodAffinity, Toleration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::resource::custom_resource;
use crate::schema::{Rule, rules};
use crate::{Condition, ResourceRequirements};

/// The rule of the block size of a volume and of its replicas.
pub(super) const BLOCK_SIZE: Rule = (
    "self in [0, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072]",
    "The block size of a volume is a power of two from 512 to 131072 bytes: write one of these, or 0 for the usual one.",
);

custom_resource! {
    /// How volumes are made and served. A StorageClass names one.
    pub struct CStorVolumePolicy {
        group: "cstor.openebs.io",
        version: "v1",
        plural: "cstorvolumepolicies",
        short: "cvp",
        columns: [],
        selectable: [],
        rules: [],
    }
    spec: CStorVolumePolicySpec,
    status: CStorVolumePolicyStatus,
}

/// How a volume is made and served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CStorVolumePolicySpec {
    /// Where and how replicas are made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provision: Option<ProvisionPolicy>,
    /// How the volume is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetPolicy>,
    /// How replicas work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<ReplicaPolicy>,
    /// The pools that hold the replicas; chosen by the system if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[schemars(extend("x-kubernetes-validations" = rules([
        (
            "self.all(p, self.exists_one(q, q.poolName == p.poolName))",
            "A pool can hold one replica of a volume: name each pool once in replicaPoolInfo.",
        ),
    ])))]
    pub replica_pool_info: Option<Vec<ReplicaPool>>,
}

/// Where and how replicas are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisionPolicy {
    /// Whether one replica should be on the node that uses the volume.
    pub replica_affinity: bool,
    /// The block size of the volume in bytes; 0 or absent for the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules([BLOCK_SIZE])))]
    pub block_size: Option<u32>,
}

/// How a volume is served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetPolicy {
    /// I/O requests that may wait at the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<String>,
    /// Threads that work on them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1024))]
    pub lu_workers: Option<i64>,
    /// Whether to export metrics of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor: Option<bool>,
    /// The number of replicas that may connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 64))]
    pub replication_factor: Option<i64>,
    /// CPU and memory of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// CPU and memory of the containers beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aux_resources: Option<ResourceRequirements>,
    /// Tolerations of the target's pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,
    /// Pods the target's pod should be close to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<PodAffinity>,
    /// Labels of the nodes the target's pod may run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Priority class of the target's pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
}

/// How replicas work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaPolicy {
    /// The number of I/O threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zvol_workers: Option<String>,
    /// How data is compressed; that of the pool if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<String>,
}

/// A pool that holds a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaPool {
    /// The name of the CStorPoolInstance.
    #[schemars(length(max = 253))]
    pub pool_name: String,
}

/// What became of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CStorVolumePolicyStatus {
    /// Its state in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// What is the case with the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// The generation of the object this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
