//! What is looked at: the object, the node's disks and their objects, what ZFS says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cstor_api::cstor::{CStorPoolInstance, CStorVolumeReplica};
use cstor_api::ids::CspiUid;
use cstor_api::names::{label, property};
use cstor_api::openebs::{BlockDevice, BlockDeviceClaim};
use cstor_blockdev::contents::Probe;
use cstor_reconcile::Context;
use cstor_zfs::{DatasetKind, Datasets, Guid, PoolSummary, Pools, Source, State};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;

use super::decide::{Claimed, Imported, PoolsSeen};
use super::hands::is_used_elsewhere;
use super::{Hands, Observed, PoolError, PoolKeeper};
use crate::disk::answered;
use crate::disk::view::View;
use crate::disk::whose::{our_volumes, records};

pub(super) async fn observe<Z: Pools + Datasets, H: Hands>(
    keeper: &PoolKeeper<Z, H>,
    ctx: &Context,
    object: &CStorPoolInstance,
) -> Result<Observed, PoolError> {
    let uid: CspiUid = ctx
        .uid()
        .parse()
        .map_err(|error| PoolError::Uid { source: error })?;
    let devices = keeper.devices.all(ctx).await?.objects;
    let devices: BTreeMap<String, Arc<BlockDevice>> = devices
        .into_iter()
        .filter_map(|device| Some((device.metadata.name.clone()?, device)))
        .collect();
    let pools = keeper.pools.all(ctx).await?;
    let storages = keeper.storages.all(ctx).await?;
    let view = keeper.disks.view();
    let zfs = look(&keeper.zfs, object, &uid).await;
    let host_id = keeper.hands.host_id();
    let imported = matches!(&zfs, Ok(PoolsSeen { ours: Some(_), .. }));
    let other_nodes = match (&view, imported) {
        (Some(view), false) => other_nodes(keeper, view, host_id).await?,
        _ => BTreeSet::new(),
    };
    let deleted = object.metadata.deletion_timestamp.is_some();
    Ok(Observed {
        claims: claims(keeper, object, &devices, &zfs).await?,
        replicas: if deleted {
            replicas(keeper, object, &uid).await?
        } else {
            Vec::new()
        },
        object: object.clone(),
        uid,
        node: keeper.node.clone(),
        host_id,
        view,
        devices,
        records: records(&pools.objects),
        matched: keeper.matches.latest(),
        our_volumes: our_volumes(&storages.objects),
        zfs,
        other_nodes,
        failure: ctx.failure().cloned(),
        began: *keeper.began.get_or_init(|| ctx.now()),
        now: ctx.now(),
    })
}

/// What ZFS says.
async fn look<Z: Pools + Datasets>(
    zfs: &Z,
    object: &CStorPoolInstance,
    uid: &CspiUid,
) -> Result<PoolsSeen, cstor_zfs::Error> {
    let all = Pools::list(zfs).await?;
    let status = object.status.as_ref();
    let recorded = status
        .and_then(|status| status.pool_guid.as_ref()?.parse().ok())
        .map(Guid);
    let annotations = object.metadata.annotations.as_ref();
    let adopted = annotations.and_then(|all| all.get(cstor_api::names::annotation::ADOPT_POOL));
    let adopted = adopted.and_then(|text| text.parse().ok()).map(Guid);
    if let Some(guid) = recorded.or(adopted) {
        let ours = all.iter().find(|pool| pool.guid == guid).cloned();
        let ours = match ours {
            Some(pool) => Some(read(zfs, &pool).await),
            None => None,
        };
        return Ok(PoolsSeen { all, ours });
    }
    let name = uid.pool_name();
    let Some(pool) = all.iter().find(|pool| pool.name.as_str() == name).cloned() else {
        return Ok(PoolsSeen { all, ours: None });
    };
    let ours = match read(zfs, &pool).await {
        // A name says nothing. The pool itself does.
        Ok(imported) => is_made_for(&imported, uid).then_some(Ok(imported)),
        Err(error) => Some(Err(error)),
    };
    Ok(PoolsSeen { all, ours })
}

fn is_made_for(pool: &Imported, uid: &CspiUid) -> bool {
    let comment = pool.properties.get("comment");
    let by_comment = comment.is_some_and(|comment| *comment == uid.as_str().replace('-', ""));
    let root = pool
        .root
        .as_ref()
        .and_then(|root| root.properties.get(property::POOL_INSTANCE_UID));
    let by_property = root.is_some_and(|value| value.text == uid.as_str() && value.source == Source::Local);
    by_comment || by_property
}

/// The properties of the dataset at the top that are looked at.
const ROOT: [&str; 7] = [
    "used",
    "available",
    "logicalused",
    "refreservation",
    "compression",
    property::POOL_INSTANCE_UID,
    property::POOL_INSTANCE_NAME,
];

async fn read<Z: Pools + Datasets>(zfs: &Z, pool: &PoolSummary) -> Result<Imported, cstor_zfs::Error> {
    let status = Pools::status(zfs, &pool.name).await?;
    if status.state == State::Suspended {
        return Ok(Imported {
            status,
            properties: BTreeMap::new(),
            root: None,
            datasets: Vec::new(),
        });
    }
    let properties = Pools::properties(zfs, &pool.name).await?;
    let root = Datasets::get(zfs, pool.name.as_str(), &ROOT).await?;
    let kinds = [DatasetKind::FileSystem, DatasetKind::Volume];
    let datasets = Datasets::list(zfs, &pool.name, &kinds, &[]).await?;
    let names = datasets.into_iter().map(|dataset| dataset.name);
    Ok(Imported {
        datasets: names.filter(|name| name != pool.name.as_str()).collect(),
        status,
        properties,
        root: Some(root),
    })
}

/// Who has claimed the devices that the pool does not have. What it has was claimed when it was given to it.
async fn claims<Z, H>(
    keeper: &PoolKeeper<Z, H>,
    object: &CStorPoolInstance,
    devices: &BTreeMap<String, Arc<BlockDevice>>,
    zfs: &Result<PoolsSeen, cstor_zfs::Error>,
) -> Result<BTreeMap<String, Claimed>, PoolError> {
    let recorded = object.status.as_ref().and_then(|status| status.vdevs.as_ref());
    let recorded: BTreeSet<&str> = match zfs {
        Ok(PoolsSeen { ours: Some(_), .. }) => recorded
            .into_iter()
            .flatten()
            .filter_map(|vdev| vdev.block_device_name.as_deref())
            .collect(),
        _ => BTreeSet::new(),
    };
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let api: Api<BlockDeviceClaim> = Api::namespaced(keeper.client.clone(), namespace);
    let mut claims = BTreeMap::new();
    for (_, wished) in object.spec.devices() {
        let name = wished.block_device_name.as_str();
        let Some(device) = devices.get(name).filter(|_| !recorded.contains(name)) else {
            continue;
        };
        let claim = device
            .spec
            .claim_ref
            .as_ref()
            .and_then(|claim| claim.name.clone());
        let claimed = match claim {
            None => Claimed::Nobody,
            Some(claim) => {
                let found = answered(api.get_opt(&claim))
                    .await
                    .map_err(|source| PoolError::Api {
                        doing: format!("read the BlockDeviceClaim {claim}"),
                        source: Box::new(source),
                    })?;
                found.map_or(Claimed::Missing(claim), |found| Claimed::By(Box::new(found)))
            }
        };
        claims.insert(name.to_owned(), claimed);
    }
    Ok(claims)
}

/// The nodes that labels of the pool name as its users, if they exist.
async fn other_nodes<Z, H>(
    keeper: &PoolKeeper<Z, H>,
    view: &View,
    host_id: Option<u64>,
) -> Result<BTreeSet<String>, PoolError> {
    let founds = view
        .disks
        .values()
        .flat_map(|disk| disk.partitions.iter().chain([&disk.found]));
    let hosts: BTreeSet<String> = founds
        .filter_map(|found| match &found.probe {
            Some(Probe::Read(contents)) => contents.zfs.as_ref(),
            _ => None,
        })
        .filter(|label| is_used_elsewhere(label, host_id))
        .filter_map(|label| label.hostname.clone())
        .filter(|host| *host != keeper.node)
        .collect();
    let nodes: Api<Node> = Api::all(keeper.client.clone());
    let mut there = BTreeSet::new();
    for host in hosts {
        let found = answered(nodes.get_opt(&host))
            .await
            .map_err(|source| PoolError::Api {
                doing: format!("read the Node {host}"),
                source: Box::new(source),
            })?;
        if found.is_some() {
            there.insert(host);
        }
    }
    Ok(there)
}

/// The replicas that are said to be in the pool.
async fn replicas<Z, H>(
    keeper: &PoolKeeper<Z, H>,
    object: &CStorPoolInstance,
    uid: &CspiUid,
) -> Result<Vec<String>, PoolError> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let api: Api<CStorVolumeReplica> = Api::namespaced(keeper.client.clone(), namespace);
    let of_pool = ListParams::default().labels(&format!("{}={uid}", label::POOL_INSTANCE_UID));
    let found = answered(api.list_metadata(&of_pool))
        .await
        .map_err(|source| PoolError::Api {
            doing: "list the replicas of the pool".to_owned(),
            source: Box::new(source),
        })?;
    Ok(found
        .items
        .into_iter()
        .filter_map(|replica| replica.metadata.name)
        .collect())
}
