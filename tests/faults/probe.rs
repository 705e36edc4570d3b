//! A controller that misbehaves as it is told, object by object.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cstor_reconcile::memory_api::MemoryApi;
use cstor_reconcile::metrics::ControllerMetrics;
use cstor_reconcile::{
    Backoff, Class, Classify, Clock, Context, Controller, Decision, Engine, Event, Failure, Key, Metrics,
    Outcome, Report, Retry, Services, Step, Watch,
};
use jiff::Timestamp;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::volumes::{VolumeSet, VolumeSetSpec};

pub const NAMESPACE: &str = "test";

/// What an object's looks and steps come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Behaviour {
    /// It has nothing to do.
    #[default]
    Idle,
    /// Its step works, once.
    Works,
    /// Its step fails so many times, and works then.
    Fails(u32),
    /// Its step fails, and a person has to do something.
    FailsForGood,
    /// Its step takes this long, and works.
    Takes(Duration),
    /// Three steps, each of which takes this long.
    Three(Duration),
    /// Three steps, each of which ends when it is let go.
    Held,
    /// Its step panics.
    StepPanics,
    DecidePanics,
    ObserveFails,
    ObserveHangs,
    /// It says this, as an event, on every look.
    Says(&'static str),
    /// It writes a status that the server does not keep.
    Unkept,
    /// Its step changes nothing, and it asks for it again.
    NoProgress,
    /// It wants to be looked at again after this long.
    Again(Duration),
}

#[derive(Default)]
struct State {
    behaviours: BTreeMap<String, Behaviour>,
    looks: BTreeMap<String, Vec<Instant>>,
    acts: BTreeMap<String, Vec<Instant>>,
    done: BTreeMap<String, u32>,
    held: Arc<Notify>,
}

#[derive(Clone, Default)]
pub struct Probe(Arc<Mutex<State>>);

impl Probe {
    pub fn set(&self, name: &str, behaviour: Behaviour) {
        self.0.lock().unwrap().behaviours.insert(name.into(), behaviour);
    }

    /// When steps of the object began.
    pub fn acts(&self, name: &str) -> Vec<Instant> {
        self.0.lock().unwrap().acts.get(name).cloned().unwrap_or_default()
    }

    /// When the object was observed.
    pub fn looks(&self, name: &str) -> Vec<Instant> {
        self.0
            .lock()
            .unwrap()
            .looks
            .get(name)
            .cloned()
            .unwrap_or_default()
    }

    /// Lets one step go that is held.
    pub fn let_go(&self) {
        self.0.lock().unwrap().held.notify_one();
    }

    /// How many steps of the object ended well.
    pub fn done(&self, name: &str) -> u32 {
        self.0.lock().unwrap().done.get(name).copied().unwrap_or_default()
    }
}

pub struct Observed {
    behaviour: Behaviour,
    done: u32,
    failure: Option<Failure>,
}

#[derive(Debug)]
pub struct Work;

impl Step for Work {
    fn name(&self) -> &'static str {
        "work"
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(10)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("zpool create: cannot open /dev/sdx: no such device")]
    Tool,
    #[error("the disk has to be replaced first")]
    NeedsPerson,
    #[error("cannot read the labels")]
    Unreadable,
}

impl Classify for ProbeError {
    fn classify(&self) -> Class {
        match self {
            Self::Tool => Class::new("tool", "ToolFailed"),
            Self::NeedsPerson => Class::new("person", "NeedsPerson").retry(Retry::OnChange),
            Self::Unreadable => Class::new("unreadable", "Unreadable"),
        }
    }
}

impl Controller for Probe {
    const NAME: &'static str = "probe";

    type Object = VolumeSet;
    type Status = Value;
    type Observed = Observed;
    type Step = Work;
    type Error = ProbeError;

    async fn observe(&self, ctx: &Context, object: &VolumeSet) -> Result<Observed, ProbeError> {
        let name = object.name_any();
        let (behaviour, done) = {
            let mut state = self.0.lock().unwrap();
            state.looks.entry(name.clone()).or_default().push(Instant::now());
            (
                state.behaviours.get(&name).cloned().unwrap_or_default(),
                state.done.get(&name).copied().unwrap_or_default(),
            )
        };
        match behaviour {
            Behaviour::ObserveFails => Err(ProbeError::Unreadable),
            Behaviour::ObserveHangs => std::future::pending().await,
            behaviour => Ok(Observed {
                behaviour,
                done,
                failure: ctx.failure().cloned(),
            }),
        }
    }

    fn decide(seen: &Observed) -> Decision<Work, Value> {
        let mut status = json!({"observedGeneration": 1, "volumes": [], "conditions": []});
        if let Some(failure) = &seen.failure {
            let ready = json!({"type": "Ready", "status": "False", "reason": failure.class.reason,
                "message": failure.message, "lastTransitionTime": "2026-01-01T00:00:00Z"});
            status["conditions"] = json!([ready]);
        }
        let decision = Decision::nothing();
        match &seen.behaviour {
            Behaviour::DecidePanics => panic!("on purpose"),
            Behaviour::Says(note) => decision.status(status).event(Event::warning("Says", *note)),
            Behaviour::Unkept => decision.status(json!({"unheardOf": true})),
            Behaviour::Again(wait) => decision.status(status).again(*wait),
            Behaviour::NoProgress => decision.status(status).step(Work),
            Behaviour::Idle => decision.status(status),
            Behaviour::Three(_) | Behaviour::Held if seen.done < 3 => {
                decision.status(status).steps([Work, Work, Work])
            }
            Behaviour::Three(_) | Behaviour::Held => decision.status(status),
            _ if seen.done == 0 => decision.status(status).step(Work),
            _ => decision.status(status),
        }
    }

    async fn act(&self, ctx: &Context, _: Work) -> Result<Outcome, ProbeError> {
        let name = ctx.key().name.clone();
        let (behaviour, tries, held) = {
            let mut state = self.0.lock().unwrap();
            let acts = state.acts.entry(name.clone()).or_default();
            acts.push(Instant::now());
            let tries = acts.len();
            let behaviour = state.behaviours.get(&name).cloned().unwrap_or_default();
            (behaviour, tries, Arc::clone(&state.held))
        };
        match behaviour {
            Behaviour::Fails(times) if tries <= usize::try_from(times).unwrap() => {
                return Err(ProbeError::Tool);
            }
            Behaviour::FailsForGood => return Err(ProbeError::NeedsPerson),
            Behaviour::Takes(time) | Behaviour::Three(time) => tokio::time::sleep(time).await,
            Behaviour::Held => held.notified().await,
            Behaviour::StepPanics => panic!("on purpose"),
            Behaviour::NoProgress => return Ok(Outcome::unchanged()),
            _ => {}
        }
        *self.0.lock().unwrap().done.entry(name).or_default() += 1;
        Ok(Outcome::changed())
    }

    fn unobserved(_: &VolumeSet, failure: &Failure, _: Timestamp) -> Report<Value> {
        let ready = json!({"type": "Ready", "status": "Unknown", "reason": failure.class.reason,
            "message": failure.message, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        Report::of(json!({"observedGeneration": 1, "volumes": [], "conditions": [ready]}))
    }
}

/// A server, a probe, and what an engine needs.
pub struct Bench {
    pub api: MemoryApi,
    pub probe: Probe,
    pub services: Services,
    pub metrics: ControllerMetrics,
}

impl Bench {
    pub fn new() -> Self {
        let api = MemoryApi::new(1);
        api.serve::<VolumeSet>();
        let services = Services {
            clock: Clock::simulated(Timestamp::from_second(1_800_000_000).unwrap()),
            seed: 7,
            metrics: Metrics::new(),
            drain: Duration::from_secs(20),
            ..Services::new(api.client("probe"), "faults", "process-1")
        };
        let metrics = services.metrics.of("probe");
        Self {
            api,
            probe: Probe::default(),
            services,
            metrics,
        }
    }

    pub fn engine(&self) -> Engine<Probe> {
        Engine::new(
            self.probe.clone(),
            Watch::namespaced(self.services.client.clone(), NAMESPACE),
        )
        .resync(Duration::from_secs(600))
        .backoff(Backoff::default())
    }

    pub fn sets(&self) -> Api<VolumeSet> {
        sets(self.api.admin())
    }

    pub async fn make(&self, name: &str, behaviour: Behaviour) {
        self.probe.set(name, behaviour);
        self.sets()
            .create(
                &PostParams::default(),
                &VolumeSet::new(name, VolumeSetSpec::default()),
            )
            .await
            .unwrap();
    }

    /// The first condition of the object, as it is at the server.
    pub fn condition(&self, name: &str) -> Value {
        let set = self
            .api
            .peek::<VolumeSet>(&Key::namespaced(NAMESPACE, name))
            .unwrap();
        set["status"]["conditions"][0].clone()
    }
}

pub fn sets(client: Client) -> Api<VolumeSet> {
    Api::namespaced(client, NAMESPACE)
}

/// Waits, in simulated time, until it is so; for ten minutes at most.
pub async fn until(what: &str, mut so: impl FnMut() -> bool) {
    for _ in 0..12_000 {
        if so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never happened: {what}");
}
