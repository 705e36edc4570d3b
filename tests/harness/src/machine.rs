//! The virtual machine of a node, as QEMU's command line.
//!
//! Every machine has the same shape, because a snapshot can only be loaded into the machine it was taken of: two
//! user-mode networks, one network between the nodes, and empty slots into which disks are plugged.

use anyhow::{Context, Result};
use camino::{Utf8Path, Utf8PathBuf};
use cstor_exec::{Invocation, Program};
use serde_json::{Value, json};

use crate::disk::{Plugged, slot_id};
use crate::image::Image;
use crate::kvm::Accelerator;

/// Changes when the shape changes, so that snapshots of the old shape are not loaded into the new one.
pub(crate) const SHAPE: &str = "shape 1";

/// How many disks a node can have. The controller of SCSI disks takes the place of one, and has room for many.
pub(crate) const SLOTS: usize = 20;

/// The snapshot that a fresh node starts from.
pub(crate) const READY: &str = "ready";

/// Memory of a node, in MiB. ZFS is told in the image to keep its cache small.
const MEMORY: u32 = 1024;

/// What starts a machine.
#[derive(Debug)]
pub(crate) struct Machine<'a> {
    pub(crate) name: &'a str,
    /// Where its sockets, console and root disk are.
    pub(crate) directory: &'a Utf8Path,
    pub(crate) image: &'a Image,
    pub(crate) accelerator: Accelerator,
    /// The port of the host behind which its sshd is.
    pub(crate) ssh_port: u16,
    /// The network between the nodes of one cluster, by the port its packets travel on.
    pub(crate) storage_port: u16,
}

/// Where a machine's root disk is.
pub(crate) fn root_disk(directory: &Utf8Path) -> Utf8PathBuf {
    directory.join("root.qcow2")
}

/// Where the socket to control a machine is.
pub(crate) fn qmp_socket(directory: &Utf8Path) -> Utf8PathBuf {
    directory.join("qmp")
}

/// Where a machine's console is written to.
pub(crate) fn console(directory: &Utf8Path) -> Utf8PathBuf {
    directory.join("console")
}

/// The link of the network on which a node reaches the API server.
pub(crate) const CLUSTER_LINK: &str = "cluster0";
/// The link of the network between the nodes.
pub(crate) const STORAGE_LINK: &str = "storage0";

impl Machine<'_> {
    /// Starts from the disks: a boot.
    pub(crate) fn boot(&self, plugged: &Plugged) -> Result<Invocation> {
        let mut call = self.call()?;
        if let Some(controller) = plugged.scsi_controller() {
            call = call.args(["-device", &controller.to_string()]);
        }
        for disk in &plugged.disks {
            call = call.args([
                "-blockdev",
                &disk.backend().to_string(),
                "-device",
                &disk.device().to_string(),
            ]);
        }
        Ok(call)
    }

    /// Starts from the snapshot: a node that has booted already, with no disks.
    pub(crate) fn load(&self) -> Result<Invocation> {
        Ok(self.call()?.args(["-loadvm", READY]))
    }

    fn call(&self) -> Result<Invocation> {
        let qemu = Program::find("qemu-system-x86_64").context("QEMU is not installed")?;
        let directory = self.directory;
        let mut call = qemu
            .call()
            .args([
                "-name",
                self.name,
                "-nodefaults",
                "-no-user-config",
                "-display",
                "none",
            ])
            .args([
                "-machine",
                "q35,vmport=off,hpet=off",
                "-cpu",
                "max",
                "-smp",
                "2",
                "-m",
                &MEMORY.to_string(),
            ])
            .args(["-accel", self.accelerator.argument()])
            .args([
                "-kernel",
                self.image.kernel.as_str(),
                "-initrd",
                self.image.initrd.as_str(),
            ])
            .args(["-append", &self.image.command_line])
            .args(["-serial", &format!("file:{}", console(directory))])
            .args([
                "-qmp",
                &format!("unix:{},server=on,wait=off", qmp_socket(directory)),
            ])
            .args(["-device", "virtio-rng-pci"])
            // Tells the kernel that it was loaded and not booted, so that no two nodes draw the same random numbers.
            .args(["-device", "vmgenid,guid=auto"])
            .args(["-blockdev", &root_backend(directory).to_string()])
            .args(["-device", "virtio-blk-pci,drive=root,serial=root"]);
        for (link, backend) in self.networks() {
            call = call.args(["-netdev", &backend, "-device", &link]);
        }
        for slot in 0..SLOTS {
            let chassis = slot + 1;
            call = call.args([
                "-device",
                &format!(
                    "pcie-root-port,id={},chassis={chassis},slot={chassis}",
                    slot_id(slot)
                ),
            ]);
        }
        Ok(call.directory(directory))
    }

    /// Links by their fixed order: management (ssh alone), cluster (the API server), storage (the other nodes).
    fn networks(&self) -> [(String, String); 3] {
        // The node tells its links apart by these addresses, and gives itself one of its own where nodes meet.
        let device = |id: &str, number: u8| {
            format!("virtio-net-pci,id={id},netdev={id}-net,mac=52:54:00:63:73:{number:02x},romfile=")
        };
        [
            (
                device("mgmt0", 1),
                format!(
                    "user,id=mgmt0-net,net=10.0.2.0/24,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:{}-:22",
                    self.ssh_port
                ),
            ),
            (
                device(CLUSTER_LINK, 2),
                format!("user,id={CLUSTER_LINK}-net,net=10.0.3.0/24,ipv6=off"),
            ),
            (
                device(STORAGE_LINK, 3),
                format!(
                    "socket,id={STORAGE_LINK}-net,mcast=230.77.0.1:{},localaddr=127.0.0.1",
                    self.storage_port
                ),
            ),
        ]
    }
}

fn root_backend(directory: &Utf8Path) -> Value {
    json!({
        "driver": "qcow2",
        "node-name": "root",
        // The host's page cache outlives a killed QEMU, so a flush of the host's disk would only cost time.
        "file": { "driver": "file", "filename": root_disk(directory), "cache": { "no-flush": true } },
    })
}
