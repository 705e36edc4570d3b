//! What is looked at: the disks, and the objects there are for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cstor_api::openebs::BlockDevice;
use cstor_reconcile::Context;
use kube::Api;
use tokio::time::Instant;

use super::{Announce, AnnounceError, Known, Observed};
use crate::disk::view::{Disk, View};

pub(super) async fn observe(announce: &Announce, ctx: &Context) -> Result<Observed, AnnounceError> {
    let here = announce.here.all(ctx).await?;
    let marked = announce.marked.all(ctx).await?;
    let view = announce.disks.view();
    if let Some(view) = &view {
        announce.doubles.note(doubles(view, &here.objects));
    }
    let mut elsewhere = BTreeMap::new();
    let known: BTreeSet<String> = view
        .iter()
        .flat_map(|view| here.objects.iter().flat_map(|object| view.matching(object)))
        .map(|disk| disk.device().name.clone())
        .collect();
    let unknown = view.iter().flat_map(|view| view.disks.values()).filter(|disk| {
        let named = here.malformed.keys().any(|key| key.name == disk.object_name);
        disk.is_ready() && !named && !known.contains(&disk.device().name)
    });
    for disk in unknown {
        elsewhere.insert(disk.device().name.clone(), look_up(announce, disk).await?);
    }
    let name = |object: &Arc<BlockDevice>| object.metadata.name.clone();
    Ok(Observed {
        node: announce.node.clone(),
        here: here
            .objects
            .iter()
            .map(|object| object.as_ref().clone())
            .collect(),
        malformed: here.malformed.keys().map(|key| key.name.clone()).collect(),
        marked: marked
            .objects
            .iter()
            .filter_map(|object| Some((name(object)?, object.as_ref().clone())))
            .collect(),
        seen_for: seen_for(view.as_deref()),
        view,
        elsewhere,
    })
}

/// The objects about a disk that has another, each with the better one: the claimed one, else the oldest.
fn doubles(view: &View, objects: &[Arc<BlockDevice>]) -> BTreeMap<String, String> {
    let rank = |object: &BlockDevice| {
        let meta = &object.metadata;
        let made = meta.creation_timestamp.as_ref().map(|time| time.0);
        (object.spec.claim_ref.is_none(), made, meta.name.clone())
    };
    let mut about: BTreeMap<&str, Vec<&Arc<BlockDevice>>> = BTreeMap::new();
    for object in objects
        .iter()
        .filter(|object| object.metadata.deletion_timestamp.is_none())
    {
        for disk in view.matching(object) {
            about.entry(&disk.device().name).or_default().push(object);
        }
    }
    let mut doubles = BTreeMap::new();
    for mut objects in about.into_values() {
        objects.sort_by_key(|object| rank(object));
        let mut names = objects
            .into_iter()
            .filter_map(|object| object.metadata.name.clone());
        if let Some(best) = names.next() {
            doubles.extend(names.map(|double| (double, best.clone())));
        }
    }
    doubles
}

fn seen_for(view: Option<&View>) -> BTreeMap<String, std::time::Duration> {
    let now = Instant::now();
    let disks = view.into_iter().flat_map(|view| view.disks.values());
    disks
        .map(|disk| {
            (
                disk.device().name.clone(),
                now.saturating_duration_since(disk.found.since),
            )
        })
        .collect()
}

/// The object of a disk that has none on this node, under any name that it may have.
async fn look_up(announce: &Announce, disk: &Disk) -> Result<Known, AnnounceError> {
    let objects: Api<BlockDevice> = Api::namespaced(announce.client.clone(), &announce.namespace);
    for name in disk.names() {
        let object = objects
            .get_opt(&name)
            .await
            .map_err(|source| AnnounceError::Api {
                doing: "read",
                name: name.clone(),
                source: Box::new(source),
            })?;
        if let Some(object) = object {
            if is_of_another_host(announce, disk, &object) {
                continue;
            }
            if disk.is(&object) {
                return Ok(Known::Object(Box::new(object)));
            }
            if name == disk.object_name {
                // Its name says it is this disk's, and its contents deny it: somebody has changed it.
                return Ok(Known::Disputed(object.metadata.name.unwrap_or_default()));
            }
        }
    }
    Ok(Known::Nothing)
}

/// NDM named some disks by what is unique on one host only. Such an object of another node is of a disk there.
fn is_of_another_host(announce: &Announce, disk: &Disk, object: &BlockDevice) -> bool {
    let node = object
        .spec
        .node_attributes
        .as_ref()
        .and_then(|node| node.node_name.as_deref());
    let elsewhere = node.is_some_and(|node| node != announce.node);
    let unique = disk
        .identity
        .as_ref()
        .is_ok_and(|identity| !identity.scheme.is_of_one_node());
    elsewhere && object.spec.identity.is_none() && !unique
}
