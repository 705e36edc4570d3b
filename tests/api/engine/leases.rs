//! Elections and heartbeats on the real API server.

use std::time::Duration;

use cstor_reconcile::lease::{Election, ElectionConfig, Heartbeat, HeartbeatConfig, Leadership};
use cstor_reconcile::{Clock, Health, Metrics};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Api;
use tokio_util::sync::CancellationToken;

use super::until;
use crate::support;

/// Of a leader that is to stay: however slow the server, it is not lost before the test gives up for other reasons.
const LONG: Duration = Duration::from_secs(300);
/// Of a leader whose Lease is to expire. Nothing is asked of it but to take the Lease.
const SHORT: Duration = Duration::from_secs(5);

struct Candidates {
    client: kube::Client,
    namespace: String,
}

impl Candidates {
    async fn new() -> Self {
        let client = support::client().await;
        let namespace = support::namespace(&client).await;
        Self { client, namespace }
    }

    fn election(&self, name: &str, clock: Clock, duration: Duration) -> Election {
        let config = ElectionConfig::new(&self.namespace, "leader", name).times(
            duration,
            duration * 4 / 5,
            Duration::from_millis(200),
        );
        Election::new(self.client.clone(), config, clock, Metrics::new())
    }

    async fn lead(&self, name: &str, clock: Clock, duration: Duration) -> Leadership {
        let (election, never) = (self.election(name, clock, duration), CancellationToken::new());
        let led = tokio::time::timeout(super::PATIENCE, election.acquire(&never)).await;
        led.expect("it leads in the end").unwrap()
    }

    async fn spec(&self) -> LeaseSpec {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &self.namespace);
        leases.get("leader").await.unwrap().spec.unwrap()
    }
}

fn long_ago() -> Clock {
    Clock::simulated(jiff::Timestamp::from_second(1_000_000_000).unwrap())
}

#[tokio::test]
async fn leading_passes_on_by_release_and_by_expiry() {
    let candidates = Candidates::new().await;
    let one = candidates.lead("one", Clock::system(), LONG).await;
    assert_eq!(candidates.spec().await.holder_identity.as_deref(), Some("one"));
    let (two, ()) = tokio::join!(candidates.lead("two", long_ago(), SHORT), async {
        // The other one has most likely looked by now, and waits; if not, it finds the Lease free.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!one.lost().is_cancelled());
        one.release().await;
    });
    let spec = candidates.spec().await;
    assert_eq!(
        (spec.holder_identity.as_deref(), spec.lease_transitions),
        (Some("two"), Some(1))
    );

    // The leader dies without a word: dropped, its keeper is gone and nothing is given back.
    drop(two);
    let three = candidates.lead("three", Clock::system(), LONG).await;
    let spec = candidates.spec().await;
    assert_eq!(
        (spec.holder_identity.as_deref(), spec.lease_transitions),
        (Some("three"), Some(2))
    );
    assert!(!three.lost().is_cancelled());
    three.release().await;
    assert_eq!(
        candidates
            .spec()
            .await
            .holder_identity
            .as_deref()
            .unwrap_or_default(),
        ""
    );
}

#[tokio::test]
async fn a_leader_that_is_pushed_out_notices() {
    let candidates = Candidates::new().await;
    let one = candidates.lead("one", Clock::system(), LONG).await;
    let leases: Api<Lease> = Api::namespaced(candidates.client.clone(), &candidates.namespace);
    let usurped = serde_json::json!({"spec": {"holderIdentity": "usurper"}});
    leases
        .patch("leader", &Default::default(), &kube::api::Patch::Merge(usurped))
        .await
        .unwrap();
    tokio::time::timeout(super::PATIENCE, one.lost().cancelled())
        .await
        .expect("it notices");
}

#[tokio::test]
async fn a_heartbeat_is_made_and_renewed() {
    let candidates = Candidates::new().await;
    let config = HeartbeatConfig::new(&candidates.namespace, "cstor-agent-node-1", "node-1")
        .duration(Duration::from_secs(20))
        .label("app.kubernetes.io/component", "agent");
    let heart = Heartbeat::new(
        candidates.client.clone(),
        config,
        Clock::system(),
        Metrics::new(),
        Health::default(),
    );
    let stop = CancellationToken::new();
    let beating = tokio::spawn(heart.run(stop.clone()));
    let leases: Api<Lease> = Api::namespaced(candidates.client.clone(), &candidates.namespace);
    let renewed = async || {
        leases
            .get_opt("cstor-agent-node-1")
            .await
            .unwrap()?
            .spec?
            .renew_time
    };
    let first = until("the Lease is made", &renewed).await;
    until("it is renewed", async || {
        renewed().await.filter(|now| *now != first)
    })
    .await;
    let lease = leases.get("cstor-agent-node-1").await.unwrap();
    assert_eq!(
        lease.metadata.labels.unwrap()["app.kubernetes.io/component"],
        "agent"
    );
    assert_eq!(lease.spec.unwrap().holder_identity.as_deref(), Some("node-1"));
    stop.cancel();
    beating.await.unwrap();
}
