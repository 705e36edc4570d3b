//! Every name that stands in an object, once.
//!
//! Keys and values are those of cStor 3.6 where it had them (misspellings included: dashboards and scripts match on
//! them); what is ours is marked so.

pub mod annotation;
pub mod condition;
pub mod event;
pub mod finalizer;
pub mod label;
pub mod lease;
pub mod phase;
pub mod property;
pub mod reason;

/// The group of pools, volumes and backups.
pub const CSTOR_GROUP: &str = "cstor.openebs.io";
/// The version of that group.
pub const CSTOR_VERSION: &str = "v1";
/// The group of block devices and their claims.
pub const OPENEBS_GROUP: &str = "openebs.io";
/// The version of that group.
pub const OPENEBS_VERSION: &str = "v1alpha1";
/// The group of the planner.
pub const DAO_GROUP: &str = "dao.mayadata.io";
/// The version of that group.
pub const DAO_VERSION: &str = "v1alpha1";

/// The namespace cStor is installed in unless somebody says otherwise.
pub const DEFAULT_NAMESPACE: &str = "openebs";

/// What the name of a pool begins with. Ours go on with the UID of the instance; those of cStor 3.6 with
/// the UID of the *cluster*, so that the pools of all nodes had one name.
pub const POOL_NAME_PREFIX: &str = "cstor-";

/// What the name of a claim made for a pool begins with; the UID of the block device follows.
pub const POOL_CLAIM_NAME_PREFIX: &str = "bdc-cstor-";

/// What the name of a BlockDevice begins with; what identifies the device follows, hashed.
pub const BLOCK_DEVICE_NAME_PREFIX: &str = "blockdevice-";

/// What the name of a BlockDevice for a sparse file begins with.
pub const SPARSE_NAME_PREFIX: &str = "sparse-";

/// What the iSCSI name of a volume begins with; the name of the volume follows.
pub const IQN_PREFIX: &str = "iqn.2016-09.com.openebs.cstor:";

/// Per cent of a pool in use at which it turns read-only, unless `roThresholdLimit` says otherwise.
pub const DEFAULT_RO_THRESHOLD_LIMIT: i32 = 85;

/// The compression of a pool that names none.
pub const DEFAULT_COMPRESSION: &str = "lz4";
