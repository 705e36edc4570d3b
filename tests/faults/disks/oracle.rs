//! Sees every write as it is made, and what the disks really are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use cstor_reconcile::memory_api::{Commit, MemoryApi};
use serde_json::Value;

use super::host::Host;

/// What was written that must not be.
pub struct Oracle {
    hosts: [Arc<Host>; 2],
    /// The serial numbers of disks that are somebody's, and must never be said to be blank.
    pub taken: Mutex<BTreeSet<String>>,
    identities: Mutex<BTreeMap<String, String>>,
    violations: Mutex<Vec<String>>,
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

impl Oracle {
    pub fn watch(api: &MemoryApi, hosts: &[Arc<Host>; 2]) -> Arc<Self> {
        let oracle = Arc::new(Self {
            hosts: hosts.clone(),
            taken: Mutex::default(),
            identities: Mutex::default(),
            violations: Mutex::default(),
        });
        let own = oracle.clone();
        api.on_commit(move |commit| {
            if commit.resource == "blockdevices" {
                own.see(commit);
            }
        });
        oracle
    }

    pub fn violations(&self) -> Vec<String> {
        self.violations.lock().unwrap().clone()
    }

    fn complain(&self, about: String) {
        self.violations.lock().unwrap().push(about);
    }

    fn see(&self, commit: &Commit<'_>) {
        let mut identities = self.identities.lock().unwrap();
        let Some(after) = commit.after else {
            let before = commit.before.expect("it was there before");
            let name = before["metadata"]["name"].as_str().unwrap();
            if identities.remove(name).is_some() {
                self.complain(format!("{name} has an identity and was removed"));
            }
            return;
        };
        let name = after["metadata"]["name"].as_str().unwrap();
        let serial = after["spec"]["identity"]["value"].as_str().unwrap_or_default();
        if !serial.is_empty() {
            identities.insert(name.to_owned(), serial.to_owned());
            if identities.values().filter(|known| *known == serial).count() > 1 {
                self.complain(format!("two objects for {serial}: {identities:?}"));
            }
        }
        drop(identities);
        let state = |object: &Value| object["status"]["state"].as_str().unwrap_or_default().to_owned();
        let before = commit.before.map(state).unwrap_or_default();
        let now = state(after);
        let node = &after["spec"]["nodeAttributes"]["nodeName"];
        if before != "Inactive" && now == "Inactive" {
            let host = self.hosts.iter().find(|host| *node == host.node.as_str());
            if host.is_some_and(|host| host.has(serial)) {
                self.complain(format!("{serial} is there, and was said to be gone from {node}"));
            }
        }
        let blank = condition(after, "Blank").is_some_and(|blank| blank["status"] == "True");
        if blank && self.taken.lock().unwrap().contains(serial) {
            self.complain(format!("{serial} is somebody's, and was offered: {after}"));
        }
        if serial == "twins" && now == "Active" {
            self.complain("there are two of one identity, and it is Active".into());
        }
    }
}
