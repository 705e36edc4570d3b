//! The controllers of claims, devices and silence: crashed at every tap, fed stale reads, refused, unanswered; and always the
//! same in the end, with no write in between that must not be.

mod end;
mod oracle;
mod user;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use self::world::{Plan, Run, run};
use crate::runs::{Facts, Suite, none_failed};

const SUITE: Suite<Plan, Run> = Suite {
    name: "claims",
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
fn undisturbed_it_ends_as_asked() {
    let run = run(Plan::default());
    assert_eq!(run.violations, Vec::<String>::new());
    assert_eq!(run.idle_writes, []);
    let claims = run.end.iter().filter(|(name, _)| name.starts_with("claim "));
    let claims: BTreeMap<_, _> = claims
        .map(|(name, claim)| {
            let (phase, disk) = (&claim["status"]["phase"], &claim["spec"]["blockDeviceName"]);
            let bound = claim["status"]["conditions"][0].clone();
            (
                name.as_str(),
                json!([phase, disk, bound["reason"], bound["message"]]),
            )
        })
        .collect();
    let expected = BTreeMap::from([
        ("claim alone", json!([null, "c", null, null])),
        (
            "claim fourth",
            json!(["Bound", "b", "DeviceBound", "b on node node-1"]),
        ),
        (
            "claim huge",
            json!([
                "Pending",
                null,
                "NoDeviceFits",
                "No BlockDevice fits. on another node: e, g, pooled; smaller than 1Ti: b, c, d, f"
            ]),
        ),
        (
            "claim late",
            json!([
                "Pending",
                "e",
                "Claimed",
                "e is claimed by BlockDeviceClaim test/named"
            ]),
        ),
        (
            "claim named",
            json!([
                "Bound",
                "e",
                "DeviceBound",
                "e on node node-2, which is not Active but Unknown"
            ]),
        ),
        (
            "claim nonsense",
            json!([
                "Invalid Capacity Request",
                null,
                "InvalidRequest",
                "A claim that names no device must say how large it should be: set spec.resources.requests.storage, such as 100Gi, or spec.blockDeviceName"
            ]),
        ),
        (
            "claim rival",
            json!(["Bound", "f", "DeviceBound", "f on node node-1"]),
        ),
        (
            "claim third",
            json!(["Bound", "c", "DeviceBound", "c on node node-1"]),
        ),
    ]);
    assert_eq!(claims, expected);
    let devices = run.end.iter().filter(|(name, _)| name.starts_with("device "));
    let devices: BTreeMap<_, _> = devices
        .map(|(name, device)| {
            let status = &device["status"];
            let claim = &device["spec"]["claimRef"]["name"];
            let finalizers = &device["metadata"]["finalizers"];
            (
                name.as_str(),
                json!([status["state"], status["claimState"], claim, finalizers]),
            )
        })
        .collect();
    let ours = ["openebs.io/bd-protection"];
    let none: [&str; 0] = [];
    let expected = BTreeMap::from([
        ("device b", json!(["Active", "Claimed", "fourth", ours])),
        ("device c", json!(["Active", "Claimed", "third", ours])),
        ("device d", json!(["Active", "Unclaimed", null, none])),
        ("device e", json!(["Unknown", "Claimed", "named", ours])),
        ("device f", json!(["Active", "Claimed", "rival", ours])),
        ("device g", json!(["Unknown", "Unclaimed", null, none])),
        // It was somebody's, and is not blank.
        ("device pooled", json!(["Unknown", "Released", null, none])),
    ]);
    assert_eq!(devices, expected);
    let steps: BTreeSet<_> = run
        .taps
        .iter()
        .map(|point| (point.controller, point.effect.label()))
        .collect();
    for step in [
        ("claim", "claim"),
        ("claim", "name_device"),
        ("claim", "release"),
        ("claim", "add_finalizer"),
        ("claim", "remove_finalizer"),
        ("device", "release_orphan"),
        ("device", "patch_status"),
        ("silence", "patch_status"),
    ] {
        assert!(steps.contains(&step), "{step:?} was never needed: {steps:?}");
    }
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    for seed in 0..3 {
        let plan = Plan {
            seed,
            faults: true,
            ..Plan::default()
        };
        let (first, second) = (run(plan), run(plan));
        assert_eq!(
            (first.taps, first.crashes),
            (second.taps, second.crashes),
            "seed {seed}"
        );
    }
}

#[test]
fn a_crash_at_any_tap_changes_nothing_in_the_end() {
    let reference = SUITE.reference();
    let crash_at = |number| Plan {
        crash_at: Some(number),
        ..Plan::default()
    };
    let plans: Vec<Plan> = (0..reference.taps.len()).map(crash_at).collect();
    let failed = SUITE.run_all(&plans, &reference, |number, crashed| {
        let (here, there) = (&crashed.taps[number], &reference.taps[number]);
        assert_eq!(here, there, "up to the crash, the run is the same");
        assert_eq!(crashed.crashes, 1, "{here}");
    });
    println!("crashed at each of {} taps", plans.len());
    none_failed(&failed, plans.len());
}

/// How many seeds are run by default; `--full` runs ten times as many.
const USUAL: u64 = 24;

/// As many seeds as meet everything.
const ENOUGH: usize = 100;

/// `plan` with each seed, and everything goes wrong.
fn over_seeds(plan: Plan, usual: u64) {
    let with = |seed| Plan {
        seed,
        faults: true,
        ..plan
    };
    SUITE.over_seeds(with, usual, ENOUGH);
}

#[test]
fn whatever_goes_wrong_it_ends_the_same() {
    over_seeds(Plan::default(), USUAL);
}

#[test]
fn two_processes_that_both_think_they_lead_do_no_harm() {
    let plan = Plan {
        two_leaders: true,
        ..Plan::default()
    };
    over_seeds(plan, USUAL / 4);
}

/// The suite can fail: engines that act on what a watch told are found out.
#[test]
fn one_that_trusts_its_caches_is_found_out() {
    let reference = SUITE.reference();
    let found = (0..100).find_map(|seed| {
        let broken = Plan {
            seed,
            faults: true,
            trusts_caches: true,
            ..Plan::default()
        };
        SUITE.complaint(&run(broken), &reference)
    });
    let found = found.expect("it is found out");
    println!("found out by: {found}");
}
