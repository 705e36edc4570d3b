//! The node agent: everything of cstor-rs that needs the node.
//!
//! | module | what it looks after |
//! |---|---|
//! | [`disk`] | the node's disks: BlockDevice and VolumeAttachment |
//! | [`pool`] | the node's pools: CStorPoolInstance |

pub mod disk;
pub mod pool;
