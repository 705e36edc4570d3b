//! The one place that runs programs.
//!
//! Every other crate is forbidden to start a process (`clippy.toml`), so that each call has the same protection:
//!
//! - the program is an absolute path, found in a fixed list of directories and never by the caller's `$PATH`;
//! - the environment is empty but for a fixed `PATH` and `LC_ALL=C.UTF-8`, so that output does not depend on who asks;
//! - there is always a deadline, and the whole process group is killed when it passes or when the caller goes away;
//! - what is kept of the output is bounded;
//! - a failure says which command failed, how, and what the command itself said about it.
//!
//! # Caveats
//!
//! A process stuck in the kernel (a suspended pool, a dead disk) cannot be killed. [`Invocation::run`] then still
//! returns at the deadline, with [`Error::Deadline`] and `unkillable` set; the process stays until the kernel lets go, which
//! [`Process`] can tell.

mod error;
mod invocation;
mod process;
mod program;

pub use error::Error;
pub use invocation::{Daemon, Invocation, Output, Stream};
pub use process::Process;
pub use program::Program;
