//! What ZFS says of a pool: its vdevs, its scrub or resilver.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pool_layout::DeviceClass;
use crate::Timestamp;
use crate::open_enum::open_enum;

/// A device or a group of devices in a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VdevStatus {
    /// Its name in the pool, such as mirror-0.
    pub name: String,
    /// What it is: disk, file, mirror, raidz, draid, replacing, spare and so on, in ZFS's words.
    #[serde(rename = "type")]
    pub type_: String,
    /// What it is for.
    pub class: DeviceClass,
    /// Its GUID, as text because it does not fit the numbers of JSON.
    pub guid: String,
    /// The GUID of the vdev it is part of; absent if that is the pool itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The path of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The BlockDevice it is, if it is one we know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_device_name: Option<String>,
    /// Its state: ONLINE, DEGRADED, FAULTED, OFFLINE, UNAVAIL, REMOVED.
    pub state: String,
    /// Reads that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_errors: Option<u64>,
    /// Writes that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_errors: Option<u64>,
    /// Reads that returned something else than was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum_errors: Option<u64>,
}

open_enum! {
    /// Why a pool is read through.
    pub enum ScanFunction: any {
        /// To check it.
        Scrub = "scrub",
        /// To restore redundancy.
        Resilver = "resilver",
    }
}

open_enum! {
    /// How far a scan is.
    pub enum ScanState: any {
        /// Running.
        Scanning = "scanning",
        /// Interrupted by a person, to be resumed.
        Paused = "paused",
        /// Done.
        Finished = "finished",
        /// Broken off.
        Canceled = "canceled",
    }
}

/// A scrub or resilver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScanStatus {
    /// Scrub or resilver.
    pub function: ScanFunction,
    /// Scanning, paused, finished or canceled.
    pub state: ScanState,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Timestamp>,
    /// Bytes looked at so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub examined_bytes: Option<u64>,
    /// Bytes to be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_examine_bytes: Option<u64>,
    /// Bytes read from the devices so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_bytes: Option<u64>,
    /// How much is done, in whole per cent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub percent: Option<i32>,
    /// When it will be done if it goes on like this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_end_time: Option<Timestamp>,
    /// Errors found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<u64>,
}
