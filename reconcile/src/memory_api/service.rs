//! The protocol: requests in, responses out.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use http::{Method, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};

use super::MemoryApi;
use super::faults::{Fate, Fault};
use super::selector::Selector;
use super::store::{Change, Refused, Request, ResourceId, Writing};
use super::watch::{Asked, watch};

type Reply = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The connection broke: nobody knows what became of the request.
#[derive(Debug, thiserror::Error)]
#[error("connection reset by the in-memory API server, on purpose")]
pub(super) struct Reset;

/// One client's way to the server.
#[derive(Clone)]
pub(super) struct Service {
    api: MemoryApi,
    client: Arc<str>,
    faulty: bool,
}

impl Service {
    pub(super) fn new(api: MemoryApi, client: &str, faulty: bool) -> Self {
        Self {
            api,
            client: client.into(),
            faulty,
        }
    }
}

impl tower::Service<http::Request<Body>> for Service {
    type Response = Reply;
    type Error = Reset;
    type Future = BoxFuture<'static, Result<Reply, Reset>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Reset>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { service.answer(request).await })
    }
}

impl Service {
    async fn answer(self, request: http::Request<Body>) -> Result<Reply, Reset> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Reset)?.to_bytes();
        let mut call = match Call::parse(&parts, &body) {
            Ok(call) => call,
            Err(refused) => return Ok(refusal(&refused)),
        };
        let fate = if self.faulty {
            self.api.dice().request(call.is_write())
        } else {
            Fate::default()
        };
        self.note(Fault::Latency, !(fate.before + fate.after).is_zero());
        tokio::time::sleep(fate.before).await;
        if fate.silent {
            self.note(Fault::Silence, true);
            self.record(&call, 0);
            return std::future::pending().await;
        }
        if let Some(code) = fate.error {
            let fault = match code {
                409 => Fault::Conflict,
                _ if call.is_write() => Fault::WriteError,
                _ => Fault::ReadError,
            };
            self.note(fault, true);
            self.record(&call, code);
            let reason = if code == 409 { "Conflict" } else { "InternalError" };
            let mut refused = Refused::new(code, reason, "refused by the in-memory API server, on purpose");
            refused.name.clone_from(&call.name);
            return Ok(refusal(&refused));
        }
        let reply = self.apply(&mut call, &fate);
        self.record(&call, reply.status().as_u16());
        if call.is_write() {
            self.api.inner.news.notify_waiters();
        }
        self.note(Fault::LostResponse, fate.lost && reply.status().is_success());
        tokio::time::sleep(fate.after).await;
        if fate.lost { Err(Reset) } else { Ok(reply) }
    }

    fn note(&self, fault: Fault, so: bool) {
        self.api.dice().note(fault, so);
    }

    fn record(&self, call: &Call, code: u16) {
        self.api.store().requests.push(Request {
            client: self.client.to_string(),
            verb: call.verb,
            resource: call.resource.1.clone(),
            subresource: call.subresource.clone(),
            name: call.name.clone(),
            code,
        });
    }

    fn apply(&self, call: &mut Call, fate: &Fate) -> Reply {
        match call.verb {
            "list" => self.list(call, fate),
            "watch" => self.watch(call, fate),
            "get" => {
                let store = self.api.store();
                let found = store.get(&call.resource, call.namespace.as_deref(), &call.name);
                match (store.kind(&call.resource), found) {
                    (Some(_), Some(object)) => reply(StatusCode::OK, &object),
                    (Some(_), None) => {
                        let message = format!("{:?} not found", call.name);
                        refusal(&Refused {
                            code: 404,
                            reason: "NotFound",
                            message,
                            name: call.name.clone(),
                        })
                    }
                    (None, _) => refusal(&Refused::new(404, "NotFound", "no such resource")),
                }
            }
            _ => match self.write(call) {
                Ok(object) => reply(
                    if call.verb == "create" {
                        StatusCode::CREATED
                    } else {
                        StatusCode::OK
                    },
                    &object,
                ),
                Err(refused) => refusal(&refused),
            },
        }
    }

    fn write(&self, call: &Call) -> Result<Arc<Value>, Refused> {
        let writing = Writing {
            client: &self.client,
            resource: &call.resource,
            namespace: call.namespace.as_deref(),
            name: &call.name,
            status: call.subresource == "status",
        };
        let mut store = self.api.store();
        let manager = call
            .query
            .get("fieldManager")
            .map(String::as_str)
            .unwrap_or_default();
        let force = call.query.get("force").is_some_and(|force| force == "true");
        match (call.verb, call.patch) {
            ("create", _) => store.create(writing, call.body.clone()),
            ("delete", _) => store.delete(writing, &call.body),
            ("update", _) => store.change(writing, &Change::Replace(&call.body)),
            (_, PatchKind::Merge) => store.change(writing, &Change::Merge(&call.body)),
            (_, PatchKind::Json) => store.change(writing, &Change::Json(&call.body)),
            (_, PatchKind::Apply) => store.change(
                writing,
                &Change::Apply {
                    wanted: &call.body,
                    manager,
                    force,
                },
            ),
        }
    }

    fn list(&self, call: &Call, fate: &Fate) -> Reply {
        let selector = call.selector();
        let paged = call.query.contains_key("limit");
        let back = if fate.stale && paged && !selector.names_one() {
            let revisions = self.api.store().revision();
            self.api.dice().staleness(revisions)
        } else {
            0
        };
        self.note(Fault::StaleList, back > 0);
        let store = self.api.store();
        let Some(kind) = store.kind(&call.resource) else {
            return refusal(&Refused::new(404, "NotFound", "no such resource"));
        };
        let (objects, revision) = store.list(&call.resource, &selector, back);
        let limit = call
            .query
            .get("limit")
            .and_then(|limit| limit.parse().ok())
            .filter(|limit| *limit > 0);
        let skip: usize = call
            .query
            .get("continue")
            .and_then(|skip| skip.parse().ok())
            .unwrap_or(0);
        let page: Vec<&Value> = objects
            .iter()
            .map(|object| &**object)
            .skip(skip)
            .take(limit.unwrap_or(usize::MAX))
            .collect();
        let next = skip + page.len();
        let more = (next < objects.len()).then(|| next.to_string());
        let list = json!({
            "kind": format!("{}List", kind.kind),
            "apiVersion": kind.api_version,
            "metadata": {"resourceVersion": revision.to_string(), "continue": more.unwrap_or_default()},
            "items": page,
        });
        reply(StatusCode::OK, &list)
    }

    fn watch(&self, call: &Call, fate: &Fate) -> Reply {
        let from = call
            .query
            .get("resourceVersion")
            .and_then(|version| version.parse().ok())
            .filter(|from| *from > 0);
        let compacted = self.api.store().compacted();
        if self.api.store().kind(&call.resource).is_none() {
            return refusal(&Refused::new(404, "NotFound", "no such resource"));
        }
        self.note(Fault::Gone, fate.gone && from.is_some());
        if from.is_some_and(|from| from < compacted) || (fate.gone && from.is_some()) {
            return refusal(&Refused::new(410, "Expired", "the history is gone"));
        }
        let seconds = call
            .query
            .get("timeoutSeconds")
            .and_then(|seconds| seconds.parse().ok())
            .unwrap_or(1800);
        let is = |name: &str| call.query.get(name).is_some_and(|value| value == "true");
        let asked = Asked {
            resource: call.resource.clone(),
            selector: call.selector(),
            from,
            initial_events: is("sendInitialEvents"),
            bookmarks: is("allowWatchBookmarks"),
            timeout: Duration::from_secs(seconds),
            faulty: self.faulty,
        };
        let lines = watch(self.api.clone(), asked).map(|line| line.map(http_body::Frame::data));
        Response::new(StreamBody::new(lines).boxed_unsync())
    }
}

#[derive(Clone, Copy)]
enum PatchKind {
    Merge,
    Json,
    Apply,
}

struct Call {
    verb: &'static str,
    resource: ResourceId,
    namespace: Option<String>,
    name: String,
    subresource: String,
    query: BTreeMap<String, String>,
    patch: PatchKind,
    body: Value,
}

impl Call {
    fn parse(parts: &http::request::Parts, body: &Bytes) -> Result<Self, Refused> {
        let bad = |message: &str| Refused::new(400, "BadRequest", message);
        let mut path = parts.uri.path().split('/').filter(|part| !part.is_empty());
        let group = match path.next() {
            Some("api") => String::new(),
            Some("apis") => path.next().ok_or_else(|| bad("no group"))?.to_owned(),
            _ => return Err(Refused::new(404, "NotFound", "only /api and /apis are served")),
        };
        let _version = path.next().ok_or_else(|| bad("no version"))?;
        let rest: Vec<&str> = path.collect();
        let (namespace, rest) = match rest.as_slice() {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
            rest => (None, rest),
        };
        let part = |index: usize| rest.get(index).map(|part| (*part).to_owned()).unwrap_or_default();
        let (plural, name, subresource) = (part(0), part(1), part(2));
        let query: BTreeMap<String, String> = query(parts.uri.query().unwrap_or_default());
        let watching = query.get("watch").is_some_and(|watch| watch == "true");
        let verb = match (&parts.method, name.is_empty()) {
            (&Method::GET, true) if watching => "watch",
            (&Method::GET, true) => "list",
            (&Method::GET, false) => "get",
            (&Method::POST, true) => "create",
            (&Method::PUT, false) => "update",
            (&Method::PATCH, false) => "patch",
            (&Method::DELETE, false) => "delete",
            _ => {
                return Err(Refused::new(
                    405,
                    "MethodNotAllowed",
                    "not served by the in-memory API server",
                ));
            }
        };
        let kind = parts
            .headers
            .get(http::header::CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .unwrap_or_default();
        let patch = match kind {
            "application/json-patch+json" => PatchKind::Json,
            "application/apply-patch+yaml" => PatchKind::Apply,
            _ => PatchKind::Merge,
        };
        if verb == "patch" && kind == "application/strategic-merge-patch+json" {
            return Err(Refused::new(
                415,
                "UnsupportedMediaType",
                "custom resources have no strategic merge",
            ));
        }
        let body = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(body).map_err(|error| bad(&error.to_string()))?
        };
        Ok(Self {
            verb,
            resource: (group, plural),
            namespace,
            name,
            subresource,
            query,
            patch,
            body,
        })
    }

    fn is_write(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch")
    }

    fn selector(&self) -> Selector {
        let part = |name: &str| self.query.get(name).map(String::as_str);
        Selector::new(
            self.namespace.clone(),
            part("labelSelector"),
            part("fieldSelector"),
        )
    }
}

fn query(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}

/// `application/x-www-form-urlencoded`.
fn decode(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits: String = bytes.by_ref().take(2).map(char::from).collect();
                u8::from_str_radix(&digits, 16).unwrap_or(b'?')
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn reply(status: StatusCode, body: &Value) -> Reply {
    let text = serde_json::to_vec(body).unwrap_or_default();
    let mut response = Response::new(Full::new(Bytes::from(text)).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    response
}

fn refusal(refused: &Refused) -> Reply {
    let code = StatusCode::from_u16(refused.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": refused.code,
        "reason": refused.reason, "message": refused.message,
    });
    if !refused.name.is_empty()
        && let Some(fields) = status.as_object_mut()
    {
        fields.insert("details".into(), json!({"name": refused.name}));
    }
    reply(code, &status)
}
