//! Objects of other kinds that a decision depends on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::failure::{Class, Classify};
use crate::watch::{Change, Guarded, Watch};
use crate::{Context, Key, Object, Reading, reason};

/// An object, or why it could not be read.
type Known<K> = Result<Arc<K>, String>;
type Cache<K> = BTreeMap<Key, Entry<K>>;

struct Entry<K> {
    version: Option<String>,
    object: Known<K>,
}

/// Why a related object cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum RelatedError {
    /// The API server refused, or could not be reached.
    #[error("read {kind}")]
    Api {
        /// The kind that was read.
        kind: String,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// It is there, but does not have the shape of its kind. That is not the same as absent.
    #[error("{kind} {key} is malformed: {error}")]
    Malformed {
        /// The kind.
        kind: String,
        /// The object.
        key: Key,
        /// What is wrong with it.
        error: String,
    },
}

impl Classify for RelatedError {
    fn classify(&self) -> Class {
        match self {
            Self::Api { source, .. } => source.classify(),
            Self::Malformed { .. } => Class::new("malformed", reason::MALFORMED),
        }
    }
}

/// All there is.
#[derive(Debug)]
pub struct All<K> {
    /// The objects, by key.
    pub objects: Vec<Arc<K>>,
    /// Those that do not have the shape of their kind, and why. They are there, but nothing is known of them.
    pub malformed: BTreeMap<Key, String>,
}

/// Objects of kind `K` that a controller's decisions depend on: kept in a cache, read from the API server before an
/// effect.
///
/// Make one from a [`Watch`], give a clone to the controller, and hand it to
/// [`Engine::related`](crate::Engine::related), which fills it and wakes the objects that depend on a change.
///
/// # Guarantees
/// - No look is taken before the first list is complete: an empty answer means that there is nothing.
/// - When effects follow from a look that consulted the cache, the engine looks again with
///   [fresh](Reading::Fresh) reads first; effects never rest on the cache.
/// - A malformed object is never taken for an absent one.
///
/// # Caveats
/// - A fresh read is only as good as the moment it is made. `act` checks what must hold when it acts.
pub struct Related<K> {
    watch: Watch<K>,
    cache: Arc<RwLock<Cache<K>>>,
}

impl<K: Object> Related<K> {
    /// An empty cache for the objects of `watch`.
    #[must_use]
    pub fn new(watch: Watch<K>) -> Self {
        Self {
            watch,
            cache: Arc::default(),
        }
    }

    /// The object called `key`; `None` if there is none.
    pub async fn get(&self, ctx: &Context, key: &Key) -> Result<Option<Arc<K>>, RelatedError> {
        let known = match ctx.reading() {
            Reading::Cached => {
                ctx.note_cache();
                self.read(|cache| cache.get(key).map(|entry| entry.object.clone()))
            }
            Reading::Fresh => self.watch.read(key).await.map_err(unreadable::<K>)?.map(known),
        };
        known.transpose().map_err(|error| RelatedError::Malformed {
            kind: K::kind(&()).into_owned(),
            key: key.clone(),
            error,
        })
    }

    /// All objects.
    pub async fn all(&self, ctx: &Context) -> Result<All<K>, RelatedError> {
        let known: BTreeMap<Key, Known<K>> = match ctx.reading() {
            Reading::Cached => {
                ctx.note_cache();
                self.read(|cache| {
                    cache
                        .iter()
                        .map(|(key, entry)| (key.clone(), entry.object.clone()))
                        .collect()
                })
            }
            Reading::Fresh => {
                let list = self.watch.list().await.map_err(unreadable::<K>)?;
                list.items
                    .into_iter()
                    .map(|object| (Key::of(&object), known(object)))
                    .collect()
            }
        };
        let mut all = All {
            objects: Vec::new(),
            malformed: BTreeMap::new(),
        };
        for (key, known) in known {
            match known {
                Ok(object) => all.objects.push(object),
                Err(error) => {
                    all.malformed.insert(key, error);
                }
            }
        }
        Ok(all)
    }

    pub(crate) const fn watch(&self) -> &Watch<K> {
        &self.watch
    }

    /// Takes a change in. Returns what is different: objects as they were, and as they are.
    pub(crate) fn take(&self, change: Change<K>) -> Vec<Arc<K>> {
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        let mut touched = Vec::new();
        match change {
            Change::Listed(objects) => {
                let fresh = objects.into_iter().map(entry).collect();
                let mut was = std::mem::replace(&mut *cache, fresh);
                for (key, now) in &*cache {
                    let before = was.remove(key);
                    touched.extend(differing(before, now));
                }
                touched.extend(was.into_values().filter_map(|gone| gone.object.ok()));
            }
            Change::Applied(object) => {
                let (key, now) = entry(object);
                touched.extend(differing(cache.remove(&key), &now));
                cache.insert(key, now);
            }
            Change::Deleted(object) => {
                touched.extend(cache.remove(&Key::of(&object)).and_then(|gone| gone.object.ok()));
            }
            Change::Failed(_) => {}
        }
        touched
    }

    fn read<T>(&self, f: impl FnOnce(&Cache<K>) -> T) -> T {
        f(&self.cache.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<K: Object> Clone for Related<K> {
    fn clone(&self) -> Self {
        Self {
            watch: self.watch.clone(),
            cache: self.cache.clone(),
        }
    }
}

impl<K: Object> fmt::Debug for Related<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Related")
            .field("watch", &self.watch)
            .finish_non_exhaustive()
    }
}

fn entry<K: Object>(object: Guarded<K>) -> (Key, Entry<K>) {
    use kube::ResourceExt as _;
    (
        Key::of(&object),
        Entry {
            version: object.resource_version(),
            object: known(object),
        },
    )
}

fn known<K>(object: Guarded<K>) -> Known<K> {
    object.0.map(Arc::new).map_err(|error| error.to_string())
}

/// The object before and after, if they differ.
fn differing<K>(before: Option<Entry<K>>, now: &Entry<K>) -> Vec<Arc<K>> {
    match before {
        Some(before) if before.version == now.version => Vec::new(),
        before => before
            .and_then(|entry| entry.object.ok())
            .into_iter()
            .chain(now.object.clone())
            .collect(),
    }
}

fn unreadable<K: Object>(source: kube::Error) -> RelatedError {
    RelatedError::Api {
        kind: K::kind(&()).into_owned(),
        source: Box::new(source),
    }
}

#[cfg(all(test, feature = "memory-api"))]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::memory_api::MemoryApi;

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_not_served_is_not_an_absent_object() {
        let api = MemoryApi::new(1);
        let watches = [
            Watch::<ConfigMap>::namespaced(api.client("test"), "ns"),
            Watch::namespaced(api.client("test"), "ns").labels("app=x"),
        ];
        let ctx = Context::new(&ConfigMap::default(), Timestamp::UNIX_EPOCH).with_reading(Reading::Fresh);
        let key = Key::namespaced("ns", "a");
        for watch in &watches {
            let error = Related::new(watch.clone()).get(&ctx, &key).await.unwrap_err();
            assert!(matches!(error, RelatedError::Api { .. }), "{error:?}");
        }
        api.serve::<ConfigMap>();
        for watch in watches {
            assert!(Related::new(watch).get(&ctx, &key).await.unwrap().is_none());
        }
    }
}
