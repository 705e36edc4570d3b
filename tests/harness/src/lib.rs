//! A Kubernetes cluster in a box, on real ZFS: what `cargo xtask up` shows and the suites run on.

pub mod assets;
pub mod boxes;
pub mod cache;
pub mod cluster;
pub mod control_plane;
pub mod deploy;
pub mod disk;
pub mod image;
pub mod kubernetes;
pub mod kvm;
mod machine;
pub mod node;
pub mod nvme;
pub mod packages;
pub mod pki;
pub mod prerequisites;
pub mod progress;
pub mod qmp;
pub mod ready;
pub mod seed;
pub mod ssh;
