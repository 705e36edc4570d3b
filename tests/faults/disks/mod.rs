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

use cstor_reconcile::tap::TapPoint;
use serde_json::{Value, json};

use self::world::{Meddler, Plan, Run, run};
use crate::runs::{Facts, Suite, is_full, none_failed};

const SUITE: Suite<Plan, Run> = Suite {
    name: "disks",
    run,
    facts: |run| Facts {
        end: &run.end,
        crashes: run.crashes,
        met: &run.met,
        idle_writes: &run.idle_writes,
        violations: &run.violations,
    },
};

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

#[test]
fn a_crash_at_any_tap_changes_nothing_in_the_end() {
    let reference = SUITE.reference();
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
    let failed = SUITE.run_all(&plans, &reference, |_, ran| {
        crashed.lock().unwrap().extend(ran.crashed.iter().copied());
    });
    println!("crashed at {} of {} taps", plans.len(), reference.taps.len());
    none_failed(&failed, plans.len());
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
    let with = |seed| Plan {
        seed,
        faults: true,
        ..Plan::default()
    };
    SUITE.over_seeds(with, USUAL, ENOUGH);
}

/// A disk, what an agent that is wrong would do to its object, and what the oracle says of it.
type Mistake = (&'static str, fn(&mut Value), &'static str);

const WRONG: [Mistake; 4] = [
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
    let blank = conditions
        .iter_mut()
        .find(|condition| condition["type"] == "Blank");
    blank.unwrap()["status"] = status.into();
}

/// The suite can fail: each thing that must not be written is found out when somebody writes it. (An engine that trusts
/// its caches is no such thing: these controllers look again before every write.)
#[test]
fn what_must_not_be_written_is_found_out() {
    let reference = SUITE.reference();
    for (serial, wrong, complaint_begins) in WRONG {
        let ran = run(Plan {
            meddler: Some(Meddler { serial, wrong }),
            ..Plan::default()
        });
        let found = SUITE.complaint(&ran, &reference).unwrap_or_default();
        assert!(found.contains(complaint_begins), "{serial}: {found:?}");
    }
    let ran = run(Plan {
        meddler: Some(Meddler {
            serial: "alpha",
            wrong: |object| *object = Value::Null,
        }),
        ..Plan::default()
    });
    let found = SUITE.complaint(&ran, &reference).unwrap_or_default();
    assert!(found.contains("has an identity and was removed"), "{found:?}");
}
