//! Keys of annotations.

/// On CStorVolumeConfig: the name of the PersistentVolumeClaim.
pub const PERSISTENT_VOLUME_CLAIM: &str = "openebs.io/persistent-volume-claim";
/// On CStorVolumeReplica of a clone: the volume it was cloned from.
pub const SOURCE_VOLUME: &str = "openebs.io/source-volume";
/// On CStorVolumeReplica of a clone: the snapshot it was cloned from.
pub const SNAPSHOT: &str = "openebs.io/snapshot";
/// On CStorVolumeConfig: the name of the CStorVolumePolicy.
pub const VOLUME_POLICY: &str = "openebs.io/volume-policy";
/// On CStorVolumeConfig: the name of the PersistentVolume.
pub const VOLUME_ID: &str = "openebs.io/volumeID";
/// On PersistentVolumeClaim and CStorVolumeConfig: `restore` for a volume made to restore a backup into.
pub const CREATED_THROUGH: &str = "openebs.io/created-through";
/// On CStorVolumeReplica: `true` while a backup is restored into it.
pub const IS_RESTORE_VOLUME: &str = "isRestoreVol";
/// On CStorVolumeReplica: `true` once the restore is done.
pub const RESTORE_COMPLETED: &str = "openebs.io/restore-completed";
/// On CStorVolumeReplica: the host of its pool.
pub const POOL_INSTANCE_HOSTNAME: &str = "cstorpoolinstance.openebs.io/hostname";
/// On BlockDeviceClaim: the block device that this one replaces, while the replacement runs.
pub const BLOCK_DEVICE_PREDECESSOR: &str = "openebs.io/bd-predecessor";
/// On CStorPoolCluster: the block-device tags it may use, comma-separated.
pub const ALLOWED_BLOCK_DEVICE_TAGS: &str = "openebs.io/allowed-bd-tags";
/// On CStorPoolCluster and CStorPoolInstance: `true` makes us leave the object alone.
pub const RECONCILE_DISABLED: &str = "reconcile.openebs.io/disable";
/// On CStorPoolCluster: `true` makes new instances start with [`RECONCILE_DISABLED`].
pub const RECONCILE_DISABLED_FOR_DEPENDANTS: &str = "reconcile.openebs.io/disable-dependants";
/// On CStorPoolInstance: the name of an existing pool to import.
pub const EXISTING_POOL_NAME: &str = "import.cspi.cstor.openebs.io/existing-pool-name";
/// On BlockDevice: `false` makes the discovery leave the object alone.
pub const BLOCK_DEVICE_RECONCILE: &str = "openebs.io/reconcile";
/// On BlockDevice: how its name was computed.
pub const UUID_SCHEME: &str = "internal.openebs.io/uuid-scheme";
/// On BlockDevice: the UUID of its filesystem.
pub const FS_UUID: &str = "internal.openebs.io/fsuuid";
/// On BlockDevice: the UUID of its partition.
pub const PARTITION_UUID: &str = "internal.openebs.io/partition-uuid";
/// On CStorClusterPlan and CStorPoolCluster: the UID of the CStorClusterConfig.
pub const CLUSTER_CONFIG_UID: &str = "dao.mayadata.io/cstorclusterconfig-uid";
/// On CStorPoolCluster: `true` if the planner made it of disks that were there.
pub const CLUSTER_CONFIG_LOCAL_DISK: &str = "dao.mayadata.io/cstorclusterconfig-localdisk";
/// On CStorClusterStorageSet and CStorPoolCluster: the UID of the CStorClusterPlan.
pub const CLUSTER_PLAN_UID: &str = "dao.mayadata.io/cstorclusterplan-uid";
/// On Storage: the UID of the CStorClusterStorageSet.
pub const CLUSTER_STORAGE_SET_UID: &str = "dao.mayadata.io/cstorclusterstorageset-uid";
/// On Storage and PersistentVolumeClaim: the CSI driver that attaches the disk.
pub const CSI_ATTACHER_NAME: &str = "storageprovisioner.dao.mayadata.io/csi-attacher-name";
/// On Storage: the StorageClass of the disk.
pub const STORAGE_CLASS_NAME: &str = "storageprovisioner.dao.mayadata.io/storageclass-name";
/// On PersistentVolumeClaim: the UID of the Storage.
pub const STORAGE_UID: &str = "storageprovisioner.dao.mayadata.io/storage-uid";
/// On PersistentVolumeClaim: the node to attach the disk to.
pub const STORAGE_NODE_NAME: &str = "storageprovisioner.dao.mayadata.io/node-name";
/// On BlockDevice (ours): the request to wipe the device. The value is the device's `spec.identity.value`, so that a
/// request copied to another object does nothing.
pub const WIPE: &str = "cstor.openebs.io/wipe";
/// On VolumeAttachment (ours): the BlockDevice it brought.
pub const ATTACHED_BLOCK_DEVICE: &str = "cstor.openebs.io/block-device";
/// On VolumeAttachment (ours): whether the device it brought is known, as a condition in JSON; attachments have no conditions.
pub const CORRELATED: &str = "cstor.openebs.io/correlated";
/// On CStorPoolInstance (ours): the GUID of an existing pool that is to be this instance's. It is taken over as it is.
pub const ADOPT_POOL: &str = "cstor.openebs.io/adopt-pool";
/// On CStorPoolInstance (ours): the GUID of its pool, to say that the host whose name is on the pool's disks does not use it
/// any more, for certain.
pub const IMPORT_IN_USE: &str = "cstor.openebs.io/import-in-use";
/// On CStorPoolInstance (ours): the GUID of its pool, to say that its disks are gone for good and that the instance may go
/// without them.
pub const DELETE_LOST_POOL: &str = "cstor.openebs.io/delete-lost-pool";
