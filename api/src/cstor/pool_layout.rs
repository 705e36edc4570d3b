//! What a pool is made of: devices, groups of devices, settings. Shared by CStorPoolCluster and CStorPoolInstance.

use k8s_openapi::api::core::v1::Toleration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pool_rules;
use crate::ResourceRequirements;
use crate::open_enum::open_enum;
use crate::schema::rules;

/// A block device of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolDevice {
    /// The name of the BlockDevice.
    #[schemars(length(min = 1, max = 253))]
    pub block_device_name: String,
    /// The size of the device in bytes. Filled in by the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// The path by which the pool knows the device. Filled in by the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev_link: Option<String>,
}

/// A set of block devices that together form one part of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RaidGroup {
    /// The devices of the group.
    #[schemars(length(min = 1, max = 60))]
    pub block_devices: Vec<PoolDevice>,
}

open_enum! {
    /// How the devices of a group share the data.
    pub enum RaidType: listed {
        /// Each device by itself. The loss of one is the loss of the pool.
        Stripe = "stripe",
        /// Each device has all data of the group.
        Mirror = "mirror",
        /// One device of each group may fail.
        Raidz = "raidz",
        /// Two devices of each group may fail.
        Raidz2 = "raidz2",
        /// Three devices of each group may fail.
        Raidz3 = "raidz3",
        /// Parity spread over many devices, with spare space built in.
        Draid = "draid",
    }
}

impl RaidType {
    /// The least number of devices in a group. For draid its parameters ask for more.
    pub fn min_devices(&self) -> usize {
        match self {
            Self::Stripe | Self::Other(_) => 1,
            Self::Mirror | Self::Raidz | Self::Draid => 2,
            Self::Raidz2 => 3,
            Self::Raidz3 => 4,
        }
    }
}

open_enum! {
    /// What a pool does when its devices fail it.
    pub enum FailMode: listed {
        /// Hold all I/O until the devices are back.
        Wait = "wait",
        /// Refuse new writes, go on reading what can be read.
        Continue = "continue",
        /// Stop the node.
        Panic = "panic",
    }
}

open_enum! {
    /// What a device is for in a pool.
    pub enum DeviceClass: any {
        /// The data itself.
        Data = "data",
        /// The write cache (ZFS: log).
        Log = "log",
        /// The read cache (ZFS: cache, L2ARC).
        Cache = "cache",
        /// Metadata and small blocks (ZFS: special).
        Special = "special",
        /// Waiting to take the place of a failed device.
        Spare = "spare",
    }
}

/// The shape of draid groups. What is not set is chosen by ZFS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DraidConfig {
    /// Data devices in each redundancy group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 58))]
    pub data: Option<i32>,
    /// Devices that may fail in each redundancy group. 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3))]
    pub parity: Option<i32>,
    /// Devices' worth of spare space spread over the group. 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 32))]
    pub spares: Option<i32>,
}

/// When a pool is read through and checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScrubConfig {
    /// When to begin, as five cron fields in UTC (minute, hour, day of month, month, day of week), or
    /// @hourly, @daily, @weekly, @monthly or @yearly. Once a month if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    #[schemars(extend("x-kubernetes-validations" = rules([pool_rules::SCRUB_SCHEDULE])))]
    pub schedule: Option<String>,
    /// Whether to begin none at all for now. One that runs is not stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
}

/// The settings of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules([
    pool_rules::DRAID_ONLY_FOR_DRAID,
    pool_rules::SPECIAL_AS_SAFE_AS_DATA,
])))]
pub struct PoolConfig {
    /// How the devices of each data group share the data. Cannot be changed.
    pub data_raid_group_type: RaidType,
    /// How the devices of each write-cache group share the data: stripe or mirror.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["", "stripe", "mirror", "raidz", "raidz2"]))]
    pub write_cache_group_type: Option<RaidType>,
    /// How the devices of each special group share the data. Losing a special group loses the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["stripe", "mirror", "raidz", "raidz2", "raidz3"]))]
    pub special_group_type: Option<RaidType>,
    /// The shape of the data groups if they are draid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draid: Option<DraidConfig>,
    /// Accepted for the sake of old objects; nothing reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thick_provision: Option<bool>,
    /// How data is compressed: lz4 if empty or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[schemars(extend("x-kubernetes-validations" = rules([pool_rules::COMPRESSION])))]
    pub compression: Option<String>,
    /// The block size of the devices as a power of two: 12 for 4096 bytes. ZFS asks the devices if absent. Cannot be
    /// changed once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 9, max = 16))]
    pub ashift: Option<i32>,
    /// Whether to tell the devices about freed space as it is freed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autotrim: Option<bool>,
    /// What to do when devices fail the pool: wait (the default), continue or panic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failmode: Option<FailMode>,
    /// When to read the pool through and check it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrub: Option<ScrubConfig>,
    /// The percentage of the pool in use from which it takes no more writes. 85 if absent, 100 for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub ro_threshold_limit: Option<i32>,
    /// CPU and memory of the container that ran the pool in cStor 3.6. Pools run in the kernel now; nothing reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// CPU and memory of the containers beside it. Nothing reads it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aux_resources: Option<ResourceRequirements>,
    /// Tolerations of the pod that ran the pool. Nothing reads it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,
    /// Priority class of the pod that ran the pool. Nothing reads it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
}

/// For labels that select a node: as many and as long as labels are, so that rules can compare them.
pub(super) fn node_labels(schema: &mut schemars::Schema) {
    schema.insert("maxProperties".to_owned(), 16.into());
    if let Some(serde_json::Value::Object(value)) = schema.get_mut("additionalProperties") {
        value.insert("maxLength".to_owned(), 63.into());
    }
}

/// For a list of groups that are few and small, which keeps the estimated cost of the rules about
/// devices within what the API server allows. Used where ZFS users have one to three groups.
pub(super) fn small_groups(schema: &mut schemars::Schema) {
    let limit = schema.pointer_mut("/items/properties/blockDevices/maxItems");
    if let Some(limit) = limit {
        *limit = 12.into();
    }
}

/// The devices of a pool, with what each is for.
pub(super) fn devices<'a>(
    data: &'a [RaidGroup],
    log: Option<&'a Vec<RaidGroup>>,
    cache: Option<&'a Vec<PoolDevice>>,
    special: Option<&'a Vec<RaidGroup>>,
    spare: Option<&'a Vec<PoolDevice>>,
) -> impl Iterator<Item = (DeviceClass, &'a PoolDevice)> {
    let grouped = |class: DeviceClass, groups: &'a [RaidGroup]| {
        let devices = groups.iter().flat_map(|group| &group.block_devices);
        devices.map(move |device| (class.clone(), device))
    };
    let single = |class: DeviceClass, devices: &'a [PoolDevice]| {
        devices.iter().map(move |device| (class.clone(), device))
    };
    grouped(DeviceClass::Data, data)
        .chain(grouped(DeviceClass::Log, log.map_or(&[], Vec::as_slice)))
        .chain(single(DeviceClass::Cache, cache.map_or(&[], Vec::as_slice)))
        .chain(grouped(DeviceClass::Special, special.map_or(&[], Vec::as_slice)))
        .chain(single(DeviceClass::Spare, spare.map_or(&[], Vec::as_slice)))
}
