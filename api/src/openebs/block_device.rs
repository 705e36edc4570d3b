//! BlockDevice: a disk on a node.

use k8s_openapi::api::core::v1::ObjectReference;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Condition;
use crate::names::phase::{BlockDeviceClaimState, BlockDeviceState};
use crate::open_enum::open_enum;
use crate::resource::{AGE, Column, custom_resource};

custom_resource! {
    /// A disk, or another thing a pool can be made of, on a node.
    pub struct BlockDevice {
        group: "openebs.io",
        version: "v1alpha1",
        plural: "blockdevices",
        short: "bd",
        columns: [
            Column::text("NodeName", ".spec.nodeAttributes.nodeName", "The node the device is on"),
            Column::text("Path", ".spec.path", "The path of the device").wide(),
            Column::text("FSType", ".spec.filesystem.fsType", "The filesystem found on the device").wide(),
            Column::text("Size", ".spec.capacity.storage", "The size of the device in bytes"),
            Column::text("ClaimState", ".status.claimState", "Whether the device is somebody's"),
            Column::text("Status", ".status.state", "Whether the device is there"),
            AGE,
        ],
        selectable: [".spec.nodeAttributes.nodeName"],
        rules: [],
    }
    spec: BlockDeviceSpec,
    status: BlockDeviceStatus,
}

/// What was found out about a device, and whose it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockDeviceSpec {
    /// The node the device is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_attributes: Option<NodeAttributes>,
    /// The path of the device. It may change at the next boot.
    pub path: String,
    /// The size of the device.
    pub capacity: DeviceCapacity,
    /// What kind of device it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<DeviceDetails>,
    /// What tells this device from all others (cstor-rs).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// The BlockDeviceClaim that has the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_ref: Option<ObjectReference>,
    /// The links to the device under /dev/disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devlinks: Option<Vec<DevLink>>,
    /// The filesystem found on the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<Filesystem>,
    /// Whether the device has partitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitioned: Option<Partitioned>,
    /// The device this one is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_device: Option<String>,
    /// The device this one is used by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate_device: Option<String>,
}

/// The node of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeAttributes {
    /// The name of the Node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
}

/// The size of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceCapacity {
    /// The size in bytes.
    pub storage: u64,
    /// What the device writes at once, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_sector_size: Option<u32>,
    /// What the device can be addressed by, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_sector_size: Option<u32>,
}

open_enum! {
    /// What kind of device it is.
    pub enum DeviceType: listed or empty {
        /// A whole disk.
        Disk = "disk",
        /// A part of a disk.
        Partition = "partition",
        /// A file that stands in for a disk.
        Sparse = "sparse",
        /// A loop device.
        Loop = "loop",
        /// A logical volume.
        Lvm = "lvm",
        /// An encrypted device.
        Crypt = "crypt",
        /// Another device-mapper device.
        DeviceMapper = "dm",
        /// A disk with several paths to it.
        Multipath = "mpath",
        /// A software RAID (cstor-rs).
        Md = "md",
    }
}

open_enum! {
    /// What a drive is made of.
    pub enum DriveType: listed or empty {
        /// Turning platters.
        Hdd = "HDD",
        /// Flash.
        Ssd = "SSD",
        /// Not known.
        Unknown = "Unknown",
    }
}

open_enum! {
    /// Whether a device has partitions.
    pub enum Partitioned: listed or empty {
        /// It has.
        Yes = "Yes",
        /// It has not.
        No = "No",
    }
}

open_enum! {
    /// What a link to a device is named after.
    pub enum DevLinkKind: listed {
        /// The device.
        ById = "by-id",
        /// Where it is plugged in.
        ByPath = "by-path",
    }
}

/// What kind of device it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceDetails {
    /// Disk, partition, sparse file and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_type: Option<DeviceType>,
    /// HDD or SSD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_type: Option<DriveType>,
    /// The logical block size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_block_size: Option<u32>,
    /// The physical block size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_block_size: Option<u32>,
    /// The hardware sector size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware_sector_size: Option<u32>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The standard the device says it follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compliance: Option<String>,
    /// The serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// The maker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// The firmware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware_revision: Option<String>,
    /// The World Wide Name (cstor-rs).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wwn: Option<String>,
}

/// What tells a device from all others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// Where the identity comes from, with the version of the rule, such as wwn/v1.
    pub scheme: String,
    /// The identity itself.
    pub value: String,
}

/// Links to a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DevLink {
    /// What the links are named after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<DevLinkKind>,
    /// The links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<Vec<String>>,
}

/// A filesystem found on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Filesystem {
    /// Its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fs_type: Option<String>,
    /// Where it is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_point: Option<String>,
}

/// Whether a device is there, and somebody's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockDeviceStatus {
    /// Whether the device is somebody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_state: Option<BlockDeviceClaimState>,
    /// Whether the device is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<BlockDeviceState>,
    /// The VolumeAttachment that brought the device, if one did (cstor-rs).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<Attachment>,
    /// What is the case with the device (cstor-rs).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// The generation of the object this status was computed from (cstor-rs).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The VolumeAttachment that brought a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// The name of the VolumeAttachment.
    pub volume_attachment_name: String,
    /// The name of the PersistentVolume.
    pub persistent_volume_name: String,
    /// The CSI driver.
    pub driver: String,
    /// The driver's name for the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_handle: Option<String>,
    /// By which rule the device was recognised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// What the device said that the rule looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
}

impl Attachment {
    /// Whether both are about one attachment of one volume, by whatever rule it was recognised.
    pub fn is_same_volume(&self, other: &Self) -> bool {
        let key = |one: &Self| {
            (
                one.volume_attachment_name.clone(),
                one.persistent_volume_name.clone(),
                one.volume_handle.clone(),
            )
        };
        key(self) == key(other)
    }
}
