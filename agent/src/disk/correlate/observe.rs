//! What is looked at: attachments, their volumes, the disks; and what that comes to.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use cstor_api::Quantity;
use cstor_api::openebs::{Attachment as Recorded, BlockDevice};
use cstor_blockdev::attachment::published::published;
use cstor_blockdev::attachment::{Attachment, Correlation, Host, Verdict, Volume, correlate, size_fits};
use cstor_blockdev::{Device, DeviceNumber, Kind, udev};
use cstor_reconcile::{Context, Reading};
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Api;
use kube::api::ListParams;
use tokio::time::Instant;

use super::{Correlate, CorrelateError, Found, Observed, again};
use crate::disk::matches::{Bound, Matched};
use crate::disk::view::View;

pub(super) async fn observe(this: &Correlate, ctx: &Context) -> Result<Observed, CorrelateError> {
    let Some(view) = this.disks.view() else {
        return Ok(Observed::default());
    };
    let objects = this.objects.all(ctx).await?;
    let all = attachments_for(this, ctx, &view).await?;
    let here: Vec<_> = all
        .iter()
        .filter(|attachment| attachment.spec.node_name == this.node)
        .collect();
    let mut attachments = Vec::new();
    for object in &here {
        attachments.push(attachment(this, ctx, object).await?);
    }
    let kubelet = this.kubelet.clone();
    let published = tokio::task::spawn_blocking(move || published(&kubelet))
        .await
        .map_err(|_| CorrelateError::BrokenOff)??;
    let devices: Vec<Device> = view.devices.values().cloned().collect();
    let ours = ours(&view, &objects.objects);
    let host = Host {
        node: &this.node,
        devices: &devices,
        published: &published,
        kubelet: &this.kubelet,
        ours: &ours,
    };
    let correlations = correlate(&host, &attachments);
    forget_volumes(this, &attachments, &correlations);
    // What an attachment that is under way will bring may be here already, and looks like a blank disk.
    let expected: Vec<_> = attachments
        .iter()
        .map(|attachment| Attachment {
            attached: true,
            ..attachment.clone()
        })
        .collect();
    let expected = correlate(&host, &expected);

    let looked = {
        let mut settling = this.settling.lock().unwrap_or_else(PoisonError::into_inner);
        let settled = !udev::is_busy() && !view.disks.values().any(|disk| disk.found.settling);
        settling.look(
            Instant::now().into_std(),
            settled,
            attachments.iter().zip(&correlations),
            &devices,
        )
    };
    let mut matched = Matched::examined(&devices);
    let mut found = Vec::new();
    for (((object, attachment), correlation), expected) in
        here.iter().zip(&attachments).zip(&correlations).zip(&expected)
    {
        let verdict = looked.verdicts.get(&attachment.name);
        bind(&mut matched, &view, attachment, correlation, expected, verdict);
        found.push(Found {
            attachment: object.as_ref().clone(),
            correlation: correlation.clone(),
            settled: !matches!(verdict, Some(Verdict::Waiting { .. })),
            block_device: block_device(&view, &objects.objects, verdict),
        });
    }
    for ((attachment, correlation), expected) in attachments.iter().zip(&correlations).zip(&expected) {
        suspect(&mut matched, &view, &ours, attachment, correlation, expected);
    }
    this.matches.note(matched);
    let again = attachments
        .iter()
        .zip(&correlations)
        .filter_map(|(attachment, correlation)| again::again(attachment, correlation));
    Ok(Observed {
        found,
        again: again.chain(looked.again()).min(),
        now: Some(ctx.now()),
    })
}

/// The disks on which something of ours is built: those of claimed objects.
fn ours(view: &View, objects: &[Arc<BlockDevice>]) -> BTreeSet<DeviceNumber> {
    let claimed = objects.iter().filter(|object| object.spec.claim_ref.is_some());
    claimed
        .flat_map(|object| view.matching(object))
        .map(|disk| disk.device().number)
        .collect()
}

/// Notes at each disk what it is to an attachment.
fn bind(
    matched: &mut Matched,
    view: &View,
    attachment: &Attachment,
    correlation: &Correlation,
    expected: &Correlation,
    verdict: Option<&Verdict>,
) {
    let device = |name: &str| view.devices.get(name);
    match (correlation, verdict) {
        (Correlation::Matched(found), Some(Verdict::Accepted(_))) => {
            if let Some(device) = device(&found.name) {
                matched.bind(device, Bound::Certain(record(attachment, found)));
            }
        }
        (Correlation::Matched(found), _) => {
            if let Some(device) = device(&found.name) {
                matched.bind(device, Bound::Settling(record(attachment, found)));
            }
        }
        _ => {
            let suspects = correlation.devices().iter().chain(expected.devices());
            for number in suspects {
                let suspect = view.devices.values().find(|device| device.number == *number);
                if let Some(device) = suspect {
                    let doubt = Bound::Doubtful {
                        reason: correlation.reason(),
                        message: format!("VolumeAttachment {}: {}", attachment.name, correlation.message()),
                    };
                    matched.bind(device, doubt);
                }
            }
        }
    }
}

/// An attachment whose disk is not known may have brought any disk that is its size and nobody else's.
fn suspect(
    matched: &mut Matched,
    view: &View,
    ours: &BTreeSet<DeviceNumber>,
    attachment: &Attachment,
    correlation: &Correlation,
    expected: &Correlation,
) {
    let unknown = matches!(
        correlation,
        Correlation::NoDevice { .. } | Correlation::NotAttached { .. }
    );
    if !unknown || !correlation.devices().is_empty() || !expected.devices().is_empty() {
        return;
    }
    let bytes = attachment.volume.as_ref().and_then(|volume| volume.bytes);
    for disk in view.disks.values() {
        let device = disk.device();
        let could_be = matches!(device.kind, Kind::Disk | Kind::Multipath)
            && !ours.contains(&device.number)
            && matched.of(device) == Some(None)
            && bytes.is_none_or(|bytes| size_fits(device.bytes, bytes));
        if could_be {
            let message = format!(
                "VolumeAttachment {} has a volume on this node that no disk says it is, and this disk has its size: {}",
                attachment.name,
                correlation.message()
            );
            let doubt = Bound::Doubtful {
                reason: correlation.reason(),
                message,
            };
            matched.bind(device, doubt);
        }
    }
}

/// The attachments: as the API server has them now if there is a disk that was not held against them, for such a disk will
/// be offered if none speaks against it; from the cache if not.
async fn attachments_for(
    this: &Correlate,
    ctx: &Context,
    view: &View,
) -> Result<Vec<Arc<VolumeAttachment>>, CorrelateError> {
    let known = this.matches.latest();
    let unexamined = view.devices.values().any(|device| known.of(device).is_none());
    if !unexamined || ctx.reading() == Reading::Fresh {
        return Ok(this.attachments.all(ctx).await?.objects);
    }
    let objects: Api<VolumeAttachment> = Api::all(this.client.clone());
    let list = objects.list(&ListParams::default()).await;
    let list = list.map_err(|source| CorrelateError::Api {
        doing: "list",
        name: "VolumeAttachments".to_owned(),
        source: Box::new(source),
    })?;
    Ok(list.items.into_iter().map(Arc::new).collect())
}

fn record(attachment: &Attachment, found: &cstor_blockdev::attachment::Match) -> Recorded {
    let volume = attachment.volume.as_ref();
    Recorded {
        volume_attachment_name: attachment.name.clone(),
        persistent_volume_name: volume
            .map(|volume| volume.persistent_volume.clone())
            .unwrap_or_default(),
        driver: attachment.driver.clone(),
        volume_handle: volume.map(|volume| volume.handle.clone()),
        method: Some(found.method.to_owned()),
        serial: found.serial.clone(),
    }
}

/// The name of the object of the disk that was accepted.
fn block_device(view: &View, objects: &[Arc<BlockDevice>], verdict: Option<&Verdict>) -> Option<String> {
    let Some(Verdict::Accepted(found)) = verdict else {
        return None;
    };
    let disk = view.disks.get(&found.name)?;
    let object = objects.iter().find(|object| disk.is(object))?;
    object.metadata.name.clone()
}

async fn attachment(
    this: &Correlate,
    ctx: &Context,
    object: &VolumeAttachment,
) -> Result<Attachment, CorrelateError> {
    let status = object.status.as_ref();
    let metadata = status.and_then(|status| status.attachment_metadata.clone());
    let volume = match &object.spec.source.persistent_volume_name {
        Some(name) => volume(this, ctx, name).await?,
        None => None,
    };
    Ok(Attachment {
        name: object.metadata.name.clone().unwrap_or_default(),
        driver: object.spec.attacher.clone(),
        node: object.spec.node_name.clone(),
        attached: status.is_some_and(|status| status.attached),
        metadata: metadata.unwrap_or_default(),
        volume: volume.as_ref().and_then(described),
    })
}

/// The PersistentVolume, from memory unless an effect rests on it.
async fn volume(
    this: &Correlate,
    ctx: &Context,
    name: &str,
) -> Result<Option<PersistentVolume>, CorrelateError> {
    let known = || {
        let volumes = this.volumes.lock().unwrap_or_else(PoisonError::into_inner);
        volumes.get(name).cloned()
    };
    if ctx.reading() == Reading::Cached
        && let Some(volume) = known()
    {
        return Ok(Some(volume));
    }
    let objects: Api<PersistentVolume> = Api::all(this.client.clone());
    let volume = objects
        .get_opt(name)
        .await
        .map_err(|source| CorrelateError::Api {
            doing: "read PersistentVolume",
            name: name.to_owned(),
            source: Box::new(source),
        })?;
    let mut volumes = this.volumes.lock().unwrap_or_else(PoisonError::into_inner);
    match &volume {
        Some(volume) => volumes.insert(name.to_owned(), volume.clone()),
        None => volumes.remove(name),
    };
    Ok(volume)
}

/// Forgets the volumes that are not asked for any more, or must be read anew.
fn forget_volumes(this: &Correlate, attachments: &[Attachment], correlations: &[Correlation]) {
    let used = |name: &String| {
        let volumes = attachments
            .iter()
            .zip(correlations)
            .filter(|(_, correlation)| again::may_keep_volume(correlation))
            .filter_map(|(attachment, _)| attachment.volume.as_ref());
        volumes
            .map(|volume| &volume.persistent_volume)
            .any(|used| used == name)
    };
    let mut volumes = this.volumes.lock().unwrap_or_else(PoisonError::into_inner);
    volumes.retain(|name, _| used(name));
}

fn described(volume: &PersistentVolume) -> Option<Volume> {
    let spec = volume.spec.as_ref()?;
    // A volume of before CSI has no handle; its size is still worth knowing.
    let csi = spec.csi.as_ref();
    let capacity = spec
        .capacity
        .as_ref()
        .and_then(|capacity| capacity.get("storage"));
    Some(Volume {
        persistent_volume: volume.metadata.name.clone()?,
        handle: csi.map(|csi| csi.volume_handle.clone()).unwrap_or_default(),
        bytes: capacity.and_then(|capacity| Some(Quantity::from(capacity.0.as_str()).bytes().ok()?.0)),
        attributes: csi
            .and_then(|csi| csi.volume_attributes.clone())
            .unwrap_or_default(),
        block_mode: spec.volume_mode.as_deref() == Some("Block"),
    })
}
