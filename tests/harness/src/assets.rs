//! Everything that is made once and used by every cluster in a box.

use anyhow::Result;

use crate::boxes::{self, Passing};
use crate::cache::Cache;
use crate::image;
use crate::kubernetes::{self, Binaries};
use crate::kvm;
use crate::node::NodeAssets;
use crate::packages;
use crate::prerequisites::{self, Wanted};
use crate::progress::Progress;
use crate::ready;

/// Checks the host, installs what it lacks, and makes what `wanted` takes.
pub async fn prepare(cache: &Cache, progress: &Progress, wanted: Wanted) -> Result<()> {
    let fit = prerequisites::check(cache, wanted).await?;
    // What the build programs belong to, so that they are found if this process is killed.
    let building = boxes::own(cache, Passing::Build)?;
    building.create()?;
    let result = async {
        packages::install(cache, progress, &fit.missing, fit.root).await?;
        make(cache, progress, wanted).await
    };
    let result = result.await;
    // Whether it went well or not, no builder and none of its temporary files stays.
    building.remove().await?;
    result
}

async fn make(cache: &Cache, progress: &Progress, wanted: Wanted) -> Result<()> {
    let nodes = async {
        if wanted.nodes > 0 {
            nodes(cache, progress).await.map(|_| ())
        } else {
            Ok(())
        }
    };
    let programs = async {
        if wanted.control_plane {
            binaries(cache, progress).await.map(|_| ())
        } else {
            Ok(())
        }
    };
    // The one waits for the network a lot, the other for the processor.
    tokio::try_join!(nodes, programs)?;
    Ok(())
}

/// What nodes are made from.
pub async fn nodes(cache: &Cache, progress: &Progress) -> Result<NodeAssets> {
    let image = image::image(cache, progress).await?;
    let accelerator = kvm::accelerator(cache, &image, progress).await?;
    let ready_disk = ready::ready_disk(cache, &image, accelerator, progress).await?;
    Ok(NodeAssets {
        image,
        ready_disk,
        accelerator,
    })
}

/// What a control plane is made from.
pub async fn binaries(cache: &Cache, progress: &Progress) -> Result<Binaries> {
    kubernetes::binaries(cache, progress).await
}
