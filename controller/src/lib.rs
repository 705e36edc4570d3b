//! The controllers of the cluster: every decision of cstor-rs that needs the cluster. They never touch a node.
//!
//! | | |
//! |---|---|
//! | [`claim`] | BlockDeviceClaim: which device a claim gets, and giving it back |
//! | [`device`] | BlockDevice: whose it is, derived from `spec.claimRef` alone |
//! | [`silence`] | BlockDevice: nothing is known of it while the agent of its node is silent |

mod block_device;
pub mod claim;
pub mod device;
mod patch;
pub mod silence;

pub use patch::PatchError;

/// The name of the program in logs, events and field managers.
pub const PROGRAM: &str = "cstor-controller";
