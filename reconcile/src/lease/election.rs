//! Leader election by a Lease.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, PostParams};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use super::{LeaseError, LeaseObserver, Liveness, within};
use crate::failure::chain;
use crate::{Clock, Metrics};

/// Which Lease, who we are, and how patient everybody is.
#[derive(Clone, Debug)]
pub struct ElectionConfig {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// Who we are: unique among the candidates, usually the pod's name.
    pub identity: String,
    /// How long others wait after the last renewal they saw. Whole seconds, because the Lease says it so.
    pub duration: Duration,
    /// How long the leader goes on without a renewal. Shorter than `duration`; the difference is the time its
    /// controllers have to stop.
    pub renew_deadline: Duration,
    /// How often the leader renews and a candidate looks.
    pub retry: Duration,
}

impl ElectionConfig {
    /// An election with the times that Kubernetes' own components use: 15, 10 and 2 seconds.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }

    /// Sets all three times.
    #[must_use]
    pub const fn times(mut self, duration: Duration, renew_deadline: Duration, retry: Duration) -> Self {
        self.duration = duration;
        self.renew_deadline = renew_deadline;
        self.retry = retry;
        self
    }

    /// How long the controllers may take to stop once the Lease is lost.
    #[must_use]
    pub const fn slack(&self) -> Duration {
        self.duration.saturating_sub(self.renew_deadline)
    }
}

/// A candidate.
///
/// # Expected flow
/// 1. [`acquire`](Self::acquire) waits until the Lease is ours, or until it is told to stop.
/// 2. The [`Leadership`] renews it in the background; its [`lost`](Leadership::lost) token tells when it no longer can.
/// 3. [`release`](Leadership::release) gives it back, after the controllers have stopped.
///
/// # Guarantees
/// - Of the processes that follow these rules, at most one believes it leads, provided their monotonic clocks run at
///   about the same speed: a leader stops `renew_deadline` after it *sent* the last good renewal, an observer waits
///   `duration` after it *saw* that renewal, which cannot be earlier.
/// - Every write of the Lease carries the resource version it was decided on; of two that try, one gets a conflict.
///
/// # Caveats
/// - A lease is not a fence. A paused process can act after it was replaced.
#[derive(Debug)]
pub struct Election {
    api: Api<Lease>,
    config: ElectionConfig,
    lease: String,
    clock: Clock,
    metrics: Metrics,
    observer: LeaseObserver,
    rng: SmallRng,
}

impl Election {
    /// A candidate that has not begun.
    #[must_use]
    pub fn new(client: Client, config: ElectionConfig, clock: Clock, metrics: Metrics) -> Self {
        let api = Api::namespaced(client, &config.namespace);
        let lease = format!("{}/{}", config.namespace, config.name);
        let seed = config
            .identity
            .bytes()
            .fold(0, |seed: u64, byte| seed.rotate_left(7) ^ u64::from(byte));
        let (observer, rng) = (LeaseObserver::default(), SmallRng::seed_from_u64(seed));
        Self {
            api,
            config,
            lease,
            clock,
            metrics,
            observer,
            rng,
        }
    }

    /// Waits until the Lease is ours. `None`: told to stop first.
    ///
    /// An API server that cannot be reached is waited for: a candidate that exits helps nobody.
    pub async fn acquire(mut self, stop: &CancellationToken) -> Option<Leadership> {
        self.metrics.leading(&self.lease, false);
        info!(
            lease = self.lease,
            identity = self.config.identity,
            "waiting to lead"
        );
        loop {
            let sent = Instant::now();
            let tried = tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                tried = self.try_acquire() => tried,
            };
            match tried {
                Ok(Some(lease)) => return Some(self.lead(lease, sent)),
                Ok(None) => debug!(
                    lease = self.lease,
                    holder = self.observer.holder(),
                    "somebody else leads"
                ),
                Err(error) => warn!(lease = self.lease, error = chain(&error), "cannot try to lead"),
            }
            let pause = self.config.retry.mul_f64(self.rng.random_range(1.0..1.2));
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// One try: `Some` if the Lease is ours now.
    async fn try_acquire(&mut self) -> Result<Option<Lease>, LeaseError> {
        let (deadline, name) = (self.config.renew_deadline / 2, self.config.name.clone());
        let Some(lease) = within("read", &self.lease, deadline, self.api.get_opt(&name)).await? else {
            return raced(self.make().await);
        };
        let liveness = self.observer.observe(&lease, Instant::now());
        let ours = self.observer.holder() == Some(&self.config.identity);
        if !ours && liveness.is_held() {
            return Ok(None);
        }
        if let Liveness::Expired { .. } = liveness {
            info!(
                lease = self.lease,
                holder = self.observer.holder(),
                "the leader is gone"
            );
        }
        self.write("take", self.taken(lease))
            .await
            .map(Some)
            .or_else(|error| raced(Err(error)))
    }

    /// The Lease as it looks once it is ours.
    fn taken(&self, mut lease: Lease) -> Lease {
        let now = MicroTime(self.clock.now());
        let before = lease.spec.take().unwrap_or_default();
        let ours = before.holder_identity.as_deref() == Some(&self.config.identity);
        let first = before.holder_identity.is_none() && before.lease_transitions.is_none();
        let transitions = before
            .lease_transitions
            .unwrap_or(0)
            .saturating_add((!ours && !first).into());
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.config.identity.clone()),
            lease_duration_seconds: Some(seconds(self.config.duration)),
            acquire_time: before.acquire_time.filter(|_| ours).or_else(|| Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        });
        lease.metadata.name = Some(self.config.name.clone());
        lease
    }

    async fn write(&self, doing: &'static str, lease: Lease) -> Result<Lease, LeaseError> {
        let (name, params) = (&self.config.name, PostParams::default());
        within(
            doing,
            &self.lease,
            self.config.renew_deadline / 2,
            self.api.replace(name, &params, &lease),
        )
        .await
    }

    async fn make(&self) -> Result<Lease, LeaseError> {
        let (lease, params) = (self.taken(Lease::default()), PostParams::default());
        within(
            "create",
            &self.lease,
            self.config.renew_deadline / 2,
            self.api.create(&params, &lease),
        )
        .await
    }

    fn lead(self, lease: Lease, sent: Instant) -> Leadership {
        info!(lease = self.lease, identity = self.config.identity, "leading");
        self.metrics.leading(&self.lease, true);
        let (lost, release) = (CancellationToken::new(), CancellationToken::new());
        let keeper = self.keep(lease, sent, lost.clone(), release.clone());
        Leadership {
            lost,
            release,
            keeper: AbortOnDropHandle::new(tokio::spawn(keeper)),
        }
    }

    /// Renews until told to give the Lease back, or until it is lost.
    async fn keep(
        self,
        mut lease: Lease,
        sent: Instant,
        lost: CancellationToken,
        release: CancellationToken,
    ) {
        // Lost, too, if this task is dropped or panics: never lead without a keeper.
        let guard = lost.drop_guard();
        let mut good_until = sent + self.config.renew_deadline;
        loop {
            tokio::select! {
                biased;
                () = release.cancelled() => break,
                () = tokio::time::sleep(self.config.retry) => {}
            }
            let sent = Instant::now();
            let renewed = tokio::select! {
                biased;
                () = tokio::time::sleep_until(good_until) => break self.say_lost("no renewal in time"),
                renewed = self.renew(&mut lease) => renewed,
            };
            self.metrics.renewed(&self.lease, renewed.is_ok());
            match renewed {
                Ok(true) => good_until = sent + self.config.renew_deadline,
                Ok(false) => break self.say_lost("somebody else holds the Lease"),
                Err(error) => warn!(lease = self.lease, error = chain(&error), "renewal failed"),
            }
        }
        self.metrics.leading(&self.lease, false);
        if !release.is_cancelled() {
            return;
        }
        guard.disarm();
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.renew_time = Some(MicroTime(self.clock.now()));
        // Whoever does not know that an empty holder means free waits one second, not the whole duration.
        spec.lease_duration_seconds = Some(1);
        match self.write("release", lease).await {
            Ok(_) => info!(lease = self.lease, "gave the Lease back"),
            Err(error) => warn!(
                lease = self.lease,
                error = chain(&error),
                "could not give the Lease back"
            ),
        }
    }

    /// One renewal. `false`: it is not ours any more.
    async fn renew(&self, lease: &mut Lease) -> Result<bool, LeaseError> {
        let renewed = match self.write("renew", self.taken(lease.clone())).await {
            Err(error) if matches!(error.code(), Some(409 | 404)) => {
                // Somebody wrote it; perhaps we ourselves, by a request whose answer was lost.
                let read = self.api.get_opt(&self.config.name);
                match within("read", &self.lease, self.config.renew_deadline / 2, read).await? {
                    Some(now) if holder(&now) == Some(&self.config.identity) => {
                        self.write("renew", self.taken(now)).await?
                    }
                    Some(_) => return Ok(false),
                    None => self.make().await?,
                }
            }
            other => other?,
        };
        *lease = renewed;
        Ok(true)
    }

    fn say_lost(&self, why: &str) {
        warn!(lease = self.lease, why, "no longer leading");
    }
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref()
}

fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs().max(1)).unwrap_or(i32::MAX)
}

/// A conflict means that another candidate was quicker: not an error.
fn raced(written: Result<Lease, LeaseError>) -> Result<Option<Lease>, LeaseError> {
    match written {
        Ok(lease) => Ok(Some(lease)),
        Err(error) if error.code() == Some(409) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Leading, until it is lost, released or dropped.
#[derive(Debug)]
pub struct Leadership {
    lost: CancellationToken,
    release: CancellationToken,
    keeper: AbortOnDropHandle<()>,
}

impl Leadership {
    /// Cancelled when we no longer lead against our will. Whatever needs a leader stops then, within
    /// [`ElectionConfig::slack`].
    #[must_use]
    pub const fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Gives the Lease back, so that the next leader need not wait. Call it when nothing runs any more.
    pub async fn release(self) {
        self.release.cancel();
        if let Err(error) = self.keeper.await {
            warn!(%error, "the keeper of the Lease ended badly");
        }
    }
}
