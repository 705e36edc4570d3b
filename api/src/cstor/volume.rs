//! CStorVolume: a volume as its target sees it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::VersionDetails;
use crate::names::phase::VolumePhase;
use crate::quantity::IS_QUANTITY;
use crate::resource::{AGE, Column, custom_resource};
use crate::schema::rules;
use crate::{Condition, Quantity, Timestamp};

custom_resource! {
    /// A volume: what its target serves, and the replicas behind it.
    pub struct CStorVolume {
        group: "cstor.openebs.io",
        version: "v1",
        plural: "cstorvolumes",
        short: "cv",
        columns: [
            Column::text("Capacity", ".status.capacity", "The size of the volume"),
            Column::text("Status", ".status.phase", "The state of the volume"),
            AGE,
        ],
        selectable: [],
        rules: [],
    }
    spec: CStorVolumeSpec,
    status: CStorVolumeStatus,
    beside: {
        /// The release this object belongs to.
        version_details ("versionDetails"): VersionDetails,
    }
}

/// The volume wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules([
    (
        "!has(self.consistencyFactor) || !has(self.replicationFactor) || self.consistencyFactor <= self.replicationFactor",
        "No write could ever succeed: consistencyFactor must not be more than replicationFactor.",
    ),
])))]
pub struct CStorVolumeSpec {
    /// The size of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules([IS_QUANTITY])))]
    pub capacity: Option<Quantity>,
    /// The IP address of the target.
    #[serde(default, rename = "targetIP", skip_serializing_if = "Option::is_none")]
    pub target_ip: Option<String>,
    /// The port of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_port: Option<String>,
    /// The iSCSI name of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iqn: Option<String>,
    /// Address and port of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_portal: Option<String>,
    /// The number of replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 64))]
    pub replication_factor: Option<i64>,
    /// The number of replicas that must have a write before it succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 64))]
    pub consistency_factor: Option<i64>,
    /// The number of replicas there should be once scaling is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 64))]
    pub desired_replication_factor: Option<i64>,
    /// The replicas the target may trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_details: Option<ReplicaDetails>,
}

/// The replicas of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaDetails {
    /// The GUID of each replica's zvol, by the id of the replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_replicas: Option<BTreeMap<String, String>>,
}

/// The volume there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CStorVolumeStatus {
    /// The state of the volume in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<VolumePhase>,
    /// The state of each replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_statuses: Option<Vec<ReplicaStatus>>,
    /// The size of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Quantity>,
    /// When the phase last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
    /// When this status was last written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Timestamp>,
    /// What else there is to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What is the case with the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// The replicas the target trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_details: Option<ReplicaDetails>,
    /// The generation of the object this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The state of one replica, as the target sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaStatus {
    /// The id of the replica.
    pub replica_id: String,
    /// The state of the replica in one word.
    pub mode: String,
    /// The number of the last write known to be on its disks.
    #[serde(rename = "checkpointedIOSeq")]
    pub checkpointed_io_seq: String,
    /// Reads under way.
    pub inflight_read: String,
    /// Writes under way.
    pub inflight_write: String,
    /// Flushes under way.
    pub inflight_sync: String,
    /// Seconds since it connected.
    pub up_time: i64,
    /// 1 if its data counts, 0 if it is still to be rebuilt.
    pub quorum: String,
}
