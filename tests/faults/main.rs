//! The faults suite: the engine, with a controller on it as any other, is crashed at every tap, fed stale reads and lost,
//! late and repeated events, has its requests refused, unanswered and their answers lost, on a host that fails, fails after
//! it worked, and hangs; and always ends as if nothing had happened.
//!
//! Run it by `cargo xtask test faults`; `--seed N` (or `CSTOR_SEED=N`) repeats one seed, `--full` (or `CSTOR_FULL=1`) runs
//! ten times as many.
#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    unreachable_pub,
    reason = "test code: a failed step is a failed test"
)]

mod behaviour;
mod claims;
mod crashes;
mod disks;
mod host;
mod idle;
mod leases;
mod mutations;
mod probe;
mod runs;
mod seeds;
mod volumes;
mod world;
