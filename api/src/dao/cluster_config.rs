//! CStorClusterConfig: nodes, disks and pools in a few lines.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::phase::PlanPhase;
use crate::open_enum::open_enum;
use crate::quantity::IS_DISK_SIZE;
use crate::resource::{AGE, Column, custom_resource};
use crate::schema::rules;
use crate::{Condition, Quantity, ResourceRequirements};

custom_resource! {
    /// A cluster of pools as its owner thinks of it: so many pools, on such nodes, of such disks. The planner does the rest.
    pub struct CStorClusterConfig {
        group: "dao.mayadata.io",
        version: "v1alpha1",
        plural: "cstorclusterconfigs",
        short: "cscconfig",
        columns: [
            Column::number("Min", ".status.effective.minPoolCount", "The least number of pools"),
            Column::number("Max", ".status.effective.maxPoolCount", "The greatest number of pools"),
            Column::text("Raid", ".status.effective.raidType", "How the disks of a pool share the data"),
            Column::text("Status", ".status.phase", "How the planner fares"),
            AGE,
        ],
        selectable: [],
        rules: [],
    }
    spec: CStorClusterConfigSpec,
    status: CStorClusterConfigStatus,
}

/// The cluster wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules([
    (
        "!has(self.minPoolCount) || !has(self.maxPoolCount) || self.minPoolCount <= self.maxPoolCount",
        "There cannot be more pools at least than at most: lower minPoolCount, or raise maxPoolCount.",
    ),
    (
        "(has(self.poolConfig) && has(self.poolConfig.raidType) ? self.poolConfig.raidType : 'stripe') == \
         (has(oldSelf.poolConfig) && has(oldSelf.poolConfig.raidType) ? oldSelf.poolConfig.raidType : 'stripe')",
        "The raid type of a cluster cannot be changed: put poolConfig.raidType back (stripe if it was absent). \
         For another type create another CStorClusterConfig.",
    ),
    (
        "!has(self.diskConfig) || !has(self.diskConfig.minCount) || \
         self.diskConfig.minCount % (has(self.poolConfig) && has(self.poolConfig.raidType) ? \
         (self.poolConfig.raidType == 'mirror' ? 2 : self.poolConfig.raidType == 'raidz' ? 3 : \
         self.poolConfig.raidType == 'raidz2' ? 6 : 1) : 1) == 0",
        "Disks come in whole raid groups: make diskConfig.minCount a multiple of 2 for mirror, of 3 for raidz, of 6 for raidz2.",
    ),
])))]
pub struct CStorClusterConfigSpec {
    /// The least number of pools. The number of nodes allowed or available, but no more than 3, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub min_pool_count: Option<i32>,
    /// The greatest number of pools. Two more than the least if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub max_pool_count: Option<i32>,
    /// The nodes that may have a pool. All if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_nodes: Option<AllowedNodes>,
    /// The disks the pools are made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_config: Option<DiskConfig>,
    /// The settings of the pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_config: Option<ClusterPoolConfig>,
}

/// The nodes that may have a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedNodes {
    /// A node is allowed if one of these matches.
    #[schemars(length(min = 1, max = 32))]
    pub node_selector_terms: Vec<SelectorTerm>,
}

/// Matches an object that has all of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules([
    (
        "(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchAnnotations) && self.matchAnnotations.size() > 0)",
        "An empty term would match everything: give it matchLabels or matchAnnotations, or remove it.",
    ),
])))]
pub struct SelectorTerm {
    /// Labels and their values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 32))]
    pub match_labels: Option<BTreeMap<String, String>>,
    /// Annotations and their values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 32))]
    pub match_annotations: Option<BTreeMap<String, String>>,
}

/// The disks pools are made of: from a provisioner, or such as are there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules([
    (
        "has(self.externalProvisioner) != has(self.local)",
        "Say where disks come from, in one way: set externalProvisioner to have them made, or local to use those that are there.",
    ),
])))]
pub struct DiskConfig {
    /// The least number of disks in a pool. 2 for stripe and mirror, 3 for raidz, 6 for raidz2 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 600))]
    pub min_count: Option<i32>,
    /// The least size of a disk. 100Gi if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules([IS_DISK_SIZE])))]
    pub min_capacity: Option<Quantity>,
    /// Have disks made and attached by a CSI driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_provisioner: Option<ExternalProvisioner>,
    /// Use disks that are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<LocalDisks>,
}

/// Who makes disks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalProvisioner {
    /// The CSI driver that attaches them.
    #[schemars(length(min = 1, max = 253))]
    pub csi_attacher_name: String,
    /// The StorageClass they are made by.
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: String,
}

/// Disks that are there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalDisks {
    /// Which of them may be used.
    pub block_device_selector: BlockDeviceSelector,
}

/// Selects block devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockDeviceSelector {
    /// A device is selected if one of these matches it.
    #[schemars(length(min = 1, max = 32))]
    pub selector_terms: Vec<SelectorTerm>,
}

open_enum! {
    /// How the disks of a pool share the data.
    pub enum ClusterRaidType: listed {
        /// Each disk by itself.
        Stripe = "stripe",
        /// Pairs of disks with the same data.
        Mirror = "mirror",
        /// Threes of disks, of which one may fail.
        Raidz = "raidz",
        /// Sixes of disks, of which two may fail.
        Raidz2 = "raidz2",
    }
}

/// The settings of the pools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPoolConfig {
    /// The write cache of each pool. If absent, fast local disks are used for it where every node has some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_cache: Option<CacheConfig>,
    /// The read cache of each pool. If absent, fast local disks are used for it where every node has some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_cache: Option<CacheConfig>,
    /// Whether each pool keeps a spare disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare: Option<bool>,
    /// How the disks of a pool share the data. stripe if absent. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid_type: Option<ClusterRaidType>,
    /// Whether and when pools grow by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_expansion: Option<PoolExpansion>,
    /// CPU and memory for the pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_resources: Option<ResourceRequirements>,
}

/// Where the disks of a cache come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules([
    (
        "(has(self.disable) && self.disable) || (has(self.csiAttacherName) && has(self.storageClassName))",
        "Say where the disks of the cache come from: set csiAttacherName and storageClassName, or disable: true to have no such cache.",
    ),
])))]
pub struct CacheConfig {
    /// The CSI driver that attaches them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub csi_attacher_name: Option<String>,
    /// The StorageClass they are made by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: Option<String>,
    /// The size of each. 10Gi if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules([IS_DISK_SIZE])))]
    pub capacity: Option<Quantity>,
    /// Whether to have no such cache, and not to look for disks for it either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable: Option<bool>,
}

/// Whether and when pools grow by themselves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolExpansion {
    /// Whether they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable: Option<bool>,
    /// When they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<ExpansionThreshold>,
}

/// When a pool grows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ExpansionThreshold {
    /// The part of the pool in use from which it grows, such as 0.80, which is also the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.01, max = 0.99))]
    pub used_capacity: Option<f64>,
}

/// The cluster there is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CStorClusterConfigStatus {
    /// How the planner fares, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PlanPhase>,
    /// What is the case with the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// The wish with everything filled in that it left open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<EffectiveConfig>,
    /// The generation of the object this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A wish with everything filled in. Kept in the status, so that the spec stays what its owner wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveConfig {
    /// The least number of pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_pool_count: Option<i32>,
    /// The greatest number of pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pool_count: Option<i32>,
    /// How the disks of a pool share the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid_type: Option<String>,
    /// The number of disks in a pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_count: Option<i32>,
    /// The size of a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_capacity: Option<Quantity>,
}
