//! What the engine counts.
//!
//! Every label is one of a few words known when the program was written (controllers, effects, error labels), never
//! an object's name or an error's text, so the number of series is bounded.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Pass {
    controller: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Failed {
    controller: &'static str,
    during: &'static str,
    error: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Did {
    controller: &'static str,
    effect: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Posted {
    controller: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Of {
    controller: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct LeaseLabel {
    lease: String,
}

#[derive(Debug, Default)]
struct Families {
    passes: Family<Pass, Counter>,
    failures: Family<Failed, Counter>,
    effects: Family<Did, Counter>,
    events: Family<Posted, Counter>,
    resyncs: Family<Of, Counter>,
    watch_errors: Family<Of, Counter>,
    malformed: Family<Of, Counter>,
    malformed_now: Family<Of, Gauge>,
    objects: Family<Of, Gauge>,
    running: Family<Of, Gauge>,
    failing: Family<Of, Gauge>,
    stuck: Family<Of, Gauge>,
    leading: Family<LeaseLabel, Gauge>,
    renewals: Family<LeaseLabel, Counter>,
    renewal_failures: Family<LeaseLabel, Counter>,
    panics: Counter,
}

/// The metrics of a process: cheap to clone, shared by its parts.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    families: Arc<Families>,
    seconds: Family<Of, Histogram, fn() -> Histogram>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Metrics that start at nothing.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("cstor");
        let f = Families::default();
        let seconds: Family<Of, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 4.0, 10)));
        let r = &mut registry;
        r.register(
            "passes",
            "Looks at one object, by how they ended",
            f.passes.clone(),
        );
        r.register(
            "pass_seconds",
            "How long a look at one object took",
            seconds.clone(),
        );
        r.register(
            "failures",
            "Failures, by what was being done and the kind of error",
            f.failures.clone(),
        );
        r.register(
            "effects",
            "Effects, by what they were and how they ended",
            f.effects.clone(),
        );
        r.register(
            "events",
            "Events posted, suppressed as repetition, or lost",
            f.events.clone(),
        );
        r.register(
            "resyncs",
            "Complete lists read from the API server",
            f.resyncs.clone(),
        );
        r.register(
            "watch_errors",
            "Lists and watches that failed and were tried again",
            f.watch_errors.clone(),
        );
        r.register(
            "malformed",
            "Malformed objects met and skipped",
            f.malformed.clone(),
        );
        r.register(
            "malformed_objects",
            "Malformed objects there are now",
            f.malformed_now.clone(),
        );
        r.register("objects", "Objects looked after", f.objects.clone());
        r.register("running", "Objects being looked at now", f.running.clone());
        r.register(
            "failing_objects",
            "Objects whose last look failed",
            f.failing.clone(),
        );
        r.register(
            "stuck_steps",
            "Steps that run beyond their deadline now",
            f.stuck.clone(),
        );
        r.register(
            "leading",
            "1 while this process holds the Lease",
            f.leading.clone(),
        );
        r.register(
            "lease_renewals",
            "Lease renewals that went through",
            f.renewals.clone(),
        );
        r.register(
            "lease_renewal_failures",
            "Lease renewals that failed",
            f.renewal_failures.clone(),
        );
        r.register("panics", "Panics caught; each is a bug", f.panics.clone());
        Self {
            registry: Arc::new(Mutex::new(registry)),
            families: Arc::new(f),
            seconds,
        }
    }

    /// Adds a program's own metrics; the prefix `cstor_` is put before their names.
    pub fn register(&self, f: impl FnOnce(&mut Registry)) {
        f(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Everything, as OpenMetrics text.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(
            &mut text,
            &self.registry.lock().unwrap_or_else(PoisonError::into_inner),
        )?;
        Ok(text)
    }

    /// The metrics of one controller.
    #[must_use]
    pub fn of(&self, controller: &'static str) -> ControllerMetrics {
        ControllerMetrics {
            controller,
            all: self.clone(),
        }
    }

    pub(crate) fn leading(&self, lease: &str, leading: bool) {
        self.families
            .leading
            .get_or_create(&LeaseLabel { lease: lease.into() })
            .set(leading.into());
    }

    pub(crate) fn renewed(&self, lease: &str, well: bool) {
        let label = LeaseLabel { lease: lease.into() };
        if well {
            self.families.renewals.get_or_create(&label).inc();
        } else {
            self.families.renewal_failures.get_or_create(&label).inc();
        }
    }

    pub(crate) fn panicked(&self) {
        self.families.panics.inc();
    }
}

/// The metrics of one controller.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    controller: &'static str,
    all: Metrics,
}

impl ControllerMetrics {
    fn of(&self) -> Of {
        Of {
            controller: self.controller,
        }
    }

    pub(crate) fn passed(&self, outcome: &'static str, seconds: f64) {
        let label = Pass {
            controller: self.controller,
            outcome,
        };
        self.all.families.passes.get_or_create(&label).inc();
        self.all.seconds.get_or_create(&self.of()).observe(seconds);
    }

    pub(crate) fn failed(&self, during: &'static str, error: &'static str) {
        let label = Failed {
            controller: self.controller,
            during,
            error,
        };
        self.all.families.failures.get_or_create(&label).inc();
    }

    pub(crate) fn did(&self, effect: &'static str, result: &'static str) {
        let label = Did {
            controller: self.controller,
            effect,
            result,
        };
        self.all.families.effects.get_or_create(&label).inc();
    }

    pub(crate) fn event(&self, result: &'static str) {
        self.all
            .families
            .events
            .get_or_create(&Posted {
                controller: self.controller,
                result,
            })
            .inc();
    }

    pub(crate) fn resynced(&self) {
        self.all.families.resyncs.get_or_create(&self.of()).inc();
    }

    pub(crate) fn watch_failed(&self) {
        self.all.families.watch_errors.get_or_create(&self.of()).inc();
    }

    pub(crate) fn met_malformed(&self) {
        self.all.families.malformed.get_or_create(&self.of()).inc();
    }

    pub(crate) fn gauges(&self, now: Gauges) {
        let (of, f) = (self.of(), &self.all.families);
        f.objects.get_or_create(&of).set(now.objects);
        f.running.get_or_create(&of).set(now.running);
        f.failing.get_or_create(&of).set(now.failing);
        f.stuck.get_or_create(&of).set(now.stuck);
        f.malformed_now.get_or_create(&of).set(now.malformed);
    }

    /// How often every object was listed anew.
    #[must_use]
    pub fn resyncs(&self) -> u64 {
        self.all.families.resyncs.get_or_create(&self.of()).get()
    }

    /// How many looks ended as `outcome`: `idle`, `acted`, `failed`, `conflict`, `gone`, `stuck`, `malformed`.
    #[must_use]
    pub fn passes(&self, outcome: &'static str) -> u64 {
        self.all
            .families
            .passes
            .get_or_create(&Pass {
                controller: self.controller,
                outcome,
            })
            .get()
    }

    /// How many events were `posted`, `suppressed` or `lost`.
    #[must_use]
    pub fn events(&self, result: &'static str) -> u64 {
        self.all
            .families
            .events
            .get_or_create(&Posted {
                controller: self.controller,
                result,
            })
            .get()
    }

    /// How many malformed objects were met.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.all.families.malformed.get_or_create(&self.of()).get()
    }

    /// How many steps run beyond their deadline now.
    #[must_use]
    pub fn stuck(&self) -> i64 {
        self.all.families.stuck.get_or_create(&self.of()).get()
    }
}

/// What there is now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gauges {
    pub(crate) objects: i64,
    pub(crate) running: i64,
    pub(crate) failing: i64,
    pub(crate) stuck: i64,
    pub(crate) malformed: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_encode_with_prefix_and_labels() {
        let metrics = Metrics::new();
        metrics.of("pool").passed("idle", 0.01);
        metrics.of("pool").failed("create", "zpool_exit");
        let text = metrics.encode().unwrap();
        assert!(
            text.contains(r#"cstor_passes_total{controller="pool",outcome="idle"} 1"#),
            "{text}"
        );
        assert!(
            text.contains(r#"cstor_failures_total{controller="pool",during="create",error="zpool_exit"} 1"#)
        );
        assert!(text.ends_with("# EOF\n"));
    }
}
