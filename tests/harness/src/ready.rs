//! The snapshot that fresh nodes start from.
//!
//! Under emulation, loading a machine that has booted is three times as fast as booting one. So one machine is booted when
//! the image is new, its memory is saved into its root disk, and every node begins with a copy of that disk. The
//! snapshot is taken with ZFS loaded and before any disk is plugged in.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use camino::{Utf8Path, Utf8PathBuf};
use cstor_exec::Program;
use serde_json::json;

use crate::boxes::{self, BoxDir, Passing, last_lines};
use crate::cache::{Cache, Key, remove_tree};
use crate::control_plane::free_ports;
use crate::disk::Plugged;
use crate::image::Image;
use crate::kvm::Accelerator;
use crate::machine::{Machine, READY, SHAPE, console, qmp_socket, root_disk};
use crate::node::BOOTS;
use crate::progress::Progress;
use crate::qmp::Qmp;
use crate::ssh::Ssh;

const BOOT_WITHIN: Duration = Duration::from_secs(600);

/// The root disk with the snapshot, made if it has not been yet.
pub async fn ready_disk(
    cache: &Cache,
    image: &Image,
    accelerator: Accelerator,
    progress: &Progress,
) -> Result<Utf8PathBuf> {
    let qemu = Program::find("qemu-system-x86_64").context("QEMU is not installed")?;
    let version = qemu.call().arg("--version").run().await?.stdout;
    let key = Key::new()
        .with(SHAPE)
        .with(accelerator.argument())
        .with(version)
        .with(image.disk.as_str())
        .with(&image.command_line);
    if let Some(entry) = cache.find("ready", &key) {
        return Ok(root_disk(&entry));
    }
    let step = progress.step("booting a node once, to start others from its memory");
    let entry = cache
        .entry("ready", &key, &step, async |directory| {
            // Sockets and logs are made in a box; the entry keeps the disk alone.
            let home = boxes::own(cache, Passing::Ready)?;
            let mut result = Ok(());
            for _ in 0..BOOTS {
                home.remove().await?;
                home.create()?;
                result = boot_and_save(&home, image, accelerator).await;
                // A machine that runs and does not answer will not do better another time; one that crashed may.
                if result.is_ok() || !home.inner("qemu").processes().is_empty() {
                    break;
                }
            }
            let result = result.with_context(|| {
                format!(
                    "boot a node; its console said: {}",
                    last_lines(&console(home.path()))
                )
            });
            home.end_processes().await?;
            if result.is_ok() {
                let (from, to) = (root_disk(home.path()), root_disk(directory));
                std::fs::rename(&from, &to).with_context(|| format!("move {from} to {to}"))?;
            }
            remove_tree(home.path())?;
            result
        })
        .await?;
    step.done();
    Ok(root_disk(&entry))
}

async fn boot_and_save(home: &BoxDir, image: &Image, accelerator: Accelerator) -> Result<()> {
    create_overlay(&image.disk, &root_disk(home.path())).await?;
    let [ssh_port, storage_port] = free_ports()?;
    let machine = Machine {
        name: "ready",
        directory: home.path(),
        image,
        accelerator,
        ssh_port,
        storage_port,
    };
    let mut qemu = home.inner("qemu").start(machine.boot(&Plugged::default())?)?;
    let mut qmp = Qmp::connect(&qmp_socket(home.path())).await?;
    let ssh = Ssh::new(
        home.inner("ssh"),
        ssh_port,
        image.ssh_key.clone(),
        image.known_hosts.clone(),
    );
    tokio::select! {
        connected = ssh.connect(BOOT_WITHIN) => connected?,
        ended = qemu.wait() => bail!("the machine ended ({})", ended?),
    }
    ssh.sh("systemctl is-system-running --wait; zfs version; udevadm settle; sync")
        .await?;
    ssh.disconnect().await?;
    let arguments = json!({ "tag": READY, "vmstate": "root", "devices": ["root"] });
    qmp.job("snapshot-save", arguments).await?;
    qmp.execute("quit", json!({})).await?;
    Ok(())
}

/// Makes a disk that begins as `base` and keeps its own changes.
async fn create_overlay(base: &Utf8Path, overlay: &Utf8Path) -> Result<()> {
    let call = Program::find("qemu-img")?.call();
    let call = call.args([
        "create",
        "-q",
        "-f",
        "qcow2",
        "-F",
        "qcow2",
        "-b",
        base.as_str(),
        overlay.as_str(),
    ]);
    call.run().await.context("make a root disk")?;
    Ok(())
}
