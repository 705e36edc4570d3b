//! CStorVolumeReplica: one copy of a volume's data, in one pool.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::VersionDetails;
use super::pool_rules::COMPRESSION;
use super::volume_policy::BLOCK_SIZE;
use crate::names::phase::ReplicaPhase;
use crate::quantity::IS_QUANTITY_OR_EMPTY;
use crate::resource::{AGE, Column, custom_resource};
use crate::schema::rules;
use crate::{Condition, Timestamp};

custom_resource! {
    /// One copy of a volume's data, in one pool.
    pub struct CStorVolumeReplica {
        group: "cstor.openebs.io",
        version: "v1",
        plural: "cstorvolumereplicas",
        short: "cvr",
        columns: [
            Column::text("Allocated", ".status.capacity.total", "Space the replica takes in its pool"),
            Column::text("Used", ".status.capacity.used", "Data in the replica"),
            Column::text("Status", ".status.phase", "The state of the replica"),
            AGE,
        ],
        selectable: [],
        rules: [],
    }
    spec: CStorVolumeReplicaSpec,
    status: CStorVolumeReplicaStatus,
    beside: {
        /// The release this object belongs to.
        version_details ("versionDetails"): VersionDetails,
    }
}

/// The replica wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules([
    (
        "!has(oldSelf.replicaid) || oldSelf.replicaid == '' || (has(self.replicaid) && self.replicaid == oldSelf.replicaid)",
        "The id of a replica cannot be changed or removed once set, because the volume knows it by that: put replicaid back.",
    ),
])))]
pub struct CStorVolumeReplicaSpec {
    /// The IP address of the volume's target.
    #[serde(default, rename = "targetIP", skip_serializing_if = "Option::is_none")]
    pub target_ip: Option<String>,
    /// The size of the replica. A text, because cStor 3.6 wrote 5G where it meant 5Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[schemars(extend("x-kubernetes-validations" = rules([IS_QUANTITY_OR_EMPTY])))]
    pub capacity: Option<String>,
    /// The number of I/O threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zvol_workers: Option<String>,
    /// The id of the replica in its volume. Cannot be changed once set.
    #[serde(default, rename = "replicaid", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub replica_id: Option<String>,
    /// How data is compressed; that of the pool if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[schemars(extend("x-kubernetes-validations" = rules([COMPRESSION])))]
    pub compression: Option<String>,
    /// The block size of the replica in bytes; 0 or absent for the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules([BLOCK_SIZE])))]
    pub block_size: Option<u32>,
}

/// The replica there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CStorVolumeReplicaStatus {
    /// The state of the replica in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ReplicaPhase>,
    /// The space the replica takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<ReplicaCapacity>,
    /// When the phase last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
    /// When this status was last written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Timestamp>,
    /// What else there is to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The snapshots in the replica, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<BTreeMap<String, SnapshotInfo>>,
    /// The snapshots that other replicas have and this one does not have yet, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_snapshots: Option<BTreeMap<String, SnapshotInfo>>,
    /// What is the case with the replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// The generation of the object this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The space a replica takes, as texts: cStor 3.6 wrote ZFS's rounded figures, such as 1.26G.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaCapacity {
    /// Space taken in the pool.
    pub total: String,
    /// Data in the replica, before compression.
    pub used: String,
}

/// A snapshot of a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotInfo {
    /// Data in the snapshot in bytes, before compression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_referenced: Option<u64>,
}
