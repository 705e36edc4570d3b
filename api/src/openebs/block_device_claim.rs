//! BlockDeviceClaim: the wish for a disk.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::phase::BlockDeviceClaimPhase;
use crate::open_enum::open_enum;
use crate::quantity::ARE_QUANTITIES;
use crate::resource::{AGE, Column, custom_resource};
use crate::schema::rules;
use crate::{Condition, Quantity};

custom_resource! {
    /// The wish for a block device. While it is bound, the device is nobody else's.
    pub struct BlockDeviceClaim {
        group: "openebs.io",
        version: "v1alpha1",
        plural: "blockdeviceclaims",
        short: "bdc",
        columns: [
            Column::text("BlockDeviceName", ".spec.blockDeviceName", "The device"),
            Column::text("Phase", ".status.phase", "How far the claim is"),
            AGE,
        ],
        selectable: [],
        rules: [],
    }
    spec: BlockDeviceClaimSpec,
    status: BlockDeviceClaimStatus,
}

/// The device wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules([
    (
        "!has(oldSelf.blockDeviceName) || oldSelf.blockDeviceName == '' || \
         (has(self.blockDeviceName) && self.blockDeviceName == oldSelf.blockDeviceName)",
        "A claim that has a block device keeps it: put blockDeviceName back, and create another BlockDeviceClaim for another device.",
    ),
])))]
pub struct BlockDeviceClaimSpec {
    /// Labels the device must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// What the device must offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<DeviceClaimResources>,
    /// The kind of drive it must be: HDD, SSD, or empty for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_type: Option<String>,
    /// The host it must be on. Use blockDeviceNodeAttributes.hostName instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_name: Option<String>,
    /// How the device will be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_claim_details: Option<DeviceClaimDetails>,
    /// The device itself; the system chooses one if absent. Cannot be changed once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub block_device_name: Option<String>,
    /// The node it must be on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_device_node_attributes: Option<ClaimNodeAttributes>,
}

/// What a device must offer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceClaimResources {
    /// The least size, under the key storage.
    #[schemars(extend("maxProperties" = 8))]
    #[schemars(extend("x-kubernetes-validations" = rules([ARE_QUANTITIES])))]
    pub requests: BTreeMap<String, Quantity>,
}

open_enum! {
    /// How a claimed device will be used.
    pub enum BlockVolumeMode: listed or empty {
        /// As it is.
        Block = "Block",
        /// With a filesystem on it.
        FileSystem = "FileSystem",
    }
}

/// How a claimed device will be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceClaimDetails {
    /// As a block device or with a filesystem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_volume_mode: Option<BlockVolumeMode>,
    /// The filesystem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format_type: Option<String>,
    /// Whether a partition will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_partition: Option<bool>,
}

/// The node a claimed device must be on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimNodeAttributes {
    /// The name of the Node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The value of its label kubernetes.io/hostname.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_name: Option<String>,
}

/// What became of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockDeviceClaimStatus {
    /// How far the claim is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<BlockDeviceClaimPhase>,
    /// What is the case with the claim (cstor-rs).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// The generation of the object this status was computed from (cstor-rs).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
