//! Compute resources of pods, with quantities that keep their text.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;
use crate::schema::{Rule, rules};

const ARE_AMOUNTS: Rule = (
    "self.all(k, isQuantity(string(self[k])) && sign(quantity(string(self[k]))) >= 0)",
    "One of these is not an amount: write a number, or one with a suffix such as 500m for CPU and 2Gi for memory.",
);

/// CPU and memory of a container.
///
/// Not the type of `k8s-openapi`: its quantities turn the number 1 into the text "1" on the way through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRequirements {
    /// The most the container may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 32, "x-kubernetes-validations" = rules([ARE_AMOUNTS])))]
    pub limits: Option<BTreeMap<String, Quantity>>,
    /// What the container is sure to get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 32, "x-kubernetes-validations" = rules([ARE_AMOUNTS])))]
    pub requests: Option<BTreeMap<String, Quantity>>,
    /// Claims on dynamically allocated resources, by their name in the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<Vec<ResourceClaim>>,
}

/// The use of one of a pod's resource claims by a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceClaim {
    /// The name of the claim in the pod.
    pub name: String,
    /// One request of the claim; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}
