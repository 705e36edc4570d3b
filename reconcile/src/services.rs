//! What a process gives to each of its controllers.

use std::fmt;
use std::time::Duration;

use kube::Client;

use crate::{Clock, Health, Metrics, Taps};

/// What a process gives to each of its controllers. Cheap to clone.
#[derive(Clone)]
pub struct Services {
    /// The way to the API server.
    pub client: Client,
    /// The program's name, as in `cstor-agent`: reporter of events and field manager.
    pub program: String,
    /// This process among others of its program: pod or node name.
    pub identity: String,
    /// The time of day.
    pub clock: Clock,
    /// What is counted.
    pub metrics: Metrics,
    /// Whether all is well.
    pub health: Health,
    /// The taps of a test.
    pub taps: Taps,
    /// The seed of all jitter. A test fixes it.
    pub seed: u64,
    /// How long running work may take to end once the process is told to stop.
    pub drain: Duration,
}

impl Services {
    /// Services of a program, with a clock, metrics and health of its own, no taps, and a drain of 30 seconds.
    pub fn new(client: Client, program: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            client,
            program: program.into(),
            identity: identity.into(),
            clock: Clock::system(),
            metrics: Metrics::new(),
            health: Health::default(),
            taps: Taps::none(),
            seed: rand::random(),
            drain: Duration::from_secs(30),
        }
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services")
            .field("program", &self.program)
            .field("identity", &self.identity)
            .field("taps", &self.taps)
            .finish_non_exhaustive()
    }
}
