//! What the agent sees of its node.

use std::io::Write as _;

use anyhow::{Context as _, Result};
use cstor_agent::disk::{self, Settings, view::Disk};
use cstor_blockdev::contents::Probe;
use cstor_blockdev::device::Device;
use cstor_blockdev::ownership::{Examined, Ownership, Records, Subject, ownership};
use cstor_exec::Program;
use cstor_zfs::Versions;
use serde::Serialize;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    zfs: Zfs,
    disks: Vec<Seen>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Zfs {
    userland: String,
    kernel: String,
}

/// A disk and what the agent makes of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Seen {
    #[serde(flatten)]
    device: Device,
    /// The name of its BlockDevice.
    block_device: String,
    /// What tells it from all others, or why nothing does.
    identity: String,
    /// Why it is left out, if it is.
    excluded: Option<String>,
    /// What is on it.
    contents: Option<Probe>,
    /// Whose it is, as far as that can be told without the API server: a pool of ours is somebody's here.
    ownership: Option<Ownership>,
}

/// Prints the report.
pub(crate) async fn print(settings: &Settings) -> Result<()> {
    let versions = zfs_versions().await?;
    let zfs = Zfs {
        userland: versions.userland.to_string(),
        kernel: versions.kernel.to_string(),
    };
    let view = disk::look_once(settings)
        .await
        .context("look at the disks of this node")?;
    let report = Report {
        zfs,
        disks: view.disks.into_values().map(seen).collect(),
    };
    let text = serde_json::to_string_pretty(&report).context("write the report")?;
    writeln!(std::io::stdout(), "{text}").context("print the report")
}

fn seen(disk: Disk) -> Seen {
    let identity = match &disk.identity {
        Ok(identity) => identity.to_string(),
        Err(why) => why.to_string(),
    };
    let partitions: Vec<_> = disk
        .partitions
        .iter()
        .filter_map(|found| {
            Some(Examined {
                device: &found.device,
                probe: found.probe.as_ref()?,
            })
        })
        .collect();
    let whose = disk.found.probe.as_ref().map(|probe| {
        let subject = Subject {
            examined: Examined {
                device: &disk.found.device,
                probe,
            },
            partitions: &partitions,
            parent: None,
            foreign_attachment: None,
        };
        ownership(&subject, &Records::default())
    });
    Seen {
        block_device: disk.object_name,
        identity,
        excluded: disk.excluded,
        contents: disk.found.probe,
        ownership: whose,
        device: disk.found.device,
    }
}

/// Which OpenZFS this node runs.
pub(crate) async fn zfs_versions() -> Result<Versions> {
    let zfs = Program::find("zfs").context("this node has no ZFS: install OpenZFS 2.3 or newer")?;
    let output = zfs
        .call()
        .args(["version", "-j"])
        .run()
        .await
        .context("ask for the version of ZFS")?;
    Versions::from_json(&output.stdout).context("read the version of ZFS")
}
