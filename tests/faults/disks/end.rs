//! What is left at the end of a run, in a form in which two ends can be compared.

use std::collections::BTreeMap;

use cstor_api::openebs::BlockDevice;
use cstor_reconcile::memory_api::MemoryApi;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::{Value, json};

pub fn end(api: &MemoryApi) -> BTreeMap<String, Value> {
    let devices = api.peek_all::<BlockDevice>().into_iter().map(device);
    let attachments = api.peek_all::<VolumeAttachment>().into_iter().map(attachment);
    devices.chain(attachments).collect()
}

fn device(mut object: Value) -> (String, Value) {
    let metadata = object["metadata"].take();
    let serial = object["spec"]["identity"]["value"].as_str().unwrap_or("?");
    let name = format!("device {serial}");
    // How often it was described is nobody's business, but the status must be about the last time.
    let current = object["status"]["observedGeneration"] == metadata["generation"];
    object["metadata"] = json!({
        "name": metadata["name"],
        "labels": metadata["labels"],
        "annotations": metadata["annotations"],
        "finalizers": metadata["finalizers"],
        "observed": current,
    });
    let status = object["status"].as_object_mut().expect("it has a status");
    status.remove("observedGeneration");
    let conditions = status["conditions"].as_array_mut().unwrap();
    conditions.iter_mut().for_each(without_time);
    conditions.sort_by_key(|condition| condition["type"].to_string());
    (name, object)
}

fn without_time(condition: &mut Value) {
    condition.as_object_mut().unwrap().remove("lastTransitionTime");
}

fn attachment(object: Value) -> (String, Value) {
    let annotations = &object["metadata"]["annotations"];
    let correlated = annotations["cstor.openebs.io/correlated"].as_str().unwrap();
    let mut correlated: Value = serde_json::from_str(correlated).unwrap();
    without_time(&mut correlated);
    let name = object["metadata"]["name"].as_str().unwrap();
    let device = &annotations["cstor.openebs.io/block-device"];
    (format!("attachment {name}"), json!([device, correlated]))
}
