//! `openebs.io/v1alpha1`: block devices and the claims on them.

mod block_device;
mod block_device_claim;

pub use block_device::{
    Attachment, BlockDevice, BlockDeviceSpec, BlockDeviceStatus, DevLink, DevLinkKind, DeviceCapacity,
    DeviceDetails, DeviceType, DriveType, Filesystem, Identity, NodeAttributes, Partitioned,
};
pub use block_device_claim::{
    BlockDeviceClaim, BlockDeviceClaimSpec, BlockDeviceClaimStatus, BlockVolumeMode, ClaimNodeAttributes,
    DeviceClaimDetails, DeviceClaimResources,
};
