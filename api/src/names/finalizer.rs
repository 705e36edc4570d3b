//! Finalizers, and who removes them.

/// On CStorPoolCluster, CStorPoolInstance, BlockDeviceClaim: the controller of pool clusters.
pub const POOL_CLUSTER: &str = "cstorpoolcluster.openebs.io/finalizer";
/// On CStorPoolInstance: the agent, once the pool is destroyed.
pub const POOL_PROTECTION: &str = "openebs.io/pool-protection";
/// On CStorVolumeReplica: the agent, once the zvol is destroyed.
pub const VOLUME_REPLICA: &str = "cstorvolumereplica.openebs.io/finalizer";
/// On CStorVolumeConfig: the controller of volumes.
pub const VOLUME_CONFIG: &str = "cvc.openebs.io/finalizer";
/// On BlockDeviceClaim: the controller of claims, once the device is released.
pub const BLOCK_DEVICE_CLAIM: &str = "openebs.io/bdc-protection";
/// On a claimed BlockDevice: the controller of claims.
pub const BLOCK_DEVICE: &str = "openebs.io/bd-protection";
/// On CStorClusterConfig and what comes of it (ours): the planner, once disks and pools are gone, in that order.
pub const CLUSTER_CONFIG: &str = "dao.mayadata.io/cstorclusterconfig-protection";
/// On Storage (ours): the planner, once the disk is detached and given back.
pub const STORAGE: &str = "dao.mayadata.io/storage-protection";
