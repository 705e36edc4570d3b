//! The front door: `cargo xtask up` and `cargo xtask down`, as a newcomer uses them and as a nuisance does.
//!
//! Run it by `cargo xtask test e2e [filter]`.
#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    reason = "test code: a failed step is a failed test"
)]

mod door;
mod front_door;
mod interrupted;
mod refused;
