//! Which objects to look at, and how changes of them arrive.
//!
//! # How it can die
//!
//! | what dies | what follows |
//! |---|---|
//! | a list or watch request | told to the engine as a failure, tried again with back-off; the caches stay as they are |
//! | a watch connection, silently | the watcher gives up on it after five minutes of silence and watches on from where it was |
//! | history (410 Gone) | everything is listed anew |
//! | a list that hangs | dropped after [`LIST_DEADLINE`], tried again |
//! | single events, lost or repeated | a repeated one changes nothing; a lost one is made good by the next resync, which is a *list from the API server*, never a replay of the cache |
//! | one object that does not parse | it alone is handed on as malformed; the watch goes on |

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream, Stream};
use kube::api::{Api, ListParams, Request};
use kube::core::object::ObjectList;
use kube::core::{ClusterResourceScope, DeserializeGuard, NamespaceResourceScope, Status};
use kube::runtime::watcher;
use kube::{Client, Resource};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::Instant;

use crate::failure::chain;
use crate::{Backoff, Key, Object};

/// How long a list may take from one page to the next.
pub const LIST_DEADLINE: Duration = Duration::from_secs(30);

/// An object as the API server has it, or what could be read of one that does not have the shape of its kind.
pub(crate) type Guarded<K> = DeserializeGuard<K>;

/// Which objects of kind `K`: a namespace or all, with selectors that the *API server* applies.
pub struct Watch<K> {
    client: Client,
    api: Api<Guarded<K>>,
    config: watcher::Config,
    kind: PhantomData<fn() -> K>,
}

impl<K: Object> Watch<K> {
    /// All objects of the kind, in all namespaces if it has any.
    #[must_use]
    pub fn all(client: Client) -> Self {
        let api = Api::all(client.clone());
        Self {
            client,
            api,
            config: watcher::Config::default(),
            kind: PhantomData,
        }
    }

    /// The objects of one namespace.
    #[must_use]
    pub fn namespaced(client: Client, namespace: &str) -> Self
    where
        K: Resource<Scope = NamespaceResourceScope>,
    {
        let api = Api::namespaced(client.clone(), namespace);
        Self {
            client,
            api,
            config: watcher::Config::default(),
            kind: PhantomData,
        }
    }

    /// The one object of the whole cluster that is called `name`.
    #[must_use]
    pub fn one(client: Client, name: &str) -> Self
    where
        K: Resource<Scope = ClusterResourceScope>,
    {
        Self::all(client).fields(&format!("metadata.name={name}"))
    }

    /// Only objects whose labels match.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        self.config = self.config.labels(selector);
        self
    }

    /// Only objects whose fields match. For custom resources, the CRD has to name the fields as selectable.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        self.config = self.config.fields(selector);
        self
    }

    /// The objects as the API server has them now.
    pub(crate) async fn list(&self) -> Result<ObjectList<Guarded<K>>, kube::Error> {
        self.api.list(&self.params()).await
    }

    /// The object as the API server has it now; `None` if it says that there is none *that this watch is for*.
    ///
    /// With selectors it is a list of one name, to which the API server applies them, too: an object that was relabelled
    /// to belong to somebody else a moment ago must not be acted on, and a plain read would return it.
    pub(crate) async fn read(&self, key: &Key) -> Result<Option<Guarded<K>>, kube::Error> {
        let request = Request::new(K::url_path(&(), key.namespace.as_deref()));
        let mut params = self.params();
        if params.label_selector.is_none() && params.field_selector.is_none() {
            let request = request
                .get(&key.name, &kube::api::GetParams::default())
                .map_err(kube::Error::BuildRequest)?;
            return match self.client.request(request).await {
                Ok(object) => Ok(Some(object)),
                Err(kube::Error::Api(status)) if is_absent(&status) => Ok(None),
                Err(error) => Err(error),
            };
        }
        let name = format!("metadata.name={}", key.name);
        params.field_selector = Some(match params.field_selector {
            Some(others) => format!("{name},{others}"),
            None => name,
        });
        let request = request.list(&params).map_err(kube::Error::BuildRequest)?;
        let list: ObjectList<Guarded<K>> = self.client.request(request).await?;
        Ok(list.items.into_iter().next())
    }

    fn params(&self) -> ListParams {
        ListParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            ..ListParams::default()
        }
    }

    /// Every change, for ever: a full list first, then changes, a full list again every `resync` (with a tenth of
    /// jitter) and whenever the history is lost.
    pub(crate) fn changes(self, resync: Duration, seed: u64) -> impl Stream<Item = Change<K>> + Send {
        let state = Listing {
            watch: self,
            resync,
            rng: SmallRng::seed_from_u64(seed),
            stream: None,
            page: None,
            until: Instant::now(),
            failures: 0,
        };
        stream::unfold(state, |mut state| async move {
            let change = state.next().await;
            Some((change, state))
        })
    }
}

impl<K: Object> Clone for Watch<K> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            api: self.api.clone(),
            config: self.config.clone(),
            kind: PhantomData,
        }
    }
}

impl<K: Object> fmt::Debug for Watch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("kind", &K::kind(&()))
            .field("namespace", &self.api.namespace())
            .field("labels", &self.config.label_selector)
            .field("fields", &self.config.field_selector)
            .finish()
    }
}

/// A change, or the whole truth.
#[derive(Debug)]
pub(crate) enum Change<K> {
    /// All objects there are; any other is gone.
    Listed(Vec<Guarded<K>>),
    /// There is a new one, or it changed.
    Applied(Guarded<K>),
    /// It is gone.
    Deleted(Guarded<K>),
    /// A list or watch failed; another will be tried.
    Failed(String),
}

struct Listing<K: Object> {
    watch: Watch<K>,
    resync: Duration,
    rng: SmallRng,
    stream: Option<BoxStream<'static, Result<watcher::Event<Guarded<K>>, watcher::Error>>>,
    /// The list being read, and nothing between lists.
    page: Option<Vec<Guarded<K>>>,
    /// When to give up on the stream: the list hangs, or the resync is due.
    until: Instant,
    failures: u32,
}

impl<K: Object> Listing<K> {
    async fn next(&mut self) -> Change<K> {
        if self.failures > 0 && self.page.is_none() && self.stream.is_none() {
            let backoff = Backoff {
                base: Duration::from_millis(500),
                cap: Duration::from_secs(30),
                ..Backoff::default()
            };
            tokio::time::sleep(backoff.delay(self.failures, &mut self.rng)).await;
        }
        loop {
            let stream = match &mut self.stream {
                Some(stream) => stream,
                none => {
                    self.page = Some(Vec::new());
                    self.until = Instant::now() + LIST_DEADLINE;
                    none.insert(watcher(self.watch.api.clone(), self.watch.config.clone()).boxed())
                }
            };
            let Ok(item) = tokio::time::timeout_at(self.until, stream.next()).await else {
                let hung = self.page.take().is_some();
                self.stream = None;
                if hung {
                    return self.failed(format!(
                        "the list did not end within {} s",
                        LIST_DEADLINE.as_secs()
                    ));
                }
                continue;
            };
            match item {
                Some(Ok(event)) => {
                    if let Some(change) = self.take(event) {
                        self.failures = 0;
                        return change;
                    }
                }
                Some(Err(error)) => return self.failed(chain(&error)),
                None => self.stream = None,
            }
        }
    }

    /// Drops the stream: the next one begins with a list. Going on with it would be cheaper, but a stream that failed
    /// is where a wrong memory would hide, and failures are rare.
    fn failed(&mut self, why: String) -> Change<K> {
        self.failures = self.failures.saturating_add(1);
        self.page = None;
        self.stream = None;
        Change::Failed(why)
    }

    fn take(&mut self, event: watcher::Event<Guarded<K>>) -> Option<Change<K>> {
        match event {
            watcher::Event::Init => {
                self.page = Some(Vec::new());
                self.until = Instant::now() + LIST_DEADLINE;
                None
            }
            watcher::Event::InitApply(object) => {
                self.until = Instant::now() + LIST_DEADLINE;
                self.page.get_or_insert_default().push(slim(object));
                None
            }
            watcher::Event::InitDone => {
                self.until = Instant::now() + self.resync.mul_f64(self.rng.random_range(0.9..=1.0));
                Some(Change::Listed(self.page.take().unwrap_or_default()))
            }
            watcher::Event::Apply(object) => Some(Change::Applied(slim(object))),
            watcher::Event::Delete(object) => Some(Change::Deleted(slim(object))),
        }
    }
}

/// Whether the API server says that it has no object of this name. A 404 without a name is about the resource: no CRD, or no
/// status subresource. Nothing is known of the object then.
pub(crate) fn is_absent(status: &Status) -> bool {
    status.is_not_found()
        && status
            .details
            .as_ref()
            .is_some_and(|details| !details.name.is_empty())
}

/// Managed fields are often larger than the object, and nobody reads them.
pub(crate) fn slim<K: Object>(mut object: Guarded<K>) -> Guarded<K> {
    object.meta_mut().managed_fields = None;
    object
}
