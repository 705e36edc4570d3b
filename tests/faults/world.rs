//! One run of the sample controller in a simulated world: API server, host, a user, and a process that dies.
//!
//! A run is a function of its [`Plan`]: time is tokio's paused time, all chance comes from the plan's seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cstor_api::{Condition, ConditionStatus, set_condition};
use cstor_reconcile::memory_api::{Faults, MemoryApi};
use cstor_reconcile::tap::{Effect, Moment, Tap, TapPoint};
use cstor_reconcile::{Backoff, Clock, Engine, Key, Metrics, Related, Services, Taps, Trigger, Watch};
use futures::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::host::{Host, HostFaults, Volume};
use crate::volumes::{Breakage, FINALIZER, Profile, ProfileSpec, VolumeSet, VolumeSetSpec, Volumes, Wanted};

pub const NAMESPACE: &str = "test";
pub const RESYNC: Duration = Duration::from_secs(30);

/// What one run is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    pub seed: u64,
    /// Crash at this tap, counted from the start.
    pub crash_at: Option<usize>,
    /// Everything goes wrong, for the first minute.
    pub faults: bool,
    pub breakage: Breakage,
    /// The controller has no finalizer.
    pub unheld: bool,
}

/// What is left at the end, without times, versions and ids.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    pub host: Vec<(String, Volume)>,
    pub objects: BTreeMap<Key, Value>,
}

/// How a run went.
#[derive(Debug)]
pub struct Run {
    pub end: End,
    pub taps: Vec<TapPoint>,
    pub crashes: usize,
    /// Around which effects it crashed.
    pub crashed: BTreeSet<(Effect, Moment)>,
    /// How often each fault of the API server and of the host was met.
    pub met: BTreeMap<String, u64>,
    pub requests: usize,
    /// Writes while nothing was left to do.
    pub idle_writes: usize,
    pub violations: Vec<String>,
}

/// Counts taps, and stops the process at some.
struct Crasher {
    points: Mutex<Vec<TapPoint>>,
    crashed: Mutex<BTreeSet<(Effect, Moment)>>,
    at: Option<usize>,
    /// The chance to crash at any tap.
    chance: Mutex<(f64, SmallRng)>,
    crash: Notify,
}

struct CrasherTap(Arc<Crasher>);

impl Tap for CrasherTap {
    fn reached(&self, point: TapPoint) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let moment = (point.effect, point.moment);
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
                self.0.crashed.lock().unwrap().insert(moment);
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

pub struct World {
    plan: Plan,
    pub api: MemoryApi,
    pub host: Host,
    crasher: Arc<Crasher>,
    clock: Clock,
    crashes: usize,
}

impl World {
    pub fn new(plan: Plan) -> Self {
        let api = MemoryApi::new(plan.seed);
        api.serve::<VolumeSet>();
        api.serve::<Profile>();
        let host = Host::new(plan.seed ^ 0x5eed);
        let chance = if plan.faults { 0.02 } else { 0.0 };
        let crasher = Arc::new(Crasher {
            points: Mutex::default(),
            crashed: Mutex::default(),
            at: plan.crash_at,
            chance: Mutex::new((chance, SmallRng::seed_from_u64(plan.seed ^ 0xdead))),
            crash: Notify::new(),
        });
        let clock = Clock::simulated(Timestamp::from_second(1_800_000_000).unwrap());
        let world = Self {
            plan,
            api,
            host,
            crasher,
            clock,
            crashes: 0,
        };
        world.watch_closely();
        world
    }

    /// The oracles that see every effect and every write as it happens.
    fn watch_closely(&self) {
        let api = self.api.clone();
        self.host.check_effects(move |owner| {
            let sets = api.peek_all::<VolumeSet>();
            let set = sets.iter().find(|set| set["metadata"]["uid"] == owner);
            let held = |set: &Value| {
                set["metadata"]["finalizers"]
                    .as_array()
                    .is_some_and(|all| all.contains(&json!(FINALIZER)))
            };
            match set {
                Some(set) if held(set) => Ok(()),
                Some(_) => Err(format!("an effect on {owner} without its finalizer")),
                None => Err(format!("an effect on {owner}, which does not exist")),
            }
        });
        let host = self.host.clone();
        self.api.on_commit(move |commit| {
            if commit.resource != "volumesets" {
                return;
            }
            let held = |set: Option<&Value>| {
                set.and_then(|set| set["metadata"]["finalizers"].as_array())
                    .is_some_and(|all| all.contains(&json!(FINALIZER)))
            };
            let object = commit.after.or(commit.before).unwrap();
            let uid = object["metadata"]["uid"].as_str().unwrap();
            if held(commit.before) && !held(commit.after) && !host.now(uid).is_empty() {
                host.violate(format!("let go of {uid} while it has {:?}", host.now(uid)));
            }
            let Some(after) = commit.after else { return };
            let status = &after["status"];
            if commit.before.map(|before| &before["status"]) != Some(status) && !status.is_null() {
                let claimed: Vec<Volume> =
                    serde_json::from_value(status["volumes"].clone()).unwrap_or_default();
                if !host.ever_had(uid, &claimed) {
                    host.violate(format!("the status of {uid} claims {claimed:?}, which never was"));
                }
                let generation =
                    |object: &Value| object["status"]["observedGeneration"].as_i64().unwrap_or(0);
                if generation(after) > after["metadata"]["generation"].as_i64().unwrap_or(0) {
                    host.violate(format!("the status of {uid} has seen the future"));
                }
                if commit
                    .before
                    .is_some_and(|before| generation(before) > generation(after))
                {
                    host.violate(format!("the status of {uid} went back in time"));
                }
            }
        });
    }

    pub fn services(&self) -> Services {
        Services {
            clock: self.clock.clone(),
            taps: Taps::new(CrasherTap(self.crasher.clone())),
            seed: self.plan.seed,
            metrics: Metrics::new(),
            ..Services::new(self.api.client("controller"), "faults", "process-1")
        }
    }

    pub fn engine<const HELD: bool>(&self, services: &Services) -> Engine<Volumes<HELD>> {
        let client = services.client.clone();
        let profiles = Related::new(Watch::namespaced(client.clone(), NAMESPACE));
        let volumes = Volumes {
            host: self.host.clone(),
            profiles: profiles.clone(),
            breakage: self.plan.breakage,
            remembered: Mutex::default(),
        };
        Engine::new(volumes, Watch::namespaced(client, NAMESPACE))
            .related(profiles, |_| vec![Trigger::All])
            .resync(RESYNC)
            .backoff(Backoff {
                base: Duration::from_secs(1),
                cap: Duration::from_secs(8),
                triggered_cap: Duration::from_secs(4),
            })
    }

    async fn run(mut self) -> Run {
        if self.plan.faults {
            self.set_faults();
        }
        let user = tokio::spawn(use_it(self.api.admin(), self.plan));
        let meddler = tokio::spawn(meddle(self.api.admin(), self.plan));
        let (api, host, crasher) = (self.api.clone(), self.host.clone(), self.crasher.clone());
        let mut idle_writes = 0;
        let script = async {
            // Faults for a minute, and until the user has got everything.
            tokio::time::sleep(Duration::from_secs(60)).await;
            user.await.expect("the user is content");
            meddler.await.expect("the meddler is content");
            api.set_faults(Faults::default());
            host.set_faults(HostFaults::default());
            crasher.chance.lock().unwrap().0 = 0.0;
            // As long as the longest thing takes, and some more.
            tokio::time::sleep(RESYNC * 4).await;
            let (writes, effects) = (api.writes().len(), host.effects());
            tokio::time::sleep(RESYNC * 2).await;
            idle_writes = api.writes().len() - writes + usize::try_from(host.effects() - effects).unwrap();
        };
        self.live_until(script).await;

        let mut violations = self.host.violations();
        violations.extend(self.repeated_events());
        let taps = self.crasher.points.lock().unwrap().clone();
        let api = self.api.faults_met().into_iter();
        let api = api.map(|(fault, count)| (format!("{fault:?} of the API server"), count));
        let host = self.host.faults_met().into_iter();
        let host = host.map(|(fault, count)| (format!("{fault} of the host"), count));
        Run {
            end: self.end(),
            taps,
            crashes: self.crashes,
            crashed: self.crasher.crashed.lock().unwrap().clone(),
            met: api.chain(host).collect(),
            requests: self.api.requests().len(),
            idle_writes,
            violations,
        }
    }

    /// Runs the process, and runs it again when it dies, until `enough`.
    async fn live_until(&mut self, enough: impl Future<Output = ()>) {
        let mut enough = std::pin::pin!(enough);
        loop {
            let services = self.services();
            let stop = CancellationToken::new();
            let process = match self.plan.unheld {
                false => self.engine::<true>(&services).run(services, stop).boxed(),
                true => self.engine::<false>(&services).run(services, stop).boxed(),
            };
            let crasher = self.crasher.clone();
            tokio::select! {
                biased;
                () = enough.as_mut() => return,
                () = crasher.crash.notified() => {}
                ended = process => panic!("the engine ended by itself: {ended:?}"),
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
        self.host.set_faults(HostFaults {
            unreadable: some(0.1),
            fails: some(0.2),
            fails_after: some(0.2),
            hangs: some(0.05),
            latency: Duration::from_millis((some(1.0) * 1000.0) as u64),
        });
    }

    fn repeated_events(&self) -> Vec<String> {
        let mut seen = BTreeMap::new();
        for event in self.api.peek_all::<Event>() {
            let what = (
                event["regarding"]["uid"].to_string(),
                event["reason"].to_string(),
                event["note"].to_string(),
            );
            *seen.entry(what).or_insert(0) += 1;
        }
        seen.into_iter()
            .filter(|(_, count)| *count > 1)
            .map(|(what, count)| format!("{count} times {what:?}"))
            .collect()
    }

    fn end(&self) -> End {
        let mut objects = BTreeMap::new();
        let mut owners = BTreeMap::new();
        for mut set in self.api.peek_all::<VolumeSet>() {
            let metadata = set["metadata"].take();
            let name = metadata["name"].as_str().unwrap().to_owned();
            owners.insert(metadata["uid"].as_str().unwrap().to_owned(), name.clone());
            set["metadata"] = json!({
                "finalizers": metadata["finalizers"],
                "generation": metadata["generation"],
                "deleting": !metadata["deletionTimestamp"].is_null(),
            });
            for condition in set["status"]["conditions"].as_array_mut().into_iter().flatten() {
                condition.as_object_mut().unwrap().remove("lastTransitionTime");
            }
            // Who wrote the first condition, or the first finalizer, is chance.
            for list in ["/status/conditions", "/metadata/finalizers"] {
                if let Some(list) = set.pointer_mut(list).and_then(Value::as_array_mut) {
                    list.sort_by_key(|item| item["type"].to_string() + &item.to_string());
                }
            }
            objects.insert(Key::namespaced(NAMESPACE, name), set);
        }
        let owner = |uid: &String| {
            owners
                .get(uid)
                .cloned()
                .unwrap_or_else(|| format!("nobody ({uid})"))
        };
        let mut host: Vec<_> = self
            .host
            .all()
            .iter()
            .map(|(uid, volume)| (owner(uid), volume.clone()))
            .collect();
        host.sort();
        End { host, objects }
    }
}

/// What the user does. In a faulty run the moments differ, but never the order, nor the end.
pub async fn use_it(client: Client, plan: Plan) {
    let mut rng = SmallRng::seed_from_u64(plan.seed ^ 0x05e2);
    let mut pause = async || {
        let milliseconds = if plan.faults {
            rng.random_range(0..8000)
        } else {
            4000
        };
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    };
    let sets: Api<VolumeSet> = Api::namespaced(client.clone(), NAMESPACE);
    let profiles: Api<Profile> = Api::namespaced(client, NAMESPACE);

    make(&sets, "a", &[("one", 10), ("two", 20)], Some("gold")).await;
    make(&sets, "b", &[("one", 10)], None).await;
    make(&sets, "c", &[("x", 1), ("y", 2)], None).await;
    pause().await;
    let gold = Profile {
        metadata: ObjectMeta {
            name: Some("gold".into()),
            ..ObjectMeta::default()
        },
        spec: ProfileSpec { tag: "gold".into() },
    };
    profiles.create(&PostParams::default(), &gold).await.unwrap();
    pause().await;
    // One volume grows, one goes, one comes.
    want(&sets, "a", &[("one", 50), ("three", 5)]).await;
    pause().await;
    sets.delete("c", &DeleteParams::default()).await.unwrap();
    // A mistake, and its repair.
    want(&sets, "b", &[("one", 5)]).await;
    pause().await;
    want(&sets, "b", &[("one", 10), ("extra", 7)]).await;
    let silver = json!({"spec": {"tag": "silver"}});
    profiles
        .patch("gold", &PatchParams::default(), &Patch::Merge(silver))
        .await
        .unwrap();
    pause().await;
    // The same name again, for another set.
    while sets.get_opt("c").await.unwrap().is_some() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    make(&sets, "c", &[("x", 3)], Some("gold")).await;
    // One that goes before anybody may have noticed it.
    make(&sets, "d", &[("fleeting", 1)], None).await;
    sets.delete("d", &DeleteParams::default()).await.unwrap();
    pause().await;
    want(&sets, "b", &[("extra", 9)]).await;
}

async fn make(sets: &Api<VolumeSet>, name: &str, volumes: &[(&str, u64)], profile: Option<&str>) {
    let spec = VolumeSetSpec {
        volumes: wanted(volumes),
        profile: profile.map(Into::into),
    };
    sets.create(&PostParams::default(), &VolumeSet::new(name, spec))
        .await
        .unwrap();
}

async fn want(sets: &Api<VolumeSet>, name: &str, volumes: &[(&str, u64)]) {
    let patch = json!({"spec": {"volumes": wanted(volumes)}});
    sets.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

fn wanted(volumes: &[(&str, u64)]) -> Vec<Wanted> {
    volumes
        .iter()
        .map(|(name, size)| Wanted {
            name: (*name).into(),
            size: *size,
        })
        .collect()
}

/// Another controller, with a finalizer and a condition of its own on the same objects. It keeps to the rules; if the engine
/// does not, its writes get lost.
async fn meddle(client: Client, plan: Plan) {
    let mut rng = SmallRng::seed_from_u64(plan.seed ^ 0x3edd);
    let sets: Api<VolumeSet> = Api::namespaced(client, NAMESPACE);
    let mut finalized = false;
    for count in 1..=MEDDLING {
        let milliseconds = if plan.faults {
            rng.random_range(0..3000)
        } else {
            1000
        };
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        loop {
            let Some(mut set) = sets.get_opt("a").await.unwrap() else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let params = PostParams::default();
            if !finalized {
                set.metadata
                    .finalizers
                    .get_or_insert_default()
                    .push("other/finalizer".into());
                finalized = sets.replace("a", &params, &set).await.is_ok();
                continue;
            }
            let status = set.status.get_or_insert_default();
            let mut conditions = status.conditions.iter();
            let theirs = conditions.find(|condition| condition.type_ == THEIRS);
            let known = theirs.map_or(0, |theirs| {
                theirs.message.as_deref().unwrap().parse::<u32>().unwrap()
            });
            let count_on = Condition::new(THEIRS, ConditionStatus::True, "Counting", (known + 1).to_string());
            set_condition(&mut status.conditions, count_on, Timestamp::UNIX_EPOCH);
            if sets.replace_status("a", &params, &set).await.is_ok() {
                assert_eq!(known + 1, count, "a write of the other controller was lost");
                break;
            }
        }
    }
}

/// The condition of the other controller.
const THEIRS: &str = "Theirs";

/// How often the other controller writes.
const MEDDLING: u32 = 10;
