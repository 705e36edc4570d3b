//! CStorPoolInstance: one pool on one node, wish and reality.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pool_layout::{self, DeviceClass, PoolConfig, PoolDevice, RaidGroup};
use super::pool_state::{ScanStatus, VdevStatus};
use super::{VersionDetails, pool_rules};
use crate::names::phase::PoolPhase;
use crate::resource::{AGE, Column, custom_resource};
use crate::schema::rules;
use crate::{Condition, Quantity, Timestamp};

custom_resource! {
    /// One pool on one node. Made from a CStorPoolCluster; the agent of the node makes it real.
    pub struct CStorPoolInstance {
        group: "cstor.openebs.io",
        version: "v1",
        plural: "cstorpoolinstances",
        short: "cspi",
        columns: [
            Column::text("HostName", ".spec.hostName", "The node of the pool"),
            Column::text("Allocated", ".status.capacity.used", "Space in use").wide(),
            Column::text("Free", ".status.capacity.free", "Space left"),
            Column::text("Capacity", ".status.capacity.total", "Space in all"),
            Column::flag("ReadOnly", ".status.readOnly", "Whether the pool takes no writes"),
            Column::number("ProvisionedReplicas", ".status.provisionedReplicas", "Volume replicas in the pool"),
            Column::number("HealthyReplicas", ".status.healthyReplicas", "Volume replicas that have all data"),
            Column::text("Type", ".spec.poolConfig.dataRaidGroupType", "How the devices share the data").wide(),
            Column::text("Status", ".status.phase", "The state of the pool"),
            AGE,
        ],
        selectable: [".spec.hostName"],
        rules: [(
            "!has(oldSelf.status) || !has(oldSelf.status.poolGuid) || \
             (has(self.status) && has(self.status.poolGuid) && self.status.poolGuid == oldSelf.status.poolGuid)",
            "The pool of this instance exists and status.poolGuid says which it is: it cannot be changed or removed. \
             To start over, delete this CStorPoolInstance.",
        )],
    }
    spec: CStorPoolInstanceSpec,
    status: CStorPoolInstanceStatus,
    beside: {
        /// The release this object belongs to.
        version_details ("versionDetails"): VersionDetails,
    }
}

/// The pool wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules([
    pool_rules::DEVICES_ONCE,
    pool_rules::DATA_GROUP_SIZE,
    pool_rules::DRAID_GROUP_SIZE,
    pool_rules::WRITE_CACHE_TYPE,
    pool_rules::WRITE_CACHE_GROUP_SIZE,
    pool_rules::SPECIAL_TYPE,
    pool_rules::SPECIAL_GROUP_SIZE,
    pool_rules::RAID_TYPE_KEPT,
    pool_rules::ASHIFT_KEPT,
    pool_rules::DRAID_KEPT,
    pool_rules::DRAID_GROUPS_KEPT,
    pool_rules::GROUPS_KEPT,
    pool_rules::WRITE_CACHE_TYPE_KEPT,
])))]
pub struct CStorPoolInstanceSpec {
    /// The node of the pool, by its label kubernetes.io/hostname. Changes when the pool moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_name: Option<String>,
    /// Labels that select the node of the pool. Changes when the pool moves.
    #[schemars(transform = pool_layout::node_labels)]
    #[schemars(extend("x-kubernetes-validations" = rules([pool_rules::NODE_SELECTED])))]
    pub node_selector: BTreeMap<String, String>,
    /// The settings of the pool.
    pub pool_config: PoolConfig,
    /// The groups of devices that hold the data.
    #[schemars(length(min = 1, max = 60))]
    pub data_raid_groups: Vec<RaidGroup>,
    /// The groups of devices that take synchronous writes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), transform = pool_layout::small_groups)]
    pub write_cache_raid_groups: Option<Vec<RaidGroup>>,
    /// Devices that hold copies of what is read often.
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
}

impl CStorPoolInstanceSpec {
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

/// The pool there is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CStorPoolInstanceStatus {
    /// The state of the pool in one word: ONLINE, DEGRADED, FAULTED, OFFLINE, UNAVAIL, SUSPENDED and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PoolPhase>,
    /// What is the case with the pool, since when, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// The space in the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<PoolCapacity>,
    /// Whether the pool takes no writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Volume replicas in the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned_replicas: Option<i32>,
    /// Volume replicas that have all data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy_replicas: Option<i32>,
    /// The name of the pool in ZFS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_name: Option<String>,
    /// The GUID of the pool, as text because it does not fit the numbers of JSON. Set once, when the pool has been
    /// created or adopted: from then on it is looked for and never created again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20))]
    pub pool_guid: Option<String>,
    /// The making of the pool, while it is being made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation: Option<PoolCreation>,
    /// The devices and groups of the pool as ZFS has them, each after the one it is part of.
    // A flat list and not a tree: a schema cannot be recursive, and any depth we fixed would be wrong for some pool
    // (a spare that stands in for a disk that is being replaced lies four deep). It also makes the
    // usual question short: `.status.vdevs[?(@.state!="ONLINE")].blockDeviceName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vdevs: Option<Vec<VdevStatus>>,
    /// The last or running scrub or resilver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scan: Option<ScanStatus>,
    /// When the last scrub ended that was not broken off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scrub_time: Option<Timestamp>,
    /// The generation of the object this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The making of a pool. Written before the first byte is: if the node loses power in the middle, this says which
/// disks were proved blank and may hold the beginnings of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolCreation {
    /// The identities of the disks, scheme and value.
    #[schemars(length(max = 512))]
    pub devices: Vec<String>,
    /// When it began.
    pub started_at: Timestamp,
}

/// The space in a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolCapacity {
    /// In use.
    pub used: Quantity,
    /// Left.
    pub free: Quantity,
    /// In all.
    pub total: Quantity,
    /// What ZFS makes of it.
    pub zfs: ZfsCapacity,
}

/// The space in a pool as ZFS sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZfsCapacity {
    /// In use before compression.
    pub logical_used: Quantity,
}
