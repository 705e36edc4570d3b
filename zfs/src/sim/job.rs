//! What takes time in a pool.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::{Guid, ScanFunction, ScanState};

/// Work that advances with time. Times are counted from the beginning of the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) total: u64,
    pub(super) started: Duration,
    pub(super) ended: Option<Duration>,
    pub(super) state: ScanState,
    /// How long it takes when nothing stops it.
    length: Duration,
    /// How much of that was done at `since`.
    gone: Duration,
    /// Since when it goes on; none while something keeps it from doing so.
    since: Option<Duration>,
}

impl Job {
    pub(super) fn new(total: u64, now: Duration, bytes_per_second: u64) -> Self {
        // Even nothing takes a moment, so that what is under way can be seen.
        let length =
            Duration::from_secs(1) + Duration::from_secs_f64(total as f64 / bytes_per_second.max(1) as f64);
        Self {
            total,
            started: now,
            ended: None,
            state: ScanState::Scanning,
            length,
            gone: Duration::ZERO,
            since: Some(now),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.state == ScanState::Scanning
    }

    fn gone_at(&self, now: Duration) -> Duration {
        let since = self
            .since
            .map_or(Duration::ZERO, |since| now.saturating_sub(since));
        self.length.min(self.gone + since)
    }

    /// How many bytes are done.
    pub(super) fn done(&self, now: Duration) -> u64 {
        if self.state == ScanState::Finished {
            return self.total;
        }
        let share = self
            .gone_at(now)
            .as_nanos()
            .saturating_mul(u128::from(self.total));
        u64::try_from(share / self.length.as_nanos().max(1)).unwrap_or(self.total)
    }

    /// When it ends if nothing stops it.
    pub(super) fn end(&self) -> Option<Duration> {
        let left = self.length.saturating_sub(self.gone);
        self.since.filter(|_| self.is_running()).map(|since| since + left)
    }

    /// Ends it if it is time. Whether it did.
    pub(super) fn step(&mut self, now: Duration) -> bool {
        match self.end() {
            Some(end) if end <= now => {
                self.stop(ScanState::Finished, end);
                true
            }
            _ => false,
        }
    }

    pub(super) fn pause(&mut self, now: Duration) {
        self.hold(now);
        self.state = ScanState::Paused;
    }

    pub(super) fn resume(&mut self, now: Duration) {
        self.state = ScanState::Scanning;
        self.since = Some(now);
    }

    pub(super) fn cancel(&mut self, now: Duration) {
        self.stop(ScanState::Canceled, now);
    }

    fn stop(&mut self, state: ScanState, now: Duration) {
        self.hold(now);
        (self.state, self.ended) = (state, Some(now));
    }

    /// Something keeps it from going on.
    pub(super) fn hold(&mut self, now: Duration) {
        (self.gone, self.since) = (self.gone_at(now), None);
    }

    /// Whether it runs, and something keeps it from going on.
    pub(super) fn is_held(&self) -> bool {
        self.is_running() && self.since.is_none()
    }

    /// Nothing keeps it any more. What it was said to have done since it was last written down is to be done again.
    pub(super) fn go_on(&mut self, now: Duration) {
        if self.is_running() {
            self.since = Some(now);
        }
    }
}

/// A scrub or resilver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScanJob {
    pub(super) function: ScanFunction,
    pub(super) job: Job,
    /// The devices that are being filled.
    pub(super) targets: BTreeSet<Guid>,
    pub(super) errors: u64,
}

/// The widening of a raidz group, or the removal of a vdev.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VdevJob {
    pub(super) vdev: Guid,
    pub(super) job: Job,
}
