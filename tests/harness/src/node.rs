//! A storage node: a virtual machine with real ZFS, whose disks, power and network a test can take away.

mod disks;

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use camino::{Utf8Path, Utf8PathBuf};
use cstor_exec::Output;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::boxes::{BoxDir, last_lines};
use crate::control_plane::free_ports;
use crate::disk::{Disk, Plugged};
use crate::image::Image;
use crate::kvm::Accelerator;
use crate::machine::{CLUSTER_LINK, Machine, STORAGE_LINK, console, qmp_socket, root_disk};
use crate::qmp::Qmp;
use crate::ssh::{Ssh, word};

/// A boot takes about twenty seconds when the emulation has the processor for itself.
const BOOT_WITHIN: Duration = Duration::from_secs(150);

/// How often a boot is tried. QEMU's emulation crashes now and then while the firmware maps devices on one processor and
/// another runs (`iotlb_to_section: Assertion failed`, QEMU 10.0), or loses the timer of a processor, which then sleeps for
/// ever. To the node that is one more power cut.
pub(crate) const BOOTS: u32 = 4;

/// The emulation failed while the node booted.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Crashed(String);

/// What nodes are made from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeAssets {
    /// The image.
    pub image: Image,
    /// A root disk with the snapshot that a fresh node starts from.
    pub ready_disk: Utf8PathBuf,
    /// How guests are run.
    pub accelerator: Accelerator,
}

/// What has to be remembered of a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    name: String,
    index: u8,
    ssh_port: u16,
    storage_port: u16,
    #[serde(flatten)]
    plugged: Plugged,
    /// What it was made from. It boots from that, whatever a newer checkout would make nodes from.
    assets: NodeAssets,
}

/// A storage node.
#[derive(Debug)]
pub struct Node {
    home: BoxDir,
    record: Record,
}

impl Node {
    /// A fresh node: booted, with ZFS loaded, without disks.
    pub async fn create(home: BoxDir, assets: &NodeAssets, index: u8, storage_port: u16) -> Result<Self> {
        home.create()?;
        let [ssh_port] = free_ports()?;
        let name = format!("node-{}", u32::from(index) + 1);
        let record = Record {
            name,
            index,
            ssh_port,
            storage_port,
            plugged: Plugged::default(),
            assets: assets.clone(),
        };
        let node = Self { home, record };
        let (from, to) = (&assets.ready_disk, root_disk(node.home.path()));
        std::fs::copy(from, &to).with_context(|| format!("copy {from} to {to}"))?;
        let call = node.machine().load()?;
        node.start(call).await?;
        node.take_identity().await?;
        node.save()?;
        Ok(node)
    }

    /// The node that was made in `home`, running or not.
    pub fn open(home: BoxDir) -> Result<Self> {
        let file = record_file(&home);
        let text = std::fs::read_to_string(&file).with_context(|| format!("read {file}"))?;
        let record = serde_json::from_str(&text).with_context(|| format!("read {file}"))?;
        Ok(Self { home, record })
    }

    /// Its name, which is also its host name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// The port of the host behind which its sshd is.
    #[must_use]
    pub fn ssh_port(&self) -> u16 {
        self.record.ssh_port
    }

    /// The disks that are plugged in.
    #[must_use]
    pub fn disks(&self) -> &[Disk] {
        &self.record.plugged.disks
    }

    /// Its console.
    #[must_use]
    pub fn console(&self) -> Utf8PathBuf {
        console(self.home.path())
    }

    /// Whether the machine is powered on.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.machine_box().processes().is_empty()
    }

    /// The way to run commands on it.
    #[must_use]
    pub fn ssh(&self) -> Ssh {
        let image = &self.record.assets.image;
        Ssh::new(
            self.home.inner("ssh"),
            self.record.ssh_port,
            image.ssh_key.clone(),
            image.known_hosts.clone(),
        )
    }

    /// Runs a shell script on it and returns what it wrote.
    pub async fn sh(&self, script: &str) -> Result<String> {
        let output: Output = self
            .ssh()
            .sh(script)
            .await
            .with_context(|| format!("on {}", self.name()))?;
        Ok(output.stdout)
    }

    /// Writes a file on it.
    pub async fn write_file(&self, path: &str, mode: &str, content: Vec<u8>) -> Result<()> {
        let path = word(path);
        let script = format!(
            "mkdir -p \"$(dirname {path})\"; cat > {path}.new; chmod {mode} {path}.new; mv {path}.new {path}"
        );
        self.ssh().run(&script, content, Duration::from_secs(300)).await?;
        Ok(())
    }

    /// Cuts the power: memory is gone, disks keep what was written to them.
    pub async fn power_cut(&mut self) -> Result<()> {
        self.machine_box().end_processes().await?;
        self.ssh().disconnect().await
    }

    /// Boots it, with the disks it has, and waits until it answers and shows them.
    pub async fn boot(&mut self) -> Result<()> {
        if self.is_running() {
            bail!("{} is running: cut its power before you boot it", self.name());
        }
        for left in (0..BOOTS).rev() {
            match self.start(self.machine().boot(&self.record.plugged)?).await {
                Err(error) if error.is::<Crashed>() && left > 0 => {
                    tracing::warn!("{error}; it is booted again");
                }
                result => {
                    result?;
                    break;
                }
            }
        }
        // A bus is still being searched when the node is up otherwise.
        self.await_disks(&self.record.plugged.disks).await
    }

    /// Cuts it off from the API server and the other nodes; ssh goes on.
    pub async fn cut_network(&mut self) -> Result<()> {
        self.set_links(false).await
    }

    /// Ends [`Self::cut_network`].
    pub async fn restore_network(&mut self) -> Result<()> {
        self.set_links(true).await
    }

    async fn set_links(&mut self, up: bool) -> Result<()> {
        let mut qmp = self.qmp().await?;
        for link in [CLUSTER_LINK, STORAGE_LINK] {
            qmp.execute("set_link", json!({ "name": link, "up": up })).await?;
        }
        Ok(())
    }

    /// Starts the machine and waits until it answers and udev has nothing to do.
    async fn start(&self, call: cstor_exec::Invocation) -> Result<()> {
        let machine = self.machine_box();
        let _ = std::fs::remove_file(qmp_socket(self.home.path()));
        let mut daemon = machine.start(call)?;
        let ssh = self.ssh();
        tokio::select! {
            connected = ssh.connect(BOOT_WITHIN) => {
                if let Err(error) = connected {
                    let console = last_lines(&self.console());
                    let what = format!("{} did not start: {error:#}; its console said: {console}", self.name());
                    machine.end_processes().await?;
                    return Err(Crashed(what).into());
                }
            }
            ended = daemon.wait() => {
                let (name, ended, log) = (self.name(), ended?, last_lines(&machine.log()));
                let what = format!("the machine {name} ended ({ended}): {log}");
                // What ended by a signal of its own is a crash of QEMU; a refused command line is an exit status.
                return Err(if ended.code().is_none() { Crashed(what).into() } else { anyhow!(what) });
            }
        }
        self.sh("udevadm settle").await?;
        Ok(())
    }

    async fn take_identity(&self) -> Result<()> {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .context("read the clock")?;
        let Record { name, index, .. } = &self.record;
        let number = u32::from(*index) + 1;
        self.sh(&format!("cstor-node-identity {name} {number} {}", now.as_secs()))
            .await?;
        Ok(())
    }

    fn machine(&self) -> Machine<'_> {
        Machine {
            name: &self.record.name,
            directory: self.home.path(),
            image: &self.record.assets.image,
            accelerator: self.record.assets.accelerator,
            ssh_port: self.record.ssh_port,
            storage_port: self.record.storage_port,
        }
    }

    fn machine_box(&self) -> BoxDir {
        self.home.inner("qemu")
    }

    /// A connection to QEMU. It is not kept: QEMU serves one at a time, and others may want to see to the node too.
    async fn qmp(&self) -> Result<Qmp> {
        if !self.is_running() {
            bail!("{} is powered off: boot it first", self.name());
        }
        Qmp::connect(&qmp_socket(self.home.path())).await
    }

    fn save(&self) -> Result<()> {
        let file = record_file(&self.home);
        let text = serde_json::to_string(&self.record).context("write the node down")?;
        let new = file.with_extension("new");
        std::fs::write(&new, text).with_context(|| format!("write {new}"))?;
        std::fs::rename(&new, &file).with_context(|| format!("write {file}"))
    }
}

fn record_file(home: &BoxDir) -> Utf8PathBuf {
    home.path().join("node.json")
}

/// Whether a node was made in `home` completely.
#[must_use]
pub fn exists(home: &Utf8Path) -> bool {
    home.join("node.json").is_file()
}
