//! Elections and heartbeats, in simulated time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cstor_reconcile::lease::{Election, ElectionConfig, Heartbeat, HeartbeatConfig};
use cstor_reconcile::memory_api::{Faults, MemoryApi};
use cstor_reconcile::process::{App, Logs, Process, ProcessError};
use cstor_reconcile::{Clock, Health, Key, Metrics};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::probe::{Bench, until};

fn clock(second: i64) -> Clock {
    Clock::simulated(Timestamp::from_second(second).unwrap())
}

fn candidate(client: Client, name: &str, clock: Clock) -> Election {
    Election::new(
        client,
        ElectionConfig::new("test", "leader", name),
        clock,
        Metrics::new(),
    )
}

fn lease(api: &MemoryApi, name: &str) -> Option<Value> {
    api.peek::<Lease>(&Key::namespaced("test", name))
}

fn holder(api: &MemoryApi) -> String {
    lease(api, "leader")
        .and_then(|lease| lease["spec"]["holderIdentity"].as_str().map(Into::into))
        .unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn the_next_leads_as_soon_as_the_last_gives_back() {
    let api = MemoryApi::new(1);
    let stop = CancellationToken::new();
    // Clocks years apart make no difference.
    let first = candidate(api.admin(), "one", clock(1_000))
        .acquire(&stop)
        .await
        .unwrap();
    assert_eq!(holder(&api), "one");
    let second = tokio::spawn({
        let (election, stop) = (candidate(api.admin(), "two", clock(2_000_000_000)), stop.clone());
        async move { election.acquire(&stop).await.unwrap() }
    });
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(!second.is_finished() && !first.lost().is_cancelled());
    first.release().await;
    let began = tokio::time::Instant::now();
    let second = second.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(holder(&api), "two");
    assert_eq!(lease(&api, "leader").unwrap()["spec"]["leaseTransitions"], 1);
    second.release().await;
    assert_eq!(holder(&api), "");
}

/// Over many seeds: with requests refused, unanswered, answers lost, there are never two leaders, and always one again.
#[test]
fn there_are_never_two_leaders() {
    for seed in 0..30 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(never_two_leaders(seed));
    }
}

async fn never_two_leaders(seed: u64) {
    let api = MemoryApi::new(seed);
    let (leaders, terms) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let stop = CancellationToken::new();
    let mut tasks = Vec::new();
    for name in ["one", "two", "three"] {
        let (api, leaders, terms, stop) = (api.clone(), leaders.clone(), terms.clone(), stop.clone());
        tasks.push(tokio::spawn(async move {
            loop {
                let Some(leadership) = candidate(api.client(name), name, clock(1_000))
                    .acquire(&stop)
                    .await
                else {
                    return;
                };
                let others = leaders.fetch_add(1, Ordering::SeqCst);
                assert_eq!(others, 0, "seed {seed}: two leaders");
                terms.fetch_add(1, Ordering::SeqCst);
                tokio::select! {
                    () = leadership.lost().cancelled() => {}
                    () = stop.cancelled() => {}
                }
                leaders.fetch_sub(1, Ordering::SeqCst);
            }
        }));
    }
    for round in 0..20 {
        let bad = round % 2 == 1;
        let faults = Faults {
            silence: 0.4,
            write_error: 0.3,
            lost_response: 0.3,
            conflict: 0.2,
            latency: Duration::from_secs(1),
            ..Faults::default()
        };
        api.set_faults(if bad { faults } else { Faults::default() });
        tokio::time::sleep(Duration::from_secs(60)).await;
        if !bad {
            assert_eq!(leaders.load(Ordering::SeqCst), 1, "seed {seed}: nobody leads");
        }
    }
    stop.cancel();
    for task in tasks {
        task.await.unwrap();
    }
    assert!(
        terms.load(Ordering::SeqCst) > 1,
        "seed {seed}: the Lease never changed hands"
    );
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_is_made_renewed_and_ceases_with_life() {
    let api = MemoryApi::new(1);
    let health = Health::default();
    let part = health.part("loop");
    let config = HeartbeatConfig::new("test", "node-1", "node-1").label("cstor.io/agent", "true");
    let heart = Heartbeat::new(api.admin(), config, clock(1_000), Metrics::new(), health.clone());
    let stop = CancellationToken::new();
    let task = tokio::spawn(heart.run(stop.clone()));
    let renewed = || lease(&api, "node-1").map(|lease| lease["spec"]["renewTime"].to_string());
    until("it is made", || renewed().is_some()).await;
    let made = lease(&api, "node-1").unwrap();
    assert_eq!(made["spec"]["holderIdentity"], "node-1");
    assert_eq!(made["metadata"]["labels"]["cstor.io/agent"], "true");
    let first = renewed();
    until("it is renewed", || renewed() != first).await;

    // Somebody deletes it: it is made again.
    let leases: kube::Api<Lease> = kube::Api::namespaced(api.admin(), "test");
    leases.delete("node-1", &Default::default()).await.unwrap();
    until("it is made again", || renewed().is_some()).await;

    // The loop is stuck: no beat.
    part.alive_for(Duration::from_secs(5));
    tokio::time::sleep(Duration::from_secs(30)).await;
    let last = renewed();
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(renewed(), last, "a process that is not well must not look alive");
    part.alive_for(Duration::from_secs(3600));
    until("it beats again", || renewed() != last).await;
    stop.cancel();
    task.await.unwrap();
}

async fn run_process(
    client: Client,
    stop: CancellationToken,
    began: Arc<AtomicBool>,
) -> Result<(), ProcessError> {
    let config = ElectionConfig::new("test", "leader", "process");
    Process::builder("test")
        .client(client)
        .logs(Logs::Inherit)
        .stop_on(stop)
        .lead(config)
        .run(async |app: &mut App| {
            let stop = app.stop();
            app.background("work", async move {
                began.store(true, Ordering::SeqCst);
                stop.cancelled().await;
                Ok::<_, std::io::Error>(())
            });
            Ok::<_, std::io::Error>(())
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn a_process_that_loses_its_lease_ends() {
    let api = MemoryApi::new(1);
    let began = Arc::new(AtomicBool::new(false));
    let process = tokio::spawn(run_process(
        api.client("process"),
        CancellationToken::new(),
        began.clone(),
    ));
    until("it leads", || began.load(Ordering::SeqCst)).await;
    assert_eq!(holder(&api), "process");
    api.set_faults(Faults {
        silence: 1.0,
        ..Faults::default()
    });
    let cut = tokio::time::Instant::now();
    let ended = process.await.unwrap();
    assert!(matches!(ended, Err(ProcessError::LostLease { .. })), "{ended:?}");
    assert!(
        cut.elapsed() < Duration::from_secs(15),
        "before anybody else may lead: {:?}",
        cut.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_told_to_stop_gives_its_lease_back() {
    let api = MemoryApi::new(1);
    let (began, stop) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
    let process = tokio::spawn(run_process(api.client("process"), stop.clone(), began.clone()));
    until("it leads", || began.load(Ordering::SeqCst)).await;
    stop.cancel();
    process.await.unwrap().unwrap();
    assert_eq!(holder(&api), "");
}

#[tokio::test(start_paused = true)]
async fn a_process_ends_when_a_part_of_it_does() {
    let bench = Bench::new();
    let ended = Process::builder("test")
        .client(bench.api.admin())
        .logs(Logs::Inherit)
        .stop_on(CancellationToken::new())
        .run(async |app: &mut App| {
            app.controller(bench.engine());
            app.background("listener", async {
                Err(std::io::Error::other("the socket is gone"))
            });
            Ok::<_, std::io::Error>(())
        })
        .await;
    let error = cstor_reconcile::failure::chain(&ended.unwrap_err());
    assert_eq!(error, "listener ended: the socket is gone");
}
