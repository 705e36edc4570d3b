//! What is done: one effect on one object.

use cstor_api::names::{event, label};
use cstor_api::openebs::{BlockDevice, BlockDeviceSpec};
use cstor_reconcile::{Event, Outcome};
use kube::Api;
use kube::api::{ObjectMeta, Patch, PostParams};
use serde_json::{Map, Value, json};

use super::{Announce, AnnounceError, AnnounceStep};
use crate::disk::publish::Description;
use crate::disk::{FIELD_MANAGER, answered, field_manager};

/// What the API server says of an object that breaks a rule.
const INVALID: u16 = 422;
const NOT_FOUND: u16 = 404;
const CONFLICT: u16 = 409;

pub(super) async fn act(announce: &Announce, step: AnnounceStep) -> Result<Outcome, AnnounceError> {
    let objects: Api<BlockDevice> = Api::namespaced(announce.client.clone(), &announce.namespace);
    let (doing, name, result) = match step {
        AnnounceStep::Make { name, description } => {
            let result = answered(make(&objects, &announce.namespace, &name, &description)).await;
            ("make", name, result)
        }
        AnnounceStep::TakeOver {
            name,
            resource_version,
            from,
            description,
        } => {
            let result = answered(take_over(&objects, &name, &resource_version, &description)).await;
            let note = format!("BlockDevice {name} moved here from {from}.");
            let told =
                |outcome: Outcome| outcome.event(Event::normal(event::DEVICE_MOVED, note).action("TakeOver"));
            ("take over", name, result.map(told))
        }
        AnnounceStep::Mark { name } => {
            let result = answered(mark(&objects, &name, &announce.node, json!(""))).await;
            ("mark", name, result)
        }
        AnnounceStep::Unmark { name } => {
            let result = answered(mark(&objects, &name, &announce.node, Value::Null)).await;
            ("unmark", name, result)
        }
    };
    match result {
        Ok(outcome) => Ok(outcome),
        // Somebody was quicker, or it is gone: the next look sees how things are.
        Err(kube::Error::Api(status)) if [NOT_FOUND, CONFLICT].contains(&status.code) => {
            Ok(Outcome::unchanged())
        }
        // This object is refused, which is no reason to keep the other disks waiting.
        Err(kube::Error::Api(status)) if status.code == INVALID => {
            let note = format!("cannot {doing} BlockDevice {name}: {}", status.message);
            Ok(
                Outcome::unchanged()
                    .event(Event::warning(event::DEVICE_NOT_WRITTEN, note).action("Announce")),
            )
        }
        Err(source) => Err(AnnounceError::Api {
            doing,
            name,
            source: Box::new(source),
        }),
    }
}

/// Makes the object with what it cannot be without; the rest is described by the controller of the object.
async fn make(
    objects: &Api<BlockDevice>,
    namespace: &str,
    name: &str,
    description: &Description,
) -> Result<Outcome, kube::Error> {
    let mut labels = description.labels.clone();
    // Not ours afterwards: a person may set it to false, and then we leave the object alone.
    labels.insert(label::BLOCK_DEVICE_MANAGED.to_owned(), "true".to_owned());
    let object = BlockDevice {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        spec: BlockDeviceSpec {
            path: description.spec.path.clone(),
            capacity: description.spec.capacity.clone(),
            node_attributes: description.spec.node_attributes.clone(),
            identity: description.spec.identity.clone(),
            ..BlockDeviceSpec::default()
        },
        status: None,
    };
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    objects.create(&params, &object).await?;
    Ok(Outcome::changed())
}

async fn take_over(
    objects: &Api<BlockDevice>,
    name: &str,
    resource_version: &str,
    description: &Description,
) -> Result<Outcome, kube::Error> {
    let Some(object) = objects.get_opt(name).await? else {
        return Ok(Outcome::unchanged());
    };
    if object.metadata.resource_version.as_deref() != Some(resource_version) {
        return Ok(Outcome::unchanged());
    }
    let Some(patch) = description.patch(&object) else {
        return Ok(Outcome::unchanged());
    };
    objects
        .patch(name, &field_manager(), &Patch::Merge(&patch))
        .await?;
    Ok(Outcome::changed())
}

async fn mark(
    objects: &Api<BlockDevice>,
    name: &str,
    node: &str,
    value: Value,
) -> Result<Outcome, kube::Error> {
    let mut labels = Map::new();
    labels.insert(label::also_on(node), value);
    let patch = json!({ "metadata": { "labels": labels } });
    objects
        .patch(name, &field_manager(), &Patch::Merge(&patch))
        .await?;
    Ok(Outcome::changed())
}
