//! Watches.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::MemoryApi;
use super::faults::Fault;
use super::selector::Selector;
use super::store::{Logged, ResourceId};

/// What a watch is asked for.
pub(super) struct Asked {
    pub(super) resource: ResourceId,
    pub(super) selector: Selector,
    /// From which revision on; `None` begins with what there is.
    pub(super) from: Option<u64>,
    pub(super) initial_events: bool,
    pub(super) bookmarks: bool,
    pub(super) timeout: Duration,
    pub(super) faulty: bool,
}

struct Watching {
    api: MemoryApi,
    asked: Asked,
    at: u64,
    waiting: VecDeque<Value>,
    until: Instant,
    over: bool,
}

/// One line an event.
pub(super) fn watch(api: MemoryApi, asked: Asked) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    let until = Instant::now() + asked.timeout;
    let (mut waiting, mut at) = (VecDeque::new(), 0);
    match asked.from {
        Some(from) => at = from,
        None => {
            let store = api.store();
            let (objects, revision) = store.list(&asked.resource, &asked.selector, 0);
            waiting.extend(
                objects
                    .iter()
                    .map(|object| json!({"type": "ADDED", "object": **object})),
            );
            at = at.max(revision);
            if asked.initial_events {
                waiting.push_back(bookmark(&asked.resource, revision, true, &store));
            }
        }
    }
    let state = Watching {
        api,
        asked,
        at,
        waiting,
        until,
        over: false,
    };
    futures::stream::unfold(state, |mut state| async move {
        let event = state.next().await?;
        let mut line = serde_json::to_vec(&event).unwrap_or_default();
        line.push(b'\n');
        Some((Ok(Bytes::from(line)), state))
    })
}

impl Watching {
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            if self.over {
                return None;
            }
            if self.at < self.api.store().compacted() {
                self.over = true;
                return Some(json!({"type": "ERROR", "object": {
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired",
                    "message": "the history is gone",
                }}));
            }
            // Wait first, then look: a change in between wakes us.
            let inner = self.api.inner.clone();
            let mut news = std::pin::pin!(inner.news.notified());
            news.as_mut().enable();
            let next = self.api.store().next_after(&self.asked.resource, self.at);
            if let Some(entry) = next {
                self.at = entry.revision;
                self.take(&entry).await;
                continue;
            }
            if tokio::time::timeout_at(self.until, news).await.is_err() {
                self.over = true;
                if self.asked.bookmarks {
                    let store = self.api.store();
                    // Everything of this kind up to the newest revision has been seen.
                    return Some(bookmark(&self.asked.resource, store.revision(), false, &store));
                }
            }
        }
    }

    async fn take(&mut self, entry: &Logged) {
        let Some(event) = self.event(entry) else { return };
        let fate = self.asked.faulty.then(|| {
            let mut dice = self.api.dice();
            let fate = dice.event();
            dice.note(Fault::LostEvent, fate.copies == 0);
            dice.note(Fault::RepeatedEvent, fate.copies > 1);
            dice.note(Fault::EventDelay, !fate.delay.is_zero());
            dice.note(Fault::BrokenWatch, fate.last);
            fate
        });
        let Some(fate) = fate else {
            self.waiting.push_back(event);
            return;
        };
        tokio::time::sleep(fate.delay).await;
        self.waiting.extend(std::iter::repeat_n(event, fate.copies));
        self.over |= fate.last;
    }

    /// What the entry is to this watch: an object that comes to match is new to it, one that no longer does is gone.
    fn event(&self, entry: &Logged) -> Option<Value> {
        let matching = |object: &Option<Arc<Value>>| {
            object
                .clone()
                .filter(|object| self.asked.selector.matches(object))
        };
        match (matching(&entry.before), matching(&entry.after)) {
            (None, None) => None,
            (None, Some(object)) => Some(json!({"type": "ADDED", "object": *object})),
            (Some(_), Some(object)) => Some(json!({"type": "MODIFIED", "object": *object})),
            (Some(before), None) => {
                let mut object = (*before).clone();
                let version = json!({"metadata": {"resourceVersion": entry.revision.to_string()}});
                super::patch::merge(&mut object, &version);
                Some(json!({"type": "DELETED", "object": object}))
            }
        }
    }
}

fn bookmark(resource: &ResourceId, revision: u64, initial: bool, store: &super::store::Store) -> Value {
    let kind = store.kind(resource);
    let annotations = if initial {
        json!({"k8s.io/initial-events-end": "true"})
    } else {
        json!({})
    };
    json!({"type": "BOOKMARK", "object": {
        "apiVersion": kind.map(|kind| kind.api_version.clone()),
        "kind": kind.map(|kind| kind.kind.clone()),
        "metadata": {"resourceVersion": revision.to_string(), "annotations": annotations},
    }})
}
