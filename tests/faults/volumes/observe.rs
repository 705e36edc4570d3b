//! What is looked at: the set, its volumes on the host, its profile.

use cstor_reconcile::{Context, Key, Related};
use kube::ResourceExt as _;

use super::super::host::Host;
use super::{Breakage, Observed, Profile, VolumeError, VolumeSet};

pub async fn observe(
    host: &Host,
    profiles: &Related<Profile>,
    breakage: Breakage,
    ctx: &Context,
    object: &VolumeSet,
) -> Result<Observed, VolumeError> {
    let volumes = match breakage {
        Breakage::UnreadableIsEmpty => host.volumes_of(ctx.uid()).await.unwrap_or_default(),
        _ => host
            .volumes_of(ctx.uid())
            .await
            .map_err(VolumeError::Unreadable)?,
    };
    let tag = match &object.spec.profile {
        None => None,
        Some(name) => {
            let key = Key {
                namespace: object.namespace(),
                name: name.clone(),
            };
            let profile = profiles.get(ctx, &key).await?;
            Some(profile.map(|profile| profile.spec.tag.clone()))
        }
    };
    Ok(Observed {
        owner: ctx.uid().into(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        generation: object.metadata.generation,
        spec: object.spec.clone(),
        status: object.status.clone().unwrap_or_default(),
        volumes,
        tag,
        failure: ctx.failure().cloned(),
        now: ctx.now(),
        breakage,
    })
}
