//! Whether the process is alive, and whether it is ready.
//!
//! Ready: every part has what it needs to work (its caches are filled, it leads or waits to lead).
//! Alive: no part that promised a sign of life has been silent for longer than it promised. A kubelet restarts a
//! process that is not alive, so only a stuck loop makes it so, never a broken disk or an API server that is away.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug)]
struct State {
    waiting_for: Option<String>,
    watchdog: Option<(Instant, Duration)>,
}

/// The health of a process: cheap to clone, shared by its parts.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<BTreeMap<String, State>>>);

impl Health {
    /// A new part. It is not ready until it says so, and gone when the handle is dropped.
    pub fn part(&self, name: impl Into<String>) -> Part {
        let part = Part {
            health: self.clone(),
            name: name.into(),
        };
        self.with(|parts| {
            parts.insert(
                part.name.clone(),
                State {
                    waiting_for: Some("not started".into()),
                    watchdog: None,
                },
            );
        });
        part
    }

    /// Whether every part is ready; if not, what is missing, one line a part.
    pub fn ready(&self) -> Result<(), String> {
        self.report(|state| state.waiting_for.clone())
    }

    /// Whether every part has shown the life it promised; if not, which did not, one line a part.
    pub fn alive(&self) -> Result<(), String> {
        self.report(|state| {
            let (last, limit) = state.watchdog?;
            let silent = last.elapsed();
            (silent > limit).then(|| format!("no sign of life for {} s", silent.as_secs()))
        })
    }

    fn report(&self, complaint: impl Fn(&State) -> Option<String>) -> Result<(), String> {
        let text = self.with(|parts| {
            parts
                .iter()
                .filter_map(|(name, state)| complaint(state).map(|text| (name, text)))
                .fold(String::new(), |mut all, (name, text)| {
                    let _infallible = writeln!(all, "{name}: {text}");
                    all
                })
        });
        if text.is_empty() { Ok(()) } else { Err(text) }
    }

    fn with<T>(&self, f: impl FnOnce(&mut BTreeMap<String, State>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One part's handle on the health of its process.
#[derive(Debug)]
pub struct Part {
    health: Health,
    name: String,
}

impl Part {
    /// It has what it needs.
    pub fn ready(&self) {
        self.update(|state| state.waiting_for = None);
    }

    /// It lacks something.
    pub fn waiting_for(&self, what: impl Into<String>) {
        let what = what.into();
        self.update(|state| state.waiting_for = Some(what));
    }

    /// A sign of life, and the promise of another within `limit`.
    pub fn alive_for(&self, limit: Duration) {
        self.update(|state| state.watchdog = Some((Instant::now(), limit)));
    }

    fn update(&self, f: impl FnOnce(&mut State)) {
        self.health.with(|parts| {
            if let Some(state) = parts.get_mut(&self.name) {
                f(state);
            }
        });
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.health.with(|parts| parts.remove(&self.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ready_and_alive_name_the_part_that_is_not() {
        let health = Health::default();
        assert_eq!(health.ready(), Ok(()));
        let part = health.part("pool");
        part.waiting_for("the list of pools");
        assert_eq!(health.ready(), Err("pool: the list of pools\n".into()));
        part.ready();
        assert_eq!(health.ready(), Ok(()));

        part.alive_for(Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(health.alive(), Ok(()));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(health.alive(), Err("pool: no sign of life for 11 s\n".into()));
        drop(part);
        assert_eq!(health.alive(), Ok(()));
    }
}
