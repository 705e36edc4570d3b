//! Which release an object was made by, and which it should belong to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::names::phase::VersionState;

/// The release an object belongs to, and the one it should belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionDetails {
    /// Whether to move on to each new release by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_upgrade: Option<bool>,
    /// The release wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<String>,
    /// The release reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<VersionStatus>,
}

/// How far an object is on its way to another release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionStatus {
    /// Whether what hangs on the object has been upgraded too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependents_upgraded: Option<bool>,
    /// The release the object belongs to now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// Reconciled, ReconcileInProgress or ReconcilePending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<VersionState>,
    /// What stands in the way of the upgrade, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What stands in the way of the upgrade, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When this was last written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Timestamp>,
}
