//! User properties on pools and datasets.
//!
//! A value on a pool's root dataset is inherited by everything in it, so whoever reads one of a volume
//! asks for the local value.

/// On a root dataset (ours): the UID of the CStorPoolInstance the pool belongs to.
pub const POOL_INSTANCE_UID: &str = "io.openebs:cspi-uid";
/// On a root dataset (ours): namespace and name of that CStorPoolInstance, for people.
pub const POOL_INSTANCE_NAME: &str = "io.openebs:cspi-name";
/// On a pool: `on` while it takes no writes.
pub const READ_ONLY: &str = "io.openebs:readonly";
/// On a zvol: the IP address of the volume's target.
pub const TARGET_IP: &str = "io.openebs:targetip";
/// On a zvol: the name of the CStorVolumeReplica.
pub const VOLUME_NAME: &str = "io.openebs:volname";
/// On a zvol: the id of the replica in its volume.
pub const REPLICA_ID: &str = "io.openebs:zvol_replica_id";
/// On a zvol: the number of I/O threads.
pub const ZVOL_WORKERS: &str = "io.openebs:zvol_workers";
