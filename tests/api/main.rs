//! The API suite: what the real API server makes of our resources, and our engine of the real API server.
//!
//! Run it by `cargo xtask test api [filter]`, which starts the control plane and installs the CRDs.
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

mod bounds;
mod claims;
mod definitions;
mod engine;
mod fixtures;
mod kind;
mod large;
mod legacy;
mod rule_cases;
mod rules;
mod schema;
mod stored;
mod support;
mod unknown_fields;
