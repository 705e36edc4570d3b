//! The engine's own writes: the finalizer and the status.
//!
//! Each carries the version of the object it was decided on. If the object has changed since, the API server answers with
//! a conflict, nothing is written, and the object is looked at again.
//!
//! # How a write can die
//!
//! | what dies | what follows |
//! |---|---|
//! | the object, before | 404: it is gone, and the look ends |
//! | the version it was decided on | 409: look again, not counted as a failure |
//! | the request, before it is applied | a failure; the next look finds what is missing |
//! | the response, after it was applied | a failure; the next look reads the object and finds it done |
//! | the process, on either side | the same as the request or the response |

use std::marker::PhantomData;
use std::time::Duration;

use kube::api::{Patch, PatchParams, Request};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::failure::chain;
use crate::watch::{Guarded, is_absent, slim};
use crate::{Key, Object};

/// How long a request to the API server may take.
pub(super) const DEADLINE: Duration = Duration::from_secs(20);

/// Why a request of the engine came to nothing.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The object is gone.
    Gone,
    /// The object has changed.
    Conflict,
    /// Everything else: a label for the metric, and the text.
    Failed(&'static str, String),
}

/// Waits for an answer of the API server, but not for ever.
pub(super) async fn answered<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Refusal> {
    match tokio::time::timeout(DEADLINE, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) if is_absent(&status) => Err(Refusal::Gone),
        Ok(Err(kube::Error::Api(status))) if status.is_conflict() => Err(Refusal::Conflict),
        Ok(Err(error)) => Err(Refusal::Failed(
            crate::failure::Classify::classify(&error).label,
            chain(&error),
        )),
        Err(_elapsed) => Err(Refusal::Failed(
            "api_deadline",
            format!("no answer within {} s", DEADLINE.as_secs()),
        )),
    }
}

/// Writes objects of kind `K`.
pub(super) struct Writer<K> {
    client: Client,
    params: PatchParams,
    kind: PhantomData<fn() -> K>,
}

impl<K: Object> Writer<K> {
    pub(super) fn new(client: Client, field_manager: &str) -> Self {
        let params = PatchParams {
            field_manager: Some(field_manager.into()),
            ..PatchParams::default()
        };
        Self {
            client,
            params,
            kind: PhantomData,
        }
    }

    pub(super) async fn add_finalizer(&self, object: &K, finalizer: &str) -> Result<Guarded<K>, Refusal> {
        let mut all = object.finalizers().to_vec();
        all.push(finalizer.into());
        self.patch(object, json!({"metadata": {"finalizers": all}}), None)
            .await
    }

    pub(super) async fn remove_finalizer(&self, object: &K, finalizer: &str) -> Result<Guarded<K>, Refusal> {
        let all: Vec<&String> = object
            .finalizers()
            .iter()
            .filter(|known| *known != finalizer)
            .collect();
        self.patch(object, json!({"metadata": {"finalizers": all}}), None)
            .await
    }

    pub(super) async fn patch_status(&self, object: &K, status: &Value) -> Result<Guarded<K>, Refusal> {
        self.patch(object, json!({"status": status}), Some("status"))
            .await
    }

    async fn patch(&self, object: &K, mut patch: Value, part: Option<&str>) -> Result<Guarded<K>, Refusal> {
        let key = Key::of(object);
        if let Some(fields) = patch.as_object_mut() {
            let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("resourceVersion".into(), json!(object.resource_version()));
            }
        }
        let (request, patch) = (
            Request::new(K::url_path(&(), key.namespace.as_deref())),
            Patch::Merge(&patch),
        );
        let request = match part {
            Some(part) => request.patch_subresource(part, &key.name, &self.params, &patch),
            None => request.patch(&key.name, &self.params, &patch),
        };
        let request = request.map_err(|error| Refusal::Failed("api_request", chain(&error)))?;
        answered(self.client.request(request)).await.map(slim)
    }
}
