//! The engine every controller of cstor-rs runs on.
//!
//! A [`Controller`] is three functions: `observe` reads, `decide` concludes, `act` does one thing. An [`Engine`] runs
//! them on the objects of a [`Watch`]; a [`Process`] runs engines, with logs, metrics, health, Leases and an orderly
//! end. `docs/engine.md` shows how to write one.
//!
//! Where things are:
//!
//! | | |
//! |---|---|
//! | [`controller`], [`context`], [`failure`], [`reason`], [`event`] | what a controller is written with |
//! | [`watch`], [`related`] | what it looks at |
//! | [`engine`] | the loop: when to look, in which order effects happen, what follows from each failure |
//! | [`lease`], [`process`], [`health`], [`metrics`] | the process around it |
//! | [`tap`], `memory_api` | what tests hold on to |
//!
//! How each operation can die is listed where it lives: [`engine`] (looks and steps), [`watch`] (lists and watches),
//! [`lease`] (leading and living); and `tests/faults` makes each of them die.
pub mod backoff;
pub mod clock;
pub mod context;
pub mod controller;
pub mod engine;
pub mod event;
pub mod failure;
pub mod health;
pub mod key;
pub mod lease;
#[cfg(feature = "memory-api")]
pub mod memory_api;
pub mod metrics;
pub mod process;
pub mod reason;
pub mod related;
pub mod services;
mod status;
pub mod tap;
pub mod watch;

pub use backoff::Backoff;
pub use clock::Clock;
pub use context::{Context, Reading};
pub use controller::{Controller, Decision, Hold, Object, Outcome, Report, Step};
pub use engine::{Engine, Trigger};
pub use event::Event;
pub use failure::{Class, Classify, Failure, Retry};
pub use health::Health;
pub use key::Key;
pub use metrics::Metrics;
pub use process::Process;
pub use related::Related;
pub use services::Services;
pub use tap::Taps;
pub use watch::Watch;
