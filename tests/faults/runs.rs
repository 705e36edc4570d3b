//! Many runs on all cores, and what is wrong with which.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cstor_harness::seed::{SEED_VARIABLE, Seed};
use cstor_reconcile::memory_api::{Fault, Request};
use serde_json::Value;

/// Which seeds to run: one that was asked for, or many from a random start.
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    let start = Seed::choose("faults").value();
    if std::env::var_os(SEED_VARIABLE).is_some() {
        return start..start + 1;
    }
    let full = is_full();
    let count = std::env::var("CSTOR_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok());
    start..start + count.unwrap_or(if full { usual * 10 } else { usual })
}

/// Whether the long counts are run in full.
pub fn is_full() -> bool {
    std::env::var("CSTOR_FULL").is_ok_and(|text| text == "1")
}

/// What `complaint` says of which of the `plans`, by their numbers. All cores ask it.
pub fn complaints<P: Sync>(
    plans: &[P],
    complaint: impl Fn(usize, &P) -> Option<String> + Sync,
) -> BTreeMap<usize, String> {
    let (next, complaints) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(plan) = plans.get(number) else { return };
                    if let Some(complaint) = complaint(number, plan) {
                        complaints.lock().unwrap().insert(number, complaint);
                    }
                }
            });
        }
    });
    complaints.into_inner().unwrap()
}

/// What `judge` says of the run. One that panics is wrong, and no reason not to run the others.
pub fn judged<R>(
    run: impl FnOnce() -> R + UnwindSafe,
    judge: impl FnOnce(&R) -> Option<String>,
) -> Option<String> {
    match std::panic::catch_unwind(run) {
        Ok(ran) => judge(&ran),
        Err(_) => Some("panicked".into()),
    }
}

/// What is compared and counted of a run, whatever its world is.
pub struct Facts<'a> {
    /// What is left at the end, without times, versions and ids.
    pub end: &'a BTreeMap<String, Value>,
    pub crashes: usize,
    /// How often each fault of the API server was met.
    pub met: &'a BTreeMap<String, u64>,
    /// Writes while nothing was left to do.
    pub idle_writes: &'a [Request],
    pub violations: &'a [String],
}

impl Facts<'_> {
    fn complaint(&self, reference: &Facts<'_>) -> Option<String> {
        if let Some(first) = self.violations.first() {
            return Some(format!("{} violations: {first}", self.violations.len()));
        }
        for (name, expected) in reference.end {
            if self.end.get(name) != Some(expected) {
                let found = self.end.get(name).map(|found| format!("{found:#}"));
                return Some(format!(
                    "another end of {name}: {} instead of {expected:#}",
                    found.unwrap_or_default()
                ));
            }
        }
        if self.end.len() > reference.end.len() {
            return Some(format!("too much is left: {:?}", self.end.keys()));
        }
        (!self.idle_writes.is_empty())
            .then(|| format!("writes while nothing was left to do: {:?}", self.idle_writes))
    }
}

/// Controllers in a world of their own, whose disturbed runs are held against the undisturbed one: that of the default plan.
pub struct Suite<P, R> {
    /// By which its tests are chosen.
    pub name: &'static str,
    pub run: fn(P) -> R,
    pub facts: fn(&R) -> Facts<'_>,
}

impl<P, R> Suite<P, R>
where
    P: Clone + Debug + Default + Sync + RefUnwindSafe,
    R: Sync,
{
    pub fn reference(&self) -> R {
        (self.run)(P::default())
    }

    /// Why a run is not as the undisturbed one.
    pub fn complaint(&self, run: &R, reference: &R) -> Option<String> {
        (self.facts)(run).complaint(&(self.facts)(reference))
    }

    /// Runs all `plans`, and says what is wrong with which. `met` sees each run before it is compared.
    pub fn run_all(&self, plans: &[P], reference: &R, met: impl Fn(usize, &R) + Sync) -> Vec<String> {
        let failed = complaints(plans, |number, plan| {
            let judge = |ran: &R| {
                met(number, ran);
                self.complaint(ran, reference)
            };
            let complaint = judged(|| (self.run)(plan.clone()), judge)?;
            Some(format!("{plan:?}: {complaint}"))
        });
        failed.into_values().collect()
    }

    /// Runs the `plan` of each seed. As many seeds as `enough` meet every fault there is.
    pub fn over_seeds(&self, plan: impl Fn(u64) -> P, usual: u64, enough: usize) {
        let reference = self.reference();
        let seeds = seeds(usual);
        let name = self.name;
        println!("seeds {seeds:?}; repeat one by: cargo xtask test faults {name} --seed <seed>");
        let plans: Vec<P> = seeds.map(plan).collect();
        let met = Mutex::new(BTreeMap::<String, u64>::new());
        let failed = self.run_all(&plans, &reference, |_, ran| {
            let (mut met, ran) = (met.lock().unwrap(), (self.facts)(ran));
            *met.entry("crashes".into()).or_default() += u64::try_from(ran.crashes).unwrap();
            for (fault, count) in ran.met {
                *met.entry(fault.clone()).or_default() += count;
            }
        });
        let met = met.into_inner().unwrap();
        println!("{} seeds; met {met:?}", plans.len());
        none_failed(&failed, plans.len());
        let missing: Vec<_> = Fault::ALL
            .iter()
            .filter(|fault| !met.contains_key(&format!("{fault:?}")))
            .collect();
        let few = plans.len() < enough;
        assert!(few || missing.is_empty(), "never met: {missing:?}");
    }
}

/// Fails with the first of what [`Suite::run_all`] said of so many plans.
#[track_caller]
pub fn none_failed(failed: &[String], plans: usize) {
    assert!(failed.is_empty(), "{} of {plans}: {}", failed.len(), failed[0]);
}
