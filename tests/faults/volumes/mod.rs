//! A controller like any other, for the tests of the engine: a `VolumeSet` asks for named volumes on a simulated host.
//!
//! # Expected flow
//! 1. A `VolumeSet` appears. Its volumes are made, grown to size, and tagged as the `Profile` it names says.
//! 2. A volume that the spec no longer names is deleted.
//! 3. The set is deleted: its volumes are, one by one, and then it is let go.
//!
//! # Guarantees
//! - A volume belongs to the set whose uid it carries; no other is touched.
//! - The status lists the volumes that were found on the host, not those that were asked for.
//!
//! # Caveats
//! - A volume is never shrunk: the set says so in a condition and an event.

mod act;
mod decide;
mod observe;

use std::collections::BTreeMap;
use std::sync::Mutex;

use cstor_api::{Condition, ConditionStatus, set_condition};
use cstor_reconcile::failure::Failure;
use cstor_reconcile::{Class, Classify, Context, Controller, Decision, Outcome, Related, Report, Step};
use jiff::Timestamp;
use kube::{CustomResource, Resource as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use decide::Observed;

use super::host::{Host, HostError, Volume};

/// The finalizer of the sample.
pub const FINALIZER: &str = "faults.cstor.io/volumes";
/// The one condition of the sample.
pub const READY: &str = "Ready";

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "faults.cstor.io",
    version = "v1",
    kind = "VolumeSet",
    namespaced,
    status = "VolumeSetStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSetSpec {
    pub volumes: Vec<Wanted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Wanted {
    pub name: String,
    pub size: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSetStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(default)]
    pub volumes: Vec<Volume>,
    #[serde(default)]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

fn conditions_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
    })
}

/// What all volumes of a set are tagged with.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "faults.cstor.io",
    version = "v1",
    kind = "Profile",
    namespaced,
    derive = "PartialEq"
)]
pub struct ProfileSpec {
    pub tag: String,
}

/// The sample on its way to be wrong: what the suite must notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Breakage {
    #[default]
    None,
    /// Believes what it remembers having done, not the host, and makes volumes without looking whether they are there.
    TrustsMemory,
    /// Lets go of a set that is being deleted before its volumes are.
    LetsGoEarly,
    /// Lets go of a set, being deleted or not, in each decision that has steps. Not wrong, since the engine holds on as long as
    /// there are steps.
    LetsGoInAdvance,
    /// Says in the status what was asked for, not what was found.
    StatusLies,
    /// Always has something to write.
    NeverDone,
    /// Mistakes a host that cannot be read for an empty one.
    UnreadableIsEmpty,
}

/// The sample. `HELD`: with a finalizer, as it should be.
pub struct Volumes<const HELD: bool = true> {
    pub host: Host,
    pub profiles: Related<Profile>,
    pub breakage: Breakage,
    /// What this process has done, for the one that believes it.
    pub remembered: Mutex<BTreeMap<String, Vec<Volume>>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum VolumeStep {
    Create {
        owner: String,
        name: String,
        size: u64,
    },
    Grow {
        owner: String,
        name: String,
        size: u64,
    },
    Tag {
        owner: String,
        name: String,
        tag: String,
    },
    Delete {
        owner: String,
        name: String,
    },
}

impl Step for VolumeStep {
    fn name(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Grow { .. } => "grow",
            Self::Tag { .. } => "tag",
            Self::Delete { .. } => "delete",
        }
    }

    fn deadline(&self) -> std::time::Duration {
        std::time::Duration::from_secs(10)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    #[error("{doing} volume {name}")]
    Host {
        doing: &'static str,
        name: String,
        source: HostError,
    },
    #[error("list the volumes")]
    Unreadable(#[source] HostError),
    #[error(transparent)]
    Related(#[from] cstor_reconcile::related::RelatedError),
}

impl Classify for VolumeError {
    fn classify(&self) -> Class {
        match self {
            Self::Host { .. } => Class::new("host", "HostFailed"),
            Self::Unreadable(_) => Class::new("host_unreadable", "HostUnreadable"),
            Self::Related(error) => error.classify(),
        }
    }
}

impl<const HELD: bool> Controller for Volumes<HELD> {
    const NAME: &'static str = "volumes";
    const FINALIZER: Option<&'static str> = if HELD { Some(FINALIZER) } else { None };

    type Object = VolumeSet;
    type Status = VolumeSetStatus;
    type Observed = Observed;
    type Step = VolumeStep;
    type Error = VolumeError;

    async fn observe(&self, ctx: &Context, object: &VolumeSet) -> Result<Observed, VolumeError> {
        let mut observed = observe::observe(&self.host, &self.profiles, self.breakage, ctx, object).await?;
        if self.breakage == Breakage::TrustsMemory {
            observed.volumes = self
                .remembered
                .lock()
                .unwrap()
                .get(ctx.uid())
                .cloned()
                .unwrap_or_default();
        }
        Ok(observed)
    }

    fn decide(observed: &Observed) -> Decision<VolumeStep, VolumeSetStatus> {
        decide::decide(observed)
    }

    async fn act(&self, ctx: &Context, step: VolumeStep) -> Result<Outcome, VolumeError> {
        let outcome = act::act(&self.host, self.breakage, ctx, step).await?;
        self.remembered
            .lock()
            .unwrap()
            .insert(ctx.uid().into(), self.host.now(ctx.uid()));
        Ok(outcome)
    }

    fn unobserved(object: &VolumeSet, failure: &Failure, now: Timestamp) -> Report<VolumeSetStatus> {
        let mut status = object.status.clone().unwrap_or_default();
        let (reason, message) = (failure.class.reason, failure.message.as_str());
        let unknown = Condition {
            observed_generation: object.meta().generation,
            ..Condition::new(READY, ConditionStatus::Unknown, reason, message)
        };
        set_condition(&mut status.conditions, unknown, now);
        Report::of(status)
    }
}
