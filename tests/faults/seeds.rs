//! Everything at once, over many seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Instant;

use cstor_reconcile::memory_api::Fault;
use cstor_reconcile::tap::{Effect, Moment};

use crate::host::HOST_FAULTS;
use crate::runs::{complaints, judged, seeds};
use crate::world::{Plan, Run, run};

/// Why a run is not as the undisturbed one.
pub fn complaint(run: &Run, reference: &Run) -> Option<String> {
    if !run.violations.is_empty() {
        return Some(format!("violations: {:#?}", run.violations));
    }
    if run.end != reference.end {
        return Some(format!(
            "another end: {:#?}\ninstead of {:#?}",
            run.end, reference.end
        ));
    }
    (run.idle_writes > 0).then(|| format!("{} writes while nothing was left to do", run.idle_writes))
}

/// As many seeds as meet everything: with fewer, the rare may be missed.
const USUAL: u64 = 1000;

/// What all runs together have met.
#[derive(Debug, Default)]
struct Met {
    crashes: usize,
    requests: usize,
    crashed: BTreeSet<(Effect, Moment)>,
    faults: BTreeMap<String, u64>,
}

impl Met {
    fn add(&mut self, run: &Run) {
        self.crashes += run.crashes;
        self.requests += run.requests;
        self.crashed.extend(&run.crashed);
        for (fault, count) in &run.met {
            *self.faults.entry(fault.clone()).or_default() += count;
        }
    }

    /// What was never met: the suite would not test it.
    fn missing(&self, reference: &Run) -> Vec<String> {
        let api = Fault::ALL.map(|fault| format!("{fault:?} of the API server"));
        let host = HOST_FAULTS.map(|fault| format!("{fault} of the host"));
        let faults = api.into_iter().chain(host);
        let taps: BTreeSet<_> = reference
            .taps
            .iter()
            .map(|point| (point.effect, point.moment))
            .collect();
        let taps = taps.difference(&self.crashed);
        faults
            .filter(|fault| !self.faults.contains_key(fault))
            .chain(taps.map(|(effect, moment)| format!("a crash {moment:?} {}", effect.label())))
            .collect()
    }
}

#[test]
fn whatever_goes_wrong_it_ends_the_same() {
    let reference = run(Plan::default());
    let seeds = seeds(USUAL);
    println!("seeds {seeds:?}; repeat one by: cargo xtask test faults --seed <seed>");
    let began = Instant::now();
    let with = |seed| Plan {
        seed,
        faults: true,
        ..Plan::default()
    };
    let plans: Vec<Plan> = seeds.clone().map(with).collect();
    let met = Mutex::new(Met::default());
    let failed = complaints(&plans, |_, plan| {
        let judge = |ran: &Run| {
            met.lock().unwrap().add(ran);
            complaint(ran, &reference)
        };
        let (seed, complaint) = (plan.seed, judged(|| run(*plan), judge)?);
        eprintln!("seed {seed} failed; repeat it by: cargo xtask test faults --seed {seed}");
        Some(complaint)
    });
    let met = met.into_inner().unwrap();
    let count = seeds.end - seeds.start;
    println!(
        "{count} seeds, {} crashes, {} requests in {:.1} s; {:?}",
        met.crashes,
        met.requests,
        began.elapsed().as_secs_f64(),
        met.faults
    );
    if let Some((number, complaint)) = failed.first_key_value() {
        let seed = plans[*number].seed;
        panic!(
            "{} of {count} seeds failed; seed {seed}: {complaint}",
            failed.len()
        );
    }
    let missing = met.missing(&reference);
    assert!(
        count < USUAL || missing.is_empty(),
        "never met in {count} seeds: {missing:?}"
    );
}
