//! Idle costs the real API server nothing.

use std::sync::atomic::Ordering;
use std::time::Duration;

use cstor_api::ConditionStatus;
use kube::api::PostParams;

use super::host::Host;
use super::volumes::{VolumeSet, VolumeSetSpec, Wanted};
use super::{ALONE, Cluster, Running, raw, until, writes_by_the_servers_count};

/// Counted at the client, in the server's own metrics for the kind, and by the objects' versions and managed fields.
#[tokio::test]
async fn an_idle_controller_writes_nothing_in_ten_resyncs() {
    let _alone = ALONE.write().await;
    let (cluster, host) = (Cluster::new().await, Host::new(1));
    let sets = cluster.sets();
    for name in ["a", "b", "c"] {
        let spec = VolumeSetSpec {
            volumes: vec![Wanted {
                name: "one".into(),
                size: 1,
            }],
            profile: None,
        };
        sets.create(&PostParams::default(), &VolumeSet::new(name, spec))
            .await
            .unwrap();
    }
    let engine = cluster.volumes(&host).resync(Duration::from_millis(200));
    let running = Running::start(engine, cluster.services());
    let metrics = running.metrics.clone();
    until("all are ready", async || {
        let list = sets.list(&Default::default()).await.unwrap().items;
        let ready = |set: &VolumeSet| {
            set.status.as_ref().is_some_and(|status| {
                let mut conditions = status.conditions.iter();
                conditions.any(|condition| condition.status == ConditionStatus::True)
            })
        };
        (list.len() == 3 && list.iter().all(ready)).then_some(())
    })
    .await;
    let resyncs = metrics.resyncs();
    until("it has come to rest", async || {
        (metrics.resyncs() >= resyncs + 2).then_some(())
    })
    .await;

    let before = (
        raw(&sets, "a").await,
        raw(&sets, "b").await,
        raw(&sets, "c").await,
    );
    let writes = cluster.writes.load(Ordering::SeqCst);
    let counted = writes_by_the_servers_count(&cluster.admin).await;
    let (resyncs, idle) = (metrics.resyncs(), metrics.passes("idle"));
    until("ten resyncs", async || {
        (metrics.resyncs() >= resyncs + 10).then_some(())
    })
    .await;
    until("thirty looks", async || {
        (metrics.passes("idle") >= idle + 30).then_some(())
    })
    .await;

    assert_eq!(cluster.writes.load(Ordering::SeqCst), writes);
    assert_eq!(writes_by_the_servers_count(&cluster.admin).await, counted);
    assert!(!counted.is_empty(), "the server counts the writes of this kind");
    assert_eq!(
        (
            raw(&sets, "a").await,
            raw(&sets, "b").await,
            raw(&sets, "c").await
        ),
        before
    );
    running.stop().await;
}
