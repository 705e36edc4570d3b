//! What is looked at: the device, and the claim it says it belongs to.

use cstor_api::openebs::{BlockDevice, BlockDeviceClaim};
use cstor_reconcile::related::RelatedError;
use cstor_reconcile::{Context, Key};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource as _, ResourceExt as _};

use super::Devices;
use crate::block_device::{claim_ref, said};

/// What is known when something is decided about a device.
#[derive(Clone, Debug)]
pub struct Observed {
    pub(super) device: BlockDevice,
    pub(super) owner: Owner,
}

/// Whose the device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Nobody's.
    Nobody,
    /// Somebody's.
    There(String),
    /// Somebody's of whom nothing can be found out.
    Unproved(String),
    /// A claim's that no longer exists. The API server said so.
    Gone(String),
    /// A claim's that has another device.
    Elsewhere {
        /// The claim.
        claim: String,
        /// The device it has.
        has: String,
    },
}

pub(super) async fn observe(
    devices: &Devices,
    ctx: &Context,
    device: &BlockDevice,
) -> Result<Observed, RelatedError> {
    let owner = match claim_ref(device) {
        None => Owner::Nobody,
        Some(claim) => match key(device, claim) {
            None => Owner::Unproved(said(claim)),
            Some(key) => {
                let found = devices.claims.get(ctx, &key).await?;
                owner(device, claim, found.as_deref())
            }
        },
    };
    Ok(Observed {
        device: device.clone(),
        owner,
    })
}

/// Where the claim of a reference is to be looked for, if it is one that we can look for.
fn key(device: &BlockDevice, claim: &ObjectReference) -> Option<Key> {
    let is = |said: &Option<String>, expected: &str| match said.as_deref() {
        None | Some("") => true,
        Some(said) => said == expected,
    };
    let namespace = device.namespace()?;
    let ours = is(&claim.kind, &BlockDeviceClaim::kind(&()))
        && is(&claim.api_version, &BlockDeviceClaim::api_version(&()))
        && is(&claim.namespace, &namespace);
    let name = claim.name.clone().filter(|name| ours && !name.is_empty())?;
    Some(Key::namespaced(namespace, name))
}

/// What follows from the claim that was found under the name of the reference `claim`.
fn owner(device: &BlockDevice, claim: &ObjectReference, found: Option<&BlockDeviceClaim>) -> Owner {
    let Some(found) = found else {
        return Owner::Gone(said(claim));
    };
    // A reference without a UID is as good as its name.
    let uid = claim.uid.as_ref().filter(|uid| !uid.is_empty());
    if uid.is_some_and(|uid| found.metadata.uid.as_ref() != Some(uid)) {
        return Owner::Gone(said(claim));
    }
    let has = found
        .spec
        .block_device_name
        .as_ref()
        .filter(|name| !name.is_empty());
    match has {
        Some(has) if *has != device.name_any() => Owner::Elsewhere {
            claim: said(claim),
            has: has.clone(),
        },
        _ => Owner::There(said(claim)),
    }
}
