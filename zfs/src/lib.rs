//! zpool and zfs as typed Rust.
//!
//! What is here so far is the gate: which OpenZFS a node runs, and whether it is one we can drive.

mod label;
mod version;

pub use label::{Label, Labels};
pub use version::{Floor, ParseVersionsError, TooOld, Version, Versions};
