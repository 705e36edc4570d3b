//! What is known of the agents' Leases, by our own clock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cstor_reconcile::lease::{LeaseObserver, Liveness};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt as _;
use tokio::time::Instant;

use super::GRACE;

/// How many past versions of a Lease are recognised.
const PAST: usize = 16;

/// Whether an agent is heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It is, and would be silent after this long.
    Yes(Duration),
    /// Its Lease expired.
    Expired,
    /// It has no Lease; that is silence after this long.
    Missing(Duration),
}

/// The Leases seen so far. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Agents(Arc<Mutex<BTreeMap<String, Agent>>>);

#[derive(Debug, Default)]
struct Agent {
    observer: LeaseObserver,
    latest: Option<Lease>,
    /// The versions that were seen, so that a cache that is behind does not pass for news.
    past: VecDeque<String>,
    missing_since: Option<Instant>,
}

impl Agents {
    /// Takes in a Lease as the watch told it.
    pub(super) fn note(&self, lease: &Lease) {
        self.hear(&lease.name_any(), Some(lease));
    }

    /// Takes in the Lease called `name` as it was read, and says what is known of its agent.
    pub(super) fn hear(&self, name: &str, lease: Option<&Lease>) -> Heard {
        let now = Instant::now();
        let mut agents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let agent = agents.entry(name.to_owned()).or_default();
        let liveness = lease.map(|lease| agent.observe(lease, now));
        match liveness {
            Some(Liveness::Held { until }) => {
                agent.missing_since = None;
                Heard::Yes(until.saturating_duration_since(now))
            }
            Some(Liveness::Expired { .. }) => Heard::Expired,
            // A Lease that nobody holds is as good as none.
            Some(Liveness::Free) | None => {
                let since = *agent.missing_since.get_or_insert(now);
                Heard::Missing((since + GRACE).saturating_duration_since(now))
            }
        }
    }

    /// Forgets an agent whose node is gone.
    pub(super) fn forget(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

impl Agent {
    fn observe(&mut self, lease: &Lease, now: Instant) -> Liveness {
        let version = lease.resource_version().unwrap_or_default();
        if !self.past.contains(&version) {
            self.past.push_back(version);
            if self.past.len() > PAST {
                self.past.pop_front();
            }
            self.latest = Some(lease.clone());
        }
        self.observer.observe(self.latest.as_ref().unwrap_or(lease), now)
    }
}
