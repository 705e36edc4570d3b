//! The disk controllers of the agent, on hosts whose disks are files: crashed at every tap, fed stale reads, refused and
//! unanswered; hundreds of disks; disks that hang. What is true of the disks is what is told in the end, and nothing is
//! written while nothing changes.

mod end;
mod host;
mod many;
mod oracle;
mod user;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cstor_reconcile::memory_api::Fault;
use cstor_reconcile::tap::TapPoint;
use serde_json::{Value, json};

use self::world::{Meddler, Plan, Run, run};
use crate::seeds::{is_full, seeds};

/// Why a run is not as the undisturbed one.
fn complaint(run: &Run, reference: &Run) -> Option<String> {
    if let Some(first) = run.violations.first() {
        return Some(format!("{} violations: {first}", run.violations.len()));
    }
    for (name, expected) in &reference.end {
        if run.end.get(name) != Some(expected) {
            let found = run.end.get(name).map(|found| format!("{found:#}"));
            return Some(format!(
                "another end of {name}: {} instead of {expected:#}",
                found.unwrap_or_default()
            ));
        }
    }
    if run.end.len() > reference.end.len() {
        return Some(format!("too much is left: {:?}", run.end.keys()));
    }
    (!run.idle_writes.is_empty())
        .then(|| format!("writes while nothing was left to do: {:?}", run.idle_writes))
}

/// The undisturbed run is what every other one is compared with; it must be right itself.
#[test]
fn undisturbed_it_ends_as_it_is() {
    let run = run(Plan::default());
    assert_eq!(run.violations, Vec::<String>::new());
    assert_eq!(run.idle_writes, []);
    let ends: BTreeMap<_, _> = run
        .end
        .iter()
        .filter(|(name, _)| name.starts_with("device "))
        .map(|(name, device)| {
            let conditions = device["status"]["conditions"].as_array().unwrap();
            let blank = conditions.iter().find(|condition| condition["type"] == "Blank");
            let (spec, node) = (&device["spec"], &device["spec"]["nodeAttributes"]["nodeName"]);
            assert_eq!(device["metadata"]["observed"], true, "{device:#}");
            let blank = blank.map(|blank| blank["reason"].clone());
            (
                name.as_str(),
                json!([node, spec["path"], device["status"]["state"], blank]),
            )
        })
        .collect();
    let free = "NothingFound";
    let expected = BTreeMap::from([
        ("device alpha", json!(["node-1", "/dev/vdx1", "Active", free])),
        (
            "device beta",
            json!(["node-1", "/dev/vdx2", "Active", "FileSystem"]),
        ),
        (
            "device delta",
            json!(["node-2", "/dev/vdx2", "Active", "FileSystem"]),
        ),
        (
            "device e3a1c2d4-0b5f-4a6e-9",
            json!(["node-1", "/dev/vdx7", "Active", free]),
        ),
        ("device gamma", json!(["node-1", "/dev/vdx9", "Active", free])),
        ("device mobile", json!(["node-1", "/dev/vdx8", "Active", free])),
        (
            "device twins",
            json!(["node-1", "/dev/vdx4", "Unknown", "DuplicateIdentity"]),
        ),
    ]);
    assert_eq!(ends, expected);
    assert_eq!(run.end["attachment csi-lost"][1]["reason"], "NoDevice");
    let steps: BTreeSet<_> = run
        .taps
        .iter()
        .map(|point| (point.controller, point.effect.label()))
        .collect();
    for step in [
        ("disks", "make"),
        ("disks", "take_over"),
        ("disks", "mark"),
        ("disks", "unmark"),
        ("disk", "describe"),
        ("disk", "remove"),
        ("disk", "forget_wipe"),
        ("disk", "patch_status"),
        ("disk", "post_event"),
        ("attachments", "annotate"),
    ] {
        assert!(steps.contains(&step), "{step:?} was never needed: {steps:?}");
    }
}

/// Runs all `plans` on all cores, and says what is wrong with which.
fn run_all(plans: &[Plan], reference: &Run, met: impl Fn(&Run) + Sync) -> Vec<String> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(plan) = plans.get(number) else { return };
                    let complaint = match std::panic::catch_unwind(|| run(plan.clone())) {
                        Ok(ran) => {
                            met(&ran);
                            complaint(&ran, reference)
                        }
                        Err(_) => Some("panicked".into()),
                    };
                    if let Some(complaint) = complaint {
                        let complaint = format!("{plan:?}: {complaint}");
                        failed.lock().unwrap().insert(number, complaint);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap().into_values().collect()
}

#[test]
fn a_crash_at_any_tap_changes_nothing_in_the_end() {
    let reference = run(Plan::default());
    let mut times = BTreeMap::<_, usize>::new();
    let plans = reference.taps.iter().map(|point| {
        let time = times.entry(point.clone()).or_default();
        *time += 1;
        Plan {
            crash_at: Some((point.clone(), *time - 1)),
            ..Plan::default()
        }
    });
    let mut plans: Vec<Plan> = plans.collect();
    if !is_full() {
        // Every kind of effect, before and after; and a sample of the times it is repeated.
        let (mut kinds, mut number) = (BTreeSet::new(), 0);
        plans.retain(|plan| {
            number += 1;
            let kind = plan
                .crash_at
                .as_ref()
                .map(|(point, _)| (point.controller, point.effect, point.moment));
            kinds.insert(kind) || number % 8 == 0
        });
    }
    let crashed = Mutex::new(BTreeSet::new());
    let failed = run_all(&plans, &reference, |ran| {
        crashed.lock().unwrap().extend(ran.crashed.iter().copied());
    });
    println!("crashed at {} of {} taps", plans.len(), reference.taps.len());
    assert!(
        failed.is_empty(),
        "{} of {}: {}",
        failed.len(),
        plans.len(),
        failed[0]
    );
    let moment = |point: &TapPoint| (point.controller, point.effect, point.moment);
    let crashed = crashed.into_inner().unwrap();
    let all = reference.taps.iter().map(moment);
    let missing: BTreeSet<_> = all.filter(|moment| !crashed.contains(moment)).collect();
    assert!(missing.is_empty(), "never crashed at: {missing:?}");
}

/// How many seeds are run by default; `--full` runs ten times as many.
const USUAL: u64 = 12;

/// As many seeds as meet everything.
const ENOUGH: usize = 50;

#[test]
fn whatever_goes_wrong_it_ends_the_same() {
    let reference = run(Plan::default());
    let seeds = seeds(USUAL);
    println!("seeds {seeds:?}; repeat one by: cargo xtask test faults disks --seed <seed>");
    let with = |seed| Plan {
        seed,
        faults: true,
        ..Plan::default()
    };
    let plans: Vec<Plan> = seeds.map(with).collect();
    let met = Mutex::new(BTreeMap::<String, u64>::new());
    let failed = run_all(&plans, &reference, |ran| {
        let mut met = met.lock().unwrap();
        *met.entry("crashes".into()).or_default() += u64::try_from(ran.crashes).unwrap();
        for (fault, count) in &ran.met {
            *met.entry(fault.clone()).or_default() += count;
        }
    });
    let met = met.into_inner().unwrap();
    println!("{} seeds; met {met:?}", plans.len());
    assert!(
        failed.is_empty(),
        "{} of {}: {}",
        failed.len(),
        plans.len(),
        failed[0]
    );
    let few = plans.len() < ENOUGH;
    let missing: Vec<_> = Fault::ALL
        .iter()
        .filter(|fault| !met.contains_key(&format!("{fault:?}")))
        .collect();
    assert!(few || missing.is_empty(), "never met: {missing:?}");
}

/// What an agent that is wrong would write, and what the oracle says of it.
const WRONG: [(&str, fn(&mut Value), &str); 4] = [
    (
        "beta",
        |object| blank(object, "True"),
        "beta is somebody's, and was offered",
    ),
    (
        "twins",
        |object| object["status"]["state"] = "Active".into(),
        "there are two of one identity, and it is Active",
    ),
    (
        "alpha",
        |object| object["status"]["state"] = "Inactive".into(),
        "alpha is there, and was said to be gone",
    ),
    (
        "alpha",
        |object| object["spec"]["identity"]["value"] = "beta".into(),
        "two objects for beta",
    ),
];

fn blank(object: &mut Value, status: &str) {
    let conditions = object["status"]["conditions"].as_array_mut().unwrap();
    let blank = conditions.iter_mut().find(|condition| condition["type"] == "Blank");
    blank.unwrap()["status"] = status.into();
}

/// The suite can fail: each thing that must not be written is found out when somebody writes it. (An engine that trusts
/// its caches is no such thing: these controllers look again before every write.)
#[test]
fn what_must_not_be_written_is_found_out() {
    let reference = run(Plan::default());
    for (serial, wrong, complaint_begins) in WRONG {
        let ran = run(Plan {
            meddler: Some(Meddler { serial, wrong }),
            ..Plan::default()
        });
        let found = complaint(&ran, &reference).unwrap_or_default();
        assert!(found.contains(complaint_begins), "{serial}: {found:?}");
    }
    let ran = run(Plan {
        meddler: Some(Meddler {
            serial: "alpha",
            wrong: |object| *object = Value::Null,
        }),
        ..Plan::default()
    });
    let found = complaint(&ran, &reference).unwrap_or_default();
    assert!(found.contains("has an identity and was removed"), "{found:?}");
}
