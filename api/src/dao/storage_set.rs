//! CStorClusterStorageSet: the disks of one node.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ExternalProvisioner, PlannedNode};
use crate::names::phase::PlanPhase;
use crate::quantity::{IS_DISK_SIZE, ONLY_GROWS};
use crate::resource::{AGE, Column, custom_resource};
use crate::schema::rules;
use crate::{Condition, Quantity};

custom_resource! {
    /// The disks one node of a CStorClusterPlan needs for its pool.
    pub struct CStorClusterStorageSet {
        group: "dao.mayadata.io",
        version: "v1alpha1",
        plural: "cstorclusterstoragesets",
        short: "cscstorageset",
        columns: [
            Column::text("Node", ".spec.node.name", "The node"),
            Column::number("Disks", ".spec.disk.count", "The number of disks"),
            Column::text("Capacity", ".spec.disk.capacity", "The size of each disk"),
            Column::text("Status", ".status.phase", "How the planner fares"),
            AGE,
        ],
        selectable: [],
        rules: [],
    }
    spec: CStorClusterStorageSetSpec,
    status: CStorClusterStorageSetStatus,
}

/// The disks wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CStorClusterStorageSetSpec {
    /// The node. Changes when the disks move to another.
    pub node: PlannedNode,
    /// The number and size of the disks.
    pub disk: DiskRequest,
    /// Who makes the disks. Cannot be changed.
    #[schemars(extend("x-kubernetes-validations" = rules([
        (
            "self == oldSelf",
            "Disks that were made cannot change their maker: put externalProvisioner back.",
        ),
    ])))]
    pub external_provisioner: ExternalProvisioner,
}

/// The number and size of disks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiskRequest {
    /// The size of each disk. It can grow.
    #[schemars(extend("x-kubernetes-validations" = rules([
        IS_DISK_SIZE,
        ONLY_GROWS,
    ])))]
    pub capacity: Quantity,
    /// The number of disks. It can grow.
    #[schemars(range(min = 1, max = 600))]
    #[schemars(extend("x-kubernetes-validations" = rules([
        (
            "self >= oldSelf",
            "Disks cannot be taken out of a pool: write a count that is not less than before.",
        ),
    ])))]
    pub count: i32,
}

/// What became of the disks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CStorClusterStorageSetStatus {
    /// How the planner fares, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PlanPhase>,
    /// What is the case with the disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// The number of disks that are attached and known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_disks: Option<i32>,
    /// The generation of the object this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
