//! Reasons of events.

/// CStorPoolInstance, CStorVolumeReplica: made.
pub const CREATED: &str = "Created";
/// CStorPoolInstance, CStorVolumeReplica: making it failed.
pub const FAIL_CREATE: &str = "FailCreate";
/// CStorPoolInstance, CStorVolumeReplica: destroying it failed.
pub const FAIL_DESTROY: &str = "FailDestroy";
/// CStorPoolInstance: a pool was imported.
pub const POOL_IMPORTED: &str = "Pool Imported";
/// CStorPoolInstance: a pass failed.
pub const FAILED_SYNC: &str = "FailedSync";
/// Any kind with versionDetails: an upgrade failed.
pub const FAILED_UPGRADE: &str = "FailedUpgrade";
/// CStorPoolInstance: the wish makes no sense.
pub const VALIDATION_FAILED: &str = "Validation failed";
/// CStorPoolInstance: a replacement began or ended.
pub const BLOCK_DEVICE_REPLACEMENT: &str = "BlockDevice Replacement";
/// CStorPoolInstance: an expansion began or ended.
pub const POOL_EXPANSION: &str = "Pool Expansion";
/// CStorPoolInstance: the pool turned read-only, or back.
pub const POOL_READ_ONLY_THRESHOLD: &str = "PoolReadOnlyThreshold";
/// CStorPoolInstance: a disk changed its state.
pub const DEVICE_STATE: &str = "DeviceState";
/// CStorPoolInstance: a property could not be set.
pub const FAILED_TO_SET_PROPERTIES: &str = "Pool FailedToSetPoolProperties";
/// CStorVolumeReplica: seen.
pub const SYNCED: &str = "Synced";
/// CStorVolumeReplica: its zvol was there.
pub const ALREADY_PRESENT: &str = "AlreadyPresent";
/// CStorVolumeReplica: its zvol came with an imported pool.
pub const IMPORTED: &str = "Imported";
/// CStorVolumeReplica: its finalizer could not be removed.
pub const FAIL_REMOVE_FINALIZER: &str = "FailRemoveFinalizer";
/// CStorVolumeReplica: the wish makes no sense.
pub const FAIL_VALIDATE: &str = "FailValidate";
/// CStorVolumeReplica: its state could not be read.
pub const FAIL_STATUS_SYNC: &str = "FailStatusSync";
/// CStorVolumeReplica: its status could not be gathered.
pub const SYNC_FAILED: &str = "SyncFailed";
/// BlockDeviceClaim: it got its device.
pub const BLOCK_DEVICE_CLAIMED: &str = "BlockDeviceClaimed";
/// BlockDeviceClaim, BlockDevice: the device is nobody's again.
pub const BLOCK_DEVICE_RELEASED: &str = "BlockDeviceReleased";
/// BlockDevice (ours): somebody deletes it while a claim has it.
pub const BLOCK_DEVICE_HELD: &str = "BlockDeviceHeld";
/// BlockDevice (ours): the device appeared, or came back.
pub const DEVICE_FOUND: &str = "DeviceFound";
/// BlockDevice (ours): the device is gone.
pub const DEVICE_GONE: &str = "DeviceGone";
/// BlockDevice (ours): the device does not answer.
pub const DEVICE_HANGS: &str = "DeviceHangs";
/// BlockDevice (ours): the device has another size than before.
pub const DEVICE_RESIZED: &str = "DeviceResized";
/// BlockDevice (ours): the device is on another node now.
pub const DEVICE_MOVED: &str = "DeviceMoved";
/// BlockDevice (ours): another device has the same identity, and neither is used.
pub const DEVICE_QUARANTINED: &str = "DeviceQuarantined";
/// BlockDevice (ours): the device was wiped, or not.
pub const DEVICE_WIPE: &str = "DeviceWipe";
/// Node (ours): something about a device could not be written; the others go on.
pub const DEVICE_NOT_WRITTEN: &str = "DeviceNotWritten";
