//! One run of the agents of two nodes: an API server, disks that come, go and move, and processes that die.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cstor_agent::disk;
use cstor_agent::disk::matches::Matches;
use cstor_api::cstor::CStorPoolInstance;
use cstor_api::dao::Storage;
use cstor_api::openebs::BlockDevice;
use cstor_reconcile::memory_api::{Faults, MemoryApi, Request};
use cstor_reconcile::tap::{Effect, Moment, Tap, TapPoint};
use cstor_reconcile::{Backoff, Clock, Controller, Engine, Metrics, Services, Taps};
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Api;
use kube::api::PostParams;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::host::Host;
use super::oracle::Oracle;
use super::user;

pub const RESYNC: Duration = Duration::from_secs(40);
/// How often all disks are read.
pub const EVERY: Duration = Duration::from_secs(10);

/// What one run is.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub seed: u64,
    /// Crash when this tap is reached for this time, counted from zero. Files are read by threads, so that the order of
    /// taps of different objects is not the same in every run.
    pub crash_at: Option<(TapPoint, usize)>,
    /// Everything goes wrong, until the user has got everything.
    pub faults: bool,
    /// Writes what must not be written, once everything is published.
    pub meddler: Option<Meddler>,
}

/// Does what an agent that is wrong would do to the object of a disk.
#[derive(Clone, Copy, Debug)]
pub struct Meddler {
    pub serial: &'static str,
    /// What becomes of the object; `Null` to remove it.
    pub wrong: fn(&mut Value),
}

/// How a run went.
#[derive(Debug)]
pub struct Run {
    /// What is left at the end, without times, versions and ids.
    pub end: BTreeMap<String, Value>,
    pub taps: Vec<TapPoint>,
    pub crashes: usize,
    /// Around which effects of which controller it crashed.
    pub crashed: BTreeSet<(&'static str, Effect, Moment)>,
    pub met: BTreeMap<String, u64>,
    /// Writes while nothing was left to do.
    pub idle_writes: Vec<Request>,
    pub violations: Vec<String>,
}

/// Counts taps, and stops processes at some.
struct Crasher {
    points: Mutex<Vec<TapPoint>>,
    crashed: Mutex<BTreeSet<(&'static str, Effect, Moment)>>,
    crashes: Mutex<usize>,
    at: Option<(TapPoint, usize)>,
    /// The chance to crash at any tap.
    chance: Mutex<(f64, SmallRng)>,
}

/// The tap of one process.
struct CrasherTap {
    all: Arc<Crasher>,
    crash: Arc<Notify>,
}

impl Tap for CrasherTap {
    fn reached(&self, point: TapPoint) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let moment = (point.controller, point.effect, point.moment);
            let is_it = {
                let mut points = self.all.points.lock().unwrap();
                let times = points.iter().filter(|known| **known == point).count();
                let is_it = self
                    .all
                    .at
                    .as_ref()
                    .is_some_and(|(at, time)| *at == point && *time == times);
                points.push(point);
                is_it
            };
            let unlucky = {
                let mut chance = self.all.chance.lock().unwrap();
                let likely = chance.0;
                likely > 0.0 && chance.1.random_bool(likely)
            };
            if is_it || unlucky {
                self.all.crashed.lock().unwrap().insert(moment);
                *self.all.crashes.lock().unwrap() += 1;
                self.crash.notify_one();
                std::future::pending::<()>().await;
            }
        })
    }
}

/// Runs `plan` to its end, on a runtime of its own.
pub fn run(plan: Plan) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let run = runtime.block_on(World::new(plan).run());
    runtime.shutdown_background();
    run
}

/// An API server that serves what the agents read.
pub fn api(seed: u64) -> MemoryApi {
    let api = MemoryApi::new(seed);
    api.serve::<BlockDevice>();
    api.serve::<CStorPoolInstance>();
    api.serve::<Storage>();
    api.serve::<Node>();
    api.serve::<PersistentVolume>();
    api.serve::<VolumeAttachment>();
    api
}

/// Makes the Node of a host.
pub async fn register(api: &MemoryApi, host: &Host) {
    let nodes: Api<Node> = Api::all(api.admin());
    let node = serde_json::from_value(json!({ "metadata": { "name": host.node } })).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
}

/// The agent of one host, for ever.
pub struct Agent<'a> {
    pub api: &'a MemoryApi,
    pub host: &'a Host,
    pub clock: &'a Clock,
    pub every: Duration,
    pub resync: Duration,
    pub seed: u64,
}

impl Agent<'_> {
    fn engine<C: Controller>(&self, engine: Engine<C>) -> Engine<C> {
        engine.resync(self.resync).backoff(Backoff {
            base: Duration::from_secs(1),
            cap: Duration::from_secs(8),
            triggered_cap: Duration::from_secs(4),
        })
    }

    pub fn run(&self, taps: Taps) -> impl Future<Output = ()> + use<> {
        let identity = self.host.node.as_str();
        let services = Services {
            clock: self.clock.clone(),
            taps,
            seed: identity
                .bytes()
                .fold(self.seed, |seed, byte| seed.rotate_left(5) ^ u64::from(byte)),
            metrics: Metrics::new(),
            ..Services::new(self.api.client("agent"), "cstor-agent", identity)
        };
        let settings = self.host.settings(self.every);
        let (watcher, disks) = disk::watcher(&settings, self.host.reader());
        let controllers = disk::controllers(&services.client, &settings, &disks, &Matches::default());
        let announce = self.engine(controllers.announce);
        let correlate = self.engine(controllers.correlate);
        let publish = self.engine(controllers.publish);
        let stop = CancellationToken::new();
        async move {
            tokio::select! {
                biased;
                () = watcher.run() => panic!("the watcher ended by itself"),
                ended = announce.run(services.clone(), stop.clone()) => panic!("it ended by itself: {ended:?}"),
                ended = correlate.run(services.clone(), stop.clone()) => panic!("it ended by itself: {ended:?}"),
                ended = publish.run(services, stop) => panic!("it ended by itself: {ended:?}"),
            }
        }
    }
}

struct World {
    plan: Plan,
    api: MemoryApi,
    hosts: [Arc<Host>; 2],
    oracle: Arc<Oracle>,
    crasher: Arc<Crasher>,
    clock: Clock,
}

impl World {
    fn new(plan: Plan) -> Self {
        let hosts = ["node-1", "node-2"].map(Host::new);
        let api = api(plan.seed);
        let oracle = Oracle::watch(&api, &hosts);
        let crasher = Arc::new(Crasher {
            points: Mutex::default(),
            crashed: Mutex::default(),
            crashes: Mutex::default(),
            at: plan.crash_at.clone(),
            chance: Mutex::new((
                if plan.faults { 0.02 } else { 0.0 },
                SmallRng::seed_from_u64(plan.seed ^ 0xdead),
            )),
        });
        Self {
            plan,
            api,
            hosts,
            oracle,
            crasher,
            clock: Clock::simulated(Timestamp::from_second(1_800_000_000).unwrap()),
        }
    }

    async fn run(self) -> Run {
        for host in &self.hosts {
            register(&self.api, host).await;
        }
        user::prepare(&self.api, &self.hosts).await;
        if self.plan.faults {
            self.set_faults();
        }
        let mut idle_writes = Vec::new();
        let script = async {
            user::use_it(&self.api, &self.hosts, &self.oracle, self.plan.meddler).await;
            self.api.set_faults(Faults::default());
            self.crasher.chance.lock().unwrap().0 = 0.0;
            tokio::time::sleep(RESYNC * 3).await;
            let seen = self.writes().len();
            tokio::time::sleep(RESYNC * 2).await;
            idle_writes = self.writes().split_off(seen);
        };
        let [one, two] = &self.hosts;
        tokio::select! {
            biased;
            () = script => {}
            () = self.live(one) => {}
            () = self.live(two) => {}
        }
        let met = self.api.faults_met().into_iter();
        Run {
            end: super::end::end(&self.api),
            taps: self.crasher.points.lock().unwrap().clone(),
            crashes: *self.crasher.crashes.lock().unwrap(),
            crashed: self.crasher.crashed.lock().unwrap().clone(),
            met: met.map(|(fault, count)| (format!("{fault:?}"), count)).collect(),
            idle_writes,
            violations: self.oracle.violations(),
        }
    }

    /// Runs the agent of a host, and runs it again when it dies.
    async fn live(&self, host: &Host) {
        loop {
            let crash = Arc::new(Notify::new());
            let agent = Agent {
                api: &self.api,
                host,
                clock: &self.clock,
                every: EVERY,
                resync: RESYNC,
                seed: self.plan.seed,
            };
            let process = agent.run(Taps::new(CrasherTap {
                all: self.crasher.clone(),
                crash: crash.clone(),
            }));
            tokio::select! {
                biased;
                () = crash.notified() => {}
                () = process => {}
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// What the agents have written so far.
    fn writes(&self) -> Vec<Request> {
        let writes = self.api.writes().into_iter();
        writes.filter(|request| request.client == "agent").collect()
    }

    fn set_faults(&self) {
        let mut rng = SmallRng::seed_from_u64(self.plan.seed ^ 0xfa17);
        // Every run has its own mix: some faults often, some never.
        let mut some = |most: f64| {
            if rng.random_bool(0.5) {
                rng.random_range(0.0..most)
            } else {
                0.0
            }
        };
        self.api.set_faults(Faults {
            read_error: some(0.1),
            write_error: some(0.1),
            conflict: some(0.2),
            lost_response: some(0.2),
            silence: some(0.02),
            stale_list: some(0.6),
            lost_event: some(0.3),
            repeated_event: some(0.5),
            broken_watch: some(0.2),
            gone: some(0.1),
            event_delay: Duration::from_millis((some(1.0) * 4000.0) as u64),
            latency: Duration::from_millis((some(1.0) * 300.0) as u64),
        });
    }
}
