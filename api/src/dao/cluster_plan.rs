//! CStorClusterPlan: which nodes have a pool.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Condition;
use crate::names::phase::PlanPhase;
use crate::resource::{AGE, Column, custom_resource};

custom_resource! {
    /// The nodes chosen for the pools of a CStorClusterConfig, whose name it has.
    pub struct CStorClusterPlan {
        group: "dao.mayadata.io",
        version: "v1alpha1",
        plural: "cstorclusterplans",
        short: "cscplan",
        columns: [Column::text("Status", ".status.phase", "How the planner fares"), AGE],
        selectable: [],
        rules: [],
    }
    spec: CStorClusterPlanSpec,
    status: CStorClusterPlanStatus,
}

/// The nodes chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CStorClusterPlanSpec {
    /// One entry a node that must have a pool.
    #[schemars(length(max = 64))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub nodes: Vec<PlannedNode>,
}

/// A node of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedNode {
    /// The name of the Node.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The UID of the Node: another Node of the same name is another node.
    #[schemars(length(min = 1, max = 253))]
    pub uid: String,
}

/// What became of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CStorClusterPlanStatus {
    /// How the planner fares, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PlanPhase>,
    /// What is the case with the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// The generation of the object this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
