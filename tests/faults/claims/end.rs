//! What is left at the end of a run, in a form in which two ends can be compared.

use std::collections::BTreeMap;

use cstor_api::openebs::{BlockDevice, BlockDeviceClaim};
use cstor_reconcile::memory_api::MemoryApi;
use serde_json::{Value, json};

use super::user::RIVALS;

/// All claims and devices, without times, versions and ids. Which of the rivals won is chance, so both have one name.
pub fn end(api: &MemoryApi) -> BTreeMap<String, Value> {
    let claims = api.peek_all::<BlockDeviceClaim>();
    let devices = api.peek_all::<BlockDevice>();
    let kinds = [("claim", claims), ("device", devices)];
    let all = kinds
        .into_iter()
        .flat_map(|(kind, objects)| objects.into_iter().map(move |object| (kind, object)));
    all.map(|(kind, object)| {
        let mut object = plain(object);
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        object["metadata"]["name"] = Value::Null;
        (format!("{kind} {name}"), object)
    })
    .collect()
}

fn plain(mut object: Value) -> Value {
    let metadata = object["metadata"].take();
    let mut finalizers: Vec<&str> = metadata["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|name| name.as_str().unwrap())
        .collect();
    finalizers.sort_unstable();
    object["metadata"] = json!({
        "name": metadata["name"],
        "finalizers": finalizers,
        "deleting": !metadata["deletionTimestamp"].is_null(),
    });
    if let Some(claim) = object
        .pointer_mut("/spec/claimRef")
        .and_then(Value::as_object_mut)
    {
        claim.remove("uid");
    }
    if let Some(conditions) = object
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut)
    {
        for condition in &mut *conditions {
            condition.as_object_mut().unwrap().remove("lastTransitionTime");
        }
        conditions.sort_by_key(|condition| condition["type"].to_string());
    }
    let text = RIVALS
        .iter()
        .fold(object.to_string(), |text, rival| text.replace(rival, "rival"));
    serde_json::from_str(&text).unwrap()
}
