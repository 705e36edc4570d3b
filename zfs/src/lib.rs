//! zpool and zfs as typed Rust.
//!
//! [`Pools`] and [`Datasets`] are what can be asked and done. What a pool is made of is a [`Layout`], what it is like a
//! [`PoolStatus`]. Names are checked when they are made.
//! [`Zfs`] is the ZFS of this host.

mod dataset;
mod draid;
mod error;
mod label;
mod layout;
mod name;
mod real;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod status;
mod version;
mod zpool;

pub use dataset::{Dataset, DatasetKind, Datasets, NewVolume, Send, Source, Value};
pub use draid::DraidShape;
pub use error::{Error, Result};
pub use label::{Label, Labels};
pub use layout::{Group, Layout, Redundancy};
pub use name::{DatasetName, Guid, NameError, PoolName, SnapshotName};
pub use real::{Deadlines, Zfs};
pub use status::{
    Expansion, PoolStatus, PoolSummary, Scan, ScanFunction, ScanState, State, Vdev, VdevClass, VdevKind,
};
pub use version::{Floor, ParseVersionsError, TooOld, Version, Versions};
pub use zpool::{Activity, Import, NewPool, Offline, Online, PoolEvent, Pools, ScrubCommand};
