//! The suite can fail: controllers that are wrong in the usual ways are found out.

use cstor_reconcile::Engine;

use crate::behaviour::acts_on_what_was_given_away;
use crate::seeds::complaint;
use crate::volumes::Breakage;
use crate::world::{Plan, run};

/// How the suite finds out about `broken`, if it does: undisturbed, by a crash at a tap, or by faults.
fn found_out(broken: Plan) -> Option<String> {
    let reference = run(Plan::default());
    let undisturbed = run(broken);
    if let Some(complaint) = complaint(&undisturbed, &reference) {
        return Some(format!("undisturbed: {complaint}"));
    }
    let crashed = |number: usize| {
        let complaint = complaint(
            &run(Plan {
                crash_at: Some(number),
                ..broken
            }),
            &reference,
        )?;
        Some(format!(
            "crash {number} ({}): {complaint}",
            undisturbed.taps[number]
        ))
    };
    let disturbed = |seed: u64| {
        let complaint = complaint(
            &run(Plan {
                seed,
                faults: true,
                ..broken
            }),
            &reference,
        )?;
        Some(format!("seed {seed}: {complaint}"))
    };
    // A few of each in turn: what one does not find, the other soon does.
    (0..undisturbed.taps.len())
        .find_map(|number| crashed(number).or_else(|| disturbed(u64::try_from(number).unwrap())))
}

fn must_be_found_out(broken: Plan, how: &str) {
    let found = found_out(broken).unwrap_or_else(|| panic!("{broken:?} was not found out"));
    assert!(
        found.contains(how),
        "{broken:?} was found out otherwise than by {how:?}: {found}"
    );
}

#[test]
fn one_that_trusts_its_memory_makes_volumes_twice() {
    let broken = Plan {
        breakage: Breakage::TrustsMemory,
        ..Plan::default()
    };
    must_be_found_out(broken, "crash ");
}

#[test]
fn one_that_lets_go_early_leaks() {
    let broken = Plan {
        breakage: Breakage::LetsGoEarly,
        ..Plan::default()
    };
    must_be_found_out(broken, "let go of");
}

#[test]
fn one_whose_status_lies_is_caught_lying() {
    let broken = Plan {
        breakage: Breakage::StatusLies,
        ..Plan::default()
    };
    must_be_found_out(broken, "which never was");
}

#[test]
fn one_that_is_never_done_writes_while_idle() {
    let broken = Plan {
        breakage: Breakage::NeverDone,
        ..Plan::default()
    };
    // Its status differs from the right one, too; the writes are what counts here.
    assert!(run(broken).idle_writes > 0);
}

#[test]
fn one_that_takes_unreadable_for_empty_lets_go_of_what_is_there() {
    let broken = Plan {
        breakage: Breakage::UnreadableIsEmpty,
        ..Plan::default()
    };
    must_be_found_out(broken, "seed ");
}

#[test]
fn one_without_a_finalizer_acts_on_what_may_vanish() {
    must_be_found_out(
        Plan {
            unheld: true,
            ..Plan::default()
        },
        "without its finalizer",
    );
}

/// A mutation of the engine. Neither a crash at each tap nor as many seeds found it out; a behaviour made for it does.
#[tokio::test(start_paused = true)]
async fn an_engine_that_trusts_its_cache_acts_on_what_is_not_its_own() {
    let acts = acts_on_what_was_given_away(Engine::without_fresh_reads).await;
    assert!(acts > 0, "the behaviour does not notice");
}

/// Not a mutation of the controller, but the proof that this one is none: the engine does not let go beside steps.
#[test]
fn one_that_lets_go_in_advance_is_held_back_by_the_engine() {
    let reference = run(Plan::default());
    let eager = Plan {
        breakage: Breakage::LetsGoInAdvance,
        ..Plan::default()
    };
    assert_eq!(complaint(&run(eager), &reference), None);
    for seed in 0..10 {
        assert_eq!(
            complaint(
                &run(Plan {
                    seed,
                    faults: true,
                    ..eager
                }),
                &reference
            ),
            None,
            "seed {seed}"
        );
    }
}
