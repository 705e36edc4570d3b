//! What one controller of the agent has found out, for another to tell.

use std::sync::{Arc, Mutex, PoisonError};

use futures::Stream;
use tokio::sync::watch;

/// The latest of something, shared. Clones are about the same thing.
#[derive(Debug)]
pub struct Notice<T> {
    latest: Arc<Mutex<Arc<T>>>,
    changed: watch::Sender<u64>,
}

impl<T> Clone for Notice<T> {
    fn clone(&self) -> Self {
        Self {
            latest: Arc::clone(&self.latest),
            changed: self.changed.clone(),
        }
    }
}

impl<T: Default> Default for Notice<T> {
    fn default() -> Self {
        Self {
            latest: Arc::default(),
            changed: watch::Sender::new(0),
        }
    }
}

impl<T: PartialEq> Notice<T> {
    /// What was found out last.
    #[must_use]
    pub fn latest(&self) -> Arc<T> {
        Arc::clone(&self.latest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes what was found out, and wakes who wants to know if it is something new.
    pub fn note(&self, found: T) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if **latest != found {
            *latest = Arc::new(found);
            self.changed.send_modify(|count| *count += 1);
        }
    }

    /// An item for each time something new was found out.
    pub fn changes(&self) -> impl Stream<Item = ()> + Send + use<T> {
        futures::stream::unfold(self.changed.subscribe(), |mut changed| async move {
            match changed.changed().await {
                Ok(()) => Some(((), changed)),
                Err(_) => std::future::pending().await,
            }
        })
    }
}
