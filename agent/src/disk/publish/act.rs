//! What is done: one effect, after another look at what it rests on.

use cstor_api::names::{annotation, event, label};
use cstor_api::openebs::BlockDevice;
use cstor_reconcile::{Context, Event, Outcome};
use kube::Api;
use kube::api::{DeleteParams, Patch, Preconditions};
use serde_json::{Value, json};

use super::{Description, Publish, PublishError, PublishStep};
use crate::disk::matches::Bound;
use crate::disk::wipe::WipeError;
use crate::disk::{answered, field_manager};

pub(super) async fn act(
    publish: &Publish,
    ctx: &Context,
    step: PublishStep,
) -> Result<Outcome, PublishError> {
    let namespace = ctx.key().namespace.as_deref().unwrap_or_default();
    let objects: Api<BlockDevice> = Api::namespaced(publish.client.clone(), namespace);
    match step {
        PublishStep::Describe(description) => describe(&objects, ctx, &description).await,
        PublishStep::Remove => remove(&objects, ctx).await,
        PublishStep::Wipe { identity, bound } => {
            wipe(publish, &objects, ctx, &identity, bound.as_ref()).await
        }
        PublishStep::ForgetWipe { request } => forget_wipe(&objects, ctx, &request).await,
    }
}

fn failed(doing: &'static str) -> impl FnOnce(kube::Error) -> PublishError {
    move |source| PublishError::Api {
        doing,
        source: Box::new(source),
    }
}

async fn describe(
    objects: &Api<BlockDevice>,
    ctx: &Context,
    said: &Description,
) -> Result<Outcome, PublishError> {
    let Some(object) = fresh(objects, ctx).await? else {
        return Ok(Outcome::unchanged());
    };
    let Some(patch) = said.patch(&object) else {
        return Ok(Outcome::unchanged());
    };
    answered(objects.patch(&ctx.key().name, &field_manager(), &Patch::Merge(&patch)))
        .await
        .map_err(failed("describe"))?;
    Ok(Outcome::changed())
}

async fn remove(objects: &Api<BlockDevice>, ctx: &Context) -> Result<Outcome, PublishError> {
    let Some(object) = fresh(objects, ctx).await? else {
        return Ok(Outcome::unchanged());
    };
    let labels = object.metadata.labels.as_ref();
    let unidentified = labels.is_some_and(|labels| labels.contains_key(label::BLOCK_DEVICE_UNIDENTIFIED));
    if !unidentified || object.spec.claim_ref.is_some() {
        return Ok(Outcome::unchanged());
    }
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: object.metadata.uid.clone(),
            resource_version: object.metadata.resource_version.clone(),
        }),
        ..DeleteParams::default()
    };
    match answered(objects.delete(&ctx.key().name, &params)).await {
        Ok(_) => Ok(Outcome::changed()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Outcome::unchanged()),
        Err(error) => Err(failed("remove")(error)),
    }
}

async fn wipe(
    publish: &Publish,
    objects: &Api<BlockDevice>,
    ctx: &Context,
    identity: &str,
    bound: Option<&Bound>,
) -> Result<Outcome, PublishError> {
    let Some(object) = fresh(objects, ctx).await? else {
        return Err(WipeError::Changed("its BlockDevice is gone").into());
    };
    if object.spec.claim_ref.is_some() {
        return Err(WipeError::Changed("it was claimed in the meantime").into());
    }
    if request(&object) != Some(identity) {
        return Err(WipeError::Changed("the request was taken back").into());
    }
    let view = publish.disks.view();
    let Some(view) = view.as_deref() else {
        return Err(WipeError::Changed("the disks of the node are not known yet").into());
    };
    let &[disk] = view.matching(&object).as_slice() else {
        return Err(WipeError::Changed("it is not there, or there are two of it").into());
    };
    if publish.matches.latest().of(view.whole(disk).device()) != Some(bound) {
        return Err(WipeError::Changed("a VolumeAttachment may have brought it in the meantime").into());
    }
    publish.wiper.wipe(disk, identity).await?;
    let path = disk.device().path.clone();
    publish.disks.look_again(&disk.device().name).await;
    let note = format!("{path} was wiped as asked.");
    Ok(Outcome::changed().event(Event::normal(event::DEVICE_WIPE, note).action("Wipe")))
}

/// What the object asks to be wiped.
fn request(object: &BlockDevice) -> Option<&str> {
    let annotations = object.metadata.annotations.as_ref()?;
    annotations.get(annotation::WIPE).map(String::as_str)
}

async fn forget_wipe(
    objects: &Api<BlockDevice>,
    ctx: &Context,
    answered_one: &str,
) -> Result<Outcome, PublishError> {
    let Some(object) = fresh(objects, ctx).await? else {
        return Ok(Outcome::unchanged());
    };
    if request(&object) != Some(answered_one) {
        return Ok(Outcome::unchanged());
    }
    let mut annotations = serde_json::Map::new();
    annotations.insert(annotation::WIPE.to_owned(), Value::Null);
    // With the version: a request that somebody writes in this moment is another one, and is not lost.
    let version = &object.metadata.resource_version;
    let patch = json!({
        "metadata": { "uid": ctx.uid(), "resourceVersion": version, "annotations": annotations },
    });
    answered(objects.patch(&ctx.key().name, &field_manager(), &Patch::Merge(&patch)))
        .await
        .map_err(failed("take the wipe request off"))?;
    Ok(Outcome::changed())
}

/// The object as the API server has it now, if it is still the same one.
async fn fresh(objects: &Api<BlockDevice>, ctx: &Context) -> Result<Option<BlockDevice>, PublishError> {
    let object = answered(objects.get_opt(&ctx.key().name))
        .await
        .map_err(failed("read"))?;
    Ok(object.filter(|object| object.metadata.uid.as_deref() == Some(ctx.uid())))
}
