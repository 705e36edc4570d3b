//! The node suite: real nodes with real disks, real ZFS, real power cuts.
//!
//! Run it by `cargo xtask test node [filter]`, which builds the image and cleans up afterwards.
#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    reason = "test code: a failed step is a failed test"
)]

mod cloud;
mod corpus;
mod disks;
mod installed;
mod isolation;
mod kept;
mod network;
mod pools;
mod published;
