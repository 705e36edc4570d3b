//! The process around the controllers: logs, client, Lease, metrics, health, signals, an orderly end.
//!
//! # Expected flow
//! 1. Logs are set up; the client is made; `/metrics`, `/healthz` and `/readyz` are served.
//! 2. The program's set-up function adds its controllers and background tasks.
//! 3. An agent starts its heartbeat. A controller waits for its Lease.
//! 4. Everything runs until SIGTERM or SIGINT, the loss of the Lease, or the end of a part that must not end.
//! 5. No new work is begun; running work has the drain time to end, then it is dropped. The Lease is given back.
//!
//! # Guarantees
//! - Losing the Lease ends the process: the next leader may begin as soon as our slack is over, and a process
//!   that starts anew has forgotten everything it believed.
//! - A controller or background task that ends by itself ends the process. A half-dead process is worse than a
//!   restarted one.
//! - The Lease is given back only after every controller has stopped.
//!
//! # Caveats
//! - A step that neither ends nor can be dropped (a thread in the kernel) does not keep the process from exiting.
//!
//! ```no_run
//! use cstor_reconcile::lease::HeartbeatConfig;
//! use cstor_reconcile::process::{App, Logs, Process, ProcessError};
//!
//! # async fn main_() -> Result<(), ProcessError> {
//! Process::builder("cstor-agent")
//!     .identity("node-1")
//!     .listen(([0, 0, 0, 0], 9500).into())
//!     .logs(Logs::Json)
//!     .heartbeat(HeartbeatConfig::new("openebs", "cstor-agent-node-1", "node-1"))
//!     .run(async |app: &mut App| {
//!         // app.controller(Engine::new(Pools::new(..), Watch::namespaced(app.client(), "openebs")));
//!         # let _ = app;
//!         Ok::<_, std::io::Error>(())
//!     })
//!     .await
//! # }
//! ```

mod http;
mod logs;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use kube::Client;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{error, info, warn};

pub use logs::{Logs, LogsError};

use crate::failure::chain;
use crate::lease::{Election, ElectionConfig, Heartbeat, HeartbeatConfig};
use crate::{Clock, Health, Metrics, Services, Taps};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a process ended.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The logs could not be set up.
    #[error("set up logging")]
    Logs(#[from] LogsError),
    /// There is no way to the API server.
    #[error("find the Kubernetes API server")]
    Client(#[source] Box<kube::Error>),
    /// The address for metrics and health is not to be had.
    #[error("listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Signals cannot be received.
    #[error("wait for signals")]
    Signals(#[source] std::io::Error),
    /// The program's set-up failed.
    #[error("set up the controllers")]
    Setup(#[source] BoxError),
    /// A part that must run for as long as the process ended.
    #[error("{part} ended")]
    Ended {
        /// Which part.
        part: String,
        /// Why, if it said so.
        #[source]
        source: Option<BoxError>,
    },
    /// Another process leads now, or may do so soon.
    #[error("lost the Lease {lease}")]
    LostLease {
        /// Namespace and name of the Lease.
        lease: String,
    },
}

/// A part of a process that runs until it is told to stop: an engine with its controller.
pub trait Runnable: Send {
    /// What it is called.
    fn name(&self) -> String;

    /// Runs until `stop`, and a little longer: what is running then may end.
    fn run(
        self: Box<Self>,
        services: Services,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), BoxError>>;
}

struct Background {
    name: String,
    task: BoxFuture<'static, Result<(), BoxError>>,
}

impl Runnable for Background {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn run(
        self: Box<Self>,
        _: Services,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), BoxError>> {
        Box::pin(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => Ok(()),
                ended = self.task => ended,
            }
        })
    }
}

/// What the program's set-up function fills.
pub struct App {
    services: Services,
    stop: CancellationToken,
    runnables: Vec<Box<dyn Runnable>>,
}

impl App {
    /// The way to the API server.
    #[must_use]
    pub fn client(&self) -> Client {
        self.services.client.clone()
    }

    /// Everything the process offers.
    #[must_use]
    pub const fn services(&self) -> &Services {
        &self.services
    }

    /// Cancelled when the process is told to stop.
    #[must_use]
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Adds a controller: an [`Engine`](crate::Engine). With an election, it starts when we lead.
    pub fn controller(&mut self, engine: impl Runnable + 'static) {
        self.runnables.push(Box::new(engine));
    }

    /// Adds a task that runs beside the controllers and is dropped at the end. If it ends before, the process does.
    pub fn background<E: Into<BoxError>>(
        &mut self,
        name: impl Into<String>,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let task = Box::pin(async move { task.await.map_err(Into::into) });
        self.runnables.push(Box::new(Background {
            name: name.into(),
            task,
        }));
    }
}

/// A process in the making. Made by [`Process::builder`].
#[must_use]
pub struct Process {
    program: String,
    identity: Option<String>,
    listen: Option<SocketAddr>,
    logs: Logs,
    drain: Duration,
    client: Option<Client>,
    election: Option<ElectionConfig>,
    heartbeat: Option<HeartbeatConfig>,
    stop: CancellationToken,
    signals: bool,
    clock: Clock,
    taps: Taps,
    metrics: Metrics,
    health: Health,
}

impl Process {
    /// A process of the program called `program`: the name events, field managers and logs carry.
    pub fn builder(program: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            identity: None,
            listen: None,
            logs: Logs::Json,
            drain: Duration::from_secs(20),
            client: None,
            election: None,
            heartbeat: None,
            stop: CancellationToken::new(),
            signals: true,
            clock: Clock::system(),
            taps: Taps::none(),
            metrics: Metrics::new(),
            health: Health::default(),
        }
    }

    /// Which process of its program it is: the pod's or the node's name. Default: the program's name.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Serves `/metrics`, `/healthz` and `/readyz` at `address`.
    pub const fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = Some(address);
        self
    }

    /// How logs are written. Default: JSON, one object a line.
    pub const fn logs(mut self, logs: Logs) -> Self {
        self.logs = logs;
        self
    }

    /// How long running work may take to end. Shorter than the pod's grace period. Default: 20 seconds.
    pub const fn drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// Uses this client instead of the one the surroundings suggest.
    pub fn client(mut self, client: Client) -> Self {
        self.client = Some(client);
        self
    }

    /// Runs the controllers only while holding this Lease.
    pub fn lead(mut self, election: ElectionConfig) -> Self {
        self.election = Some(election);
        self
    }

    /// Shows by this Lease that the process is alive.
    pub fn heartbeat(mut self, heartbeat: HeartbeatConfig) -> Self {
        self.heartbeat = Some(heartbeat);
        self
    }

    /// Stops when `stop` is cancelled, and not by signals. For tests that run several processes in one.
    pub fn stop_on(mut self, stop: CancellationToken) -> Self {
        self.stop = stop;
        self.signals = false;
        self
    }

    /// The taps of a test.
    pub fn taps(mut self, taps: Taps) -> Self {
        self.taps = taps;
        self
    }

    /// The metrics to count in, for a test that wants to read them.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Runs until it is told to stop. See the [module](self).
    ///
    /// `setup` adds the controllers to the [`App`]; it runs at once, also while another process leads.
    pub async fn run<E, F>(self, setup: F) -> Result<(), ProcessError>
    where
        E: Into<BoxError>,
        F: AsyncFnOnce(&mut App) -> Result<(), E>,
    {
        self.logs.init()?;
        if self.signals {
            logs::log_panics(self.metrics.clone());
        }
        let client = match self.client {
            Some(client) => client,
            None => Client::try_default()
                .await
                .map_err(|error| ProcessError::Client(Box::new(error)))?,
        };
        let services = Services {
            client,
            identity: self.identity.unwrap_or_else(|| self.program.clone()),
            program: self.program,
            clock: self.clock,
            metrics: self.metrics,
            health: self.health,
            taps: self.taps,
            seed: rand::random(),
            drain: self.drain,
        };
        info!(
            program = services.program,
            identity = services.identity,
            version = env!("CARGO_PKG_VERSION"),
            "starting"
        );

        let ended = services.health.part("process");
        let _served = match self.listen {
            Some(address) => Some(http::serve(address, services.clone()).await?),
            None => None,
        };
        let _signals = if self.signals {
            Some(on_signal(self.stop.clone())?)
        } else {
            None
        };

        let mut app = App {
            services: services.clone(),
            stop: self.stop.clone(),
            runnables: Vec::new(),
        };
        setup(&mut app)
            .await
            .map_err(|error| ProcessError::Setup(error.into()))?;
        ended.ready();

        let beating = CancellationToken::new();
        let _heartbeat = self.heartbeat.map(|config| {
            let (clock, metrics) = (services.clock.clone(), services.metrics.clone());
            let heart = Heartbeat::new(
                services.client.clone(),
                config,
                clock,
                metrics,
                services.health.clone(),
            );
            AbortOnDropHandle::new(tokio::spawn(heart.run(beating.child_token())))
        });

        let result = match self.election {
            None => run_all(app.runnables, &services, &self.stop, None).await,
            Some(config) => {
                let lease = format!("{}/{}", config.namespace, config.name);
                let slack = config.slack();
                let (clock, metrics) = (services.clock.clone(), services.metrics.clone());
                let election = Election::new(services.client.clone(), config, clock, metrics);
                match election.acquire(&self.stop).await {
                    None => Ok(()),
                    Some(leadership) => {
                        let term = Term {
                            lost: leadership.lost().clone(),
                            slack,
                        };
                        let result = run_all(app.runnables, &services, &self.stop, Some(&term)).await;
                        if term.lost.is_cancelled() {
                            Err(ProcessError::LostLease { lease })
                        } else {
                            leadership.release().await;
                            result
                        }
                    }
                }
            }
        };
        ended.waiting_for("the process is ending");
        beating.cancel();
        match &result {
            Ok(()) => info!(program = services.program, "stopped"),
            Err(why) => error!(program = services.program, error = chain(why), "stopped"),
        }
        result
    }
}

/// How long we lead.
struct Term {
    lost: CancellationToken,
    /// How long what runs may go on once it is lost.
    slack: Duration,
}

impl Term {
    async fn over(term: Option<&Self>) -> Duration {
        match term {
            Some(term) => {
                term.lost.cancelled().await;
                term.slack
            }
            None => std::future::pending().await,
        }
    }
}

/// Runs all until `stop` or the end of the term, or until one of them ends; then stops the others and waits for them.
async fn run_all(
    runnables: Vec<Box<dyn Runnable>>,
    services: &Services,
    stop: &CancellationToken,
    term: Option<&Term>,
) -> Result<(), ProcessError> {
    let halt = CancellationToken::new();
    let mut tasks = JoinSet::new();
    for runnable in runnables {
        let (name, services, halt) = (runnable.name(), services.clone(), halt.clone());
        tasks.spawn(async move {
            let ended = tokio::spawn(runnable.run(services, halt));
            (name, AbortOnDropHandle::new(ended).await)
        });
    }
    let mut result = Ok(());
    tokio::select! {
        biased;
        () = stop.cancelled() => info!("told to stop"),
        _ = Term::over(term) => {}
        Some(ended) = tasks.join_next() => result = Err(ended_early(ended)),
    }
    halt.cancel();
    // Each engine keeps to the drain time by itself; this is for one that does not. A lost Lease leaves less time.
    let mut deadline = Instant::now() + services.drain + Duration::from_secs(1);
    let mut over = std::pin::pin!(Term::over(term).fuse());
    loop {
        tokio::select! {
            biased;
            ended = tasks.join_next() => match ended {
                None => break,
                Some(Ok((name, Ok(Ok(()))))) => info!(part = name, "stopped"),
                Some(ended) => {
                    let error = ended_early(ended);
                    error!(error = chain(&error), "ended badly");
                }
            },
            slack = over.as_mut() => {
                warn!("the Lease is lost: others may soon begin");
                deadline = deadline.min(Instant::now() + slack);
            }
            () = tokio::time::sleep_until(deadline) => {
                warn!(left = tasks.len(), "did not stop in time: dropped");
                break;
            }
        }
    }
    result
}

type Ended = Result<(String, Result<Result<(), BoxError>, tokio::task::JoinError>), tokio::task::JoinError>;

fn ended_early(ended: Ended) -> ProcessError {
    match ended {
        Ok((part, Ok(Ok(())))) => ProcessError::Ended { part, source: None },
        Ok((part, Ok(Err(error)))) => ProcessError::Ended {
            part,
            source: Some(error),
        },
        Ok((part, Err(error))) => ProcessError::Ended {
            part,
            source: Some(error.into()),
        },
        Err(error) => ProcessError::Ended {
            part: "a task".into(),
            source: Some(error.into()),
        },
    }
}

fn on_signal(stop: CancellationToken) -> Result<AbortOnDropHandle<()>, ProcessError> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate()).map_err(ProcessError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ProcessError::Signals)?;
    Ok(AbortOnDropHandle::new(tokio::spawn(async move {
        let name = tokio::select! {
            _ = term.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        info!(signal = name, "stopping");
        stop.cancel();
    })))
}
