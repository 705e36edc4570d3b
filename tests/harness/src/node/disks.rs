//! The disks of a node: plugged, pulled, grown, moved about.

use std::fs::File;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::Node;
use crate::disk::{Bus, Disk, ScsiDisk, bytes, create_file};
use crate::machine::SLOTS;
use crate::qmp::Qmp;

/// The guest's part of plugging or pulling a disk.
const PLUG_WITHIN: Duration = Duration::from_secs(60);

impl Node {
    /// Plugs in a new virtio disk and waits until the node shows it.
    pub async fn plug_disk(&mut self, size: &str, serial: &str) -> Result<Disk> {
        check_serial(serial)?;
        self.plug_odd(Bus::Virtio, size, serial).await
    }

    /// Plugs in a new NVMe disk and waits until the node shows it.
    pub async fn plug_nvme(&mut self, size: &str, serial: &str) -> Result<Disk> {
        check_serial(serial)?;
        self.plug_odd(Bus::Nvme, size, serial).await
    }

    /// Plugs in a new SCSI disk and waits until the node shows it.
    pub async fn plug_scsi(&mut self, size: &str, disk: ScsiDisk) -> Result<Disk> {
        let serial = disk.serial.clone().unwrap_or_default();
        self.plug_odd(Bus::Scsi(disk), size, &serial).await
    }

    /// Plugs in a new disk with a serial number that no decent vendor would print (none, if it is empty) and waits until
    /// the node shows it. What QEMU refuses is an error.
    pub async fn plug_odd(&mut self, bus: Bus, size: &str, serial: &str) -> Result<Disk> {
        let disk = self.plug_unawaited(bus, size, serial).await?;
        self.await_disks(std::slice::from_ref(&disk)).await?;
        Ok(disk)
    }

    /// As [`Self::plug_odd`], without waiting: for nodes whose udev is not to be waited for.
    pub async fn plug_unawaited(&mut self, bus: Bus, size: &str, serial: &str) -> Result<Disk> {
        let disks = self.home.path().join("disks");
        std::fs::create_dir_all(&disks).with_context(|| format!("make {disks}"))?;
        let mut number = 0;
        let file = loop {
            // Two disks may report one serial number; they are two files all the same.
            let file = disks.join(format!("{number}.raw"));
            if !file.exists() {
                break file;
            }
            number += 1;
        };
        create_file(&file, size)?;
        let slot = self.free_number(&bus)?;
        let disk = Disk {
            bus,
            serial: serial.to_owned(),
            file,
            slot,
        };
        self.plug(disk).await
    }

    /// Plugs in a disk that was pulled, here or from another node that is done with it, and waits until the node shows it.
    pub async fn plug_again(&mut self, disk: Disk) -> Result<Disk> {
        if self.record.plugged.find(&disk).is_some() {
            bail!("the disk {} is in {} already", disk.serial, self.name());
        }
        let slot = self.free_number(&disk.bus)?;
        let disk = self.plug(Disk { slot, ..disk }).await?;
        self.await_disks(std::slice::from_ref(&disk)).await?;
        Ok(disk)
    }

    async fn plug(&mut self, disk: Disk) -> Result<Disk> {
        let mut qmp = self.qmp().await?;
        if matches!(disk.bus, Bus::Scsi(_)) {
            self.ensure_scsi_controller(&mut qmp).await?;
        }
        qmp.execute("blockdev-add", disk.backend()).await?;
        if let Err(error) = qmp.execute("device_add", disk.device()).await {
            // The file is let go of, so that the disk can be plugged in another way.
            let _ = qmp
                .execute("blockdev-del", json!({ "node-name": disk.node_name() }))
                .await;
            return Err(error);
        }
        self.record.plugged.disks.push(disk.clone());
        self.save()?;
        Ok(disk)
    }

    async fn ensure_scsi_controller(&mut self, qmp: &mut Qmp) -> Result<()> {
        if self.record.plugged.scsi_slot.is_some() {
            return Ok(());
        }
        let slot = self.record.plugged.free_controller_slot(SLOTS);
        self.record.plugged.scsi_slot = Some(slot.with_context(|| self.is_full())?);
        if let Some(controller) = self.record.plugged.scsi_controller()
            && let Err(error) = qmp.execute("device_add", controller).await
        {
            self.record.plugged.scsi_slot = None;
            return Err(error);
        }
        self.save()?;
        // At boot, the image asks udev about disks and not about controllers that may have some.
        self.sh("printf '%s\\n' virtio_scsi sd_mod > /etc/modules-load.d/scsi.conf; sync")
            .await?;
        Ok(())
    }

    /// Pulls a disk and waits until the node has noticed. Its content is kept.
    ///
    /// A virtio or NVMe disk is pulled in good order: the guest is asked, and agrees. A SCSI disk is gone at once, and
    /// the guest is told. Out of a node that is powered off it is just taken.
    pub async fn pull(&mut self, disk: &Disk) -> Result<()> {
        let disk = self.plugged(disk)?.clone();
        if !self.is_running() {
            return self.forget(&disk);
        }
        let mut qmp = self.qmp().await?;
        let path = path_of(&mut qmp, &disk).await?;
        let id = disk.device_id();
        qmp.execute("device_del", json!({ "id": id })).await?;
        let ours = |data: &Value| data.get("device").is_some_and(|device| device == id.as_str());
        qmp.event("DEVICE_DELETED", PLUG_WITHIN, ours).await?;
        qmp.execute("blockdev-del", json!({ "node-name": disk.node_name() }))
            .await?;
        self.forget(&disk)?;
        self.await_links("--removed", &path).await
    }

    fn forget(&mut self, disk: &Disk) -> Result<()> {
        let disks = &mut self.record.plugged.disks;
        disks.retain(|plugged| plugged.file != disk.file);
        self.save()
    }

    /// Where udev puts a link to the disk by the place it is in, which no two disks share. It changes when the disk is
    /// plugged in again or the order changes.
    pub async fn path_of(&self, disk: &Disk) -> Result<String> {
        path_of(&mut self.qmp().await?, self.plugged(disk)?).await
    }

    /// Makes a disk larger and waits until the node has noticed. QEMU cannot do that to an NVMe disk of a running node.
    pub async fn grow(&mut self, disk: &Disk, size: &str) -> Result<()> {
        let disk = self.plugged(disk)?;
        let (file, bytes) = (&disk.file, bytes(size)?);
        let now = file.metadata().with_context(|| format!("look at {file}"))?.len();
        if bytes <= now {
            bail!("{size} is not more than the {now} bytes that the disk has: disks only grow");
        }
        if !self.is_running() {
            let file = File::options().write(true).open(file);
            let grown = file.and_then(|file| file.set_len(bytes));
            return grown.with_context(|| format!("make {} {size} long", disk.file));
        }
        if disk.bus == Bus::Nvme {
            bail!(
                "QEMU cannot grow an NVMe disk of a running node: cut the power of {} first",
                self.name()
            );
        }
        let mut qmp = self.qmp().await?;
        let arguments = json!({ "node-name": disk.node_name(), "size": bytes });
        qmp.execute("block_resize", arguments).await?;
        let path = path_of(&mut qmp, disk).await?;
        drop(qmp);
        let within = PLUG_WITHIN.as_secs();
        let look = format!("until test $(blockdev --getsize64 {path}) = {bytes}; do sleep 0.1; done");
        self.sh(&format!("timeout {within} sh -c '{look}'; udevadm settle"))
            .await
            .with_context(|| format!("wait until {} sees {size}", self.name()))?;
        Ok(())
    }

    /// Turns the order of the disks around, so that the next boot finds each in another place and names them the other way
    /// round. The node must be powered off.
    pub fn reverse_order(&mut self) -> Result<()> {
        if self.is_running() {
            bail!(
                "{} is running: cut its power before you move its disks",
                self.name()
            );
        }
        self.record.plugged.reverse();
        self.save()
    }

    /// The disk as it is plugged in now.
    fn plugged(&self, disk: &Disk) -> Result<&Disk> {
        self.record
            .plugged
            .find(disk)
            .with_context(|| format!("the disk {} is not in {}", disk.serial, self.name()))
    }

    fn free_number(&self, bus: &Bus) -> Result<usize> {
        let free = self.record.plugged.free_number(bus, SLOTS);
        free.with_context(|| self.is_full())
    }

    fn is_full(&self) -> String {
        format!("the {SLOTS} slots of {} are full: pull a disk first", self.name())
    }

    /// Waits until the node shows these disks.
    pub(super) async fn await_disks(&self, disks: &[Disk]) -> Result<()> {
        if disks.is_empty() {
            return Ok(());
        }
        let mut qmp = self.qmp().await?;
        let mut links = Vec::new();
        for disk in disks {
            links.push(path_of(&mut qmp, disk).await?);
        }
        drop(qmp);
        self.await_links("", &links.join(" ")).await
    }

    /// Waits until udev has made (or, `--removed`, removed) links: by event, in the guest.
    async fn await_links(&self, how: &str, links: &str) -> Result<()> {
        let within = PLUG_WITHIN.as_secs();
        let script = format!("udevadm wait --timeout={within} {how} {links}");
        self.sh(&script).await.map(|_| ())
    }
}

fn check_serial(serial: &str) -> Result<()> {
    let decent =
        !serial.is_empty() && serial.len() <= 20 && serial.bytes().all(|byte| byte.is_ascii_graphic());
    if !decent {
        bail!(
            "{serial:?} is no decent serial number: write 1 to 20 visible ASCII characters, or use plug_odd"
        );
    }
    Ok(())
}

async fn path_of(qmp: &mut Qmp, disk: &Disk) -> Result<String> {
    let buses = qmp.execute("query-pci", json!({})).await?;
    let device = disk.pci_device();
    let bus = pci_bus_of(&buses, &device).with_context(|| format!("QEMU shows no PCI device {device}"))?;
    Ok(disk.path_link(bus))
}

/// The bus that the device of this id is on, anywhere in what QEMU shows of its PCI devices.
fn pci_bus_of(shown: &Value, id: &str) -> Option<u64> {
    match shown {
        Value::Object(fields) if fields.get("qdev_id").is_some_and(|it| it == id) => {
            fields.get("bus")?.as_u64()
        }
        Value::Object(fields) => fields.values().find_map(|value| pci_bus_of(value, id)),
        Value::Array(values) => values.iter().find_map(|value| pci_bus_of(value, id)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_behind_bridges() {
        let shown = json!([{ "bus": 0, "devices": [
            { "bus": 0, "qdev_id": "mgmt0" },
            { "bus": 0, "qdev_id": "slot3", "pci_bridge": {
                "bus": { "number": 0, "secondary": 4 },
                "devices": [{ "bus": 4, "qdev_id": "plugged-3" }],
            } },
        ] }]);
        assert_eq!(pci_bus_of(&shown, "plugged-3"), Some(4));
        assert_eq!(pci_bus_of(&shown, "mgmt0"), Some(0));
        assert_eq!(pci_bus_of(&shown, "plugged-4"), None);
    }

    #[test]
    fn decent_serials() {
        check_serial("V1-alpha").unwrap();
        for odd in ["", "a b", "ä", "123456789012345678901"] {
            assert!(check_serial(odd).is_err(), "{odd}");
        }
    }
}
