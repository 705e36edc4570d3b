//! `cstor.openebs.io/v1`: pools, volumes and backups.

mod backup;
mod pool_cluster;
mod pool_instance;
mod pool_layout;
mod pool_rules;
mod pool_state;
mod version_details;
mod volume;
mod volume_attachment;
mod volume_config;
mod volume_policy;
mod volume_replica;

pub use backup::{
    CStorBackup, CStorBackupSpec, CStorCompletedBackup, CStorCompletedBackupSpec, CStorCompletedBackupStatus,
    CStorRestore, CStorRestoreSpec,
};
pub use pool_cluster::{CStorPoolCluster, CStorPoolClusterSpec, CStorPoolClusterStatus, PoolSpec};
pub use pool_instance::{
    CStorPoolInstance, CStorPoolInstanceSpec, CStorPoolInstanceStatus, PoolCapacity, PoolCreation,
    ZfsCapacity,
};
pub use pool_layout::{
    DeviceClass, DraidConfig, FailMode, PoolConfig, PoolDevice, RaidGroup, RaidType, ScrubConfig,
};
pub use pool_state::{ScanFunction, ScanState, ScanStatus, VdevStatus};
pub use version_details::{VersionDetails, VersionStatus};
pub use volume::{CStorVolume, CStorVolumeSpec, CStorVolumeStatus, ReplicaDetails, ReplicaStatus};
pub use volume_attachment::{CStorVolumeAttachment, CStorVolumeAttachmentSpec, IscsiInfo, VolumeInfo};
pub use volume_config::{
    CStorVolumeConfig, CStorVolumeConfigSpec, CStorVolumeConfigStatus, Publish, VolumeConfigCondition,
    VolumeProvision,
};
pub use volume_policy::{
    CStorVolumePolicy, CStorVolumePolicySpec, CStorVolumePolicyStatus, ProvisionPolicy, ReplicaPolicy,
    ReplicaPool, TargetPolicy,
};
pub use volume_replica::{
    CStorVolumeReplica, CStorVolumeReplicaSpec, CStorVolumeReplicaStatus, ReplicaCapacity, SnapshotInfo,
};
