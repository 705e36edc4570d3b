//! CStorPoolCluster: the pools a user wants, one a node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pool_layout::{self, DeviceClass, PoolConfig, PoolDevice, RaidGroup};
use super::{VersionDetails, pool_rules};
use crate::resource::{AGE, Column, custom_resource};
use crate::schema::rules;
use crate::{Condition, ResourceRequirements};

custom_resource! {
    /// Pools on one or more nodes that belong together: the replicas of a volume are spread over them.
    pub struct CStorPoolCluster {
        group: "cstor.openebs.io",
        version: "v1",
        plural: "cstorpoolclusters",
        short: "cspc",
        columns: [
            Column::number("HealthyInstances", ".status.healthyInstances", "Pools that are online"),
            Column::number("ProvisionedInstances", ".status.provisionedInstances", "Pools that exist"),
            Column::number("DesiredInstances", ".status.desiredInstances", "Pools that are wanted"),
            AGE,
        ],
        selectable: [],
        rules: [],
    }
    spec: CStorPoolClusterSpec,
    status: CStorPoolClusterStatus,
    beside: {
        /// The release this object belongs to.
        version_details ("versionDetails"): VersionDetails,
    }
}

/// The pools wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules([
    pool_rules::CLUSTER_DEVICES_ONCE,
    pool_rules::ONE_POOL_A_NODE,
    pool_rules::CLUSTER_RAID_TYPE_KEPT,
    pool_rules::CLUSTER_ASHIFT_KEPT,
    pool_rules::CLUSTER_DRAID_KEPT,
    pool_rules::CLUSTER_DRAID_GROUPS_KEPT,
    pool_rules::CLUSTER_GROUPS_KEPT,
    pool_rules::CLUSTER_WRITE_CACHE_TYPE_KEPT,
])))]
pub struct CStorPoolClusterSpec {
    /// One entry a pool. Each node has at most one pool of a cluster.
    #[schemars(length(min = 1, max = 64))]
    pub pools: Vec<PoolSpec>,
    /// CPU and memory of the containers that ran the pools in cStor 3.6. Nothing reads it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// CPU and memory of the containers beside them. Nothing reads it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aux_resources: Option<ResourceRequirements>,
    /// Tolerations of the pods that ran the pools. Nothing reads it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,
    /// Priority class of the pods that ran the pools. Nothing reads it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
}

/// One pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules([
    pool_rules::DATA_GROUP_SIZE,
    pool_rules::DRAID_GROUP_SIZE,
    pool_rules::WRITE_CACHE_TYPE,
    pool_rules::WRITE_CACHE_GROUP_SIZE,
    pool_rules::SPECIAL_TYPE,
    pool_rules::SPECIAL_GROUP_SIZE,
])))]
pub struct PoolSpec {
    /// Labels that select the one node of the pool, normally kubernetes.io/hostname. Change it to
    /// move the pool after its disks have been moved.
    #[schemars(transform = pool_layout::node_labels)]
    #[schemars(extend("x-kubernetes-validations" = rules([pool_rules::NODE_SELECTED])))]
    pub node_selector: BTreeMap<String, String>,
    /// The groups of devices that hold the data.
    #[schemars(length(min = 1, max = 60))]
    pub data_raid_groups: Vec<RaidGroup>,
    /// The groups of devices that take synchronous writes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), transform = pool_layout::small_groups)]
    pub write_cache_raid_groups: Option<Vec<RaidGroup>>,
    /// Devices that hold copies of what is read often. They have no redundancy and need none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub read_cache_block_devices: Option<Vec<PoolDevice>>,
    /// The groups of devices, faster than the rest, that hold metadata and small blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), transform = pool_layout::small_groups)]
    pub special_raid_groups: Option<Vec<RaidGroup>>,
    /// Devices that stand by to take the place of one that fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub spare_block_devices: Option<Vec<PoolDevice>>,
    /// The settings of the pool.
    pub pool_config: PoolConfig,
}

impl PoolSpec {
    /// All devices of the pool, with what each is for.
    pub fn devices(&self) -> impl Iterator<Item = (DeviceClass, &PoolDevice)> {
        pool_layout::devices(
            &self.data_raid_groups,
            self.write_cache_raid_groups.as_ref(),
            self.read_cache_block_devices.as_ref(),
            self.special_raid_groups.as_ref(),
            self.spare_block_devices.as_ref(),
        )
    }
}

/// The pools there are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CStorPoolClusterStatus {
    /// Pools that exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned_instances: Option<i32>,
    /// Pools that are wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_instances: Option<i32>,
    /// Pools that are online.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy_instances: Option<i32>,
    /// What is the case with the cluster as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// The generation of the object this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
