//! What is done: one effect on the host, after a look at the host.

use cstor_reconcile::{Context, Event, Outcome};

use super::super::host::{Host, HostError, Volume};
use super::{Breakage, VolumeError, VolumeStep};

pub async fn act(
    host: &Host,
    breakage: Breakage,
    ctx: &Context,
    step: VolumeStep,
) -> Result<Outcome, VolumeError> {
    let _alone = host.enter(ctx.uid());
    match step {
        VolumeStep::Create { owner, name, size } => {
            let failed = |source| VolumeError::Host {
                doing: "create",
                name: name.clone(),
                source,
            };
            if breakage != Breakage::TrustsMemory
                && find(host, &owner, &name).await.map_err(failed)?.is_some()
            {
                return Ok(Outcome::unchanged());
            }
            host.create(&owner, &name, size).await.map_err(failed)?;
            Ok(Outcome::changed()
                .event(Event::normal("Created", format!("created volume {name}")).action("Create")))
        }
        VolumeStep::Grow { owner, name, size } => {
            let failed = |source| VolumeError::Host {
                doing: "grow",
                name: name.clone(),
                source,
            };
            match find(host, &owner, &name).await.map_err(failed)? {
                Some(volume) if volume.size < size => {
                    host.grow(&owner, &name, size).await.map_err(failed)?;
                    Ok(Outcome::changed())
                }
                _ => Ok(Outcome::unchanged()),
            }
        }
        VolumeStep::Tag { owner, name, tag } => {
            let failed = |source| VolumeError::Host {
                doing: "tag",
                name: name.clone(),
                source,
            };
            match find(host, &owner, &name).await.map_err(failed)? {
                Some(volume) if volume.tag.as_ref() != Some(&tag) => {
                    host.tag(&owner, &name, &tag).await.map_err(failed)?;
                    Ok(Outcome::changed())
                }
                _ => Ok(Outcome::unchanged()),
            }
        }
        VolumeStep::Delete { owner, name } => {
            let failed = |source| VolumeError::Host {
                doing: "delete",
                name: name.clone(),
                source,
            };
            if find(host, &owner, &name).await.map_err(failed)?.is_none() {
                return Ok(Outcome::unchanged());
            }
            host.delete(&owner, &name).await.map_err(failed)?;
            Ok(Outcome::changed())
        }
    }
}

async fn find(host: &Host, owner: &str, name: &str) -> Result<Option<Volume>, HostError> {
    Ok(host
        .volumes_of(owner)
        .await?
        .into_iter()
        .find(|volume| volume.name == name))
}
