//! CStorVolumeAttachment: a volume on a node.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::phase::AttachmentStatus;
use crate::resource::custom_resource;

custom_resource! {
    /// A volume on a node: where and how the CSI driver has it there.
    pub struct CStorVolumeAttachment {
        group: "cstor.openebs.io",
        version: "v1",
        plural: "cstorvolumeattachments",
        short: "cva",
        columns: [],
        selectable: [],
        rules: [],
    }
    spec: CStorVolumeAttachmentSpec,
    status: AttachmentStatus,
}

/// Where and how a volume is attached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CStorVolumeAttachmentSpec {
    /// The volume and its place on the node.
    pub volume: VolumeInfo,
    /// How the node reaches the volume by iSCSI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iscsi: Option<IscsiInfo>,
}

/// A volume and its place on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeInfo {
    /// The name of the volume.
    pub name: String,
    /// The size of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<String>,
    /// The node.
    #[serde(rename = "ownerNodeID")]
    pub owner_node_id: String,
    /// The filesystem on the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fs_type: Option<String>,
    /// How the volume may be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_modes: Option<Vec<String>>,
    /// Whether it is used as a filesystem or as a block device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_type: Option<String>,
    /// Where it is mounted for the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staging_target_path: Option<String>,
    /// Where it is mounted for the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_path: Option<String>,
    /// Whether it must not be written to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// The options it is mounted with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_options: Option<Vec<String>>,
    /// Its device on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_path: Option<String>,
}

/// How a node reaches a volume by iSCSI.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IscsiInfo {
    /// The iSCSI name of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iqn: Option<String>,
    /// Address and port of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_portal: Option<String>,
    /// The iSCSI interface of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iscsi_interface: Option<String>,
    /// The number of the logical unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lun: Option<String>,
}
