//! One run of the controllers of claims, devices and silence: an API server, a user, agents, and a process that dies.
//!
//! A run is a function of its [`Plan`]: time is tokio's paused time, all chance comes from the plan's seed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cstor_api::openebs::{BlockDevice, BlockDeviceClaim};
use cstor_controller::{PROGRAM, claim, device, silence};
use cstor_reconcile::memory_api::{Faults, MemoryApi, Request};
use cstor_reconcile::tap::{Tap, TapPoint};
use cstor_reconcile::{Backoff, Clock, Controller, Engine, Metrics, Services, Taps};
use futures::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::oracle::Oracle;
use super::user::{Agents, use_it};

pub const NAMESPACE: &str = "test";
pub const RESYNC: Duration = Duration::from_secs(40);

/// What one run is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    pub seed: u64,
    /// Crash at this tap, counted from the start.
    pub crash_at: Option<usize>,
    /// Everything goes wrong, for the first minute and until the user has got everything.
    pub faults: bool,
    /// Another process thinks that it leads, all the time: a lease is not a fence.
    pub two_leaders: bool,
    /// The engines are wrong on purpose: they act on what a watch told.
    pub trusts_caches: bool,
}

/// How a run went.
#[derive(Debug)]
pub struct Run {
    /// What is left at the end, without times, versions and ids.
    pub end: BTreeMap<String, Value>,
    pub taps: Vec<TapPoint>,
    pub crashes: usize,
    /// How often each fault of the API server was met.
    pub met: BTreeMap<String, u64>,
    /// Writes while nothing was left to do.
    pub idle_writes: Vec<Request>,
    pub violations: Vec<String>,
}

/// Counts taps, and stops the process at some.
struct Crasher {
    points: Mutex<Vec<TapPoint>>,
    at: Option<usize>,
    /// The chance to crash at any tap.
    chance: Mutex<(f64, SmallRng)>,
    crash: Notify,
}

struct CrasherTap(Arc<Crasher>);

impl Tap for CrasherTap {
    fn reached(&self, point: TapPoint) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let number = {
                let mut points = self.0.points.lock().unwrap();
                points.push(point);
                points.len() - 1
            };
            let unlucky = {
                let mut chance = self.0.chance.lock().unwrap();
                let likely = chance.0;
                likely > 0.0 && chance.1.random_bool(likely)
            };
            if self.0.at == Some(number) || unlucky {
                self.0.crash.notify_one();
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
    runtime.block_on(World::new(plan).run())
}

struct World {
    plan: Plan,
    api: MemoryApi,
    oracle: Oracle,
    crasher: Arc<Crasher>,
    clock: Clock,
    crashes: usize,
}

impl World {
    fn new(plan: Plan) -> Self {
        let api = MemoryApi::new(plan.seed);
        api.serve::<BlockDevice>();
        api.serve::<BlockDeviceClaim>();
        api.serve::<Node>();
        let crasher = Arc::new(Crasher {
            points: Mutex::default(),
            at: plan.crash_at,
            chance: Mutex::new((
                if plan.faults { 0.02 } else { 0.0 },
                SmallRng::seed_from_u64(plan.seed ^ 0xdead),
            )),
            crash: Notify::new(),
        });
        let oracle = Oracle::default();
        oracle.watch(&api);
        Self {
            plan,
            api,
            oracle,
            crasher,
            clock: Clock::simulated(Timestamp::from_second(1_800_000_000).unwrap()),
            crashes: 0,
        }
    }

    async fn run(mut self) -> Run {
        if self.plan.faults {
            self.set_faults();
        }
        let agents = Agents::new(self.api.admin());
        let beating = tokio::spawn(agents.clone().live());
        let user = tokio::spawn(use_it(self.api.admin(), agents, self.plan));
        let (api, crasher) = (self.api.clone(), self.crasher.clone());
        let mut idle_writes = Vec::new();
        let script = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            user.await.expect("the user is content");
            api.set_faults(Faults::default());
            crasher.chance.lock().unwrap().0 = 0.0;
            // As long as the longest thing takes, a silent node among it, and some more.
            tokio::time::sleep(RESYNC * 4).await;
            let seen = writes(&api).len();
            tokio::time::sleep(RESYNC * 2).await;
            idle_writes = writes(&api).split_off(seen);
        };
        self.live_until(script).await;
        beating.abort();

        let mut violations = self.oracle.violations();
        violations.extend(self.repeated_events());
        let met = self.api.faults_met().into_iter();
        Run {
            end: super::end::end(&self.api),
            taps: self.crasher.points.lock().unwrap().clone(),
            crashes: self.crashes,
            met: met.map(|(fault, count)| (format!("{fault:?}"), count)).collect(),
            idle_writes,
            violations,
        }
    }

    /// All controllers, for ever.
    fn process(&self, identity: &str, taps: Taps) -> impl Future<Output = ()> + use<> {
        let services = Services {
            clock: self.clock.clone(),
            taps,
            seed: identity
                .bytes()
                .fold(self.plan.seed, |seed, byte| seed.rotate_left(5) ^ u64::from(byte)),
            metrics: Metrics::new(),
            ..Services::new(self.api.client("controller"), PROGRAM, identity)
        };
        let (client, stop) = (services.client.clone(), CancellationToken::new());
        let claims = self.engine(claim::engine(client.clone(), NAMESPACE));
        let devices = self.engine(device::engine(client.clone(), NAMESPACE));
        let silence = self.engine(silence::engine(client, NAMESPACE));
        async move {
            tokio::select! {
                biased;
                ended = claims.run(services.clone(), stop.clone()) => panic!("it ended by itself: {ended:?}"),
                ended = devices.run(services.clone(), stop.clone()) => panic!("it ended by itself: {ended:?}"),
                ended = silence.run(services, stop) => panic!("it ended by itself: {ended:?}"),
            }
        }
    }

    fn engine<C: Controller>(&self, engine: Engine<C>) -> Engine<C> {
        let engine = engine.resync(RESYNC).backoff(Backoff {
            base: Duration::from_secs(1),
            cap: Duration::from_secs(8),
            triggered_cap: Duration::from_secs(4),
        });
        if self.plan.trusts_caches {
            engine.without_fresh_reads()
        } else {
            engine
        }
    }

    /// Runs the process, and runs it again when it dies, until `enough`.
    async fn live_until(&mut self, enough: impl Future<Output = ()>) {
        let mut enough = std::pin::pin!(enough);
        let other = match self.plan.two_leaders {
            true => self.process("process-2", Taps::none()).left_future(),
            false => std::future::pending().right_future(),
        };
        let mut other = std::pin::pin!(other);
        loop {
            let crasher = self.crasher.clone();
            let process = self.process("process-1", Taps::new(CrasherTap(crasher.clone())));
            tokio::select! {
                biased;
                () = enough.as_mut() => return,
                () = crasher.crash.notified() => {}
                () = other.as_mut() => {}
                () = process => {}
            }
            self.crashes += 1;
            // A process takes a while to be started again, and its tasks are gone before.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
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

    fn repeated_events(&self) -> Vec<String> {
        let mut seen = BTreeMap::new();
        for event in self.api.peek_all::<Event>() {
            let what = json!([event["regarding"]["uid"], event["reason"], event["note"]]).to_string();
            *seen.entry(what).or_insert(0) += 1;
        }
        let repeated = seen.into_iter().filter(|(_, count)| *count > 1);
        repeated
            .map(|(what, count)| format!("{count} times {what}"))
            .collect()
    }
}

/// What the controllers have written so far.
fn writes(api: &MemoryApi) -> Vec<Request> {
    let writes = api.writes().into_iter();
    writes.filter(|request| request.client == "controller").collect()
}
