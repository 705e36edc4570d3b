//! Idle costs nothing.

use std::time::Duration;

use cstor_reconcile::metrics::ControllerMetrics;
use tokio_util::sync::CancellationToken;

use crate::world::{Plan, RESYNC, World, use_it};

async fn until(mut reached: impl FnMut() -> bool) {
    while !reached() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Counted at the API server: not one write in ten resyncs, each of which looked at every object.
#[tokio::test(start_paused = true)]
async fn an_idle_controller_writes_nothing_in_ten_resyncs() {
    let plan = Plan::default();
    let world = World::new(plan);
    let services = world.services();
    let metrics: ControllerMetrics = services.metrics.of("volumes");
    let stop = CancellationToken::new();
    let engine = tokio::spawn(world.engine::<true>(&services).run(services, stop.clone()));
    use_it(world.api.admin(), plan).await;
    tokio::time::sleep(RESYNC * 2).await;

    let (writes, effects, seen) = (
        world.api.writes().len(),
        world.host.effects(),
        world.api.requests().len(),
    );
    let (resyncs, looks, acted) = (metrics.resyncs(), metrics.passes("idle"), metrics.passes("acted"));
    until(|| metrics.resyncs() >= resyncs + 10).await;
    // The last resync's looks are spread over a tenth of the interval.
    tokio::time::sleep(RESYNC / 10).await;
    assert_eq!(
        world.api.writes().len(),
        writes,
        "writes: {:?}",
        &world.api.writes()[writes..]
    );
    assert_eq!(world.host.effects(), effects);
    assert_eq!(metrics.passes("acted"), acted);
    assert!(
        metrics.passes("idle") >= looks + 30,
        "three sets, ten resyncs: {} looks",
        metrics.passes("idle") - looks
    );

    // Nor are single objects read: a resync is one list of each kind, and watches end now and then.
    let requests = &world.api.requests()[seen..];
    assert_eq!(
        requests.iter().filter(|request| request.verb == "get").count(),
        0,
        "{requests:?}"
    );
    stop.cancel();
    engine.await.unwrap().unwrap();
}
