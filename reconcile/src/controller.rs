//! What a controller is: three functions, and the types that pass between them.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::{Classify, Failure};
use crate::{Context, Event};

/// A kind of object a controller can look at: any kind known when the program is compiled.
pub trait Object:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + Send + Sync + 'static
{
}

impl<K> Object for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + Send + Sync + 'static
{
}

/// A controller: what is looked at, what is concluded, what is done.
///
/// # Expected flow
/// 1. Something wakes the object: it changed, a related object changed, a trigger named it, time passed.
/// 2. [`observe`](Self::observe) reads whatever the decision needs. Nothing is changed.
/// 3. [`decide`](Self::decide) says what follows: steps, the status that is true now, events, when to look again.
/// 4. If anything follows, the engine reads the object anew from the API server and, if it or a cache that was
///    consulted may have been stale, goes back to 2 with fresh reads. So every effect rests on what the API server
///    had a moment ago, and an idle look costs it nothing.
/// 5. The engine puts its finalizer on, posts new events, patches the status if it differs, and runs the steps in order
///    by [`act`](Self::act).
/// 6. It looks again at once, until a look has nothing to do.
///
/// # Guarantees
/// - One object is never looked at twice at a time; different objects are, up to the engine's bound.
/// - No step runs on an object that lacks the finalizer, if there is one; the finalizer goes only when a decision
///   without steps [releases](Decision::release) the object.
/// - A failed step ends the look. The object is observed once more at once, with the failure in the [`Context`],
///   and only status and events of that decision are used: the status tells of the failure before the back-off
///   begins. No later step of the failed decision runs.
/// - A step beyond its deadline is a failure, and no step runs on that object until it has ended.
/// - Whatever was lost (a watch event, a response, the process) only delays: the next resync reads everything anew.
///
/// # What it asks of a controller
/// - `observe` changes nothing, and does not mistake "could not read" for "is not there".
/// - `decide` is a function: the same `Observed` gives the same `Decision`. It has no `self` to reach anything by.
/// - `act` has one effect, checks its precondition against the real thing, and does nothing if it is already done.
/// - When nothing is left to do, `decide` says so: steps that change nothing would be repeated, though ever more slowly.
pub trait Controller: Send + Sync + 'static {
    /// Its name in logs, metrics and field managers: a short word, as in `pool`.
    const NAME: &'static str;
    /// The finalizer that keeps an object until the controller has let go of it.
    const FINALIZER: Option<&'static str> = None;

    /// The kind it looks at.
    type Object: Object;
    /// What it writes to `.status`; `()` if it writes none.
    type Status: Serialize + Send;
    /// What it needs to know to decide, the time among it.
    type Observed: Send + Sync;
    /// One effect.
    type Step: Step;
    /// What can go wrong.
    type Error: Classify;

    /// Reads what the decision needs.
    ///
    /// An object that is being deleted is observed like any other: `object.meta().deletion_timestamp` tells. The last
    /// failed step is [`Context::failure`]. Give `decide` all of that in `Observed`.
    fn observe(
        &self,
        ctx: &Context,
        object: &Self::Object,
    ) -> impl Future<Output = Result<Self::Observed, Self::Error>> + Send;

    /// Says what follows from what was observed.
    fn decide(observed: &Self::Observed) -> Decision<Self::Step, Self::Status>;

    /// Does one step.
    fn act(
        &self,
        ctx: &Context,
        step: Self::Step,
    ) -> impl Future<Output = Result<Outcome, Self::Error>> + Send;

    /// What to say when `observe` itself failed, so that there is nothing to decide on. The default says nothing, and
    /// the status stays as it was last observed; a controller whose status would then be a lie says so here.
    fn unobserved(object: &Self::Object, failure: &Failure, now: Timestamp) -> Report<Self::Status> {
        let _ = (object, failure, now);
        Report::default()
    }
}

/// One effect that a decision asks for.
pub trait Step: Debug + Send + 'static {
    /// Its name in taps, logs and metrics: one of a few words.
    fn name(&self) -> &'static str;

    /// How long it may take. Whatever the step runs has deadlines of its own; this one is for when those fail.
    fn deadline(&self) -> Duration {
        Duration::from_secs(120)
    }
}

/// What is told about an object: its status, and events.
#[derive(Clone, Debug, PartialEq)]
pub struct Report<T> {
    /// The status that is true now; `None` leaves it as it is.
    pub status: Option<T>,
    /// What somebody should be told. Repeat an event for as long as it holds: it is posted once.
    pub events: Vec<Event>,
}

impl<T> Default for Report<T> {
    fn default() -> Self {
        Self {
            status: None,
            events: Vec::new(),
        }
    }
}

impl<T> Report<T> {
    /// A report of this status.
    pub const fn of(status: T) -> Self {
        Self {
            status: Some(status),
            events: Vec::new(),
        }
    }

    /// Adds an event.
    #[must_use]
    pub fn event(mut self, event: Event) -> Self {
        self.events.push(event);
        self
    }
}

/// Whether the object must stay until we have let go of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// It must: the finalizer is kept, and put on if it is missing and the object is not being deleted.
    #[default]
    Keep,
    /// It need not: the finalizer is taken off, or never put on. In a decision with steps it is `Keep` all the same.
    Release,
}

/// What follows from what was observed.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Decision<S, T> {
    /// What is to be done, in this order. A failed step keeps the later ones from being run.
    pub steps: Vec<S>,
    /// What is to be told. It is told before the first step: it is about what *was observed*.
    pub report: Report<T>,
    /// Whether the object is held. Letting go takes effect only in a decision without steps.
    pub hold: Hold,
    /// When to look again if nothing else wakes the object before.
    pub again: Option<Duration>,
}

impl<S, T> Default for Decision<S, T> {
    fn default() -> Self {
        Self {
            steps: Vec::new(),
            report: Report::default(),
            hold: Hold::Keep,
            again: None,
        }
    }
}

impl<S, T> Decision<S, T> {
    /// Nothing to do, nothing to say.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Adds a step.
    pub fn step(mut self, step: S) -> Self {
        self.steps.push(step);
        self
    }

    /// Adds steps.
    pub fn steps(mut self, steps: impl IntoIterator<Item = S>) -> Self {
        self.steps.extend(steps);
        self
    }

    /// Says what the status is.
    pub fn status(mut self, status: T) -> Self {
        self.report.status = Some(status);
        self
    }

    /// Adds an event.
    pub fn event(mut self, event: Event) -> Self {
        self.report.events.push(event);
        self
    }

    /// Lets go of the object.
    pub const fn release(mut self) -> Self {
        self.hold = Hold::Release;
        self
    }

    /// Looks again after `wait` at the latest.
    pub const fn again(mut self, wait: Duration) -> Self {
        self.again = Some(wait);
        self
    }
}

/// What a step came to.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Outcome {
    /// Whether anything is different now.
    pub changed: bool,
    /// What somebody should be told, once. Lost if the process dies first: what must not be lost is a condition.
    pub events: Vec<Event>,
}

impl Outcome {
    /// It was done.
    pub const fn changed() -> Self {
        Self {
            changed: true,
            events: Vec::new(),
        }
    }

    /// It was done already, or is no longer possible: nothing was changed.
    pub const fn unchanged() -> Self {
        Self {
            changed: false,
            events: Vec::new(),
        }
    }

    /// Adds an event.
    pub fn event(mut self, event: Event) -> Self {
        self.events.push(event);
        self
    }
}
