//! A crash at every tap.

use crate::world::{Plan, run};

/// The undisturbed run is what every other one is compared with; it must be right itself.
#[test]
fn an_undisturbed_run_ends_as_asked() {
    let run = run(Plan::default());
    assert_eq!(run.violations, Vec::<String>::new());
    assert_eq!(run.idle_writes, 0);
    let volumes: Vec<String> = run
        .end
        .host
        .iter()
        .map(|(owner, v)| format!("{owner}/{} {} {:?}", v.name, v.size, v.tag))
        .collect();
    assert_eq!(
        volumes,
        [
            r#"a/one 50 Some("silver")"#,
            r#"a/three 5 Some("silver")"#,
            "b/extra 9 None",
            r#"c/x 3 Some("silver")"#,
        ]
    );
    for (key, set) in &run.end.objects {
        let conditions = set["status"]["conditions"].as_array().unwrap();
        assert!(
            conditions.iter().all(|condition| condition["status"] == "True"),
            "{key}: {set:#}"
        );
        assert_eq!(
            conditions.len(),
            if key.name == "a" { 2 } else { 1 },
            "{key}: {set:#}"
        );
    }
    let effects: std::collections::BTreeSet<_> = run.taps.iter().map(|point| point.effect.label()).collect();
    let all = [
        "add_finalizer",
        "create",
        "delete",
        "grow",
        "patch_status",
        "post_event",
        "remove_finalizer",
        "tag",
    ];
    assert_eq!(
        effects.into_iter().collect::<Vec<_>>(),
        all,
        "every kind of effect is tapped"
    );
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    for seed in 0..5 {
        let plan = Plan {
            seed,
            faults: true,
            ..Plan::default()
        };
        let (first, second) = (run(plan), run(plan));
        assert_eq!(first.taps, second.taps, "seed {seed}");
        assert_eq!(
            (first.requests, first.crashes),
            (second.requests, second.crashes),
            "seed {seed}"
        );
    }
}

#[test]
fn a_crash_at_any_tap_changes_nothing_in_the_end() {
    let reference = run(Plan::default());
    let mut failed = Vec::new();
    for (number, point) in reference.taps.iter().enumerate() {
        let crashed = run(Plan {
            crash_at: Some(number),
            ..Plan::default()
        });
        assert_eq!(
            crashed.taps[number], *point,
            "up to the crash, the run is the same"
        );
        assert_eq!(crashed.crashes, 1, "{point}");
        if crashed.end != reference.end || !crashed.violations.is_empty() || crashed.idle_writes > 0 {
            failed.push(format!("crash {number}, {point}: {crashed:#?}"));
        }
    }
    println!("{} requests undisturbed", reference.requests);
    println!("crashed at each of {} taps", reference.taps.len());
    assert!(
        failed.is_empty(),
        "{} of {}: {}",
        failed.len(),
        reference.taps.len(),
        failed[0]
    );
}
