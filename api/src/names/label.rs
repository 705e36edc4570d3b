//! Keys of labels, and the values that go with them.

/// On Node, BlockDevice, CStorPoolInstance: the host name.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// On CStorPoolInstance, BlockDeviceClaim, CStorVolumeConfig: the name of the CStorPoolCluster.
pub const POOL_CLUSTER: &str = "openebs.io/cstor-pool-cluster";
/// On what serves a pool: the name of the CStorPoolInstance.
pub const POOL_INSTANCE: &str = "openebs.io/cstor-pool-instance";
/// On CStorVolumeReplica, CStorBackup, CStorRestore: the UID of the CStorPoolInstance. An agent selects its work by it.
pub const POOL_INSTANCE_UID: &str = "cstorpoolinstance.openebs.io/uid";
/// On the same: the name of the CStorPoolInstance.
pub const POOL_INSTANCE_NAME: &str = "cstorpoolinstance.openebs.io/name";
/// The release that made the object.
pub const VERSION: &str = "openebs.io/version";
/// The storage engine.
pub const CAS_TYPE: &str = "openebs.io/cas-type";
/// The value of [`CAS_TYPE`] that means us.
pub const CAS_TYPE_CSTOR: &str = "cstor";
/// What a pod is.
pub const APP: &str = "app";
/// The value of [`APP`] on pods that serve pools.
pub const APP_CSTOR_POOL: &str = "cstor-pool";
/// On CStorVolumeReplica: the name of the volume, which is also the last part of the zvol's name.
pub const VOLUME_NAME: &str = "cstorvolume.openebs.io/name";
/// On everything that belongs to a volume: the name of the PersistentVolume.
pub const PERSISTENT_VOLUME: &str = "openebs.io/persistent-volume";
/// On CStorVolume and its Deployment: the name of the PersistentVolumeClaim.
pub const PERSISTENT_VOLUME_CLAIM: &str = "openebs.io/persistent-volume-claim";
/// On CStorVolumeReplica: `true` for a clone.
pub const CLONED: &str = "openebs.io/cloned";
/// On CStorVolumeConfig and CStorVolume: the volume this one was cloned from.
pub const SOURCE_VOLUME: &str = "openebs.io/source-volume";
/// On CStorVolumeConfig: the name of the PodDisruptionBudget.
pub const POD_DISRUPTION_BUDGET: &str = "openebs.io/pod-disruption-budget";
/// On CStorVolumeConfig: a hash of the policy the volume runs with.
pub const TEMPLATE_HASH: &str = "cstor.openebs.io/template-hash";
/// On BlockDevice: a tag; only clusters that allow the tag may use the device, and nobody if it is empty.
pub const BLOCK_DEVICE_TAG: &str = "openebs.io/block-device-tag";
/// On CStorBackup: the name of the backup.
pub const BACKUP: &str = "openebs.io/backup";
/// On CStorRestore: the name of the restore.
pub const RESTORE: &str = "openebs.io/restore";
/// On CStorVolumeAttachment: the node.
pub const ATTACHMENT_NODE: &str = "nodeID";
/// On CStorVolumeAttachment: the volume.
pub const ATTACHMENT_VOLUME: &str = "Volname";
/// On BlockDevice: the name of the Node.
pub const NODE_NAME: &str = "nodename";
/// On BlockDevice: what kind of thing it is.
pub const BLOCK_DEVICE_TYPE: &str = "ndm.io/blockdevice-type";
/// The value of [`BLOCK_DEVICE_TYPE`] for a block device.
pub const BLOCK_DEVICE_TYPE_VALUE: &str = "blockdevice";
/// On BlockDevice: `false` keeps the discovery away from the object.
pub const BLOCK_DEVICE_MANAGED: &str = "ndm.io/managed";
/// On BlockDevice: the pool whose label was found on the device.
pub const BLOCK_DEVICE_ZPOOL: &str = "ndm.io/zpool-name";
/// On BlockDevice (ours): `true` if the device has no identity. The object is named after node and path, and goes with them.
pub const BLOCK_DEVICE_UNIDENTIFIED: &str = "cstor.openebs.io/unidentified";
/// What a label on a BlockDevice (ours) begins with by which another node than the one in its spec says that it has a device
/// of the same identity; the name of that node follows (see [`also_on`]).
pub const ALSO_ON_PREFIX: &str = "also-on.cstor.openebs.io/";
/// On BlockDevice: the UID of the CStorClusterPlan it was provisioned for.
pub const CLUSTER_PLAN_UID: &str = "dao.mayadata.io/cstorclusterplan-uid";
/// On BlockDevice: the UID of the CStorClusterStorageSet it was provisioned for.
pub const CLUSTER_STORAGE_SET_UID: &str = "dao.mayadata.io/cstorclusterstorageset-uid";
/// On CStorClusterConfig: the version of the CStorPoolCluster to make. We make `v1` whatever it says.
pub const POOL_CLUSTER_VERSION: &str = "cspc.openebs.io/version";

/// On a PodDisruptionBudget: the key, one a pool, by which a budget for the same pools is found again.
pub fn pool_of_budget(cspi_name: &str) -> String {
    format!("openebs.io/{cspi_name}")
}

/// On BlockDevice (ours): the key by which `node` says that it has a device of the same identity. The name of a node may
/// be longer than a label takes; it is then cut, with a checksum.
pub fn also_on(node: &str) -> String {
    const LONGEST: usize = 63;
    if node.len() <= LONGEST {
        return format!("{ALSO_ON_PREFIX}{node}");
    }
    // FNV-1a: it only has to tell apart what was cut off.
    let hash = node.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let kept: String = node.chars().take(LONGEST - 17).collect();
    format!("{ALSO_ON_PREFIX}{kept}-{hash:016x}")
}
