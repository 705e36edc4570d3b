//! CStorVolumeConfig: the request for a volume.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CStorVolumePolicySpec, VersionDetails};
use crate::names::phase::VolumeConfigPhase;
use crate::quantity::{ARE_QUANTITIES, STORAGE_ONLY_GROWS};
use crate::resource::{AGE, Column, custom_resource};
use crate::schema::rules;
use crate::{Condition, Quantity, Timestamp};

custom_resource! {
    /// The request for a volume. The CSI driver writes it; volume, replicas and target follow from it.
    pub struct CStorVolumeConfig {
        group: "cstor.openebs.io",
        version: "v1",
        plural: "cstorvolumeconfigs",
        short: "cvc",
        columns: [
            Column::text("Capacity", ".status.capacity.storage", "The size of the volume"),
            Column::text("Status", ".status.phase", "How far the making of the volume is"),
            AGE,
        ],
        selectable: [],
        rules: [],
    }
    spec: CStorVolumeConfigSpec,
    status: CStorVolumeConfigStatus,
    beside: {
        /// Where the volume is used.
        publish ("publish"): Publish,
        /// The release this object belongs to.
        version_details ("versionDetails"): VersionDetails,
    }
}

/// The volume wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules([
    (
        "!has(oldSelf.policy.replicaPoolInfo) || oldSelf.policy.replicaPoolInfo.size() == 0 || \
         (has(self.policy.replicaPoolInfo) && (oldSelf.policy.replicaPoolInfo.all(o, \
         self.policy.replicaPoolInfo.exists(p, p.poolName == o.poolName)) || \
         (self.policy.replicaPoolInfo.size() == oldSelf.policy.replicaPoolInfo.size() - 1 && \
         self.policy.replicaPoolInfo.all(p, oldSelf.policy.replicaPoolInfo.exists(o, o.poolName == p.poolName)))))",
        "Replicas are taken away one at a time, and not in the same step as others are added: to move one, add the new pool to \
         policy.replicaPoolInfo, wait until its replica is Healthy, then remove the old pool.",
    ),
])))]
pub struct CStorVolumeConfigSpec {
    /// The size of the volume, under the key storage. It can grow.
    #[schemars(extend("maxProperties" = 8))]
    #[schemars(extend("x-kubernetes-validations" = rules([
        ARE_QUANTITIES,
        STORAGE_ONLY_GROWS,
    ])))]
    pub capacity: BTreeMap<String, Quantity>,
    /// The CStorVolume made for this request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cstor_volume_ref: Option<ObjectReference>,
    /// For a clone: volume and snapshot it is made from, as volume@snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cstor_volume_source: Option<String>,
    /// What the volume was first made with. Cannot be changed.
    #[schemars(extend("x-kubernetes-validations" = rules([
        (
            "self == oldSelf",
            "What a volume was made with cannot be changed: put provision back. \
             Grow a volume by spec.capacity, change its replicas by spec.policy.replicaPoolInfo.",
        ),
    ])))]
    pub provision: VolumeProvision,
    /// How the volume is made and served.
    pub policy: CStorVolumePolicySpec,
}

/// What a volume was first made with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeProvision {
    /// Its first size, under the key storage.
    #[schemars(extend("maxProperties" = 8))]
    #[schemars(extend("x-kubernetes-validations" = rules([ARE_QUANTITIES])))]
    pub capacity: BTreeMap<String, Quantity>,
    /// Its first number of replicas.
    #[schemars(range(min = 1, max = 64))]
    pub replica_count: i64,
}

/// Where a volume is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Publish {
    /// The node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
}

/// The volume there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CStorVolumeConfigStatus {
    /// How far the making of the volume is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<VolumeConfigPhase>,
    /// The names of the CStorPoolInstances that hold replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_info: Option<Vec<String>>,
    /// The size of the volume, under the key storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<BTreeMap<String, Quantity>>,
    /// What cStor 3.6 wrote about growing the volume. We write `conditions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Vec<VolumeConfigCondition>>,
    /// What is the case with the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// The generation of the object this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A condition as cStor 3.6 wrote it here: without a status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeConfigCondition {
    /// What the condition is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// When it was last looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Timestamp>,
    /// When it last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
    /// One word that says why.
    pub reason: String,
    /// A sentence that says why.
    pub message: String,
}
