//! A simulated host: volumes that outlive the process, commands that fail, and fail after they worked, and hang.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Volume {
    pub name: String,
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error("cannot open /dev/zvol: Input/output error")]
    Io,
    #[error("{0}: no such volume")]
    NoSuchVolume(String),
}

/// How often the host misbehaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostFaults {
    pub unreadable: f64,
    pub fails: f64,
    pub fails_after: f64,
    pub hangs: f64,
    pub latency: Duration,
}

/// A fault of the host that was met, by the name of the field of [`HostFaults`].
pub const HOST_FAULTS: [&str; 5] = ["unreadable", "fails", "fails_after", "hangs", "latency"];

type Check = Box<dyn Fn(&str) -> Result<(), String> + Send>;

#[derive(Default)]
struct State {
    /// By a number of the host's own: two volumes may have one name, as two clones of a disk may.
    volumes: BTreeMap<u64, (String, Volume)>,
    made: u64,
    effects: u64,
    faults: HostFaults,
    met: BTreeMap<&'static str, u64>,
    rng: Option<SmallRng>,
    acting: BTreeSet<String>,
    /// Everything that could ever be found, by owner.
    history: BTreeMap<String, BTreeSet<Vec<Volume>>>,
    violations: Vec<String>,
    may_act: Option<Check>,
}

#[derive(Clone, Default)]
pub struct Host(Arc<Mutex<State>>);

/// Held while a step of one owner runs.
pub struct Acting(Host, String);

impl Drop for Acting {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().acting.remove(&self.1);
    }
}

impl Host {
    pub fn new(seed: u64) -> Self {
        let host = Self::default();
        host.0.lock().unwrap().rng = Some(SmallRng::seed_from_u64(seed));
        host
    }

    pub fn set_faults(&self, faults: HostFaults) {
        self.0.lock().unwrap().faults = faults;
    }

    /// How often each fault was met so far.
    pub fn faults_met(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap().met.clone()
    }

    /// Asked before every effect whether it may happen now.
    pub fn check_effects(&self, may_act: impl Fn(&str) -> Result<(), String> + Send + 'static) {
        self.0.lock().unwrap().may_act = Some(Box::new(may_act));
    }

    pub fn violate(&self, what: String) {
        self.0.lock().unwrap().violations.push(what);
    }

    pub fn violations(&self) -> Vec<String> {
        self.0.lock().unwrap().violations.clone()
    }

    /// How many effects there were.
    pub fn effects(&self) -> u64 {
        self.0.lock().unwrap().effects
    }

    /// All volumes, with their owners.
    pub fn all(&self) -> Vec<(String, Volume)> {
        let mut all: Vec<_> = self.0.lock().unwrap().volumes.values().cloned().collect();
        all.sort();
        all
    }

    /// What `owner` has now, without faults.
    pub fn now(&self, owner: &str) -> Vec<Volume> {
        volumes_of(&self.0.lock().unwrap(), owner)
    }

    /// Whether `owner` had exactly these at some time.
    pub fn ever_had(&self, owner: &str, volumes: &[Volume]) -> bool {
        volumes.is_empty()
            || self
                .0
                .lock()
                .unwrap()
                .history
                .get(owner)
                .is_some_and(|seen| seen.contains(volumes))
    }

    /// Notes that a step of `owner` runs. Two at a time are a violation.
    pub fn enter(&self, owner: &str) -> Acting {
        let mut state = self.0.lock().unwrap();
        if !state.acting.insert(owner.into()) {
            state.violations.push(format!("two steps at a time on {owner}"));
        }
        Acting(self.clone(), owner.into())
    }

    pub async fn volumes_of(&self, owner: &str) -> Result<Vec<Volume>, HostError> {
        let (pause, fails) = {
            let mut state = self.0.lock().unwrap();
            let faults = state.faults;
            (
                pause(&mut state),
                chance(&mut state, "unreadable", faults.unreadable),
            )
        };
        tokio::time::sleep(pause).await;
        if fails {
            Err(HostError::Io)
        } else {
            Ok(volumes_of(&self.0.lock().unwrap(), owner))
        }
    }

    pub async fn create(&self, owner: &str, name: &str, size: u64) -> Result<(), HostError> {
        self.change(owner, |state| {
            state.made += 1;
            let volume = Volume {
                name: name.into(),
                size,
                tag: None,
            };
            state.volumes.insert(state.made, (owner.into(), volume));
            Ok(())
        })
        .await
    }

    pub async fn grow(&self, owner: &str, name: &str, size: u64) -> Result<(), HostError> {
        self.edit(owner, name, |volume| volume.size = size).await
    }

    pub async fn tag(&self, owner: &str, name: &str, tag: &str) -> Result<(), HostError> {
        self.edit(owner, name, |volume| volume.tag = Some(tag.into()))
            .await
    }

    pub async fn delete(&self, owner: &str, name: &str) -> Result<(), HostError> {
        self.change(owner, |state| {
            let id = id_of(state, owner, name)?;
            state.volumes.remove(&id);
            Ok(())
        })
        .await
    }

    async fn edit(&self, owner: &str, name: &str, edit: impl FnOnce(&mut Volume)) -> Result<(), HostError> {
        self.change(owner, |state| {
            let id = id_of(state, owner, name)?;
            edit(&mut state.volumes.get_mut(&id).unwrap().1);
            Ok(())
        })
        .await
    }

    async fn change(
        &self,
        owner: &str,
        change: impl FnOnce(&mut State) -> Result<(), HostError>,
    ) -> Result<(), HostError> {
        let (before, after, hangs, fails, fails_after) = {
            let mut state = self.0.lock().unwrap();
            let faults = state.faults;
            let (before, after) = (pause(&mut state), pause(&mut state));
            let hangs = chance(&mut state, "hangs", faults.hangs);
            (
                before,
                after,
                hangs,
                chance(&mut state, "fails", faults.fails),
                chance(&mut state, "fails_after", faults.fails_after),
            )
        };
        tokio::time::sleep(if hangs { Duration::from_secs(25) } else { before }).await;
        if fails {
            return Err(HostError::Io);
        }
        {
            let mut state = self.0.lock().unwrap();
            if let Some(Err(why)) = state.may_act.as_ref().map(|may_act| may_act(owner)) {
                state.violations.push(why);
            }
            change(&mut state)?;
            state.effects += 1;
            let now = volumes_of(&state, owner);
            state.history.entry(owner.into()).or_default().insert(now);
        }
        tokio::time::sleep(after).await;
        if fails_after { Err(HostError::Io) } else { Ok(()) }
    }
}

fn volumes_of(state: &State, owner: &str) -> Vec<Volume> {
    let ours = state.volumes.values().filter(|(known, _)| known == owner);
    let mut volumes: Vec<Volume> = ours.map(|(_, volume)| volume.clone()).collect();
    volumes.sort();
    volumes
}

fn id_of(state: &State, owner: &str, name: &str) -> Result<u64, HostError> {
    let is = |(_, (known, volume)): &(&u64, &(String, Volume))| known == owner && volume.name == name;
    state
        .volumes
        .iter()
        .find(is)
        .map(|(id, _)| *id)
        .ok_or_else(|| HostError::NoSuchVolume(name.into()))
}

fn chance(state: &mut State, fault: &'static str, chance: f64) -> bool {
    let happens = chance > 0.0 && state.rng.as_mut().is_some_and(|rng| rng.random_bool(chance));
    if happens {
        *state.met.entry(fault).or_default() += 1;
    }
    happens
}

fn pause(state: &mut State) -> Duration {
    let longest = state.faults.latency;
    match &mut state.rng {
        Some(rng) if !longest.is_zero() => {
            *state.met.entry("latency").or_default() += 1;
            longest.mul_f64(rng.random_range(0.0..=1.0))
        }
        _ => Duration::ZERO,
    }
}
