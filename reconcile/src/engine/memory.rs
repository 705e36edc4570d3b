//! What the engine remembers of an object between looks. A restart forgets it, and nothing breaks.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::Value;

use crate::event::EventBook;
use crate::failure::{Class, During, Failure};

/// How many versions of an object are remembered as already looked at.
const SEEN: usize = 16;

/// The versions of an object that were looked at or written by us. A watch event that brings one of them is no news.
///
/// Versions are compared for equality only: their order is the API server's business.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen(Arc<Mutex<VecDeque<String>>>);

impl Seen {
    pub(super) fn note(&self, version: Option<&str>) {
        let Some(version) = version else { return };
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.iter().any(|known| known == version) {
            return;
        }
        if seen.len() == SEEN {
            seen.pop_front();
        }
        seen.push_back(version.into());
    }

    pub(super) fn has(&self, version: Option<&str>) -> bool {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        version.is_some_and(|version| seen.iter().any(|known| known == version))
    }
}

/// A status that the API server did not take as it was written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refused {
    pub(super) version: Option<String>,
    pub(super) patch: Value,
}

/// What is remembered of one object.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// Which object: another one of the same name is another object.
    pub(super) uid: Option<String>,
    /// Failures in a row; reset by a look that went through.
    pub(super) failures: u32,
    /// Conflicts in a row. They are no failures, but they are not answered with a busy loop either.
    pub(super) conflicts: u32,
    /// Looks in a row that had something to do.
    pub(super) turns: u32,
    /// The last failure to observe or act.
    pub(super) failure: Option<Failure>,
    /// The step that runs beyond its deadline.
    pub(super) stuck: Option<&'static str>,
    pub(super) events: EventBook,
    pub(super) refused: Option<Refused>,
}

impl Memory {
    /// Forgets everything if this is another object than the one remembered.
    pub(super) fn meet(&mut self, uid: Option<&str>) {
        if self.uid.as_deref() != uid {
            // A step that still runs was begun for the old one. It is under the same name, so it still counts.
            *self = Self {
                uid: uid.map(Into::into),
                stuck: self.stuck,
                ..Self::default()
            };
        }
    }

    pub(super) fn fail(&mut self, during: During, class: Class, message: String, now: Timestamp) -> Failure {
        let before = self.failure.take();
        let before = before.filter(|before| before.during == during && before.class.reason == class.reason);
        let (since, count) = before.map_or((now, 0), |before| (before.since, before.count));
        let failure = Failure {
            during,
            class,
            message,
            since,
            count: count.saturating_add(1),
        };
        self.failure = Some(failure.clone());
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_the_same_while_its_step_and_reason_are() {
        let mut memory = Memory::default();
        let (first, later) = (
            Timestamp::from_second(1).unwrap(),
            Timestamp::from_second(2).unwrap(),
        );
        let class = Class::new("exit", "ExitCode");
        memory.fail(During::Step("create"), class, "one".into(), first);
        let again = memory.fail(During::Step("create"), class, "two".into(), later);
        assert_eq!(
            (again.since, again.count, again.message.as_str()),
            (first, 2, "two")
        );
        let other = memory.fail(During::Step("grow"), class, "three".into(), later);
        assert_eq!((other.since, other.count), (later, 1));
    }

    #[test]
    fn another_object_of_the_name_starts_afresh_but_for_the_step_that_runs() {
        let mut memory = Memory::default();
        memory.meet(Some("a"));
        memory.failures = 3;
        memory.stuck = Some("create");
        memory.meet(Some("a"));
        assert_eq!(memory.failures, 3);
        memory.meet(Some("b"));
        assert_eq!((memory.failures, memory.stuck), (0, Some("create")));
    }

    #[test]
    fn few_versions_are_remembered() {
        let seen = Seen::default();
        for version in 0..100 {
            seen.note(Some(&version.to_string()));
        }
        assert!(seen.has(Some("99")) && seen.has(Some("84")) && !seen.has(Some("83")) && !seen.has(None));
    }
}
