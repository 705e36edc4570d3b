//! The objects, their history, and the rules of writing them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::patch::{self, Owners};
use super::selector::Selector;

/// Group and plural.
pub(super) type ResourceId = (String, String);

/// Resource, namespace (empty if none), name.
type ObjectId = (ResourceId, String, String);

#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub(super) resource: ResourceId,
    pub(super) api_version: String,
    pub(super) kind: String,
}

/// A refusal, as the API server words it.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) code: u16,
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) name: String,
}

impl Refused {
    pub(super) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            name: String::new(),
        }
    }

    fn of(code: u16, reason: &'static str, name: &str, message: &str) -> Self {
        Self {
            code,
            reason,
            message: format!("{name:?} {message}"),
            name: name.into(),
        }
    }
}

/// One request that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// By which client.
    pub client: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch` or `delete`.
    pub verb: &'static str,
    /// The plural of the kind.
    pub resource: String,
    /// `status`, or empty.
    pub subresource: String,
    /// The object, if it was about one.
    pub name: String,
    /// How it was answered.
    pub code: u16,
}

impl Request {
    /// Whether it was to change something.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self.verb, "create" | "update" | "patch" | "delete")
    }
}

/// One change, as it is made.
#[derive(Clone, Copy, Debug)]
pub struct Commit<'a> {
    /// By which client.
    pub client: &'a str,
    /// The plural of the kind.
    pub resource: &'a str,
    /// The object before; `None` if it is new.
    pub before: Option<&'a Value>,
    /// The object after; `None` if it is gone.
    pub after: Option<&'a Value>,
}

/// An entry of the history.
#[derive(Clone)]
pub(super) struct Logged {
    pub(super) revision: u64,
    pub(super) resource: ResourceId,
    pub(super) before: Option<Arc<Value>>,
    pub(super) after: Option<Arc<Value>>,
}

type Hook = Box<dyn Fn(&Commit<'_>) + Send>;

#[derive(Default)]
pub(super) struct Store {
    kinds: BTreeMap<ResourceId, Kind>,
    objects: BTreeMap<ObjectId, Arc<Value>>,
    owners: BTreeMap<ObjectId, Owners>,
    log: Vec<Logged>,
    revision: u64,
    compacted: u64,
    made: u64,
    pub(super) hooks: Vec<Hook>,
    pub(super) requests: Vec<Request>,
}

/// How an object is to be changed.
pub(super) enum Change<'a> {
    Replace(&'a Value),
    Merge(&'a Value),
    Json(&'a Value),
    Apply {
        wanted: &'a Value,
        manager: &'a str,
        force: bool,
    },
}

/// Who writes which object.
#[derive(Clone, Copy)]
pub(super) struct Writing<'a> {
    pub(super) client: &'a str,
    pub(super) resource: &'a ResourceId,
    pub(super) namespace: Option<&'a str>,
    pub(super) name: &'a str,
    pub(super) status: bool,
}

impl Writing<'_> {
    fn id(&self) -> ObjectId {
        (
            self.resource.clone(),
            self.namespace.unwrap_or_default().into(),
            self.name.into(),
        )
    }
}

impl Store {
    pub(super) fn serve(&mut self, kind: Kind) {
        self.kinds.insert(kind.resource.clone(), kind);
    }

    pub(super) fn kind(&self, resource: &ResourceId) -> Option<&Kind> {
        self.kinds.get(resource)
    }

    pub(super) const fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) const fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(super) fn compact(&mut self) {
        self.compacted = self.revision;
        self.log.clear();
    }

    pub(super) fn get(
        &self,
        resource: &ResourceId,
        namespace: Option<&str>,
        name: &str,
    ) -> Option<Arc<Value>> {
        self.objects
            .get(&(
                resource.clone(),
                namespace.unwrap_or_default().into(),
                name.into(),
            ))
            .cloned()
    }

    pub(super) fn all<'a>(&'a self, resource: &'a ResourceId) -> impl Iterator<Item = Arc<Value>> + 'a {
        self.objects
            .iter()
            .filter(move |((known, _, _), _)| known == resource)
            .map(|(_, object)| object.clone())
    }

    /// The objects as they were `back` revisions ago, or as far back as the history goes; and which revision that is.
    pub(super) fn list(
        &self,
        resource: &ResourceId,
        selector: &Selector,
        back: u64,
    ) -> (Vec<Arc<Value>>, u64) {
        let revision = self.revision.saturating_sub(back).max(self.compacted);
        let mut objects: BTreeMap<ObjectId, Arc<Value>> = self.objects.clone();
        for entry in self
            .log
            .iter()
            .rev()
            .take_while(|entry| entry.revision > revision)
        {
            if let Some(object) = entry.after.as_ref().or(entry.before.as_ref()) {
                let id = id_of(&entry.resource, object);
                match &entry.before {
                    Some(before) => objects.insert(id, before.clone()),
                    None => objects.remove(&id),
                };
            }
        }
        let matching = |(id, object): (ObjectId, Arc<Value>)| {
            (id.0 == *resource && selector.matches(&object)).then_some(object)
        };
        (objects.into_iter().filter_map(matching).collect(), revision)
    }

    /// The first change of the resource after `revision`.
    pub(super) fn next_after(&self, resource: &ResourceId, revision: u64) -> Option<Logged> {
        let first = self.log.partition_point(|entry| entry.revision <= revision);
        self.log
            .iter()
            .skip(first)
            .find(|entry| entry.resource == *resource)
            .cloned()
    }

    pub(super) fn create(&mut self, writing: Writing<'_>, mut object: Value) -> Result<Arc<Value>, Refused> {
        let Some(kind) = self.kinds.get(writing.resource).cloned() else {
            return Err(no_such_resource());
        };
        let name = match text(&object, "/metadata/name") {
            Some(name) => name,
            None => {
                let stem = text(&object, "/metadata/generateName").unwrap_or_default();
                format!("{stem}{:05}", self.made)
            }
        };
        let writing = Writing {
            name: &name,
            ..writing
        };
        if self.objects.contains_key(&writing.id()) {
            return Err(Refused::of(409, "AlreadyExists", &name, "already exists"));
        }
        self.made += 1;
        let made = self.made;
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".into(), json!(kind.api_version));
            fields.insert("kind".into(), json!(kind.kind));
            // With a status subresource, which every kind here has, a status cannot be set by a create.
            fields.remove("status");
            let generation = fields.contains_key("spec").then_some(1);
            let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
            patch::merge(
                metadata,
                &json!({
                    "name": name,
                    "namespace": writing.namespace,
                    "uid": format!("00000000-0000-4000-8000-{made:012x}"),
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                    "generation": generation,
                    "deletionTimestamp": null,
                }),
            );
        }
        Ok(self.commit(writing, None, Some(object)))
    }

    pub(super) fn change(
        &mut self,
        writing: Writing<'_>,
        change: &Change<'_>,
    ) -> Result<Arc<Value>, Refused> {
        if self.kind(writing.resource).is_none() {
            return Err(no_such_resource());
        }
        let id = writing.id();
        let Some(before) = self.objects.get(&id).cloned() else {
            if let Change::Apply { wanted, manager, .. } = change
                && !writing.status
            {
                let mut owners = Owners::new();
                patch::apply(&mut json!({}), wanted, manager, true, &mut owners)?;
                self.owners.insert(id, owners);
                return self.create(writing, (*wanted).clone());
            }
            return Err(Refused::of(404, "NotFound", writing.name, "not found"));
        };
        let mut after = (*before).clone();
        match change {
            Change::Replace(object) => after = (*object).clone(),
            Change::Merge(change) => patch::merge(&mut after, change),
            Change::Json(change) => patch::json(&mut after, change)?,
            Change::Apply {
                wanted,
                manager,
                force,
            } => {
                let owners = self.owners.entry(id).or_default();
                patch::apply(&mut after, wanted, manager, *force, owners)?;
            }
        }
        let version = text(&after, "/metadata/resourceVersion");
        if version.is_some() && version != text(&before, "/metadata/resourceVersion") {
            let message = "cannot be written: the object has been modified";
            return Err(Refused::of(409, "Conflict", writing.name, message));
        }
        if text(&after, "/metadata/uid").is_some_and(|uid| Some(uid) != text(&before, "/metadata/uid")) {
            return Err(Refused::of(
                409,
                "Conflict",
                writing.name,
                "is another object than the one meant",
            ));
        }
        let after = keep_what_is_not_written(&before, after, writing.status);
        if after == *before {
            return Ok(before);
        }
        let deleting = after.pointer("/metadata/deletionTimestamp").is_some();
        if deleting
            && finalizers(&after)
                .iter()
                .any(|name| !finalizers(&before).contains(name))
        {
            return Err(Refused::of(
                422,
                "Invalid",
                writing.name,
                "is being deleted: no new finalizers",
            ));
        }
        if deleting && finalizers(&after).is_empty() {
            self.commit(writing, Some(before), None);
            return Ok(Arc::new(after));
        }
        Ok(self.commit(writing, Some(before), Some(after)))
    }

    pub(super) fn delete(&mut self, writing: Writing<'_>, options: &Value) -> Result<Arc<Value>, Refused> {
        let Some(before) = self.objects.get(&writing.id()).cloned() else {
            return Err(Refused::of(404, "NotFound", writing.name, "not found"));
        };
        for (wanted, has) in [
            ("/preconditions/uid", "/metadata/uid"),
            ("/preconditions/resourceVersion", "/metadata/resourceVersion"),
        ] {
            if text(options, wanted).is_some_and(|wanted| Some(wanted) != text(&before, has)) {
                return Err(Refused::of(
                    409,
                    "Conflict",
                    writing.name,
                    "does not meet the precondition",
                ));
            }
        }
        if finalizers(&before).is_empty() {
            self.commit(writing, Some(before.clone()), None);
            return Ok(before);
        }
        if before.pointer("/metadata/deletionTimestamp").is_some() {
            return Ok(before);
        }
        let mut after = (*before).clone();
        let generation = after
            .pointer("/metadata/generation")
            .and_then(Value::as_i64)
            .map(|generation| generation + 1);
        let gone =
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "generation": generation}});
        patch::merge(&mut after, &gone);
        Ok(self.commit(writing, Some(before), Some(after)))
    }

    fn commit(
        &mut self,
        writing: Writing<'_>,
        before: Option<Arc<Value>>,
        after: Option<Value>,
    ) -> Arc<Value> {
        self.revision += 1;
        let version = json!({"metadata": {"resourceVersion": self.revision.to_string()}});
        let after = after.map(|mut object| {
            patch::merge(&mut object, &version);
            Arc::new(object)
        });
        let commit = Commit {
            client: writing.client,
            resource: &writing.resource.1,
            before: before.as_deref(),
            after: after.as_deref(),
        };
        for hook in &self.hooks {
            hook(&commit);
        }
        let id = writing.id();
        match &after {
            Some(object) => {
                self.objects.insert(id, object.clone());
            }
            None => {
                self.objects.remove(&id);
                self.owners.remove(&id);
            }
        }
        self.log.push(Logged {
            revision: self.revision,
            resource: writing.resource.clone(),
            before: before.clone(),
            after: after.clone(),
        });
        after.or(before).unwrap_or_default()
    }
}

/// What the endpoint does not write is kept: all but the status by `/status`, and the status by the object itself. The
/// generation grows when anything else than metadata and status changes.
fn keep_what_is_not_written(before: &Value, after: Value, status: bool) -> Value {
    let (mut kept, written) = (before.clone(), after);
    let Some(fields) = kept.as_object_mut() else {
        return written;
    };
    if status {
        match written.get("status") {
            Some(status) => fields.insert("status".into(), status.clone()),
            None => fields.remove("status"),
        };
        return kept;
    }
    let mut written = match written {
        Value::Object(written) => written,
        _ => Map::new(),
    };
    for name in ["apiVersion", "kind", "status"] {
        match fields.get(name) {
            Some(value) => written.insert(name.into(), value.clone()),
            None => written.remove(name),
        };
    }
    let mut written = Value::Object(written);
    let fixed: Map<String, Value> = [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "generation",
        "resourceVersion",
    ]
    .into_iter()
    .map(|name| {
        (
            name.into(),
            before
                .pointer(&format!("/metadata/{name}"))
                .cloned()
                .unwrap_or_default(),
        )
    })
    .collect();
    patch::merge(&mut written, &json!({"metadata": fixed}));
    for list in ["finalizers", "ownerReferences", "labels", "annotations"] {
        // An empty list or map is no list or map.
        let path = format!("/metadata/{list}");
        let empty = written
            .pointer(&path)
            .is_some_and(|value| *value == json!([]) || *value == json!({}));
        if empty {
            patch::merge(&mut written, &json!({"metadata": {list: null}}));
        }
    }
    let desired = |object: &Value| {
        let mut object = object.clone();
        if let Some(fields) = object.as_object_mut() {
            fields.remove("metadata");
            fields.remove("status");
        }
        object
    };
    if desired(before) != desired(&written)
        && let Some(generation) = before.pointer("/metadata/generation").and_then(Value::as_i64)
    {
        patch::merge(&mut written, &json!({"metadata": {"generation": generation + 1}}));
    }
    written
}

fn no_such_resource() -> Refused {
    Refused::new(
        404,
        "NotFound",
        "the server could not find the requested resource",
    )
}

pub(super) fn text(object: &Value, path: &str) -> Option<String> {
    object
        .pointer(path)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

fn finalizers(object: &Value) -> Vec<&str> {
    let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn id_of(resource: &ResourceId, object: &Value) -> ObjectId {
    let part = |path| text(object, path).unwrap_or_default();
    (
        resource.clone(),
        part("/metadata/namespace"),
        part("/metadata/name"),
    )
}
