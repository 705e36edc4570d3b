//! The wall clock, which a test replaces.
//!
//! It is used for times that people read (`lastTransitionTime`, `renewTime`). Nothing is *measured* with it:
//! deadlines, back-off and the age of a Lease use [`tokio::time::Instant`], which never jumps.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::time::Instant;

/// Where a process takes the time of day from.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The clock of the machine.
    #[must_use]
    pub fn system() -> Self {
        Self(Arc::new(Timestamp::now))
    }

    /// A clock that starts at `start` and goes as fast as tokio's: with paused time, a run is the same each time.
    #[must_use]
    pub fn simulated(start: Timestamp) -> Self {
        let began = Instant::now();
        Self(Arc::new(move || {
            start.checked_add(began.elapsed()).unwrap_or(Timestamp::MAX)
        }))
    }

    /// The time of day.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}
