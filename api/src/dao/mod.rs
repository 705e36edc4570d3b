//! `dao.mayadata.io/v1alpha1`: the planner that makes pools out of nodes and disks.
//!
//! A CStorClusterConfig says what is wanted. From it follow a CStorClusterPlan (which nodes), a CStorClusterStorageSet
//! a node (how many disks), a Storage a disk, and at last the CStorPoolCluster.

mod cluster_config;
mod cluster_plan;
mod storage;
mod storage_set;

pub use cluster_config::{
    AllowedNodes, BlockDeviceSelector, CStorClusterConfig, CStorClusterConfigSpec, CStorClusterConfigStatus,
    CacheConfig, ClusterPoolConfig, ClusterRaidType, DiskConfig, EffectiveConfig, ExpansionThreshold,
    ExternalProvisioner, LocalDisks, PoolExpansion, SelectorTerm,
};
pub use cluster_plan::{CStorClusterPlan, CStorClusterPlanSpec, CStorClusterPlanStatus, PlannedNode};
pub use storage::{Storage, StorageSpec, StorageStatus};
pub use storage_set::{
    CStorClusterStorageSet, CStorClusterStorageSetSpec, CStorClusterStorageSetStatus, DiskRequest,
};
