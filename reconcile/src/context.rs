//! What the engine hands to `observe` and `act`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio_util::sync::CancellationToken;

use crate::failure::{During, Failure};
use crate::{Key, Object};

/// Where reads of related objects come from in this look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// From caches, which may be behind: enough to find that there is nothing to do.
    Cached,
    /// From the API server: effects rest on these.
    Fresh,
}

/// One look at one object: the time, the object's name, how to read, what failed last.
#[derive(Clone, Debug)]
pub struct Context {
    key: Key,
    reference: ObjectReference,
    now: Timestamp,
    reading: Reading,
    failure: Option<Failure>,
    stop: CancellationToken,
    used_cache: Arc<AtomicBool>,
}

impl Context {
    /// A look at `object` at `now`, with fresh reads and no failure before it. The engine makes its own; this is for
    /// tests of `observe` and `act` alone.
    #[must_use]
    pub fn new<K: Object>(object: &K, now: Timestamp) -> Self {
        Self {
            key: Key::of(object),
            reference: object.object_ref(&()),
            now,
            reading: Reading::Fresh,
            failure: None,
            stop: CancellationToken::new(),
            used_cache: Arc::default(),
        }
    }

    /// The same with a failure before it.
    #[must_use]
    pub fn with_failure(mut self, failure: Option<Failure>) -> Self {
        // A failure to observe is over once observing works.
        self.failure = failure.filter(|failure| failure.during != During::Observe);
        self
    }

    pub(crate) fn with_reading(mut self, reading: Reading) -> Self {
        self.reading = reading;
        self
    }

    pub(crate) fn with_stop(mut self, stop: CancellationToken) -> Self {
        self.stop = stop;
        self
    }

    /// The object's namespace and name.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// The object's unique id: what a thing we make carries to be known as the object's own.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.reference.uid.as_deref().unwrap_or_default()
    }

    /// A reference to the object.
    #[must_use]
    pub const fn reference(&self) -> &ObjectReference {
        &self.reference
    }

    /// The time of this look. It is the same for everything decided in it.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Where related objects are to be read from. [`Related`](crate::Related) keeps to it by itself.
    #[must_use]
    pub const fn reading(&self) -> Reading {
        self.reading
    }

    /// The step that failed last, if no look has gone through since.
    #[must_use]
    pub const fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Cancelled when the process is to stop: long work that can be taken up again later ends then.
    #[must_use]
    pub const fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    pub(crate) fn note_cache(&self) {
        self.used_cache.store(true, Ordering::Relaxed);
    }

    pub(crate) fn used_cache(&self) -> bool {
        self.used_cache.load(Ordering::Relaxed)
    }
}
