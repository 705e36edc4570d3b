//! Types of conditions.

/// The object does what it is for. Ours, on every kind with conditions.
pub const READY: &str = "Ready";

/// CStorPoolCluster: the pools have somebody to serve them.
pub const POOL_MANAGER_AVAILABLE: &str = "PoolManagerAvailable";

/// CStorPoolInstance: the pool is being grown.
pub const POOL_EXPANSION: &str = "PoolExpansion";
/// CStorPoolInstance: a disk is being replaced.
pub const DISK_REPLACEMENT: &str = "DiskReplacement";
/// CStorPoolInstance: disks are missing or broken.
pub const DISK_UNAVAILABLE: &str = "DiskUnavailable";
/// CStorPoolInstance: the pool existed and cannot be found.
pub const POOL_LOST: &str = "PoolLost";
/// CStorPoolInstance (ours): the pool takes no writes.
pub const READ_ONLY: &str = "ReadOnly";
/// CStorPoolInstance (ours): the pool has gone without a scrub for too long.
pub const SCRUB_OVERDUE: &str = "ScrubOverdue";

/// An object under deletion cannot go yet (ours); the message names what uses it.
pub const DELETION_BLOCKED: &str = "DeletionBlocked";

/// CStorVolume and CStorVolumeConfig: the volume is being grown.
pub const RESIZING: &str = "Resizing";
/// CStorVolumeConfig: growing waits for something.
pub const VOLUME_RESIZE_PENDING: &str = "VolumeResizePending";
/// CStorVolumeConfig: growing failed.
pub const VOLUME_RESIZE_FAILED: &str = "VolumeResizeFailed";
/// CStorVolumeConfig: the volume was grown.
pub const VOLUME_RESIZE_SUCCESSFUL: &str = "VolumeResizeSuccessful";

/// BlockDevice (ours): nothing is on the device, and nobody uses it.
pub const BLANK: &str = "Blank";
/// BlockDevice (ours): the device is there and answers.
pub const PRESENT: &str = "Present";
/// BlockDevice (ours): the device has something that tells it from all others; if not, it is not offered.
pub const IDENTIFIED: &str = "Identified";
/// BlockDevice (ours): the device was wiped as asked, or why not.
pub const WIPED: &str = "Wiped";
/// BlockDeviceClaim (ours): the claim has its device, or why not.
pub const BOUND: &str = "Bound";
/// BlockDevice (ours): another device claims the same identity, so neither is used.
pub const QUARANTINED: &str = "Quarantined";

/// CStorClusterConfig (ours): the wish makes sense.
pub const VALID: &str = "Valid";
/// CStorClusterConfig (ours): there are nodes enough.
pub const NODES_AVAILABLE: &str = "NodesAvailable";
/// CStorClusterConfig (ours): the CStorPoolCluster was applied.
pub const POOL_CLUSTER_APPLIED: &str = "PoolClusterApplied";
/// CStorClusterConfig (ours): a pool should go and cannot; the message names the volumes.
pub const SCALE_DOWN_BLOCKED: &str = "ScaleDownBlocked";
/// CStorClusterConfig (ours): a pool should grow and cannot.
pub const EXPANSION_BLOCKED: &str = "ExpansionBlocked";
/// CStorClusterConfig (ours): a pool is on a node that is no longer allowed, and there is none to move it to.
pub const SELECTOR_VIOLATION: &str = "SelectorViolation";

/// Storage: the claim and what else it needs exist.
pub const RESOURCES_CREATED: &str = "ResourcesCreated";
/// Storage: the claim is bound to a volume.
pub const PVC_BOUND: &str = "PVCBound";
/// Storage: the node is known.
pub const NODE_SELECTED: &str = "NodeSelected";
/// Storage: the node is there.
pub const NODE_AVAILABLE: &str = "NodeAvailable";
/// Storage: the volume is being grown.
pub const VOLUME_RESIZE: &str = "VolumeResize";
/// Storage (ours): the volume is attached to the node.
pub const ATTACHED: &str = "Attached";
/// Storage, BlockDevice and VolumeAttachment (ours; on the last as an annotation): the block device of the volume is
/// known, and is the only one that could be it.
pub const CORRELATED: &str = "Correlated";
