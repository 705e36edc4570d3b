//! Storage: one disk from a provisioner.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::phase::StoragePhase;
use crate::quantity::{IS_DISK_SIZE, ONLY_GROWS};
use crate::resource::{AGE, Column, custom_resource};
use crate::schema::rules;
use crate::{Condition, Quantity};

custom_resource! {
    /// A disk that a provisioner makes and that is attached to a node.
    pub struct Storage {
        group: "dao.mayadata.io",
        version: "v1alpha1",
        plural: "storages",
        short: "stor",
        columns: [
            Column::text("Capacity", ".spec.capacity", "The size of the disk"),
            Column::text("NodeName", ".spec.nodeName", "The node of the disk"),
            Column::text("Status", ".status.phase", "How far the disk is"),
            AGE,
        ],
        selectable: [".spec.nodeName"],
        rules: [],
    }
    spec: StorageSpec,
    status: StorageStatus,
}

/// The disk wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageSpec {
    /// The size of the disk. It can grow.
    #[schemars(extend("x-kubernetes-validations" = rules([
        IS_DISK_SIZE,
        ONLY_GROWS,
    ])))]
    pub capacity: Quantity,
    /// The node of the disk. Changes when the disk moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node_name: Option<String>,
}

/// The disk there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageStatus {
    /// How far the disk is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<StoragePhase>,
    /// What is the case with the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// The PersistentVolumeClaim the disk was asked for by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_name: Option<String>,
    /// The PersistentVolume the disk is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_name: Option<String>,
    /// The VolumeAttachment that brings the disk to its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_attachment_name: Option<String>,
    /// The BlockDevice the disk appears as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_device_name: Option<String>,
    /// The generation of the object this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
