//! CStorBackup, CStorCompletedBackup, CStorRestore: snapshots sent away and brought back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;
use crate::names::phase::TransferStatus;
use crate::quantity::IS_QUANTITY;
use crate::resource::{Column, custom_resource};
use crate::schema::rules;

custom_resource! {
    /// The request to send a snapshot of a volume away.
    pub struct CStorBackup {
        group: "cstor.openebs.io",
        version: "v1",
        plural: "cstorbackups",
        short: "cbackup",
        columns: [
            Column::text("Volume", ".spec.volumeName", "The volume"),
            Column::text("Backup/Schedule", ".spec.backupName", "The backup, or the schedule it is part of"),
            Column::text("Status", ".status", "How far the backup is"),
        ],
        selectable: [],
        rules: [],
    }
    spec: CStorBackupSpec,
    status: TransferStatus,
}

/// The backup wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules([
    (
        "self.volumeName == oldSelf.volumeName && self.snapName == oldSelf.snapName",
        "A backup is of one snapshot of one volume: put volumeName and snapName back, and create another CStorBackup for another.",
    ),
])))]
pub struct CStorBackupSpec {
    /// The name of the backup, or of the schedule it is part of.
    pub backup_name: String,
    /// The volume.
    #[schemars(length(max = 253))]
    pub volume_name: String,
    /// The snapshot to send.
    #[schemars(length(max = 253))]
    pub snap_name: String,
    /// The snapshot the receiver already has; all data is sent if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev_snap_name: Option<String>,
    /// Address and port to send to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_dest: Option<String>,
    /// Whether to keep the snapshot only, and send nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_snap: Option<bool>,
}

custom_resource! {
    /// The last two backups of a schedule that were sent, so that the next can build on them.
    pub struct CStorCompletedBackup {
        group: "cstor.openebs.io",
        version: "v1",
        plural: "cstorcompletedbackups",
        short: "ccompletedbackup",
        columns: [
            Column::text("Volume", ".spec.volumeName", "The volume"),
            Column::text("Backup/Schedule", ".spec.backupName", "The backup, or the schedule it is part of"),
            Column::text("LastSnap", ".spec.lastSnapName", "The last snapshot sent"),
        ],
        selectable: [],
        rules: [],
    }
    spec: CStorCompletedBackupSpec,
    status: CStorCompletedBackupStatus,
}

/// The backups of a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CStorCompletedBackupSpec {
    /// The name of the backup, or of its schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_name: Option<String>,
    /// The volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_name: Option<String>,
    /// The snapshot sent before the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_last_snap_name: Option<String>,
    /// The snapshot sent last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_snap_name: Option<String>,
}

/// Nothing is observed of completed backups so far: the object itself is the record. cStor had no status here at all; that there is
/// one lets every kind be written in the same way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CStorCompletedBackupStatus {}

custom_resource! {
    /// The request to fill a volume from a backup.
    pub struct CStorRestore {
        group: "cstor.openebs.io",
        version: "v1",
        plural: "cstorrestores",
        short: "crestore",
        columns: [
            Column::text("Backup", ".spec.restoreName", "The backup"),
            Column::text("Volume", ".spec.volumeName", "The volume"),
            Column::text("Status", ".status", "How far the restore is"),
        ],
        selectable: [],
        rules: [],
    }
    spec: CStorRestoreSpec,
    status: TransferStatus,
}

/// The restore wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules([
    (
        "self.volumeName == oldSelf.volumeName",
        "A restore fills one volume: put volumeName back, and create another CStorRestore for another volume.",
    ),
])))]
pub struct CStorRestoreSpec {
    /// The name of the backup.
    pub restore_name: String,
    /// The volume to fill.
    #[schemars(length(max = 253))]
    pub volume_name: String,
    /// Address and port to receive from; for a local restore the volume to clone.
    pub restore_src: String,
    /// How often to try.
    #[serde(default, rename = "maxretrycount", skip_serializing_if = "Option::is_none")]
    pub max_retry_count: Option<i64>,
    /// How often it was tried.
    #[serde(default, rename = "retrycount", skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<i64>,
    /// The StorageClass of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// The size of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules([IS_QUANTITY])))]
    pub size: Option<Quantity>,
    /// Whether to clone a volume of this cluster, and receive nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_restore: Option<bool>,
}
