//! Objects from beginning to end on the real API server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cstor_api::ConditionStatus;
use cstor_reconcile::tap::{Effect, Moment, Tap, TapPoint};
use cstor_reconcile::{Engine, Key, Services, Taps, Trigger, Watch};
use futures::future::BoxFuture;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use serde_json::json;
use tokio::sync::Notify;

use super::host::Host;
use super::probe::{Behaviour, Probe};
use super::volumes::{FINALIZER, VolumeSet, VolumeSetSpec, Wanted};
use super::{ALONE, Cluster, Running, until};

fn set(name: &str, volumes: &[(&str, u64)]) -> VolumeSet {
    let volumes = volumes
        .iter()
        .map(|(name, size)| Wanted {
            name: (*name).into(),
            size: *size,
        })
        .collect();
    VolumeSet::new(
        name,
        VolumeSetSpec {
            volumes,
            profile: None,
        },
    )
}

fn is_ready(set: &VolumeSet) -> bool {
    let generation = set.metadata.generation;
    set.status.as_ref().is_some_and(|status| {
        status.observed_generation == generation
            && status
                .conditions
                .iter()
                .any(|condition| condition.status == ConditionStatus::True)
    })
}

async fn ready(cluster: &Cluster, name: &str) -> VolumeSet {
    until("it is ready", async || {
        cluster.sets().get_opt(name).await.unwrap().filter(is_ready)
    })
    .await
}

impl Cluster {
    fn probe(&self, probe: &Probe) -> Engine<Probe> {
        Engine::new(
            probe.clone(),
            Watch::namespaced(self.client.clone(), &self.namespace),
        )
    }

    async fn events(&self, reason: &str) -> Vec<Event> {
        let events: Api<Event> = Api::namespaced(self.admin.clone(), &self.namespace);
        let params = ListParams::default().fields(&format!("reason={reason}"));
        events.list(&params).await.unwrap().items
    }
}

#[tokio::test]
async fn a_set_lives_and_is_let_go() {
    let _others = ALONE.read().await;
    let (cluster, host) = (Cluster::new().await, Host::new(1));
    let running = Running::start(cluster.volumes(&host), cluster.services());
    let sets = cluster.sets();
    sets.create(&PostParams::default(), &set("a", &[("one", 1), ("two", 2)]))
        .await
        .unwrap();
    let made = ready(&cluster, "a").await;
    assert_eq!(
        made.metadata.finalizers.as_deref(),
        Some(&[FINALIZER.to_owned()][..])
    );
    assert_eq!(made.status.unwrap().volumes.len(), 2);
    let manager = "engine-test/volumes";
    let managed = made.metadata.managed_fields.unwrap();
    assert!(managed.iter().any(|field| {
        field.manager.as_deref() == Some(manager) && field.subresource.as_deref() == Some("status")
    }));

    let grow = json!({"spec": {"volumes": [{"name": "one", "size": 9}]}});
    sets.patch("a", &PatchParams::default(), &Patch::Merge(grow))
        .await
        .unwrap();
    let grown = ready(&cluster, "a").await;
    assert_eq!(grown.status.unwrap().volumes.len(), 1);
    assert_eq!(host.all()[0].1.size, 9);

    sets.delete("a", &DeleteParams::default()).await.unwrap();
    until("it is gone", async || {
        sets.get_opt("a").await.unwrap().is_none().then_some(())
    })
    .await;
    assert_eq!(host.all(), []);
    running.stop().await;
}

/// Does something at the first moment of a kind.
struct AtFirst {
    effect: Effect,
    moment: Moment,
    then: Mutex<Option<BoxFuture<'static, ()>>>,
}

impl Tap for AtFirst {
    fn reached(&self, point: TapPoint) -> BoxFuture<'_, ()> {
        let hit = point.effect == self.effect && point.moment == self.moment;
        let then = if hit {
            self.then.lock().unwrap().take()
        } else {
            None
        };
        Box::pin(async move {
            if let Some(then) = then {
                then.await;
            }
        })
    }
}

#[tokio::test]
async fn a_status_is_not_written_over_what_somebody_else_wrote() {
    let _others = ALONE.read().await;
    let (cluster, host) = (Cluster::new().await, Host::new(1));
    let sets = cluster.sets();
    sets.create(&PostParams::default(), &set("a", &[("one", 1)]))
        .await
        .unwrap();
    let meddle = {
        let sets = sets.clone();
        async move {
            let note = json!({"metadata": {"annotations": {"somebody": "else"}}});
            sets.patch("a", &PatchParams::default(), &Patch::Merge(note))
                .await
                .unwrap();
        }
    };
    let tap = AtFirst {
        effect: Effect::PatchStatus,
        moment: Moment::Before,
        then: Mutex::new(Some(Box::pin(meddle))),
    };
    let services = Services {
        taps: Taps::new(tap),
        ..cluster.services()
    };
    let running = Running::start(cluster.volumes(&host), services);
    let made = ready(&cluster, "a").await;
    assert_eq!(made.metadata.annotations.unwrap()["somebody"], "else");
    assert_eq!(
        (
            running.metrics.passes("conflict"),
            running.metrics.passes("failed")
        ),
        (1, 0)
    );
    running.stop().await;
}

#[tokio::test]
async fn a_process_that_died_in_the_middle_is_continued() {
    let _others = ALONE.read().await;
    let (cluster, host) = (Cluster::new().await, Host::new(1));
    cluster
        .sets()
        .create(&PostParams::default(), &set("a", &[("one", 1), ("two", 2)]))
        .await
        .unwrap();
    let died = Arc::new(Notify::new());
    let dies = {
        let died = died.clone();
        async move {
            died.notify_one();
            std::future::pending().await
        }
    };
    let tap = AtFirst {
        effect: Effect::Step("create"),
        moment: Moment::After,
        then: Mutex::new(Some(Box::pin(dies))),
    };
    let services = Services {
        taps: Taps::new(tap),
        ..cluster.services()
    };
    let running = Running::start(cluster.volumes(&host), services);
    tokio::time::timeout(super::PATIENCE, died.notified())
        .await
        .expect("it dies");
    drop(running);
    assert_eq!(host.all().len(), 1, "one of two was made");

    let running = Running::start(cluster.volumes(&host), cluster.services());
    ready(&cluster, "a").await;
    assert_eq!(host.all().len(), 2, "each was made once");
    running.stop().await;
}

#[tokio::test]
async fn a_malformed_object_is_skipped_with_an_event_while_others_go_on() {
    let _others = ALONE.read().await;
    let (cluster, probe) = (Cluster::new().await, Probe::default());
    let resource = ApiResource::erase::<VolumeSet>(&());
    let raws: Api<DynamicObject> = Api::namespaced_with(cluster.admin.clone(), &cluster.namespace, &resource);
    let bad = DynamicObject::new("bad", &resource).data(json!({"spec": {"volumes": "not a list"}}));
    raws.create(&PostParams::default(), &bad).await.unwrap();
    probe.set("good", Behaviour::Works);
    probe.set("bad", Behaviour::Works);
    let running = Running::start(cluster.probe(&probe), cluster.services());
    cluster
        .sets()
        .create(&PostParams::default(), &set("good", &[]))
        .await
        .unwrap();
    until("the good one is done", async || {
        (probe.done("good") == 1).then_some(())
    })
    .await;
    until("the bad one is counted", async || {
        (running.metrics.malformed() == 1).then_some(())
    })
    .await;
    let events = cluster.events("Malformed").await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].regarding.as_ref().unwrap().name.as_deref(), Some("bad"));
    assert_eq!(probe.done("bad"), 0);

    let repair = json!({"spec": {"volumes": []}});
    raws.patch("bad", &PatchParams::default(), &Patch::Merge(repair))
        .await
        .unwrap();
    until("the repaired one is done", async || {
        (probe.done("bad") == 1).then_some(())
    })
    .await;
    running.stop().await;
}

#[tokio::test]
async fn an_event_is_posted_once_and_counted_when_it_comes_back() {
    let _others = ALONE.read().await;
    let (cluster, probe) = (Cluster::new().await, Probe::default());
    probe.set("a", Behaviour::Says("the pool is degraded"));
    cluster
        .sets()
        .create(&PostParams::default(), &set("a", &[]))
        .await
        .unwrap();
    let (wake, woken) = futures::channel::mpsc::unbounded::<Trigger>();
    let engine = cluster
        .probe(&probe)
        .event_window(Duration::ZERO)
        .trigger("test", woken);
    let running = Running::start(engine, cluster.services());
    let look = async || {
        let looks = probe.looks("a").len();
        wake.unbounded_send(Trigger::One(Key::namespaced(&cluster.namespace, "a")))
            .unwrap();
        until("it is looked at", async || {
            (probe.looks("a").len() > looks).then_some(())
        })
        .await;
    };
    until("it is posted", async || {
        (running.metrics.events("posted") == 1).then_some(())
    })
    .await;
    for _ in 0..5 {
        look().await;
    }
    assert_eq!(running.metrics.events("posted"), 1);
    let events = cluster.events("Says").await;
    assert_eq!((events.len(), events[0].series.is_none()), (1, true));
    assert_eq!(
        events[0].reporting_controller.as_deref(),
        Some("engine-test/probe")
    );

    // It ceases, and comes back: the same event, with a count.
    probe.set("a", Behaviour::Idle);
    look().await;
    look().await;
    probe.set("a", Behaviour::Says("the pool is degraded"));
    look().await;
    until("it is counted", async || {
        (running.metrics.events("posted") == 2).then_some(())
    })
    .await;
    let events = cluster.events("Says").await;
    assert_eq!((events.len(), events[0].series.as_ref().unwrap().count), (1, 2));
    running.stop().await;

    // The next process finds it posted.
    let running = Running::start(cluster.probe(&probe), cluster.services());
    until("it is posted", async || {
        (running.metrics.events("posted") == 1).then_some(())
    })
    .await;
    assert_eq!(cluster.events("Says").await.len(), 1);
    assert_eq!(running.metrics.events("lost"), 0);
    running.stop().await;
}

#[tokio::test]
async fn at_the_end_the_running_step_may_finish_and_no_other_begins() {
    let _others = ALONE.read().await;
    let (cluster, probe) = (Cluster::new().await, Probe::default());
    probe.set("a", Behaviour::Held);
    cluster
        .sets()
        .create(&PostParams::default(), &set("a", &[]))
        .await
        .unwrap();
    let running = Running::start(cluster.probe(&probe), cluster.services());
    until("the first step runs", async || {
        (!probe.acts("a").is_empty()).then_some(())
    })
    .await;
    running.stop.cancel();
    probe.let_go();
    running.stop().await;
    assert_eq!((probe.acts("a").len(), probe.done("a")), (1, 1));
}

/// Selectors are applied by the server, also to the read before an effect.
#[tokio::test]
async fn only_what_the_selector_names_is_acted_on() {
    let _others = ALONE.read().await;
    let (cluster, probe) = (Cluster::new().await, Probe::default());
    for (name, node) in [("mine", "node-1"), ("theirs", "node-2")] {
        probe.set(name, Behaviour::Works);
        let mut set = set(name, &[]);
        set.metadata.labels = Some([("node".into(), node.into())].into());
        cluster.sets().create(&PostParams::default(), &set).await.unwrap();
    }
    let watch = Watch::namespaced(cluster.client.clone(), &cluster.namespace).labels("node=node-1");
    let running = Running::start(Engine::new(probe.clone(), watch), cluster.services());
    until("ours is done", async || (probe.done("mine") == 1).then_some(())).await;

    assert!(probe.looks("theirs").is_empty(), "it was never looked at");
    // It is given to us: an object that comes to match is new to the watch.
    let ours = json!({"metadata": {"labels": {"node": "node-1"}}});
    cluster
        .sets()
        .patch("theirs", &PatchParams::default(), &Patch::Merge(ours))
        .await
        .unwrap();
    until("the other is done", async || {
        (probe.done("theirs") == 1).then_some(())
    })
    .await;
    assert_eq!(running.metrics.passes("failed"), 0);
    running.stop().await;
}
