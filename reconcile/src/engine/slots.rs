//! Which objects there are, and when each is to be looked at next.
//!
//! Pure bookkeeping: no I/O, no tasks; the time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::Resource as _;
use tokio::time::Instant;

use super::memory::{Memory, Seen};
use crate::failure::Failure;
use crate::watch::Guarded;
use crate::{Backoff, Key, Object, Reading};

/// Why an object is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wake {
    /// The resync came round.
    Resync,
    /// A trigger named it, or something related changed.
    Trigger,
    /// The object itself changed, or is new.
    Change,
}

pub(super) struct Slot<K> {
    pub(super) object: Guarded<K>,
    pub(super) memory: Memory,
    pub(super) seen: Seen,
    pub(super) superseded: Arc<AtomicBool>,
    due: Option<Instant>,
    /// The next look reads from the API server first: something was written, and it is not known whether it arrived.
    fresh: bool,
    running: bool,
    woken: Option<Wake>,
    gone: bool,
    /// When the last look ended, if it failed.
    failed_at: Option<Instant>,
    /// How a stuck step ended, if it did so during a look.
    step_ended: Option<StepEnd>,
}

/// How a step ended that had been stuck: well, or with a failure.
pub(super) type StepEnd = Result<(), Failure>;

/// All objects of an engine.
pub(super) struct Slots<K> {
    slots: BTreeMap<Key, Slot<K>>,
    due: BTreeSet<(Instant, Key)>,
    backoff: Backoff,
    pub(super) failing: BTreeSet<Key>,
    pub(super) malformed: BTreeSet<Key>,
}

/// A look to be taken.
pub(super) struct Start<K> {
    pub(super) key: Key,
    pub(super) object: Guarded<K>,
    pub(super) memory: Memory,
    pub(super) seen: Seen,
    pub(super) superseded: Arc<AtomicBool>,
    pub(super) reading: Reading,
}

impl<K: Object> Slots<K> {
    pub(super) const fn new(backoff: Backoff) -> Self {
        Self {
            slots: BTreeMap::new(),
            due: BTreeSet::new(),
            backoff,
            failing: BTreeSet::new(),
            malformed: BTreeSet::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The object is there, and looks like this. Returns whether it is news.
    pub(super) fn applied(&mut self, object: Guarded<K>, now: Instant) -> bool {
        let key = Key::of(&object);
        let news = match self.slots.get_mut(&key) {
            None => {
                let slot = Slot {
                    object,
                    memory: Memory::default(),
                    seen: Seen::default(),
                    superseded: Arc::default(),
                    due: None,
                    fresh: false,
                    running: false,
                    woken: None,
                    gone: false,
                    failed_at: None,
                    step_ended: None,
                };
                self.slots.insert(key.clone(), slot);
                true
            }
            Some(slot) => {
                let version = object.meta().resource_version.as_deref();
                let news = slot.gone || !slot.seen.has(version);
                slot.gone = false;
                let same = slot.object.meta().resource_version.as_deref() == version;
                if news || same {
                    slot.object = object;
                }
                news && !(same && slot.due.is_some() && !slot.running)
            }
        };
        if news {
            self.wake(&key, Wake::Change, now);
        }
        news
    }

    /// All objects there are look like this. Objects that did not change are looked at, too, spread over `spread`.
    pub(super) fn listed(
        &mut self,
        objects: Vec<Guarded<K>>,
        now: Instant,
        mut spread: impl FnMut() -> Duration,
    ) {
        let there: BTreeSet<Key> = objects.iter().map(Key::of).collect();
        let gone: Vec<Key> = self
            .slots
            .keys()
            .filter(|key| !there.contains(*key))
            .cloned()
            .collect();
        for key in gone {
            self.deleted(&key);
        }
        for object in objects {
            let key = Key::of(&object);
            if !self.applied(object, now) {
                self.wake(&key, Wake::Resync, now + spread());
            }
        }
    }

    /// The object is gone.
    pub(super) fn deleted(&mut self, key: &Key) {
        if let Some(slot) = self.slots.get_mut(key) {
            slot.gone = true;
            slot.superseded.store(true, Ordering::Relaxed);
            if !slot.running && slot.memory.stuck.is_none() {
                self.forget(key);
            }
        }
    }

    fn forget(&mut self, key: &Key) {
        self.schedule(key, None);
        self.slots.remove(key);
        self.failing.remove(key);
        self.malformed.remove(key);
    }

    /// Wakes the object at `at`, which a wake-up never postpones, and back-off may. Unknown keys are ignored: an object that
    /// is not ours has no slot, and one that will be is looked at when it appears.
    pub(super) fn wake(&mut self, key: &Key, wake: Wake, at: Instant) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        if slot.running {
            slot.woken = slot.woken.max(Some(wake));
            if wake > Wake::Resync {
                slot.superseded.store(true, Ordering::Relaxed);
            }
            return;
        }
        let earliest = match (slot.failed_at, wake) {
            (None, _) => at,
            // The back-off has its own time; the resync does not cut it short.
            (Some(_), Wake::Resync) => slot.due.unwrap_or(at),
            (Some(failed), Wake::Trigger) => at.max(failed + self.backoff.triggered_cap),
            (Some(failed), Wake::Change) => at.max(failed + self.backoff.base),
        };
        let due = slot.due.map_or(earliest, |due| due.min(earliest));
        self.schedule(key, Some(due));
    }

    pub(super) fn wake_all(&mut self, wake: Wake, at: Instant) {
        let keys: Vec<Key> = self.slots.keys().cloned().collect();
        for key in keys {
            self.wake(&key, wake, at);
        }
    }

    fn schedule(&mut self, key: &Key, due: Option<Instant>) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        if let Some(before) = slot.due.take() {
            self.due.remove(&(before, key.clone()));
        }
        slot.due = due;
        if let Some(due) = due {
            self.due.insert((due, key.clone()));
        }
    }

    /// When the next look is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// The next look, if one is due.
    pub(super) fn start(&mut self, now: Instant) -> Option<Start<K>> {
        let (due, key) = self.due.first()?;
        if *due > now {
            return None;
        }
        let key = key.clone();
        self.schedule(&key, None);
        let slot = self.slots.get_mut(&key)?;
        slot.running = true;
        slot.woken = None;
        slot.superseded.store(false, Ordering::Relaxed);
        Some(Start {
            object: slot.object.clone(),
            memory: slot.memory.clone(),
            seen: slot.seen.clone(),
            superseded: slot.superseded.clone(),
            reading: if std::mem::take(&mut slot.fresh) {
                Reading::Fresh
            } else {
                Reading::Cached
            },
            key,
        })
    }

    /// A look has ended. `object` is newer than what it began with.
    pub(super) fn ended(
        &mut self,
        key: &Key,
        memory: Memory,
        object: Option<Guarded<K>>,
        then: Then,
        now: Instant,
    ) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        slot.running = false;
        slot.memory = memory;
        // What a watch told during the look may be older than what the look has read or written, or newer: only the API
        // server knows. A trigger says nothing of the object, and must not make us keep an old one: its successor is known
        // to us already, so no event would ever put it right.
        let told = slot.woken == Some(Wake::Change);
        let unsure = told && object.is_some();
        if let Some(object) = object.filter(|_| !told) {
            slot.object = object;
        }
        // Without a time to try again there is no back-off either: whatever wakes the object is a reason to try.
        slot.failed_at = then.failed.then_some(now).filter(|_| then.wait.is_some());
        slot.fresh = then.fresh || unsure;
        let (gone, woken) = (slot.gone || then.gone, slot.woken.take());
        let again = gone && woken == Some(Wake::Change) && !slot.gone;
        if gone && !again && slot.memory.stuck.is_none() {
            self.forget(key);
            return;
        }
        let step_ended = slot.step_ended.take();
        mark(&mut self.failing, key, then.failed);
        mark(&mut self.malformed, key, then.malformed);
        self.schedule(key, then.wait.map(|wait| now + wait));
        if let Some(woken) = woken {
            self.wake(key, woken, now);
        }
        if let Some(end) = step_ended {
            self.step_ended(key, end, now);
        }
    }

    /// A stuck step has ended: the object may be acted on again, and is looked at at once.
    pub(super) fn step_ended(&mut self, key: &Key, end: StepEnd, now: Instant) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        if slot.running {
            slot.step_ended = Some(end);
            return;
        }
        slot.memory.stuck = None;
        slot.memory.failure = end.err();
        slot.failed_at = None;
        slot.fresh = true;
        if slot.gone {
            self.forget(key);
        } else {
            self.wake(key, Wake::Change, now);
        }
    }
}

fn mark(set: &mut BTreeSet<Key>, key: &Key, is: bool) {
    if is {
        set.insert(key.clone());
    } else {
        set.remove(key);
    }
}

/// What follows from a look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Then {
    /// When to look again, unless woken before.
    pub(super) wait: Option<Duration>,
    pub(super) fresh: bool,
    pub(super) failed: bool,
    pub(super) malformed: bool,
    pub(super) gone: bool,
}

#[cfg(test)]
mod tests;
