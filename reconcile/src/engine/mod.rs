//! The engine: one loop that wakes objects, and one task for each look at one.
//!
//! # How it can die, and what follows
//!
//! | what dies | what follows |
//! |---|---|
//! | the process, anywhere | nothing is remembered that matters: everything is listed and looked at anew; a step that was done is found done |
//! | `observe`: fails, hangs, panics | a failure with back-off; [`Controller::unobserved`] tells; nothing is acted on |
//! | `decide` panics | a failure with back-off, for that object alone |
//! | a step fails | the rest of the decision is dropped; the failure is told at once; back-off |
//! | a step hangs | a failure at its deadline; the object is looked at to tell, but no step is run on it until this one has ended; other objects go on |
//! | a step panics | a failure with back-off |
//! | the API server | reads and writes fail with back-off; nothing is decided on caches alone |
//! | a write's response | the next look reads from the API server and finds it done |
//! | another writer is quicker | conflict: look again, not a failure |
//! | the watch | see [`watch`](crate::watch) |
//! | the status is not kept as written (old CRD) | a failure, and the same status is not written again to the same version |
//! | a trigger's stream ends | the engine ends, and with it the process: silently deaf is worse |
//!
//! # Stale reads
//! A look may begin from the cache, but no effect follows from it. Before the first effect the object is read from the
//! API server (a consistent read); if its version differs, or `observe` consulted a cache of related objects, everything is
//! observed anew with fresh reads. Rejected: to wait until the cache has caught up with our own writes. Versions may not be
//! compared for order, and a cache that lost an event would never catch up.

mod memory;
mod pass;
mod plan;
mod slots;
mod writes;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{BoxStream, SelectAll, Stream, StreamExt as _};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, error, info, info_span, warn};

use self::memory::Memory;
use self::pass::{Ended, Next, Pass, Running, Shared};
use self::slots::{Slots, StepEnd, Then, Wake};
use self::writes::Writer;
use crate::controller::{Controller, Outcome};
use crate::event::{Poster, WINDOW};
use crate::failure::{Class, Classify as _, During, Failure, Retry, chain};
use crate::health::Part;
use crate::metrics::{ControllerMetrics, Gauges};
use crate::process::Runnable;
use crate::watch::{Change, Watch};
use crate::{Backoff, Key, Object, Related, Services, reason};

/// How often the loop shows that it is alive, and how long it may be silent.
const BEAT: Duration = Duration::from_secs(15);
const SILENCE: Duration = Duration::from_secs(90);

/// After this many looks in a row that each had something to do, the next ones are slowed down.
const TURNS: u32 = 64;

/// Whom a trigger wakes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// One object.
    One(Key),
    /// Every object.
    All,
}

impl From<Key> for Trigger {
    fn from(key: Key) -> Self {
        Self::One(key)
    }
}

/// Why an engine ended.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A trigger's stream ended, and it would no longer be noticed what that told of.
    #[error("the trigger {name} of controller {controller} ended")]
    TriggerEnded {
        /// The controller.
        controller: &'static str,
        /// The trigger.
        name: String,
    },
}

/// What the loop is told.
enum Signal<K> {
    Change(Box<Change<K>>),
    Wake(Vec<Trigger>),
    RelatedReady(usize),
    WatchFailed(String),
    Ended(String),
}

type Source<K> = BoxStream<'static, Signal<K>>;
type MakeSource<K> = Box<dyn FnOnce(Duration, u64) -> Source<K> + Send>;

/// A [`Controller`] and what it is run with. Give it to [`App::controller`](crate::process::App::controller), or
/// [`run`](Self::run) it.
#[must_use]
pub struct Engine<C: Controller> {
    controller: C,
    watch: Watch<C::Object>,
    concurrency: usize,
    resync: Duration,
    backoff: Backoff,
    observe_deadline: Duration,
    event_window: Duration,
    fresh_reads: bool,
    related: Vec<MakeSource<C::Object>>,
    triggers: Vec<Source<C::Object>>,
}

impl<C: Controller> Engine<C> {
    /// An engine that runs `controller` on the objects of `watch`: four at a time, all of them again every ten minutes.
    pub fn new(controller: C, watch: Watch<C::Object>) -> Self {
        Self {
            controller,
            watch,
            concurrency: 4,
            resync: Duration::from_secs(600),
            backoff: Backoff::default(),
            observe_deadline: Duration::from_secs(60),
            event_window: WINDOW,
            fresh_reads: true,
            related: Vec::new(),
            triggers: Vec::new(),
        }
    }

    /// How many objects are looked at at a time. A step that hangs does not count.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.max(1);
        self
    }

    /// How often everything is listed and looked at anew, whatever was missed. A tenth of jitter is taken off.
    pub const fn resync(mut self, resync: Duration) -> Self {
        self.resync = resync;
        self
    }

    /// How long to wait after failures.
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// How long `observe` may take.
    pub const fn observe_deadline(mut self, deadline: Duration) -> Self {
        self.observe_deadline = deadline;
        self
    }

    /// How long an event that ceased and came back is not posted again.
    pub const fn event_window(mut self, window: Duration) -> Self {
        self.event_window = window;
        self
    }

    /// An engine that is wrong on purpose: effects follow from what a watch told, not from what the API server has. The faults
    /// suite proves by it that it would notice.
    #[cfg(feature = "memory-api")]
    pub const fn without_fresh_reads(mut self) -> Self {
        self.fresh_reads = false;
        self
    }

    /// Fills `related` and, when an object in it changes, wakes the objects that `wakes` names. It is asked about the object
    /// as it was and as it is, so that the one that is no longer referred to is woken, too.
    pub fn related<K: Object>(
        mut self,
        related: Related<K>,
        wakes: impl Fn(&K) -> Vec<Trigger> + Send + 'static,
    ) -> Self {
        let index = self.related.len();
        self.related.push(Box::new(move |resync, seed| {
            let changes = related.watch().clone().changes(resync, seed);
            changes
                .map(move |change| {
                    let ready = matches!(change, Change::Listed(_));
                    if let Change::Failed(why) = change {
                        return vec![Signal::WatchFailed(format!("{}: {why}", K::kind(&())))];
                    }
                    let woken = related
                        .take(change)
                        .iter()
                        .flat_map(|object| wakes(object))
                        .collect();
                    let ready = ready.then_some(Signal::RelatedReady(index));
                    ready.into_iter().chain([Signal::Wake(woken)]).collect()
                })
                .flat_map(futures::stream::iter)
                .boxed()
        }));
        self
    }

    /// Wakes objects when something outside the API tells of them: pool events, hot-plugged disks, a timer.
    /// The stream must not end.
    pub fn trigger<T: Into<Trigger>>(
        mut self,
        name: impl Into<String>,
        stream: impl Stream<Item = T> + Send + 'static,
    ) -> Self {
        let end = futures::stream::iter([Signal::Ended(name.into())]);
        self.triggers.push(
            stream
                .map(|trigger| Signal::Wake(vec![trigger.into()]))
                .chain(end)
                .boxed(),
        );
        self
    }

    /// Runs until `stop` is cancelled; then waits for running looks, for [`Services::drain`] at most.
    ///
    /// Dropping the future instead stops everything at once, as the death of the process would.
    pub async fn run(self, services: Services, stop: CancellationToken) -> Result<(), EngineError> {
        let seed = C::NAME
            .bytes()
            .fold(services.seed, |seed, byte| seed.rotate_left(5) ^ u64::from(byte));
        let mut sources = SelectAll::new();
        let changes = self.watch.clone().changes(self.resync, seed.wrapping_add(1));
        sources.push(changes.map(|change| Signal::Change(Box::new(change))).boxed());
        let unready = self.related.len();
        for (make, seed) in self.related.into_iter().zip(seed.wrapping_add(2)..) {
            sources.push(make(self.resync, seed));
        }
        sources.extend(self.triggers);

        let part = services.health.part(format!("controller {}", C::NAME));
        part.waiting_for("the first list");
        let metrics = services.metrics.of(C::NAME);
        let field_manager = format!("{}/{}", services.program, C::NAME);
        let shared = Arc::new(Shared {
            controller: self.controller,
            watch: self.watch,
            writer: Writer::new(services.client.clone(), &field_manager),
            poster: Poster::new(services.clone(), C::NAME),
            metrics: metrics.clone(),
            observe_deadline: self.observe_deadline,
            event_window: self.event_window,
            fresh_reads: self.fresh_reads,
            stop: stop.clone(),
            services,
        });
        let state = Loop {
            shared,
            metrics,
            part,
            slots: Slots::new(self.backoff),
            backoff: self.backoff,
            concurrency: self.concurrency,
            spread: self.resync / 10,
            rng: SmallRng::seed_from_u64(seed),
            running: JoinSet::new(),
            keys: BTreeMap::new(),
            stuck: JoinSet::new(),
            listed: false,
            unready: (0..unready).collect(),
        };
        state
            .run(sources, stop)
            .instrument(info_span!("controller", name = C::NAME))
            .await
    }
}

impl<C: Controller> Runnable for Engine<C> {
    fn name(&self) -> String {
        format!("controller {}", C::NAME)
    }

    fn run(
        self: Box<Self>,
        services: Services,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Box<dyn std::error::Error + Send + Sync>>> {
        Box::pin(async move { Ok(Self::run(*self, services, stop).await?) })
    }
}

type StuckEnd<C> = (
    Key,
    &'static str,
    Result<Result<Outcome, <C as Controller>::Error>, JoinError>,
);

struct Loop<C: Controller> {
    shared: Arc<Shared<C>>,
    metrics: ControllerMetrics,
    part: Part,
    slots: Slots<C::Object>,
    backoff: Backoff,
    concurrency: usize,
    spread: Duration,
    rng: SmallRng,
    running: JoinSet<Ended<C>>,
    /// Whose look each task is, and what was remembered when it began: a task that panics takes its memory along.
    keys: BTreeMap<Id, (Key, Memory)>,
    stuck: JoinSet<StuckEnd<C>>,
    listed: bool,
    unready: std::collections::BTreeSet<usize>,
}

impl<C: Controller> Loop<C> {
    async fn run(
        mut self,
        mut sources: SelectAll<Source<C::Object>>,
        stop: CancellationToken,
    ) -> Result<(), EngineError> {
        info!("started");
        loop {
            self.start_looks();
            self.show();
            let beat = Instant::now() + BEAT;
            let free = self.ready() && self.running.len() < self.concurrency;
            let wake = self
                .slots
                .next_due()
                .filter(|_| free)
                .map_or(beat, |due| due.min(beat));
            let sleep = tokio::time::sleep_until(wake);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = self.running.join_next_with_id() => self.looked(ended),
                Some(ended) = self.stuck.join_next() => self.step_ended(ended),
                Some(signal) = sources.next() => {
                    if let Some(name) = self.take(signal) {
                        error!(trigger = name, "a trigger ended");
                        self.drain().await;
                        return Err(EngineError::TriggerEnded { controller: C::NAME, name });
                    }
                }
                () = sleep => {}
            }
        }
        drop(sources);
        self.drain().await;
        Ok(())
    }

    /// Whether looks may be taken: everything they consult has been listed once.
    fn ready(&self) -> bool {
        self.listed && self.unready.is_empty()
    }

    fn start_looks(&mut self) {
        while self.ready() && self.running.len() < self.concurrency {
            let Some(start) = self.slots.start(Instant::now()) else {
                return;
            };
            let span = info_span!("look", object = %start.key);
            let remembered = (start.key.clone(), start.memory.clone());
            let pass = Pass {
                shared: self.shared.clone(),
                key: start.key,
                memory: start.memory,
                seen: start.seen,
                reading: start.reading,
                superseded: start.superseded,
            };
            let task = self.running.spawn(pass.run(start.object).instrument(span));
            self.keys.insert(task.id(), remembered);
        }
    }

    fn show(&self) {
        self.part.alive_for(SILENCE);
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.metrics.gauges(Gauges {
            objects: count(self.slots.len()),
            running: count(self.running.len()),
            failing: count(self.slots.failing.len()),
            stuck: count(self.stuck.len()),
            malformed: count(self.slots.malformed.len()),
        });
    }

    /// Takes in what a source told. Returns the name of a trigger that ended.
    fn take(&mut self, signal: Signal<C::Object>) -> Option<String> {
        let now = Instant::now();
        match signal {
            Signal::Change(change) => match *change {
                Change::Listed(objects) => {
                    self.metrics.resynced();
                    let (rng, spread) = (&mut self.rng, self.spread);
                    self.slots
                        .listed(objects, now, || spread.mul_f64(rng.random_range(0.0..=1.0)));
                    self.listed = true;
                    self.say_ready();
                }
                Change::Applied(object) => {
                    self.slots.applied(object, now);
                }
                Change::Deleted(object) => self.slots.deleted(&Key::of(&object)),
                Change::Failed(why) => self.watch_failed(&why),
            },
            Signal::WatchFailed(why) => self.watch_failed(&why),
            Signal::Wake(triggers) => {
                for trigger in triggers {
                    match trigger {
                        Trigger::One(key) => self.slots.wake(&key, Wake::Trigger, now),
                        Trigger::All => self.slots.wake_all(Wake::Trigger, now),
                    }
                }
            }
            Signal::RelatedReady(index) => {
                self.unready.remove(&index);
                self.say_ready();
            }
            Signal::Ended(name) => return Some(name),
        }
        None
    }

    fn watch_failed(&self, why: &str) {
        self.metrics.watch_failed();
        warn!(error = why, "watch failed; trying again");
    }

    fn say_ready(&self) {
        if self.ready() {
            self.part.ready();
        } else {
            self.part.waiting_for("the first list of everything it consults");
        }
    }

    fn looked(&mut self, ended: Result<(Id, Ended<C>), JoinError>) {
        let now = Instant::now();
        match ended {
            Ok((
                id,
                Ended {
                    next,
                    mut memory,
                    object,
                },
            )) => {
                let Some((key, _)) = self.keys.remove(&id) else {
                    return;
                };
                let then = self.follow(&key, next, &mut memory);
                self.slots.ended(&key, memory, object, then, now);
            }
            Err(panic) => {
                let Some((key, mut memory)) = self.keys.remove(&panic.id()) else {
                    return;
                };
                error!(object = %key, error = %panic, "the look panicked: this is a bug");
                self.metrics.failed("look", "panic");
                self.metrics.passed("failed", 0.0);
                let then = self.failed(&mut memory, Retry::Backoff);
                self.slots.ended(&key, memory, None, then, now);
            }
        }
    }

    /// What follows from a look.
    fn follow(&mut self, key: &Key, next: Next<C>, memory: &mut Memory) -> Then {
        if !matches!(next, Next::Conflict) {
            memory.conflicts = 0;
        }
        if !matches!(next, Next::Acted | Next::NoProgress) {
            memory.turns = 0;
        }
        match next {
            Next::Gone => Then {
                gone: true,
                ..Then::default()
            },
            Next::Malformed => {
                if !self.slots.malformed.contains(key) {
                    self.metrics.met_malformed();
                }
                memory.failures = 0;
                Then {
                    malformed: true,
                    ..Then::default()
                }
            }
            Next::Idle(again) => {
                memory.failures = 0;
                Then {
                    wait: again,
                    ..Then::default()
                }
            }
            Next::Acted => {
                memory.failures = 0;
                memory.turns = memory.turns.saturating_add(1);
                let wait = match memory.turns.checked_sub(TURNS) {
                    None | Some(0) => Duration::ZERO,
                    Some(beyond) => {
                        warn!(object = %key, looks = memory.turns, "there is always something to do");
                        self.backoff.delay(beyond, &mut self.rng)
                    }
                };
                Then {
                    wait: Some(wait),
                    ..Then::default()
                }
            }
            Next::NoProgress => {
                memory.failures = 0;
                memory.turns = memory.turns.saturating_add(1);
                let wait = self.backoff.delay(memory.turns, &mut self.rng);
                Then {
                    wait: Some(wait),
                    fresh: true,
                    ..Then::default()
                }
            }
            Next::Conflict => {
                let quick = Backoff {
                    base: Duration::from_millis(20),
                    cap: Duration::from_secs(5),
                    ..Backoff::default()
                };
                memory.conflicts = memory.conflicts.saturating_add(1);
                let wait = quick.delay(memory.conflicts, &mut self.rng);
                Then {
                    wait: Some(wait),
                    fresh: true,
                    ..Then::default()
                }
            }
            Next::Failed(retry) => self.failed(memory, retry),
            Next::Stuck(name, running) => {
                self.keep(key.clone(), name, running);
                self.failed(memory, Retry::Backoff)
            }
            Next::StillStuck => self.failed(memory, Retry::Backoff),
            Next::Stopped => Then::default(),
        }
    }

    fn failed(&mut self, memory: &mut Memory, retry: Retry) -> Then {
        memory.failures = memory.failures.saturating_add(1);
        let wait = match retry {
            Retry::Backoff => Some(self.backoff.delay(memory.failures, &mut self.rng)),
            Retry::After(wait) => Some(wait),
            Retry::LookAgain => Some(Duration::ZERO),
            Retry::OnChange => None,
        };
        Then {
            wait,
            fresh: true,
            failed: true,
            ..Then::default()
        }
    }

    fn keep(&mut self, key: Key, name: &'static str, running: Running<C>) {
        self.stuck.spawn(async move { (key, name, running.await) });
    }

    fn step_ended(&mut self, ended: Result<StuckEnd<C>, JoinError>) {
        let Ok((key, name, ended)) = ended else { return };
        let failure = match ended {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some((error.classify(), chain(&error))),
            Err(panic) => Some((Class::new("panic", reason::PANICKED), panic.to_string())),
        };
        info!(object = %key, step = name, well = failure.is_none(), "a step that was stuck has ended");
        let now = self.shared.services.clock.now();
        let end: StepEnd = match failure {
            None => Ok(()),
            Some((class, message)) => Err(Failure {
                during: During::Step(name),
                class,
                message,
                since: now,
                count: 1,
            }),
        };
        self.slots.step_ended(&key, end, Instant::now());
    }

    /// Waits for running looks to end. Steps that are stuck are not waited for.
    async fn drain(&mut self) {
        self.part.waiting_for("the end");
        let deadline = tokio::time::sleep(self.shared.services.drain);
        let mut deadline: Pin<&mut _> = std::pin::pin!(deadline);
        loop {
            tokio::select! {
                biased;
                ended = self.running.join_next() => if ended.is_none() { break },
                () = deadline.as_mut() => {
                    warn!(left = self.running.len(), "looks that did not end in time are dropped");
                    break;
                }
            }
        }
        if !self.stuck.is_empty() {
            warn!(left = self.stuck.len(), "steps that are stuck are dropped");
        }
        info!("stopped");
    }
}
