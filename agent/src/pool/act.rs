//! What is done: one effect, after another look at what it rests on.
//!
//! What writes to disks is decided once more, on what the disks say now: only if the very same step comes out is it done.
//! So every proof the decision asks for is made a moment before the effect, and there is one place where it is written.

use cstor_api::cstor::CStorPoolInstance;
use cstor_api::names::event;
use cstor_reconcile::{Context, Event, Outcome};
use cstor_zfs::{Datasets, Online, Pools};
use kube::Api;

use super::decide::decide;
use super::observe::observe;
use super::{Hands, PoolError, PoolKeeper, PoolStep, Target};
use crate::disk::answered;

pub(super) async fn act<Z: Pools + Datasets, H: Hands>(
    keeper: &PoolKeeper<Z, H>,
    ctx: &Context,
    step: PoolStep,
) -> Result<Outcome, PoolError> {
    let zfs = &keeper.zfs;
    match &step {
        PoolStep::Create { new, disks } => {
            prove(keeper, ctx, &step, disks).await?;
            let done = zfs.create(new).await;
            look_again(keeper, disks).await;
            done?;
            let note = format!("The pool {} was made of {} devices.", new.name, disks.len());
            return Ok(Outcome::changed().event(Event::normal(event::CREATED, note).action("Create")));
        }
        PoolStep::Import(import) => {
            prove(keeper, ctx, &step, &[]).await?;
            zfs.import(import).await?;
            let note = format!("The pool {} was imported.", import.guid);
            return Ok(Outcome::changed().event(Event::normal(event::POOL_IMPORTED, note).action("Import")));
        }
        PoolStep::Add { pool, layout, disks } => {
            prove(keeper, ctx, &step, disks).await?;
            let done = zfs.add(pool, layout).await;
            look_again(keeper, disks).await;
            done?;
            return Ok(grown(format!("{} were added.", names(disks))));
        }
        PoolStep::Attach { pool, to, disk } => {
            let disks = std::slice::from_ref(disk.as_ref());
            prove(keeper, ctx, &step, disks).await?;
            let done = zfs.attach(pool, *to, &disk.path).await;
            look_again(keeper, disks).await;
            done?;
            return Ok(grown(format!("{} was attached.", disk.block_device)));
        }
        PoolStep::Replace { pool, old, disk } => {
            let disks = std::slice::from_ref(disk.as_ref());
            prove(keeper, ctx, &step, disks).await?;
            let done = zfs.replace(pool, *old, &disk.path).await;
            look_again(keeper, disks).await;
            done?;
            let note = format!("{} takes the place of the device {old}.", disk.block_device);
            let event = Event::normal(event::BLOCK_DEVICE_REPLACEMENT, note).action("Replace");
            return Ok(Outcome::changed().event(event));
        }
        PoolStep::Destroy { pool, .. } => {
            prove(keeper, ctx, &step, &[]).await?;
            let done = Pools::destroy(zfs, pool).await;
            // Its disks say so now, and are not to be taken for those of a pool that can be imported.
            look_at_all(keeper).await;
            done?;
        }
        PoolStep::Clear { disk, .. } => {
            let disks = std::slice::from_ref(disk.as_ref());
            prove(keeper, ctx, &step, disks).await?;
            clear(keeper, disk).await?;
            look_again(keeper, disks).await;
        }
        PoolStep::SetPool {
            pool,
            property,
            value,
        } => Pools::set(zfs, pool, property, value).await?,
        PoolStep::SetRoot { pool, properties } => {
            Datasets::set(zfs, &pool.root(), properties).await?;
        }
        PoolStep::UseSpare { pool, failed, spare } => zfs.replace(pool, *failed, spare).await?,
        PoolStep::Detach { pool, device } => zfs.detach(pool, *device).await?,
        PoolStep::Online { pool, device, how } => {
            zfs.online(pool, *device, *how).await?;
            // A disk that has grown has another partition table now.
            if *how == Online::Expand {
                look_at_all(keeper).await;
            }
        }
        PoolStep::Reopen { pool, gone } => {
            let state = async || {
                let status = Pools::status(zfs, pool).await?;
                Ok::<_, PoolError>(status.vdev(*gone).map(|vdev| vdev.state))
            };
            let before = state().await?;
            zfs.reopen(pool).await?;
            if state().await? == before {
                return Ok(Outcome::unchanged());
            }
        }
        PoolStep::Remove { pool, vdev } => zfs.remove(pool, *vdev).await?,
        PoolStep::Scrub { pool, what } => zfs.scrub(pool, *what).await?,
        PoolStep::Resume { pool } => zfs.clear(pool, None).await?,
    }
    Ok(Outcome::changed())
}

fn grown(note: String) -> Outcome {
    Outcome::changed().event(Event::normal(event::POOL_EXPANSION, note).action("Expand"))
}

fn names(disks: &[Target]) -> String {
    let names: Vec<_> = disks.iter().map(|disk| disk.block_device.as_str()).collect();
    names.join(", ")
}

/// Has the disks read anew, and decides again: the step must come out.
async fn prove<Z: Pools + Datasets, H: Hands>(
    keeper: &PoolKeeper<Z, H>,
    ctx: &Context,
    step: &PoolStep,
    disks: &[Target],
) -> Result<(), PoolError> {
    let name = cstor_reconcile::Step::name(step);
    look_again(keeper, disks).await;
    let namespace = ctx.key().namespace.as_deref().unwrap_or_default();
    let objects: Api<CStorPoolInstance> = Api::namespaced(keeper.client.clone(), namespace);
    let object = answered(objects.get_opt(&ctx.key().name))
        .await
        .map_err(|source| PoolError::Api {
            doing: format!("read the CStorPoolInstance before {name}"),
            source: Box::new(source),
        })?;
    let object = object.filter(|object| object.metadata.uid.as_deref() == Some(ctx.uid()));
    let object = object.ok_or(PoolError::Changed(name))?;
    let seen = observe(keeper, ctx, &object).await?;
    if !decide(&seen).steps.contains(step) {
        return Err(PoolError::Changed(name));
    }
    if !writes_to_blank(step) {
        return Ok(());
    }
    let view = keeper.disks.view();
    for target in disks {
        let disk = view.as_deref().and_then(|view| view.disks.get(&target.name));
        let disk = disk.ok_or(PoolError::Changed(name))?;
        if !keeper.hands.is_free(disk).await {
            return Err(PoolError::Held {
                block_device: target.block_device.clone(),
                path: disk.device().path.clone(),
            });
        }
    }
    Ok(())
}

fn writes_to_blank(step: &PoolStep) -> bool {
    matches!(
        step,
        PoolStep::Create { .. } | PoolStep::Add { .. } | PoolStep::Attach { .. } | PoolStep::Replace { .. }
    )
}

async fn clear<Z: Pools + Datasets, H: Hands>(
    keeper: &PoolKeeper<Z, H>,
    target: &Target,
) -> Result<(), PoolError> {
    let view = keeper.disks.view();
    let disk = view.as_deref().and_then(|view| view.disks.get(&target.name));
    let disk = disk.ok_or(PoolError::Changed("clear"))?;
    Ok(keeper.hands.clear(disk, &target.identity).await?)
}

async fn look_again<Z, H>(keeper: &PoolKeeper<Z, H>, disks: &[Target]) {
    // Side by side: each waits for the same look of the one who looks.
    let looks = disks.iter().map(|disk| keeper.disks.look_again(&disk.name));
    futures::future::join_all(looks).await;
}

async fn look_at_all<Z, H>(keeper: &PoolKeeper<Z, H>) {
    let view = keeper.disks.view();
    let names: Vec<String> = view
        .iter()
        .flat_map(|view| view.devices.keys().cloned())
        .collect();
    let looks = names.iter().map(|name| keeper.disks.look_again(name));
    futures::future::join_all(looks).await;
}
