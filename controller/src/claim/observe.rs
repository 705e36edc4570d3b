//! What is looked at: the claim, and the device it names, or all devices if it names none.

use std::collections::BTreeMap;
use std::sync::Arc;

use cstor_api::openebs::{BlockDevice, BlockDeviceClaim};
use cstor_reconcile::related::RelatedError;
use cstor_reconcile::{Context, Failure, Key};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::Claims;

/// What is known when something is decided about a claim.
#[derive(Clone, Debug)]
pub struct Observed {
    pub(super) claim: BlockDeviceClaim,
    pub(super) devices: Devices,
    pub(super) failure: Option<Failure>,
    pub(super) now: Timestamp,
}

/// The devices that a claim is about.
#[derive(Clone, Debug)]
pub(super) enum Devices {
    /// The claim names a device that does not exist.
    Missing(String),
    /// The claim names a device that cannot be read. It may be anybody's.
    Unreadable(String),
    /// The one the claim names.
    Named(Arc<BlockDevice>),
    /// The claim names none: all there are, and the names of those that cannot be read.
    All(Vec<Arc<BlockDevice>>, BTreeMap<String, String>),
}

pub(super) async fn observe(
    claims: &Claims,
    ctx: &Context,
    claim: &BlockDeviceClaim,
) -> Result<Observed, RelatedError> {
    let named = claim
        .spec
        .block_device_name
        .as_ref()
        .filter(|name| !name.is_empty());
    let devices = match named {
        Some(name) => {
            let key = Key {
                namespace: claim.namespace(),
                name: name.clone(),
            };
            match claims.devices.get(ctx, &key).await {
                Ok(Some(device)) => Devices::Named(device),
                Ok(None) => Devices::Missing(name.clone()),
                Err(error @ RelatedError::Malformed { .. }) => Devices::Unreadable(error.to_string()),
                Err(error) => return Err(error),
            }
        }
        None => {
            let all = claims.devices.all(ctx).await?;
            let malformed = all.malformed.into_iter().map(|(key, error)| (key.name, error));
            Devices::All(all.objects, malformed.collect())
        }
    };
    Ok(Observed {
        claim: claim.clone(),
        devices,
        failure: ctx.failure().cloned(),
        now: ctx.now(),
    })
}
