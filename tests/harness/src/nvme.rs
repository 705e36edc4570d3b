//! NVMe disks that say what a test wants: model, serial number, and the ids of their namespaces.
//!
//! QEMU's NVMe controllers have one model, and Linux knows them and ignores the ids of their namespaces. So these disks
//! are made in the guest, by the kernel's own NVMe target over its loop transport. They hold sparse files of the node's
//! root disk, and are gone after a boot until they are connected again.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::disk::bytes;
use crate::node::Node;
use crate::ssh::word;

const CONNECT_WITHIN: Duration = Duration::from_secs(60);

/// An NVMe controller with its namespaces.
#[derive(Debug, Clone, Default)]
pub struct NvmeTarget {
    /// Tells targets of one node apart; lower case letters, digits and dashes.
    pub name: String,
    /// The model, up to 40 ASCII characters.
    pub model: String,
    /// The serial number, up to 20 ASCII characters.
    pub serial: String,
    /// Its namespaces.
    pub namespaces: Vec<NvmeNamespace>,
}

/// A namespace, which is a disk to the node.
#[derive(Debug, Clone, Default)]
pub struct NvmeNamespace {
    /// Its number on the controller, from 1.
    pub nsid: u32,
    /// Its size, as in `1Gi`.
    pub size: String,
    /// Its UUID; the kernel makes one up if left out.
    pub uuid: Option<String>,
    /// Its NGUID, written like a UUID; none if left out.
    pub nguid: Option<String>,
}

impl NvmeTarget {
    fn nqn(&self) -> String {
        format!("nqn.2014-08.io.openebs.test:{}", self.name)
    }

    /// What makes the target and connects the node to it. Ends by writing the kernel names of the disks, a line each.
    fn connect_script(&self) -> Result<String> {
        let Self {
            name, model, serial, ..
        } = self;
        let named = !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if !named {
            bail!(
                "{name:?} cannot be the name of an NVMe target: write lower case letters, digits and dashes"
            );
        }
        let nqn = self.nqn();
        let mut script = format!(
            "modprobe nvme-loop\n\
             mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config\n\
             cd /sys/kernel/config/nvmet\n\
             mkdir subsystems/{nqn}\n\
             echo 1 > subsystems/{nqn}/attr_allow_any_host\n\
             printf %s {} > subsystems/{nqn}/attr_model\n\
             printf %s {} > subsystems/{nqn}/attr_serial\n\
             mkdir -p /var/lib/nvme-targets\n",
            word(model),
            word(serial),
        );
        for namespace in &self.namespaces {
            let (nsid, bytes) = (namespace.nsid, bytes(&namespace.size)?);
            let file = format!("/var/lib/nvme-targets/{name}-{nsid}.raw");
            let at = format!("subsystems/{nqn}/namespaces/{nsid}");
            script +=
                &format!("truncate -s {bytes} {file}\nmkdir {at}\nprintf %s {file} > {at}/device_path\n");
            for (attribute, id) in [
                ("device_uuid", &namespace.uuid),
                ("device_nguid", &namespace.nguid),
            ] {
                if let Some(id) = id {
                    script += &format!("echo {} > {at}/{attribute}\n", word(id));
                }
            }
            script += &format!("echo 1 > {at}/enable\n");
        }
        let (count, within) = (self.namespaces.len(), CONNECT_WITHIN.as_secs());
        // Without an address, every connection would go to the first port.
        script += &format!(
            "port=1; while test -e ports/$port; do port=$((port + 1)); done\n\
             mkdir ports/$port\n\
             echo loop > ports/$port/addr_trtype\n\
             echo {name} > ports/$port/addr_traddr\n\
             ln -s $PWD/subsystems/{nqn} ports/$port/subsystems/{nqn}\n\
             echo transport=loop,traddr={name},nqn={nqn} > /dev/nvme-fabrics\n\
             subsystem=$(dirname $(grep -lx {nqn} /sys/class/nvme-subsystem/*/subsysnqn))\n\
             tries=0\n\
             until test $(ls -d $subsystem/nvme*n* 2>/dev/null | wc -l) = {count}; do\n\
               tries=$((tries + 1)); test $tries -lt {within}0; sleep 0.1\n\
             done\n\
             udevadm settle\n\
             for disk in $subsystem/nvme*n*; do echo $(cat $disk/nsid) $(basename $disk); done | sort -n | cut -d' ' -f2\n"
        );
        Ok(script)
    }

    /// What takes the target apart, as far as it is there.
    fn disconnect_script(&self) -> String {
        let nqn = self.nqn();
        format!(
            "cd /sys/kernel/config/nvmet\n\
             for nqn in $(grep -lx {nqn} /sys/class/nvme/*/subsysnqn); do echo 1 > $(dirname $nqn)/delete_controller; done\n\
             for link in ports/*/subsystems/{nqn}; do rm $link; rmdir $(dirname $(dirname $link)); done\n\
             rmdir subsystems/{nqn}/namespaces/* subsystems/{nqn}\n\
             udevadm settle\n"
        )
    }
}

impl Node {
    /// Makes an NVMe target on the node, connects the node to it, and returns the kernel names of its disks in the order of
    /// their numbers. Done again after a boot, it brings the same disks with what was written to them.
    pub async fn connect_nvme(&self, target: &NvmeTarget) -> Result<Vec<String>> {
        let shown = self.sh(&target.connect_script()?).await;
        let shown = shown.with_context(|| format!("connect the NVMe target {}", target.name))?;
        Ok(shown.lines().map(str::to_owned).collect())
    }

    /// Takes the target's disks from the node, at once and whatever uses them. Their content is kept.
    pub async fn disconnect_nvme(&self, target: &NvmeTarget) -> Result<()> {
        let done = self.sh(&target.disconnect_script()).await;
        done.with_context(|| format!("disconnect the NVMe target {}", target.name))?;
        Ok(())
    }
}
