//! An API server in memory, for fast tests.
//!
//! It speaks enough of the Kubernetes protocol that a real [`kube::Client`], and so all of our code, runs on it unchanged:
//! get, list (with pages), watch (with bookmarks), create, replace, merge, JSON and apply patches, delete, the status
//! subresource, resource versions and conflicts, generations, finalizers, label and field selectors, 410 Gone. No time passes
//! in it that tokio does not pass, and all chance comes from one seed: with paused time, a run can be repeated.
//!
//! It can misbehave on purpose: see [`Faults`]. Clients made by [`MemoryApi::client`] meet the faults, those made by
//! [`MemoryApi::admin`] never do.
//!
//! # Caveats
//! - Nothing is validated, defaulted or pruned beyond what is listed above; there is no schema, no authorisation, no garbage
//!   collection, no event expiry. The suite on the real API server is for that.
//! - Server-side apply keeps track of owners by leaf field and treats every list as one value.

mod faults;
mod patch;
mod selector;
mod service;
mod store;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::{Client, Resource};
use serde_json::Value;

pub use faults::{Fault, Faults};
pub use store::{Commit, Request};

use self::faults::Dice;
use self::service::Service;
use self::store::Store;
use crate::Key;

/// An API server in memory. Cheap to clone: clones are the same server.
#[derive(Clone)]
pub struct MemoryApi {
    inner: Arc<Inner>,
}

struct Inner {
    store: Mutex<Store>,
    dice: Mutex<Dice>,
    /// Wakes the watches, in the order in which they began to wait: unlike tokio's `watch` channel, which wakes at random.
    news: tokio::sync::Notify,
}

impl MemoryApi {
    /// An empty server. Its faults, once there are any, follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let inner = Inner {
            store: Mutex::new(Store::default()),
            dice: Mutex::new(Dice::new(seed)),
            news: tokio::sync::Notify::new(),
        };
        let api = Self {
            inner: Arc::new(inner),
        };
        api.serve::<k8s_openapi::api::coordination::v1::Lease>();
        api.serve::<k8s_openapi::api::events::v1::Event>();
        api
    }

    /// Serves a kind. Leases and Events are served from the start.
    pub fn serve<K: Resource<DynamicType = ()>>(&self) {
        let (group, plural) = (K::group(&()).into_owned(), K::plural(&()).into_owned());
        self.store().serve(store::Kind {
            resource: (group, plural),
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
        });
    }

    /// A client that meets the faults. `name` is by whom its requests are counted.
    #[must_use]
    pub fn client(&self, name: &str) -> Client {
        Client::new(Service::new(self.clone(), name, true), "default")
    }

    /// A client that meets no faults.
    #[must_use]
    pub fn admin(&self) -> Client {
        Client::new(Service::new(self.clone(), "admin", false), "default")
    }

    /// Sets the faults. None: [`Faults::default`].
    pub fn set_faults(&self, faults: Faults) {
        self.dice().faults = faults;
    }

    /// How often each fault was met so far.
    #[must_use]
    pub fn faults_met(&self) -> BTreeMap<Fault, u64> {
        self.dice().met.clone()
    }

    /// The object as it is, without a request.
    #[must_use]
    pub fn peek<K: Resource<DynamicType = ()>>(&self, key: &Key) -> Option<Value> {
        let resource = (K::group(&()).into_owned(), K::plural(&()).into_owned());
        self.store()
            .get(&resource, key.namespace.as_deref(), &key.name)
            .map(|object| (*object).clone())
    }

    /// All objects of a kind as they are, without a request.
    #[must_use]
    pub fn peek_all<K: Resource<DynamicType = ()>>(&self) -> Vec<Value> {
        let resource = (K::group(&()).into_owned(), K::plural(&()).into_owned());
        self.store()
            .all(&resource)
            .map(|object| (*object).clone())
            .collect()
    }

    /// Calls `f` with every change as it is made, under the server's lock: an oracle that sees everything.
    pub fn on_commit(&self, f: impl Fn(&Commit<'_>) + Send + 'static) {
        self.store().hooks.push(Box::new(f));
    }

    /// Every request so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.store().requests.clone()
    }

    /// The requests so far that were to change something, Leases aside.
    #[must_use]
    pub fn writes(&self) -> Vec<Request> {
        self.requests()
            .into_iter()
            .filter(|request| request.is_write() && request.resource != "leases")
            .collect()
    }

    /// Forgets the history of changes: a watch that was not up to date gets 410 Gone.
    pub fn compact(&self) {
        self.store().compact();
        self.inner.news.notify_waiters();
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.inner.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dice(&self) -> MutexGuard<'_, Dice> {
        self.inner.dice.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryApi")
            .field("revision", &self.store().revision())
            .finish_non_exhaustive()
    }
}
