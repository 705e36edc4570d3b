//! What must never happen, checked at every write as it is made.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cstor_api::names::{annotation, finalizer};
use cstor_reconcile::memory_api::{Commit, MemoryApi};
use serde_json::{Value, json};

use super::user::ALIVE;

#[derive(Clone, Default)]
pub struct Oracle(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// The claims there are, by UID.
    claims: BTreeMap<String, Value>,
    /// The devices there are, by name.
    devices: BTreeMap<String, Value>,
    violations: Vec<String>,
}

impl Oracle {
    pub fn watch(&self, api: &MemoryApi) {
        let seen = self.0.clone();
        api.on_commit(move |commit| {
            let mut seen = seen.lock().unwrap();
            match commit.resource {
                "blockdevices" => seen.device(commit),
                "blockdeviceclaims" => seen.claim(commit),
                _ => {}
            }
        });
    }

    pub fn violations(&self) -> Vec<String> {
        self.0.lock().unwrap().violations.clone()
    }
}

fn holds(object: Option<&Value>, finalizer: &str) -> bool {
    let finalizers = object.and_then(|object| object["metadata"]["finalizers"].as_array());
    finalizers.is_some_and(|all| all.contains(&json!(finalizer)))
}

/// The UID of the claim that has the device.
fn owner(device: Option<&Value>) -> Option<&str> {
    device?["spec"]["claimRef"]["uid"].as_str()
}

/// The object without what the controllers may write.
fn the_rest(device: &Value) -> Value {
    let mut rest = device.clone();
    for (part, fields) in [
        ("/metadata", vec!["finalizers", "resourceVersion", "generation"]),
        ("/spec", vec!["claimRef"]),
        ("/status", vec!["claimState", "state"]),
    ] {
        if let Some(object) = rest.pointer_mut(part).and_then(Value::as_object_mut) {
            object.retain(|name, _| !fields.contains(&name.as_str()));
        }
    }
    // That its node's agent is silent is the controller's to say, and nothing else about whether it is there.
    if let Some(conditions) = rest
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut)
    {
        conditions
            .retain(|known| (&known["type"], &known["reason"]) != (&json!("Present"), &json!("AgentSilent")));
    }
    if rest["status"] == json!({}) {
        rest["status"].take();
    }
    rest
}

impl Seen {
    fn device(&mut self, commit: &Commit<'_>) {
        let name = commit.after.or(commit.before).unwrap()["metadata"]["name"]
            .as_str()
            .unwrap()
            .to_owned();
        let (before, after) = (commit.before, commit.after);
        if let (Some(before), Some(after), "controller") = (before, after, commit.client) {
            let mut complain = |complaint: &str| {
                let text = format!("{name}: {complaint}: {before} became {after}");
                self.violations.push(text);
            };
            if the_rest(before) != the_rest(after) {
                complain("wrote what is not the controller's");
            }
            match (owner(Some(before)), owner(Some(after))) {
                (None, Some(uid)) => {
                    let (state, reason) = (
                        &before["status"]["state"],
                        &before["status"]["conditions"][0]["reason"],
                    );
                    if state != "Active" {
                        complain("claimed while it was not there");
                    }
                    if reason != "NothingFound" && reason != "ForeignPool" {
                        complain("claimed with somebody's data on it");
                    }
                    if !holds(Some(after), finalizer::BLOCK_DEVICE) {
                        complain("claimed without protection");
                    }
                    if self.devices.values().any(|other| owner(Some(other)) == Some(uid)) {
                        complain("a second device for one claim");
                    }
                }
                (Some(old), Some(new)) if old != new => complain("stolen"),
                (Some(old), None)
                    if self
                        .claims
                        .get(old)
                        .is_some_and(|claim| claim["metadata"]["deletionTimestamp"].is_null()) =>
                {
                    complain("taken off a claim that is alive");
                }
                (Some(_), Some(_)) if !holds(Some(after), finalizer::BLOCK_DEVICE) => complain("unprotected"),
                _ => {}
            }
            if before["status"]["state"] != after["status"]["state"] {
                if after["status"]["state"] != "Unknown" || before["status"]["state"] != "Active" {
                    complain("a state that is for the agent to say");
                }
                if after["spec"]["nodeAttributes"]["nodeName"] == ALIVE {
                    complain("called unknown while its agent is alive");
                }
            }
        }
        match after {
            Some(after) => self.devices.insert(name, after.clone()),
            None => self.devices.remove(&name),
        };
    }

    fn claim(&mut self, commit: &Commit<'_>) {
        let object = commit.after.or(commit.before).unwrap();
        let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
        let (before, after) = (commit.before, commit.after);
        if commit.client == "controller" {
            let has = self
                .devices
                .values()
                .any(|device| device["spec"]["claimRef"]["uid"] == uid);
            let mut complain = |complaint: &str| {
                let text = format!("{complaint}: {} became {}", json!(before), json!(after));
                self.violations.push(text);
            };
            if object["metadata"]["annotations"][annotation::BLOCK_DEVICE_RECONCILE] == "false" {
                complain("touched a claim that is to be left alone");
            }
            if holds(before, finalizer::BLOCK_DEVICE_CLAIM)
                && !holds(after, finalizer::BLOCK_DEVICE_CLAIM)
                && has
            {
                complain("let go of a claim that has a device");
            }
            let phase = |claim: Option<&Value>| claim.map(|claim| claim["status"]["phase"].clone());
            if phase(after) == Some(json!("Bound")) && phase(before) != phase(after) && !has {
                complain("called bound without a device");
            }
            if before.is_some_and(|before| {
                before["spec"] != object["spec"] && !before["spec"]["blockDeviceName"].is_null()
            }) {
                complain("changed a wish");
            }
        }
        match after {
            Some(after) => self.claims.insert(uid, after.clone()),
            None => self.claims.remove(&uid),
        };
    }
}
