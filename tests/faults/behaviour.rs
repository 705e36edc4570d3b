//! The engine's promises, one by one.

use std::time::Duration;

use cstor_reconcile::engine::EngineError;
use cstor_reconcile::{Engine, Key, Trigger, Watch};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::probe::{Behaviour, Bench, NAMESPACE, Probe, until};
use crate::volumes::VolumeSet;

struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<(), EngineError>>,
}

impl Running {
    fn start(bench: &Bench) -> Self {
        Self::of(bench.engine(), bench)
    }

    fn of(engine: Engine<Probe>, bench: &Bench) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(engine.run(bench.services.clone(), stop.clone()));
        Self { stop, task }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn a_hanging_step_is_told_and_blocks_its_own_object_alone() {
    let bench = Bench::new();
    bench.make("stuck", Behaviour::Takes(seconds(300))).await;
    let running = Running::of(bench.engine().concurrency(1), &bench);
    until("the step hangs", || bench.metrics.stuck() == 1).await;
    assert_eq!(bench.condition("stuck")["reason"], "StepHangs");

    // With room for one look at a time, others are looked at all the same.
    bench.make("well", Behaviour::Works).await;
    until("the other one is done", || bench.probe.done("well") == 1).await;

    // Whatever happens to the object meanwhile, no step is begun on it.
    let spec = Patch::Merge(json!({"spec": {"profile": "other"}}));
    let looks = bench.probe.looks("stuck").len();
    bench
        .sets()
        .patch("stuck", &PatchParams::default(), &spec)
        .await
        .unwrap();
    until("it is looked at", || bench.probe.looks("stuck").len() > looks).await;
    tokio::time::sleep(seconds(60)).await;
    assert_eq!(bench.probe.acts("stuck").len(), 1);

    until("the step ends", || bench.metrics.stuck() == 0).await;
    until("the status is clean", || bench.condition("stuck").is_null()).await;
    assert_eq!(
        (bench.probe.acts("stuck").len(), bench.probe.done("stuck")),
        (1, 1)
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_of_one_object() {
    let bench = Bench::new();
    bench.make("step", Behaviour::StepPanics).await;
    bench.make("decide", Behaviour::DecidePanics).await;
    bench.make("well", Behaviour::Works).await;
    let running = Running::start(&bench);
    until("the well one is done", || bench.probe.done("well") == 1).await;
    until("the panic is told", || {
        bench.condition("step")["reason"] == "Panicked"
    })
    .await;
    until("it is tried again", || {
        bench.probe.acts("step").len() > 2 && bench.probe.looks("decide").len() > 2
    })
    .await;
    bench.probe.set("step", Behaviour::Works);
    bench.probe.set("decide", Behaviour::Works);
    until("both recover", || {
        bench.probe.done("step") == 1 && bench.probe.done("decide") == 1
    })
    .await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_at_once_and_in_the_tools_own_words() {
    let bench = Bench::new();
    bench.make("a", Behaviour::Fails(6)).await;
    let running = Running::start(&bench);
    until("it failed", || bench.probe.acts("a").len() == 1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(bench.probe.acts("a").len(), 1, "told before the next try");
    let told = bench.condition("a");
    assert_eq!(
        (told["reason"].as_str(), told["status"].as_str()),
        (Some("ToolFailed"), Some("False"))
    );
    assert_eq!(
        told["message"],
        "zpool create: cannot open /dev/sdx: no such device"
    );

    // The same failure again is no write.
    let writes = bench.api.writes().len();
    until("it failed five times", || bench.probe.acts("a").len() == 5).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(bench.api.writes().len(), writes);
    until("it worked", || bench.probe.done("a") == 1).await;
    until("the status is clean", || bench.condition("a").is_null()).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn back_off_grows_and_is_reset_by_success() {
    let bench = Bench::new();
    bench.make("a", Behaviour::Fails(5)).await;
    let running = Running::start(&bench);
    until("it worked", || bench.probe.done("a") == 1).await;
    let acts = bench.probe.acts("a");
    let waits: Vec<Duration> = acts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (failures, wait) in waits.iter().enumerate() {
        let longest = seconds(1 << failures);
        assert!(
            *wait >= longest / 2 && *wait <= longest + Duration::from_millis(50),
            "{waits:?}"
        );
    }
    // A new object of the name would start afresh, and so does this one after success.
    bench.probe.set("b", Behaviour::Fails(1));
    bench.make("b", Behaviour::Fails(1)).await;
    until("b worked", || bench.probe.done("b") == 1).await;
    let acts = bench.probe.acts("b");
    assert!(acts[1] - acts[0] <= seconds(1) + Duration::from_millis(50));
    running.stop().await;
}

/// Nothing that is remembered of an object is said of another one that comes to have its name.
#[tokio::test(start_paused = true)]
async fn another_object_of_the_same_name_starts_afresh() {
    let bench = Bench::new();
    bench.make("a", Behaviour::Fails(1000)).await;
    let running = Running::start(&bench);
    until("it fails again and again", || bench.probe.acts("a").len() == 6).await;
    let old = bench
        .api
        .peek::<VolumeSet>(&Key::namespaced(NAMESPACE, "a"))
        .unwrap()["metadata"]["uid"]
        .clone();
    // Nobody tells that the old one is gone.
    let deaf = cstor_reconcile::memory_api::Faults {
        lost_event: 1.0,
        ..Default::default()
    };
    bench.api.set_faults(deaf);
    bench.sets().delete("a", &Default::default()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    bench.api.set_faults(Default::default());
    let slandered = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = slandered.clone();
    bench.api.on_commit(move |commit| {
        let Some(after) = commit.after.filter(|after| after["metadata"]["uid"] != old) else {
            return;
        };
        if after["status"].to_string().contains("ToolFailed") {
            seen.store(true, std::sync::atomic::Ordering::SeqCst);
        }
    });
    bench.make("a", Behaviour::Idle).await;
    let told = || {
        bench
            .api
            .peek::<VolumeSet>(&Key::namespaced(NAMESPACE, "a"))
            .is_some_and(|set| !set["status"].is_null())
    };
    until("the new one is told of", told).await;
    tokio::time::sleep(seconds(60)).await;
    assert!(!slandered.load(std::sync::atomic::Ordering::SeqCst));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_person_must_change_is_not_tried_again_until_it_is() {
    let bench = Bench::new();
    bench.make("a", Behaviour::FailsForGood).await;
    let running = Running::start(&bench);
    until("it failed", || bench.condition_reason("a") == "NeedsPerson").await;
    tokio::time::sleep(seconds(400)).await;
    assert_eq!(bench.probe.acts("a").len(), 1);
    bench.probe.set("a", Behaviour::Works);
    let spec = Patch::Merge(json!({"spec": {"profile": "other"}}));
    bench
        .sets()
        .patch("a", &PatchParams::default(), &spec)
        .await
        .unwrap();
    until("it worked", || bench.probe.done("a") == 1).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_observed_is_told_as_unknown() {
    let bench = Bench::new();
    bench.make("fails", Behaviour::ObserveFails).await;
    bench.make("hangs", Behaviour::ObserveHangs).await;
    let running = Running::of(bench.engine().observe_deadline(seconds(5)), &bench);
    until("told", || bench.condition_reason("fails") == "Unreadable").await;
    until("told", || bench.condition_reason("hangs") == "ObserveHangs").await;
    assert_eq!(bench.condition("fails")["status"], "Unknown");
    assert_eq!(
        bench.probe.acts("fails").len() + bench.probe.acts("hangs").len(),
        0
    );
    bench.probe.set("fails", Behaviour::Idle);
    bench.probe.set("hangs", Behaviour::Idle);
    until("clean", || {
        bench.condition("fails").is_null() && bench.condition("hangs").is_null()
    })
    .await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_malformed_object_is_skipped_with_an_event_and_counted() {
    let bench = Bench::new();
    let raw = kube::core::DynamicObject::new("bad", &kube::core::ApiResource::erase::<VolumeSet>(&()))
        .data(json!({"spec": {"volumes": "not a list"}}));
    let resource = kube::core::ApiResource::erase::<VolumeSet>(&());
    let raws: kube::Api<kube::core::DynamicObject> =
        kube::Api::namespaced_with(bench.api.admin(), NAMESPACE, &resource);
    raws.create(&kube::api::PostParams::default(), &raw)
        .await
        .unwrap();
    bench.make("good", Behaviour::Works).await;
    let running = Running::start(&bench);
    until("the good one is done", || bench.probe.done("good") == 1).await;
    until("the bad one is counted", || bench.metrics.malformed() == 1).await;
    let events = bench.api.peek_all::<Event>();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(
        (
            events[0]["reason"].as_str(),
            events[0]["regarding"]["name"].as_str()
        ),
        (Some("Malformed"), Some("bad"))
    );

    // Resync after resync it is one event, and one count.
    tokio::time::sleep(seconds(2000)).await;
    assert_eq!(
        (bench.api.peek_all::<Event>().len(), bench.metrics.malformed()),
        (1, 1)
    );
    bench.probe.set("bad", Behaviour::Works);
    let repair = Patch::Merge(json!({"spec": {"volumes": []}}));
    raws.patch("bad", &PatchParams::default(), &repair).await.unwrap();
    until("the repaired one is done", || bench.probe.done("bad") == 1).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_given_to_somebody_else_is_not_acted_on() {
    assert_eq!(acts_on_what_was_given_away(|engine| engine).await, 0);
}

/// How many steps an engine runs on an object that is no longer its own, if nobody tells it.
pub async fn acts_on_what_was_given_away(change: impl FnOnce(Engine<Probe>) -> Engine<Probe>) -> usize {
    let bench = Bench::new();
    bench.probe.set("a", Behaviour::Idle);
    bench.make("a", Behaviour::Idle).await;
    let mine = Patch::Merge(json!({"metadata": {"labels": {"node": "mine"}}}));
    bench
        .sets()
        .patch("a", &PatchParams::default(), &mine)
        .await
        .unwrap();
    let watch = Watch::namespaced(bench.services.client.clone(), NAMESPACE).labels("node=mine");
    let (wake, woken) = futures::channel::mpsc::unbounded::<Key>();
    let engine = change(Engine::new(bench.probe.clone(), watch).trigger("test", woken));
    let running = Running::of(engine, &bench);
    until("it is looked at", || !bench.probe.looks("a").is_empty()).await;

    // The watch does not tell of it (lost events), and there is something to do: only the fresh read notices.
    bench.api.set_faults(cstor_reconcile::memory_api::Faults {
        lost_event: 1.0,
        ..Default::default()
    });
    let theirs = Patch::Merge(json!({"metadata": {"labels": {"node": "theirs"}}}));
    bench
        .sets()
        .patch("a", &PatchParams::default(), &theirs)
        .await
        .unwrap();
    bench.probe.set("a", Behaviour::Works);
    let looks = bench.probe.looks("a").len();
    wake.unbounded_send(Key::namespaced(NAMESPACE, "a")).unwrap();
    wake.unbounded_send(Key::namespaced(NAMESPACE, "unknown"))
        .unwrap();
    until("it is looked at", || bench.probe.looks("a").len() > looks).await;
    tokio::time::sleep(seconds(1200)).await;
    running.stop().await;
    bench.probe.acts("a").len()
}

#[tokio::test(start_paused = true)]
async fn lost_events_only_delay() {
    let bench = Bench::new();
    let running = Running::start(&bench);
    tokio::time::sleep(seconds(5)).await;
    bench.api.set_faults(cstor_reconcile::memory_api::Faults {
        lost_event: 1.0,
        ..Default::default()
    });
    bench.make("unheard-of", Behaviour::Works).await;
    tokio::time::sleep(seconds(60)).await;
    assert_eq!(bench.probe.looks("unheard-of").len(), 0, "nobody told");
    until("the resync finds it", || bench.probe.done("unheard-of") == 1).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_trigger_wakes_and_its_end_ends_the_engine() {
    let bench = Bench::new();
    bench.make("a", Behaviour::Idle).await;
    let (wake, woken) = futures::channel::mpsc::unbounded::<Trigger>();
    let running = Running::of(bench.engine().trigger("zpool events", woken), &bench);
    until("it is looked at", || !bench.probe.looks("a").is_empty()).await;
    tokio::time::sleep(seconds(5)).await;
    let looks = bench.probe.looks("a").len();
    wake.unbounded_send(Trigger::One(Key::namespaced(NAMESPACE, "a")))
        .unwrap();
    until("it is looked at again", || {
        bench.probe.looks("a").len() == looks + 1
    })
    .await;
    wake.unbounded_send(Trigger::All).unwrap();
    until("and again", || bench.probe.looks("a").len() == looks + 2).await;
    drop(wake);
    let ended = running.task.await.unwrap();
    assert!(
        matches!(ended, Err(EngineError::TriggerEnded { .. })),
        "{ended:?}"
    );
}

/// What a step changed is observed at once, not at the next resync.
#[tokio::test(start_paused = true)]
async fn after_a_step_it_looks_again_at_once() {
    let bench = Bench::new();
    bench.make("a", Behaviour::Takes(seconds(1))).await;
    let running = Running::start(&bench);
    until("it is done", || bench.probe.done("a") == 1).await;
    let looks = bench.probe.looks("a").len();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(
        bench
            .probe
            .looks("a")
            .iter()
            .any(|look| *look > bench.probe.acts("a")[0]),
        "{looks} looks, none after"
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn it_looks_again_when_asked_to() {
    let bench = Bench::new();
    bench.make("a", Behaviour::Again(seconds(7))).await;
    let running = Running::start(&bench);
    until("many looks", || bench.probe.looks("a").len() >= 6).await;
    let looks = bench.probe.looks("a");
    assert_eq!(looks[5] - looks[4], seconds(7));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_same_event_is_posted_once_also_by_the_next_process() {
    let bench = Bench::new();
    bench.make("a", Behaviour::Says("the pool is degraded")).await;
    let (wake, woken) = futures::channel::mpsc::unbounded::<Trigger>();
    let running = Running::of(bench.engine().trigger("test", woken), &bench);
    for _ in 0..20 {
        tokio::time::sleep(seconds(1)).await;
        wake.unbounded_send(Trigger::All).unwrap();
    }
    until("looked at often", || bench.probe.looks("a").len() >= 20).await;
    assert_eq!(bench.metrics.events("posted"), 1);
    // It ceases and comes back within the window: no news.
    for behaviour in [Behaviour::Idle, Behaviour::Says("the pool is degraded")] {
        bench.probe.set("a", behaviour);
        wake.unbounded_send(Trigger::All).unwrap();
        tokio::time::sleep(seconds(1)).await;
    }
    assert_eq!(
        (bench.metrics.events("posted"), bench.metrics.events("suppressed")),
        (1, 1)
    );
    // It comes back after the window: the same event, counted.
    for behaviour in [Behaviour::Idle, Behaviour::Says("the pool is degraded")] {
        bench.probe.set("a", behaviour);
        wake.unbounded_send(Trigger::All).unwrap();
        tokio::time::sleep(seconds(700)).await;
    }
    let events = bench.api.peek_all::<Event>();
    assert_eq!(
        (events.len(), events[0]["series"]["count"].as_i64()),
        (1, Some(2)),
        "{events:?}"
    );
    running.stop().await;

    let running = Running::start(&bench);
    tokio::time::sleep(seconds(60)).await;
    let events = bench.api.peek_all::<Event>();
    assert_eq!(
        (events.len(), events[0]["series"]["count"].as_i64()),
        (1, Some(2)),
        "{events:?}"
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_posted_fails_nothing() {
    let bench = Bench::new();
    bench.make("a", Behaviour::Says("hear me")).await;
    let running = Running::start(&bench);
    until("posted", || bench.metrics.events("posted") == 1).await;
    bench.api.set_faults(cstor_reconcile::memory_api::Faults {
        write_error: 1.0,
        ..Default::default()
    });
    bench.probe.set("a", Behaviour::Says("hear me again"));
    tokio::time::sleep(seconds(1300)).await;
    assert!(bench.metrics.events("lost") >= 1);
    assert_eq!(bench.metrics.passes("failed"), 0);
    assert!(
        bench.metrics.events("lost") < 10,
        "no busy loop: {}",
        bench.metrics.events("lost")
    );
    bench.api.set_faults(Default::default());
    until("posted in the end", || bench.metrics.events("posted") == 2).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_not_kept_is_not_written_for_ever() {
    let bench = Bench::new();
    bench.make("a", Behaviour::Unkept).await;
    let running = Running::start(&bench);
    tokio::time::sleep(seconds(3600)).await;
    let writes = bench.api.writes();
    let patches = writes
        .iter()
        .filter(|request| request.subresource == "status")
        .count();
    assert_eq!(patches, 1, "{writes:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_step_that_changes_nothing_is_repeated_ever_more_slowly() {
    let bench = Bench::new();
    bench.make("a", Behaviour::NoProgress).await;
    let running = Running::start(&bench);
    tokio::time::sleep(seconds(3600)).await;
    let acts = bench.probe.acts("a").len();
    assert!((10..40).contains(&acts), "{acts}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_no_failure() {
    let bench = Bench::new();
    bench.api.set_faults(cstor_reconcile::memory_api::Faults {
        conflict: 0.7,
        ..Default::default()
    });
    for name in ["a", "b", "c", "d"] {
        bench.make(name, Behaviour::Works).await;
    }
    let running = Running::start(&bench);
    until("all done", || {
        ["a", "b", "c", "d"]
            .iter()
            .all(|name| bench.probe.done(name) == 1)
    })
    .await;
    assert!(bench.metrics.passes("conflict") > 0);
    assert_eq!(bench.metrics.passes("failed"), 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn at_the_end_the_running_step_may_finish_and_no_other_begins() {
    let bench = Bench::new();
    bench.make("a", Behaviour::Held).await;
    let running = Running::start(&bench);
    until("the first step runs", || bench.probe.acts("a").len() == 1).await;
    running.stop.cancel();
    bench.probe.let_go();
    running.stop().await;
    assert_eq!((bench.probe.acts("a").len(), bench.probe.done("a")), (1, 1));

    // One that takes longer than the drain is dropped. (The step's own deadline is 10 seconds.)
    let mut bench = Bench::new();
    bench.services.drain = seconds(2);
    bench.make("a", Behaviour::Three(seconds(9))).await;
    let running = Running::start(&bench);
    until("the first step runs", || bench.probe.acts("a").len() == 1).await;
    let began = tokio::time::Instant::now();
    running.stop().await;
    assert_eq!((bench.probe.done("a"), began.elapsed()), (0, seconds(2)));
    tokio::time::sleep(seconds(60)).await;
    assert_eq!(bench.probe.done("a"), 0, "dropped, not forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_change_during_the_steps_is_looked_at_before_the_next_one() {
    let bench = Bench::new();
    bench.make("a", Behaviour::Three(seconds(5))).await;
    let running = Running::start(&bench);
    until("the first step runs", || bench.probe.acts("a").len() == 1).await;
    bench.probe.set("a", Behaviour::Idle);
    let spec = Patch::Merge(json!({"spec": {"profile": "other"}}));
    bench
        .sets()
        .patch("a", &PatchParams::default(), &spec)
        .await
        .unwrap();
    tokio::time::sleep(seconds(60)).await;
    assert_eq!(
        bench.probe.acts("a").len(),
        1,
        "the steps decided before are not run after"
    );
    running.stop().await;
}

impl Bench {
    fn condition_reason(&self, name: &str) -> String {
        self.condition(name)["reason"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}
