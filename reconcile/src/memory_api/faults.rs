//! What goes wrong, and how often.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

/// How often a server misbehaves, each as a chance between 0 and 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A read is answered with 500.
    pub read_error: f64,
    /// A write is answered with 500 and not applied.
    pub write_error: f64,
    /// A write is answered with 409 and not applied.
    pub conflict: f64,
    /// A write is applied, and its response lost.
    pub lost_response: f64,
    /// A request is never answered, and not applied.
    pub silence: f64,
    /// A list in pages (as a cache is filled by) is answered from an older revision. Consistent reads, which are a get, a list
    /// of one name and a list that is not in pages, never are: Kubernetes promises that.
    pub stale_list: f64,
    /// An event of a watch is dropped.
    pub lost_event: f64,
    /// An event of a watch comes twice.
    pub repeated_event: f64,
    /// A watch ends after an event.
    pub broken_watch: f64,
    /// A watch that begins is told that its history is gone.
    pub gone: f64,
    /// Each event of a watch is delayed by up to this much.
    pub event_delay: Duration,
    /// Each request is delayed by up to this much, on either side of being applied.
    pub latency: Duration,
}

/// A fault that was met. The names are those of [`Faults`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "described at the fields of Faults")]
pub enum Fault {
    ReadError,
    WriteError,
    Conflict,
    LostResponse,
    Silence,
    StaleList,
    LostEvent,
    RepeatedEvent,
    BrokenWatch,
    Gone,
    EventDelay,
    Latency,
}

impl Fault {
    /// All there are.
    pub const ALL: [Self; 12] = [
        Self::ReadError,
        Self::WriteError,
        Self::Conflict,
        Self::LostResponse,
        Self::Silence,
        Self::StaleList,
        Self::LostEvent,
        Self::RepeatedEvent,
        Self::BrokenWatch,
        Self::Gone,
        Self::EventDelay,
        Self::Latency,
    ];
}

/// What happens to one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) before: Duration,
    pub(super) after: Duration,
    pub(super) error: Option<u16>,
    pub(super) lost: bool,
    pub(super) silent: bool,
    pub(super) stale: bool,
    pub(super) gone: bool,
}

/// What happens to one event of a watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EventFate {
    pub(super) delay: Duration,
    pub(super) copies: usize,
    pub(super) last: bool,
}

pub(super) struct Dice {
    pub(super) faults: Faults,
    /// How often each fault was met: not how often the dice fell that way, since a get cannot be a stale list.
    pub(super) met: BTreeMap<Fault, u64>,
    rng: SmallRng,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            faults: Faults::default(),
            met: BTreeMap::new(),
            rng: SmallRng::seed_from_u64(seed),
        }
    }

    /// Counts `fault`, if it is so.
    pub(super) fn note(&mut self, fault: Fault, so: bool) {
        if so {
            *self.met.entry(fault).or_default() += 1;
        }
    }

    fn happens(&mut self, chance: f64) -> bool {
        chance > 0.0 && self.rng.random_bool(chance.min(1.0))
    }

    fn up_to(&mut self, longest: Duration) -> Duration {
        if longest.is_zero() {
            longest
        } else {
            longest.mul_f64(self.rng.random_range(0.0..=1.0))
        }
    }

    pub(super) fn request(&mut self, write: bool) -> Fate {
        let faults = self.faults;
        let mut fate = Fate {
            before: self.up_to(faults.latency),
            after: self.up_to(faults.latency),
            silent: self.happens(faults.silence),
            ..Fate::default()
        };
        if write {
            fate.lost = self.happens(faults.lost_response);
            if self.happens(faults.conflict) {
                fate.error = Some(409);
            } else if self.happens(faults.write_error) {
                fate.error = Some(500);
            }
        } else {
            fate.stale = self.happens(faults.stale_list);
            fate.gone = self.happens(faults.gone);
            if self.happens(faults.read_error) {
                fate.error = Some(500);
            }
        }
        fate
    }

    pub(super) fn event(&mut self) -> EventFate {
        let faults = self.faults;
        let copies = if self.happens(faults.lost_event) {
            0
        } else {
            1 + usize::from(self.happens(faults.repeated_event))
        };
        EventFate {
            delay: self.up_to(faults.event_delay),
            copies,
            last: self.happens(faults.broken_watch),
        }
    }

    /// How far back a stale answer looks, out of `revisions`.
    pub(super) fn staleness(&mut self, revisions: u64) -> u64 {
        if revisions == 0 {
            0
        } else {
            self.rng.random_range(0..=revisions.min(20))
        }
    }
}
