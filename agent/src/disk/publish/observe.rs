//! What is looked at: the object, what was seen of the disks, whose pools and attachments are ours.

use cstor_api::names::annotation;
use cstor_api::openebs::BlockDevice;
use cstor_reconcile::{Context, Reading};

use super::{Observed, Publish, PublishError};
use crate::disk::whose::{our_volumes, records};

pub(super) async fn observe(
    publish: &Publish,
    ctx: &Context,
    object: &BlockDevice,
) -> Result<Observed, PublishError> {
    if is_wipe_asked(object) && ctx.reading() == Reading::Fresh {
        // Whoever has the disk may let go of it without an event.
        let view = publish.disks.view();
        let found = view
            .as_deref()
            .map(|view| view.matching(object))
            .unwrap_or_default();
        for disk in found {
            publish.disks.look_again(&disk.device().name).await;
        }
    }
    // All of them, and from the API server if an effect follows: only where it matters.
    let objects = match is_wipe_asked(object) {
        true => publish.objects.all(ctx).await?.objects,
        false => Vec::new(),
    };
    let pools = publish.pools.all(ctx).await?;
    let storages = publish.storages.all(ctx).await?;
    Ok(Observed {
        object: object.clone(),
        node: publish.node.clone(),
        view: publish.disks.view(),
        records: records(&pools.objects),
        objects,
        better: publish
            .doubles
            .latest()
            .get(object.metadata.name.as_deref().unwrap_or_default())
            .cloned(),
        matched: publish.matches.latest(),
        our_volumes: our_volumes(&storages.objects),
        failure: ctx.failure().cloned(),
        began: *publish.began.get_or_init(|| ctx.now()),
        now: ctx.now(),
    })
}

fn is_wipe_asked(object: &BlockDevice) -> bool {
    let annotations = object.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(annotation::WIPE))
}
