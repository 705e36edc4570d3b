//! Events: what a person finds under `kubectl describe`.
//!
//! An event is posted when something begins to hold, not on every look at which it still does.
//!
//! # Guarantees
//! - The same event of the same object (severity, reason, note, action) is posted once for as long as consecutive
//!   decisions repeat it, and once in [`WINDOW`] however often it comes and goes. After that, the count of the
//!   event that is there is raised.
//! - Its name is made from its content, so a process that was restarted finds it already posted.
//! - An event that cannot be posted is counted and tried again at the next look; nothing else suffers.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event as KubeEvent;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::Instant;

use crate::Services;
use crate::failure::shorten;

/// How long an event that came back is not posted again, unless the engine is told otherwise.
pub const WINDOW: Duration = Duration::from_secs(600);

/// How long an event that ceased is remembered: about as long as the API server keeps it.
const MEMORY: Duration = Duration::from_secs(3600);

/// How long posting may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// The longest note the API server takes.
const NOTE_LIMIT: usize = 1024;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// For information.
    Normal,
    /// Somebody should look at it.
    Warning,
}

/// Something that a person should be told of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// How bad it is.
    pub severity: Severity,
    /// Why, in one `PascalCase` word of a few.
    pub reason: &'static str,
    /// What, in a sentence: what is wrong and what to do. Keep times and counters out: a new text is a new event.
    pub note: String,
    /// What was being done, in one `PascalCase` word of a few.
    pub action: &'static str,
    /// Another object that it is about.
    pub related: Option<ObjectReference>,
}

impl Event {
    /// For information.
    pub fn normal(reason: &'static str, note: impl Into<String>) -> Self {
        Self::new(Severity::Normal, reason, note)
    }

    /// Somebody should look at it.
    pub fn warning(reason: &'static str, note: impl Into<String>) -> Self {
        Self::new(Severity::Warning, reason, note)
    }

    fn new(severity: Severity, reason: &'static str, note: impl Into<String>) -> Self {
        let note = shorten(note.into(), NOTE_LIMIT);
        Self {
            severity,
            reason,
            note,
            action: "Reconcile",
            related: None,
        }
    }

    /// Says what was being done.
    #[must_use]
    pub const fn action(mut self, action: &'static str) -> Self {
        self.action = action;
        self
    }

    /// Names another object that it is about.
    #[must_use]
    pub fn related(mut self, related: ObjectReference) -> Self {
        self.related = Some(related);
        self
    }

    fn kind(&self) -> &'static str {
        match self.severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        }
    }

    /// What makes it this event and no other. The same in every build: event names are made from it.
    fn print(&self) -> u64 {
        let related = self
            .related
            .as_ref()
            .and_then(|related| related.uid.as_deref())
            .unwrap_or_default();
        fingerprint(&[self.kind(), self.reason, self.action, &self.note, related])
    }
}

/// FNV-1a: the standard hasher may change with the compiler, and these values outlive the process.
fn fingerprint(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[derive(Clone, Debug)]
struct Known {
    holds: bool,
    at: Instant,
    count: i32,
}

/// Which events of one object were posted.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventBook(BTreeMap<u64, Known>);

impl EventBook {
    /// The events of `events` that have to be posted now, each with the count it would then have.
    pub(crate) fn new_among(&self, events: &[Event], window: Duration, now: Instant) -> Vec<(Event, i32)> {
        let mut fresh: Vec<(Event, i32)> = Vec::new();
        for event in events {
            let count = match self.0.get(&event.print()) {
                None => 1,
                Some(known) if known.holds || now < known.at + window => continue,
                Some(known) => known.count.saturating_add(1),
            };
            if !fresh.iter().any(|(known, _)| known == event) {
                fresh.push((event.clone(), count));
            }
        }
        fresh
    }

    pub(crate) fn posted(&mut self, event: &Event, count: i32, now: Instant) {
        self.0.insert(
            event.print(),
            Known {
                holds: false,
                at: now,
                count,
            },
        );
    }

    /// Notes which events hold, according to the latest decision, and forgets the old ones. Returns how many of
    /// `events` were held back as repetition of one that had ceased.
    pub(crate) fn settle(&mut self, events: &[Event], now: Instant) -> usize {
        let prints: Vec<u64> = events.iter().map(Event::print).collect();
        let mut returned = 0;
        for (print, known) in &mut self.0 {
            let holds = prints.contains(print);
            returned += usize::from(holds && !known.holds && known.at != now);
            known.holds = holds;
        }
        self.0.retain(|_, known| known.holds || now < known.at + MEMORY);
        returned
    }
}

/// Posts events.
#[derive(Clone, Debug)]
pub(crate) struct Poster {
    services: Services,
    reporter: String,
}

impl Poster {
    pub(crate) fn new(services: Services, controller: &str) -> Self {
        let reporter = format!("{}/{controller}", services.program);
        Self { services, reporter }
    }

    /// Posts `event` as its `count`-th occurrence known to this process.
    pub(crate) async fn post(
        &self,
        event: &Event,
        regarding: &ObjectReference,
        count: i32,
    ) -> Result<(), String> {
        match tokio::time::timeout(DEADLINE, self.try_post(event, regarding, count)).await {
            Ok(posted) => posted.map_err(|error| crate::failure::chain(&error)),
            Err(_elapsed) => Err(format!("no answer within {} s", DEADLINE.as_secs())),
        }
    }

    async fn try_post(
        &self,
        event: &Event,
        regarding: &ObjectReference,
        count: i32,
    ) -> Result<(), kube::Error> {
        let namespace = regarding.namespace.as_deref().unwrap_or("default");
        let api: Api<KubeEvent> = Api::namespaced(self.services.client.clone(), namespace);
        let now = self.services.clock.now();
        let made = self.make(event, regarding, now);
        let name = made.metadata.name.clone().unwrap_or_default();
        let params = PostParams {
            field_manager: Some(self.services.program.clone()),
            ..PostParams::default()
        };
        match api.create(&params, &made).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                if count < 2 {
                    // Posted by this program before it was restarted, and it may have held ever since.
                    return Ok(());
                }
                let series = json!({"series": {"count": count, "lastObservedTime": MicroTime(now)}});
                let params = PatchParams {
                    field_manager: Some(self.services.program.clone()),
                    ..PatchParams::default()
                };
                api.patch(&name, &params, &Patch::Merge(&series)).await.map(drop)
            }
            Err(error) => Err(error),
        }
    }

    fn make(&self, event: &Event, regarding: &ObjectReference, now: Timestamp) -> KubeEvent {
        let object = regarding.name.as_deref().unwrap_or_default();
        let uid = regarding.uid.as_deref().unwrap_or_default();
        let print = fingerprint(&[uid, &self.reporter, &format!("{:x}", event.print())]);
        let stem: String = object.chars().take(200).collect();
        let namespace = regarding.namespace.clone().unwrap_or_else(|| "default".into());
        KubeEvent {
            metadata: ObjectMeta {
                name: Some(format!("{}.{print:016x}", stem.trim_end_matches(['.', '-']))),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            action: Some(event.action.into()),
            reason: Some(event.reason.into()),
            note: Some(event.note.clone()),
            type_: Some(event.kind().into()),
            event_time: Some(MicroTime(now)),
            regarding: Some(regarding.clone()),
            related: event.related.clone(),
            reporting_controller: Some(self.reporter.clone()),
            reporting_instance: Some(shorten(self.services.identity.clone(), 128)),
            ..KubeEvent::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_event_is_new_once_while_it_holds_and_once_in_a_window() {
        let mut book = EventBook::default();
        let event = [Event::warning("DiskGone", "disk a is gone")];
        let post = |book: &mut EventBook, events: &[Event]| {
            let now = Instant::now();
            let fresh = book.new_among(events, WINDOW, now);
            for (event, count) in &fresh {
                book.posted(event, *count, now);
            }
            (
                fresh.iter().map(|(_, count)| *count).collect::<Vec<_>>(),
                book.settle(events, now),
            )
        };
        assert_eq!(post(&mut book, &event), (vec![1], 0));
        tokio::time::advance(WINDOW * 2).await;
        assert_eq!(post(&mut book, &event), (vec![], 0), "it still holds");
        assert_eq!(post(&mut book, &[]), (vec![], 0));
        assert_eq!(post(&mut book, &event), (vec![2], 0), "back after the window");
        assert_eq!(post(&mut book, &[]), (vec![], 0));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(
            post(&mut book, &event),
            (vec![], 1),
            "came back within the window"
        );
        assert_eq!(post(&mut book, &[]), (vec![], 0));
        tokio::time::advance(MEMORY).await;
        assert_eq!(post(&mut book, &[]), (vec![], 0));
        assert_eq!(post(&mut book, &event), (vec![1], 0), "forgotten");
    }

    #[test]
    fn another_note_is_another_event() {
        let (a, b) = (
            Event::normal("Grown", "to 1 GiB"),
            Event::normal("Grown", "to 2 GiB"),
        );
        assert_ne!(a.print(), b.print());
        let book = EventBook::default();
        assert_eq!(
            book.new_among(&[a.clone(), b, a], WINDOW, Instant::now()).len(),
            2
        );
    }
}
