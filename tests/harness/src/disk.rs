//! The disks that are plugged into a node, as QEMU is told of them.

use std::fs::File;

use anyhow::{Context, Result, bail};
use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The controller on which a node's SCSI disks are. It is plugged into a slot with the first of them.
pub(crate) const SCSI_CONTROLLER: &str = "scsi";

/// SCSI disks take no slot; their numbers begin here, beyond those of the slots.
const FIRST_SCSI_NUMBER: usize = 1000;

/// How a disk is connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bus {
    /// A virtio block device.
    Virtio,
    /// An NVMe controller with one namespace. Its model is QEMU's, and Linux ignores the ids of QEMU's namespaces; see
    /// [`crate::nvme::NvmeTarget`] for one that has a model and ids.
    Nvme,
    /// A SCSI disk.
    Scsi(ScsiDisk),
}

/// What a SCSI disk says of itself, and where on the bus it is. What is left out is not said, or is QEMU's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScsiDisk {
    /// Up to 8 characters.
    pub vendor: Option<String>,
    /// Up to 16 characters.
    pub product: Option<String>,
    /// The unit serial number (VPD page 0x80).
    pub serial: Option<String>,
    /// The World Wide Name (VPD page 0x83, NAA): its first hexadecimal digit is 5 for a real one.
    pub wwn: Option<u64>,
    /// The vendor specific identifier (VPD page 0x83); the serial number if left out.
    pub device_id: Option<String>,
    /// Rotations a minute; 1 says that nothing rotates.
    pub rotation_rate: Option<u16>,
    /// The size of a sector.
    pub sector_size: Option<u32>,
    /// Its target on the bus.
    pub target: u8,
    /// Its unit on the target.
    pub lun: u8,
}

/// A disk of a node: a file on the host, and the place it is in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// How it is connected.
    pub bus: Bus,
    /// The serial number it reports; none if empty.
    pub serial: String,
    /// Its content. Two disks may say the same of themselves; no two have one file.
    pub file: Utf8PathBuf,
    pub(crate) slot: usize,
}

impl Disk {
    /// Where udev puts a link to it, by what it says of itself. A disk that says nothing has none, and disks that say the
    /// same share one: [`crate::node::Node::path_of`] tells them apart.
    #[must_use]
    pub fn link(&self) -> String {
        let name = match &self.bus {
            Bus::Virtio => format!("virtio-{}", self.serial),
            Bus::Nvme => format!("nvme-QEMU_NVMe_Ctrl_{}", self.serial),
            Bus::Scsi(ScsiDisk { wwn: Some(wwn), .. }) => format!("wwn-0x{wwn:016x}"),
            Bus::Scsi(disk) => {
                let vendor = disk.vendor.as_deref().unwrap_or("QEMU");
                let product = disk.product.as_deref().unwrap_or("QEMU HARDDISK");
                let id = disk.device_id.as_deref().unwrap_or(&self.serial);
                format!("scsi-0{vendor}_{product}_{id}").replace(' ', "_")
            }
        };
        format!("/dev/disk/by-id/{name}")
    }

    pub(crate) fn node_name(&self) -> String {
        format!("disk-{}", self.slot)
    }

    pub(crate) fn device_id(&self) -> String {
        format!("plugged-{}", self.slot)
    }

    /// The PCI device that it is, or is on.
    pub(crate) fn pci_device(&self) -> String {
        match &self.bus {
            Bus::Virtio | Bus::Nvme => self.device_id(),
            Bus::Scsi(_) => SCSI_CONTROLLER.to_owned(),
        }
    }

    /// Where udev puts a link to it, by its place: the PCI bus that its slot is.
    pub(crate) fn path_link(&self, pci_bus: u64) -> String {
        let unit = match &self.bus {
            Bus::Virtio => String::new(),
            Bus::Nvme => "-nvme-1".to_owned(),
            Bus::Scsi(ScsiDisk { target, lun, .. }) => format!("-scsi-0:0:{target}:{lun}"),
        };
        format!("/dev/disk/by-path/pci-0000:{pci_bus:02x}:00.0{unit}")
    }

    /// What QEMU reads and writes.
    pub(crate) fn backend(&self) -> Value {
        json!({
            "driver": "raw",
            "node-name": self.node_name(),
            "discard": "unmap",
            // The host's page cache outlives a killed QEMU, so a flush of the host's disk would only cost time.
            "file": { "driver": "file", "filename": self.file, "discard": "unmap", "cache": { "no-flush": true } },
        })
    }

    /// What the guest sees.
    pub(crate) fn device(&self) -> Value {
        let mut device = Map::new();
        let mut set = |name: &str, value: Value| {
            device.insert(name.to_owned(), value);
        };
        set("id", self.device_id().into());
        set("drive", self.node_name().into());
        if !self.serial.is_empty() {
            set("serial", self.serial.as_str().into());
        }
        match &self.bus {
            Bus::Virtio => set("driver", "virtio-blk-pci".into()),
            Bus::Nvme => set("driver", "nvme".into()),
            Bus::Scsi(disk) => {
                set("driver", "scsi-hd".into());
                set("bus", format!("{SCSI_CONTROLLER}.0").into());
                set("scsi-id", disk.target.into());
                set("lun", disk.lun.into());
                let texts = [
                    ("vendor", &disk.vendor),
                    ("product", &disk.product),
                    ("device_id", &disk.device_id),
                ];
                for (name, text) in texts {
                    if let Some(text) = text {
                        set(name, text.as_str().into());
                    }
                }
                if let Some(wwn) = disk.wwn {
                    set("wwn", wwn.into());
                }
                if let Some(rate) = disk.rotation_rate {
                    set("rotation_rate", rate.into());
                }
                if let Some(size) = disk.sector_size {
                    set("logical_block_size", size.into());
                    set("physical_block_size", size.into());
                }
            }
        }
        if !matches!(self.bus, Bus::Scsi(_)) {
            set("bus", slot_id(self.slot).into());
        }
        Value::Object(device)
    }
}

/// What QEMU calls a slot.
pub(crate) fn slot_id(slot: usize) -> String {
    format!("slot{slot}")
}

/// What is plugged into a node.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Plugged {
    pub(crate) disks: Vec<Disk>,
    /// The slot of the SCSI controller, once there is one.
    #[serde(default)]
    pub(crate) scsi_slot: Option<usize>,
}

impl Plugged {
    /// The SCSI controller, if there is one.
    pub(crate) fn scsi_controller(&self) -> Option<Value> {
        self.scsi_slot
            .map(|slot| json!({ "driver": "virtio-scsi-pci", "id": SCSI_CONTROLLER, "bus": slot_id(slot) }))
    }

    /// The disk as it is plugged in, whatever was known of it before.
    pub(crate) fn find(&self, disk: &Disk) -> Option<&Disk> {
        self.disks.iter().find(|plugged| plugged.file == disk.file)
    }

    /// A number for one more disk: a free slot, or one beyond the slots if it needs none.
    pub(crate) fn free_number(&self, bus: &Bus, slots: usize) -> Option<usize> {
        match bus {
            Bus::Virtio | Bus::Nvme => (0..slots).find(|slot| self.is_free(*slot)),
            Bus::Scsi(_) => (FIRST_SCSI_NUMBER..).find(|number| self.is_free(*number)),
        }
    }

    /// A slot for the SCSI controller: the last one, so that the first ones stay the disks'.
    pub(crate) fn free_controller_slot(&self, slots: usize) -> Option<usize> {
        (0..slots).rev().find(|slot| self.is_free(*slot))
    }

    fn is_free(&self, number: usize) -> bool {
        self.scsi_slot != Some(number) && self.disks.iter().all(|disk| disk.slot != number)
    }

    /// Gives the places of the disks to each other, last to first: those of the slots and those of the SCSI bus.
    pub(crate) fn reverse(&mut self) {
        let slots: Vec<_> = self.in_slots().map(|disk| disk.slot).collect();
        for (disk, slot) in self.in_slots().zip(slots.into_iter().rev()) {
            disk.slot = slot;
        }
        let units: Vec<_> = self.units().map(|disk| (disk.target, disk.lun)).collect();
        for (disk, (target, lun)) in self.units().zip(units.into_iter().rev()) {
            (disk.target, disk.lun) = (target, lun);
        }
    }

    fn in_slots(&mut self) -> impl Iterator<Item = &mut Disk> {
        self.disks
            .iter_mut()
            .filter(|disk| !matches!(disk.bus, Bus::Scsi(_)))
    }

    fn units(&mut self) -> impl Iterator<Item = &mut ScsiDisk> {
        self.disks.iter_mut().filter_map(|disk| match &mut disk.bus {
            Bus::Scsi(disk) => Some(disk),
            Bus::Virtio | Bus::Nvme => None,
        })
    }
}

/// Makes a sparse file of this size, written as Kubernetes writes sizes: `512Mi`, `10Gi`.
pub(crate) fn create_file(path: &Utf8Path, size: &str) -> Result<()> {
    let bytes = bytes(size)?;
    let file = File::create(path).with_context(|| format!("make {path}"))?;
    file.set_len(bytes)
        .with_context(|| format!("make {path} {size} long"))
}

pub(crate) fn bytes(size: &str) -> Result<u64> {
    let units = [("Mi", 20), ("Gi", 30), ("Ti", 40)];
    let found = units.iter().find_map(|(unit, shift)| {
        let number: u64 = size.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(1 << shift)
    });
    match found {
        Some(bytes) if bytes > 0 => Ok(bytes),
        _ => bail!("{size:?} is not the size of a disk: write a whole number and Mi, Gi or Ti, as in 10Gi"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(bytes("64Mi").unwrap(), 64 << 20);
        assert_eq!(bytes("10Gi").unwrap(), 10 << 30);
        for wrong in ["", "10", "0Gi", "1.5Gi", "-1Gi", "10G", "99999999999999Ti"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    fn disk(bus: Bus, serial: &str, slot: usize) -> Disk {
        Disk {
            bus,
            serial: serial.to_owned(),
            file: format!("/box/{slot}.raw").into(),
            slot,
        }
    }

    #[test]
    fn a_disk_says_no_more_than_it_is_to_say() {
        let device = disk(Bus::Virtio, "", 3).device();
        assert_eq!(
            device,
            json!({ "driver": "virtio-blk-pci", "id": "plugged-3", "drive": "disk-3", "bus": "slot3" })
        );
        let scsi = ScsiDisk {
            vendor: Some("VMware".into()),
            wwn: Some(0x5000_c500_15ea_7001),
            target: 4,
            lun: 2,
            ..ScsiDisk::default()
        };
        let scsi = disk(Bus::Scsi(scsi), "6000c29", 1000);
        assert_eq!(
            scsi.device(),
            json!({
                "driver": "scsi-hd", "id": "plugged-1000", "drive": "disk-1000", "bus": "scsi.0", "scsi-id": 4, "lun": 2,
                "vendor": "VMware", "wwn": 0x5000_c500_15ea_7001_u64, "serial": "6000c29",
            })
        );
        assert_eq!(scsi.link(), "/dev/disk/by-id/wwn-0x5000c50015ea7001");
        assert_eq!(
            scsi.path_link(0x14),
            "/dev/disk/by-path/pci-0000:14:00.0-scsi-0:0:4:2"
        );
    }

    #[test]
    fn places_are_given_once_and_change_hands() {
        let mut plugged = Plugged::default();
        let scsi = |target| {
            Bus::Scsi(ScsiDisk {
                target,
                ..ScsiDisk::default()
            })
        };
        assert_eq!(plugged.free_controller_slot(4), Some(3));
        plugged.scsi_slot = Some(3);
        for bus in [Bus::Virtio, scsi(1), Bus::Nvme, scsi(2), Bus::Virtio] {
            let number = plugged.free_number(&bus, 4).unwrap();
            plugged.disks.push(disk(bus, "", number));
        }
        let numbers = |plugged: &Plugged| plugged.disks.iter().map(|disk| disk.slot).collect::<Vec<_>>();
        assert_eq!(numbers(&plugged), [0, 1000, 1, 1001, 2]);
        assert_eq!(plugged.free_number(&Bus::Virtio, 4), None);
        plugged.reverse();
        assert_eq!(numbers(&plugged), [2, 1000, 1, 1001, 0]);
        assert_eq!(plugged.disks[1].bus, scsi(2));
        assert_eq!(plugged.disks[3].bus, scsi(1));
    }

    #[test]
    fn a_node_that_an_older_checkout_wrote_down_is_read() {
        let text = r#"{"disks":[{"bus":"Nvme","serial":"a","file":"/f","slot":1}]}"#;
        let plugged: Plugged = serde_json::from_str(text).unwrap();
        assert_eq!(plugged.disks.first().unwrap().bus, Bus::Nvme);
        assert_eq!(plugged.scsi_slot, None);
    }
}
