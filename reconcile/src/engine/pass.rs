//! One look at one object.
//!
//! The order of effects is fixed: finalizer, events, status, steps, and the finalizer's removal last. Events come before the
//! status, because a decision may see from the status that something is new: were the status first, a crash between the
//! two would lose the event for ever; this way round it is posted again under the same name, which is nothing.
//! The status comes before the steps: it is about what was observed before them, and its resource version is one more
//! check that the decision still applies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::error_boundary::InvalidObject;
use kube::{Resource as _, ResourceExt as _};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, error, info, warn};

use super::memory::{Memory, Refused, Seen};
use super::plan::{Plan, current_status, held};
use super::writes::{Refusal, Writer, answered};
use crate::controller::{Controller, Decision, Hold, Outcome, Report, Step as _};
use crate::event::Poster;
use crate::failure::{Class, Classify as _, During, Failure, Retry, chain};
use crate::metrics::ControllerMetrics;
use crate::status::difference;
use crate::tap::{Effect, Moment};
use crate::watch::{Guarded, Watch};
use crate::{Context, Event, Key, Reading, Services, reason};

/// What all looks of one engine share.
pub(super) struct Shared<C: Controller> {
    pub(super) controller: C,
    pub(super) watch: Watch<C::Object>,
    pub(super) writer: Writer<C::Object>,
    pub(super) poster: Poster,
    pub(super) services: Services,
    pub(super) metrics: ControllerMetrics,
    pub(super) observe_deadline: Duration,
    pub(super) event_window: Duration,
    /// Always, but in one engine of the faults suite.
    pub(super) fresh_reads: bool,
    pub(super) stop: CancellationToken,
}

/// A step that runs beyond its deadline.
pub(super) type Running<C> = AbortOnDropHandle<Result<Outcome, <C as Controller>::Error>>;

/// What is to be done with the object next.
pub(super) enum Next<C: Controller> {
    /// There is no such object, or it is not ours.
    Gone,
    /// It does not have the shape of its kind.
    Malformed,
    /// There was nothing to do. Look again then, if at all.
    Idle(Option<Duration>),
    /// Something was done: look again at once.
    Acted,
    /// Steps were run, and none changed anything: look again, but not at once.
    NoProgress,
    /// Somebody else was quicker: look again.
    Conflict,
    /// It failed.
    Failed(Retry),
    /// A step runs beyond its deadline.
    Stuck(&'static str, Running<C>),
    /// A step that was stuck before still is; it has been told.
    StillStuck,
    /// The process is stopping.
    Stopped,
}

impl<C: Controller> Next<C> {
    pub(super) const fn label(&self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Malformed => "malformed",
            Self::Idle(_) => "idle",
            Self::Acted => "acted",
            Self::NoProgress => "no_progress",
            Self::Conflict => "conflict",
            Self::Failed(_) => "failed",
            Self::Stuck(..) | Self::StillStuck => "stuck",
            Self::Stopped => "stopped",
        }
    }
}

/// How a look ended.
pub(super) struct Ended<C: Controller> {
    pub(super) next: Next<C>,
    pub(super) memory: Memory,
    /// The object as last read or written; `None` if nothing newer than what the look began with is known.
    pub(super) object: Option<Guarded<C::Object>>,
}

/// One look at one object.
pub(super) struct Pass<C: Controller> {
    pub(super) shared: Arc<Shared<C>>,
    pub(super) key: Key,
    pub(super) memory: Memory,
    pub(super) seen: Seen,
    pub(super) reading: Reading,
    /// Set when something happened to the object since the look began.
    pub(super) superseded: Arc<AtomicBool>,
}

/// A look that came to an early end.
type Cut<C> = Next<C>;

impl<C: Controller> Pass<C> {
    pub(super) async fn run(mut self, object: Guarded<C::Object>) -> Ended<C> {
        let began = Instant::now();
        let mut latest = None;
        let next = match self.look(object, &mut latest).await {
            Ok(next) | Err(next) => next,
        };
        self.shared
            .metrics
            .passed(next.label(), began.elapsed().as_secs_f64());
        debug!(outcome = next.label(), "looked");
        Ended {
            next,
            memory: self.memory,
            object: latest,
        }
    }

    async fn look(
        &mut self,
        object: Guarded<C::Object>,
        latest: &mut Option<Guarded<C::Object>>,
    ) -> Result<Next<C>, Cut<C>> {
        let mut object = if self.reading == Reading::Fresh {
            self.read(latest).await?
        } else {
            object
        };
        loop {
            let typed = match object.0 {
                Ok(typed) => typed,
                Err(invalid) if self.reading == Reading::Fresh => return Ok(self.skip(&invalid).await),
                Err(_) => {
                    self.reading = Reading::Fresh;
                    object = self.read(latest).await?;
                    continue;
                }
            };
            self.seen.note(typed.resource_version().as_deref());
            self.memory.meet(typed.uid().as_deref());
            if self.beyond_us(&typed) {
                return Ok(Next::Idle(None));
            }
            let ctx = self.context(&typed);
            let observed = match self.observe(&ctx, &typed).await {
                Ok(observed) => observed,
                Err((class, message)) => {
                    return Err(self.cannot_observe(&typed, class, message, latest).await);
                }
            };
            let decision = C::decide(&observed);
            let plan = self.plan(&typed, decision);
            if plan.is_empty() {
                self.settle(&plan.report.events);
                return Ok(self.nothing_to_do(plan.again));
            }
            if self.reading == Reading::Cached && self.shared.fresh_reads {
                self.reading = Reading::Fresh;
                let fresh = self.read(latest).await?;
                let same = fresh
                    .0
                    .as_ref()
                    .is_ok_and(|fresh| fresh.resource_version() == typed.resource_version());
                if !same || ctx.used_cache() {
                    object = fresh;
                    continue;
                }
            }
            return self.carry_out(typed, plan, &ctx, latest).await;
        }
    }

    /// Whether the object is being deleted and not, or no longer, held by us: then nothing about it is our business.
    fn beyond_us(&self, object: &C::Object) -> bool {
        C::FINALIZER.is_some() && object.meta().deletion_timestamp.is_some() && !held::<C>(object)
    }

    fn context(&self, object: &C::Object) -> Context {
        Context::new(object, self.shared.services.clock.now())
            .with_failure(self.memory.failure.clone())
            .with_reading(self.reading)
            .with_stop(self.shared.stop.clone())
    }

    async fn read(&mut self, latest: &mut Option<Guarded<C::Object>>) -> Result<Guarded<C::Object>, Cut<C>> {
        match answered(self.shared.watch.read(&self.key)).await {
            Ok(Some(object)) => {
                let object = crate::watch::slim(object);
                *latest = Some(object.clone());
                Ok(object)
            }
            Ok(None) | Err(Refusal::Gone) => Err(Next::Gone),
            Err(Refusal::Conflict) => Err(Next::Conflict),
            Err(Refusal::Failed(label, message)) => Err(self.engine_failed("read", label, &message)),
        }
    }

    async fn observe(&self, ctx: &Context, object: &C::Object) -> Result<C::Observed, (Class, String)> {
        let deadline = self.shared.observe_deadline;
        match tokio::time::timeout(deadline, self.shared.controller.observe(ctx, object)).await {
            Ok(Ok(observed)) => Ok(observed),
            Ok(Err(error)) => Err((error.classify(), chain(&error))),
            Err(_elapsed) => {
                let class = Class::new("deadline", reason::OBSERVE_HANGS);
                Err((
                    class,
                    format!("observing did not end within {} s", deadline.as_secs()),
                ))
            }
        }
    }

    async fn cannot_observe(
        &mut self,
        object: &C::Object,
        class: Class,
        message: String,
        latest: &mut Option<Guarded<C::Object>>,
    ) -> Cut<C> {
        if class.retry == Retry::LookAgain {
            return Next::Conflict;
        }
        let failure = self.fail(During::Observe, class, message);
        let report = C::unobserved(object, &failure, self.shared.services.clock.now());
        self.tell(object.clone(), report, latest).await;
        Next::Failed(class.retry)
    }

    /// What of a decision is left to be done.
    fn plan(&self, object: &C::Object, decision: Decision<C::Step, C::Status>) -> Plan<C> {
        let (deleting, held) = (object.meta().deletion_timestamp.is_some(), held::<C>(object));
        let stuck = self.memory.stuck.is_some();
        let status = self.status_patch(object, decision.report.status.as_ref());
        // Whatever the decision says of letting go: no step runs on an object that is not held.
        let keep = decision.hold == Hold::Keep || !decision.steps.is_empty();
        Plan {
            hold: C::FINALIZER.filter(|_| !stuck && !held && !deleting && keep),
            release: C::FINALIZER.filter(|_| !stuck && held && !keep),
            fresh_events: self.new_events(&decision.report.events),
            status,
            steps: if stuck { Vec::new() } else { decision.steps },
            report: decision.report,
            again: decision.again,
        }
    }

    fn status_patch(&self, object: &C::Object, desired: Option<&C::Status>) -> Option<Value> {
        let desired = match serde_json::to_value(desired?) {
            Ok(desired) => desired,
            Err(error) => {
                error!(%error, "a status that cannot be written as JSON: this is a bug");
                return None;
            }
        };
        if desired.is_null() {
            return None;
        }
        let patch = difference(&current_status(object), &desired)?;
        let refused = Refused {
            version: object.resource_version(),
            patch,
        };
        (self.memory.refused.as_ref() != Some(&refused)).then_some(refused.patch)
    }

    fn nothing_to_do(&mut self, again: Option<Duration>) -> Next<C> {
        if self.memory.stuck.is_some() {
            return Next::StillStuck;
        }
        if self
            .memory
            .failure
            .take()
            .is_some_and(|failure| failure.during != During::Observe)
        {
            // The decision may have spoken of a failure that is over.
            return Next::Acted;
        }
        Next::Idle(again)
    }

    async fn carry_out(
        &mut self,
        mut object: C::Object,
        plan: Plan<C>,
        ctx: &Context,
        latest: &mut Option<Guarded<C::Object>>,
    ) -> Result<Next<C>, Cut<C>> {
        let writer = &self.shared.clone().writer;
        if let Some(finalizer) = plan.hold {
            let written = self
                .write(Effect::AddFinalizer, writer.add_finalizer(&object, finalizer))
                .await?;
            object = self.written(written, latest)?;
        }
        self.post(&plan.fresh_events, &ctx.reference().clone()).await;
        self.settle(&plan.report.events);
        if let Some(patch) = &plan.status {
            let written = self
                .write(Effect::PatchStatus, writer.patch_status(&object, patch))
                .await?;
            object = self.written(written, latest)?;
            self.check_kept(&object, plan.report.status.as_ref())?;
        }
        if let Some(finalizer) = plan.release {
            let written = self
                .write(
                    Effect::RemoveFinalizer,
                    writer.remove_finalizer(&object, finalizer),
                )
                .await?;
            info!("let go of the object");
            self.written(written, latest)?;
        }
        if self.memory.stuck.is_some() {
            return Ok(Next::StillStuck);
        }
        let wrote = plan.writes_object();
        if !wrote && plan.steps.is_empty() {
            // Nothing but events, which no decision depends on.
            return Ok(self.nothing_to_do(plan.again));
        }
        let changed = self.run_steps(plan.steps, ctx, &object, latest).await?;
        self.memory.failure = None;
        Ok(if wrote || changed {
            Next::Acted
        } else {
            Next::NoProgress
        })
    }

    /// Runs the steps in order. `true`: at least one changed something.
    async fn run_steps(
        &mut self,
        steps: Vec<C::Step>,
        ctx: &Context,
        object: &C::Object,
        latest: &mut Option<Guarded<C::Object>>,
    ) -> Result<bool, Cut<C>> {
        let mut changed = false;
        for (index, step) in steps.into_iter().enumerate() {
            if self.shared.stop.is_cancelled() {
                return Err(Next::Stopped);
            }
            if index > 0 && self.superseded.load(Ordering::Relaxed) {
                debug!("something happened to the object: looking again before the next step");
                return Ok(true);
            }
            let (name, deadline) = (step.name(), step.deadline());
            let effect = Effect::Step(name);
            debug!(step = ?step, "acting");
            self.tap(effect, Moment::Before).await;
            let (shared, ctx2) = (self.shared.clone(), ctx.clone());
            let act = async move { shared.controller.act(&ctx2, step).await };
            let mut running = AbortOnDropHandle::new(tokio::spawn(act));
            let ended = tokio::time::timeout(deadline, &mut running).await;
            self.tap(effect, Moment::After).await;
            let failure = match ended {
                Ok(Ok(Ok(outcome))) => {
                    self.shared
                        .metrics
                        .did(name, if outcome.changed { "changed" } else { "unchanged" });
                    info!(step = name, changed = outcome.changed, "acted");
                    changed |= outcome.changed;
                    let fresh = self.new_events(&outcome.events);
                    self.post(&fresh, ctx.reference()).await;
                    continue;
                }
                Ok(Ok(Err(error))) => (error.classify(), chain(&error)),
                Ok(Err(panic)) => (Class::new("panic", reason::PANICKED), panic.to_string()),
                Err(_elapsed) => {
                    let message = format!(
                        "{name} has not ended within {} s and still runs",
                        deadline.as_secs()
                    );
                    self.shared.metrics.did(name, "stuck");
                    self.memory.stuck = Some(name);
                    self.fail(
                        During::Step(name),
                        Class::new("deadline", reason::STEP_HANGS),
                        message,
                    );
                    self.tell_failure(object, latest).await;
                    return Err(Next::Stuck(name, running));
                }
            };
            let (class, message) = failure;
            self.shared.metrics.did(name, "failed");
            if class.retry == Retry::LookAgain {
                debug!(step = name, message, "somebody else was quicker");
                return Err(Next::Conflict);
            }
            self.fail(During::Step(name), class, message);
            self.tell_failure(object, latest).await;
            return Err(Next::Failed(class.retry));
        }
        Ok(changed)
    }

    /// Observes and decides once more, now that something has failed, and uses nothing of the decision but the report.
    async fn tell_failure(&mut self, object: &C::Object, latest: &mut Option<Guarded<C::Object>>) {
        self.reading = Reading::Fresh;
        let object = match self.read(latest).await {
            Ok(Guarded::<C::Object> { 0: Ok(object) }) => object,
            Ok(_) | Err(_) => object.clone(),
        };
        let ctx = self.context(&object);
        match self.observe(&ctx, &object).await {
            Ok(observed) => {
                let report = C::decide(&observed).report;
                self.tell(object, report, latest).await;
            }
            Err((_, message)) => warn!(error = message, "cannot observe to tell of the failure"),
        }
    }

    /// Posts events and patches the status. That it cannot be told is no reason to fail otherwise than we did already.
    async fn tell(
        &mut self,
        object: C::Object,
        report: Report<C::Status>,
        latest: &mut Option<Guarded<C::Object>>,
    ) {
        let fresh = self.new_events(&report.events);
        self.post(&fresh, &object.object_ref(&())).await;
        self.settle(&report.events);
        let Some(patch) = self.status_patch(&object, report.status.as_ref()) else {
            return;
        };
        let shared = self.shared.clone();
        let told = self
            .write(Effect::PatchStatus, shared.writer.patch_status(&object, &patch))
            .await;
        let told = told.and_then(|written| self.written(written, latest));
        if told
            .and_then(|object| self.check_kept(&object, report.status.as_ref()))
            .is_err()
        {
            debug!("the failure could not be told now; the next look tells it");
        }
    }

    /// Makes sure that the API server kept the status as it was written. If it did not (its CRD is older than this
    /// program, say), writing it again on each look would be an endless stream of writes.
    fn check_kept(&mut self, object: &C::Object, desired: Option<&C::Status>) -> Result<(), Cut<C>> {
        self.memory.refused = None;
        let Some(patch) = self.status_patch(object, desired) else {
            return Ok(());
        };
        let message = format!("the API server did not keep the status as it was written; missing: {patch}");
        self.memory.refused = Some(Refused {
            version: object.resource_version(),
            patch,
        });
        Err(self.engine_failed(Effect::PatchStatus.label(), "status_not_kept", &message))
    }

    fn written(
        &mut self,
        written: Guarded<C::Object>,
        latest: &mut Option<Guarded<C::Object>>,
    ) -> Result<C::Object, Cut<C>> {
        self.seen.note(written.meta().resource_version.as_deref());
        *latest = Some(written.clone());
        written
            .0
            .map_err(|error| self.engine_failed("write", "malformed", &error.to_string()))
    }

    async fn write(
        &mut self,
        effect: Effect,
        request: impl Future<Output = Result<Guarded<C::Object>, Refusal>>,
    ) -> Result<Guarded<C::Object>, Cut<C>> {
        self.tap(effect, Moment::Before).await;
        let written = request.await;
        self.tap(effect, Moment::After).await;
        let label = effect.label();
        match written {
            Ok(object) => {
                self.shared.metrics.did(label, "changed");
                Ok(object)
            }
            Err(Refusal::Gone) => Err(Next::Gone),
            Err(Refusal::Conflict) => {
                self.shared.metrics.did(label, "conflict");
                Err(Next::Conflict)
            }
            Err(Refusal::Failed(error, message)) => {
                self.shared.metrics.did(label, "failed");
                Err(self.engine_failed(label, error, &message))
            }
        }
    }

    async fn post(&mut self, events: &[(Event, i32)], regarding: &ObjectReference) {
        for (event, count) in events {
            self.tap(Effect::PostEvent, Moment::Before).await;
            let posted = self.shared.poster.post(event, regarding, *count).await;
            self.tap(Effect::PostEvent, Moment::After).await;
            match posted {
                Ok(()) => {
                    self.memory.events.posted(event, *count, Instant::now());
                    self.shared.metrics.event("posted");
                }
                Err(error) => {
                    self.shared.metrics.event("lost");
                    warn!(
                        error,
                        reason = event.reason,
                        note = event.note,
                        "could not post the event"
                    );
                    // The others would very likely meet the same fate, each after its own deadline.
                    return;
                }
            }
        }
    }

    fn new_events(&self, events: &[Event]) -> Vec<(Event, i32)> {
        self.memory
            .events
            .new_among(events, self.shared.event_window, Instant::now())
    }

    fn settle(&mut self, events: &[Event]) {
        for _ in 0..self.memory.events.settle(events, Instant::now()) {
            self.shared.metrics.event("suppressed");
        }
    }

    async fn skip(&mut self, invalid: &InvalidObject) -> Next<C> {
        self.memory.meet(invalid.metadata.uid.as_deref());
        self.seen.note(invalid.metadata.resource_version.as_deref());
        let kind = C::Object::kind(&()).into_owned();
        let note = format!(
            "This object does not have the shape of a {kind} and is skipped until it is repaired: {invalid}"
        );
        let event = Event::warning(reason::MALFORMED, note);
        let regarding = ObjectReference {
            api_version: Some(C::Object::api_version(&()).into_owned()),
            kind: Some(kind),
            name: invalid.metadata.name.clone(),
            namespace: invalid.metadata.namespace.clone(),
            uid: invalid.metadata.uid.clone(),
            resource_version: invalid.metadata.resource_version.clone(),
            ..ObjectReference::default()
        };
        let events = [event];
        let fresh = self.new_events(&events);
        if !fresh.is_empty() {
            warn!(error = invalid.error, "malformed object skipped");
        }
        self.post(&fresh, &regarding).await;
        self.settle(&events);
        Next::Malformed
    }

    fn fail(&mut self, during: During, class: Class, message: String) -> Failure {
        self.shared.metrics.failed(during.label(), class.label);
        let failure = self
            .memory
            .fail(during, class, message, self.shared.services.clock.now());
        warn!(
            during = during.label(),
            error = failure.message,
            count = failure.count,
            "failed"
        );
        failure
    }

    /// A failure of the engine's own requests: not told in the status, since telling needs the same API server.
    fn engine_failed(&self, doing: &'static str, label: &'static str, message: &str) -> Cut<C> {
        self.shared.metrics.failed(doing, label);
        warn!(during = doing, error = message, "failed");
        Next::Failed(Retry::Backoff)
    }

    async fn tap(&self, effect: Effect, moment: Moment) {
        self.shared
            .services
            .taps
            .reached(C::NAME, &self.key, effect, moment)
            .await;
    }
}
