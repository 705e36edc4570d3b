//! What of a decision is left to be done.

use std::time::Duration;

use kube::ResourceExt as _;
use serde_json::{Map, Value};

use crate::controller::{Controller, Report};
use crate::{Event, Object};

/// What of a decision is left to be done.
pub(super) struct Plan<C: Controller> {
    /// The finalizer to put on.
    pub(super) hold: Option<&'static str>,
    /// Events to post, each with the count it will have.
    pub(super) fresh_events: Vec<(Event, i32)>,
    /// The patch that makes the status true.
    pub(super) status: Option<Value>,
    pub(super) steps: Vec<C::Step>,
    /// The finalizer to take off.
    pub(super) release: Option<&'static str>,
    pub(super) report: Report<C::Status>,
    pub(super) again: Option<Duration>,
}

impl<C: Controller> Plan<C> {
    pub(super) const fn is_empty(&self) -> bool {
        !self.writes_object() && self.fresh_events.is_empty() && self.steps.is_empty()
    }

    pub(super) const fn writes_object(&self) -> bool {
        self.hold.is_some() || self.release.is_some() || self.status.is_some()
    }
}

/// Whether the object carries the controller's finalizer.
pub(super) fn held<C: Controller>(object: &C::Object) -> bool {
    C::FINALIZER.is_some_and(|finalizer| object.finalizers().iter().any(|known| known == finalizer))
}

/// The status as our types read it. An object is written as JSON for it: types differ in how, and whether, they give
/// out their status, but not in how they are written.
pub(super) fn current_status<K: Object>(object: &K) -> Value {
    let mut object = serde_json::to_value(object).unwrap_or_default();
    let status = object.as_object_mut().and_then(|fields| fields.remove("status"));
    status
        .filter(|status| !status.is_null())
        .unwrap_or_else(|| Value::Object(Map::new()))
}
