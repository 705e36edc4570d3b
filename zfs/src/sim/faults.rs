//! What goes wrong, and how often.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::calls::Call;

/// How often calls go wrong, each as a chance between 0 and 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A call that only looks fails.
    pub read_error: f64,
    /// The answer to a call that only looks is not understood.
    pub unparsable: f64,
    /// A call that only looks does not come to an end in time.
    pub read_timeout: f64,
    /// A change fails and is not made.
    pub refused: f64,
    /// A change is made, and the command fails all the same.
    pub lost_result: f64,
    /// A change does not come to an end in time, and is not made.
    pub timeout: f64,
    /// A change is made, but does not come to an end in time.
    pub timeout_done: f64,
    /// A change does not come to an end in time, and is made later: within [`Self::late`].
    pub timeout_late: f64,
    /// How much later.
    pub late: Duration,
    /// An event is lost.
    pub lost_event: f64,
    /// An event comes twice.
    pub repeated_event: f64,
    /// Each event is delayed by up to this much.
    pub event_delay: Duration,
    /// Each call is delayed by up to this much, on either side of its effect.
    pub latency: Duration,
}

/// A fault that was met. The names are those of [`Faults`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "described at the fields of Faults")]
pub enum Fault {
    ReadError,
    Unparsable,
    ReadTimeout,
    Refused,
    LostResult,
    Timeout,
    TimeoutDone,
    TimeoutLate,
    LostEvent,
    RepeatedEvent,
    EventDelay,
    Latency,
}

impl Fault {
    /// All there are.
    pub const ALL: [Self; 12] = [
        Self::ReadError,
        Self::Unparsable,
        Self::ReadTimeout,
        Self::Refused,
        Self::LostResult,
        Self::Timeout,
        Self::TimeoutDone,
        Self::TimeoutLate,
        Self::LostEvent,
        Self::RepeatedEvent,
        Self::EventDelay,
        Self::Latency,
    ];
}

/// On which side of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// It was not made yet.
    Before,
    /// It was made.
    After,
}

/// What was planned for single calls of one host.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// Faults for the next call of a kind.
    pub(super) next: VecDeque<(Call, Fault)>,
    /// Changes so far.
    pub(super) changes: u64,
    /// At which change, and on which side of it, the caller is stopped for ever.
    pub(super) halt: Option<(u64, Moment)>,
    /// The handles that were.
    pub(super) halted: BTreeSet<u64>,
}

impl Script {
    /// The fault that was planned for this call.
    pub(super) fn take(&mut self, call: Call) -> Option<Fault> {
        let found = self.next.iter().position(|(other, _)| *other == call)?;
        self.next.remove(found).map(|(_, fault)| fault)
    }
}

/// What happens to one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) before: Duration,
    pub(super) after: Duration,
    pub(super) fault: Option<Fault>,
    pub(super) late: Duration,
}

/// What happens to one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EventFate {
    pub(super) delay: Duration,
    pub(super) copies: usize,
}

pub(super) struct Dice {
    pub(super) faults: Faults,
    /// How often each fault was met.
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

    pub(super) fn note(&mut self, fault: Fault) {
        *self.met.entry(fault).or_default() += 1;
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

    /// What happens to a call. `planned` is what was to happen to it.
    pub(super) fn call(&mut self, change: bool, planned: Option<Fault>) -> Fate {
        let faults = self.faults;
        let chances: &[(Fault, f64)] = if change {
            &[
                (Fault::Refused, faults.refused),
                (Fault::LostResult, faults.lost_result),
                (Fault::Timeout, faults.timeout),
                (Fault::TimeoutDone, faults.timeout_done),
                (Fault::TimeoutLate, faults.timeout_late),
            ]
        } else {
            &[
                (Fault::ReadError, faults.read_error),
                (Fault::Unparsable, faults.unparsable),
                (Fault::ReadTimeout, faults.read_timeout),
            ]
        };
        let mut fate = Fate {
            before: self.up_to(faults.latency),
            after: self.up_to(faults.latency),
            fault: planned,
            late: self.up_to(faults.late),
        };
        for (fault, chance) in chances {
            if self.happens(*chance) && fate.fault.is_none() {
                fate.fault = Some(*fault);
            }
        }
        if let Some(fault) = fate.fault {
            self.note(fault);
        }
        if fate.before + fate.after > Duration::ZERO {
            self.note(Fault::Latency);
        }
        fate
    }

    pub(super) fn event(&mut self) -> EventFate {
        let faults = self.faults;
        let lost = self.happens(faults.lost_event);
        let twice = self.happens(faults.repeated_event);
        let delay = self.up_to(faults.event_delay);
        for (fault, so) in [
            (Fault::LostEvent, lost),
            (Fault::RepeatedEvent, twice && !lost),
            (Fault::EventDelay, !delay.is_zero()),
        ] {
            if so {
                self.note(fault);
            }
        }
        EventFate {
            delay,
            copies: if lost { 0 } else { 1 + usize::from(twice) },
        }
    }
}
