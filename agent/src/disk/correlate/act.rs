//! What is done: the annotations of one VolumeAttachment.

use cstor_api::names::annotation;
use cstor_reconcile::Outcome;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Api;
use kube::api::Patch;
use serde_json::{Map, Value, json};

use super::{Correlate, CorrelateError, CorrelateStep};
use crate::disk::{answered, field_manager};

pub(super) async fn act(this: &Correlate, step: CorrelateStep) -> Result<Outcome, CorrelateError> {
    let CorrelateStep::Annotate {
        name,
        uid,
        block_device,
        condition,
    } = step;
    let objects: Api<VolumeAttachment> = Api::all(this.client.clone());
    let mut annotations = Map::new();
    let block_device = block_device.map_or(Value::Null, Value::String);
    annotations.insert(annotation::ATTACHED_BLOCK_DEVICE.to_owned(), block_device);
    annotations.insert(annotation::CORRELATED.to_owned(), Value::String(condition));
    // With the UID, an attachment that was made anew under the same name is not taken for the one that was looked at.
    let patch = json!({ "metadata": { "uid": uid, "annotations": annotations } });
    match answered(objects.patch(&name, &field_manager(), &Patch::Merge(&patch))).await {
        Ok(_) => Ok(Outcome::changed()),
        // It is gone, or another: the next look sees.
        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(Outcome::unchanged()),
        Err(source) => Err(CorrelateError::Api {
            doing: "annotate VolumeAttachment",
            name,
            source: Box::new(source),
        }),
    }
}
