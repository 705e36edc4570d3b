//! A Lease that says its holder is alive.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{LeaseError, within};
use crate::failure::chain;
use crate::{Clock, Health, Metrics};

/// How an agent shows that it is alive.
#[derive(Clone, Debug)]
pub struct HeartbeatConfig {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// Who we are: the node's name.
    pub identity: String,
    /// After how long without a beat we count as dead. A quarter of it lies between two beats.
    pub duration: Duration,
    /// Labels of the Lease, by which the controller finds the Leases of all agents.
    pub labels: Vec<(String, String)>,
    /// The owner of the Lease, usually the Node, so that it goes when the node goes.
    pub owner: Option<OwnerReference>,
}

impl HeartbeatConfig {
    /// A Lease called `name`, held by `identity`, that counts as expired after 40 seconds, as a kubelet's does.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            duration: Duration::from_secs(40),
            labels: Vec::new(),
            owner: None,
        }
    }

    /// Sets the duration.
    #[must_use]
    pub const fn duration(mut self, duration: Duration) -> Self {
        self.duration = duration;
        self
    }

    /// Adds a label to the Lease.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.push((key.into(), value.into()));
        self
    }

    /// Sets the owner of the Lease.
    #[must_use]
    pub fn owner(mut self, owner: OwnerReference) -> Self {
        self.owner = Some(owner);
        self
    }
}

/// Keeps a heartbeat Lease fresh.
///
/// # Guarantees
/// - It beats only while the process is [alive](Health::alive): an agent whose loop is stuck looks dead, because it is.
/// - A beat that fails is tried again at the next; it never ends the process.
///
/// # Caveats
/// - It is not given back at the end. An agent that is replaced by its successor within the duration was never gone.
#[derive(Debug)]
pub struct Heartbeat {
    api: Api<Lease>,
    config: HeartbeatConfig,
    lease: String,
    clock: Clock,
    metrics: Metrics,
    health: Health,
}

impl Heartbeat {
    /// A heartbeat that has not begun.
    #[must_use]
    pub fn new(
        client: Client,
        config: HeartbeatConfig,
        clock: Clock,
        metrics: Metrics,
        health: Health,
    ) -> Self {
        let api = Api::namespaced(client, &config.namespace);
        let lease = format!("{}/{}", config.namespace, config.name);
        Self {
            api,
            config,
            lease,
            clock,
            metrics,
            health,
        }
    }

    /// Beats until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(self.config.duration / 4);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            if let Err(why) = self.health.alive() {
                warn!(
                    lease = self.lease,
                    why = why.trim(),
                    "no heartbeat: the process is not well"
                );
                continue;
            }
            let beat = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                beat = self.beat() => beat,
            };
            self.metrics.renewed(&self.lease, beat.is_ok());
            match beat {
                Ok(()) => debug!(lease = self.lease, "heartbeat"),
                Err(error) => warn!(lease = self.lease, error = chain(&error), "heartbeat failed"),
            }
        }
    }

    /// One beat: the one field that changes is patched, without reading first; the Lease is made if it is missing or
    /// says something else than we do.
    async fn beat(&self) -> Result<(), LeaseError> {
        let deadline = self.config.duration / 4;
        let params = PatchParams {
            field_manager: Some("cstor-heartbeat".into()),
            ..PatchParams::default()
        };
        let renew = json!({"spec": {
            "holderIdentity": self.config.identity,
            "leaseDurationSeconds": self.seconds(),
            "renewTime": MicroTime(self.clock.now()),
        }});
        let patch = Patch::Merge(&renew);
        let renewed = within(
            "renew",
            &self.lease,
            deadline,
            self.api.patch(&self.config.name, &params, &patch),
        )
        .await;
        match renewed {
            Ok(lease) => self.label(&lease, deadline).await,
            Err(error) if error.code() == Some(404) => {
                let (params, lease) = (PostParams::default(), self.fresh());
                let made = within("create", &self.lease, deadline, self.api.create(&params, &lease)).await;
                made.map(drop)
            }
            Err(error) => Err(error),
        }
    }

    /// Repairs labels and owner, which somebody may have removed or an older version not set.
    async fn label(&self, lease: &Lease, deadline: Duration) -> Result<(), LeaseError> {
        let labelled = self
            .config
            .labels
            .iter()
            .all(|(key, value)| lease.labels().get(key) == Some(value));
        let owned = match &self.config.owner {
            Some(owner) => lease
                .owner_references()
                .iter()
                .any(|known| known.uid == owner.uid),
            None => true,
        };
        if labelled && owned {
            return Ok(());
        }
        let ObjectMeta {
            labels,
            owner_references,
            ..
        } = self.fresh().metadata;
        let patch =
            Patch::Merge(json!({"metadata": {"labels": labels, "ownerReferences": owner_references}}));
        let params = PatchParams {
            field_manager: Some("cstor-heartbeat".into()),
            ..PatchParams::default()
        };
        within(
            "label",
            &self.lease,
            deadline,
            self.api.patch(&self.config.name, &params, &patch),
        )
        .await
        .map(drop)
    }

    fn fresh(&self) -> Lease {
        let now = MicroTime(self.clock.now());
        Lease {
            metadata: ObjectMeta {
                name: Some(self.config.name.clone()),
                labels: Some(self.config.labels.iter().cloned().collect())
                    .filter(|_| !self.config.labels.is_empty()),
                owner_references: self.config.owner.clone().map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.config.identity.clone()),
                lease_duration_seconds: Some(self.seconds()),
                acquire_time: Some(now.clone()),
                renew_time: Some(now),
                ..LeaseSpec::default()
            }),
        }
    }

    fn seconds(&self) -> i32 {
        i32::try_from(self.config.duration.as_secs().max(1)).unwrap_or(i32::MAX)
    }
}
