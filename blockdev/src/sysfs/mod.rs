//! What the kernel says of each block device.

mod attributes;
mod vpd;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

use camino::{Utf8Path, Utf8PathBuf};

use crate::device::{Device, DeviceMapper, DeviceNumber, Kind, Loop, Nvme, Partition, Scsi};
use attributes::Attributes;

/// The kernel counts sizes and offsets in these, whatever a disk's sectors are.
const SECTOR: u64 = 512;

/// The SCSI type of an optical drive.
const SCSI_OPTICAL: &str = "5";

/// Why the devices could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the kernel could not be read.
    #[error("read {path}")]
    Read {
        /// What was read.
        path: Utf8PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A file holds something that the kernel does not write.
    #[error("{path} holds {content:?}, which is not {expected}")]
    Malformed {
        /// What was read.
        path: Utf8PathBuf,
        /// What it holds.
        content: String,
        /// What it should hold.
        expected: &'static str,
    },
    /// The name belongs to another device than it did when the reading began.
    #[error("{path} became another device while it was read; it is read again")]
    Replaced {
        /// What was read.
        path: Utf8PathBuf,
    },
}

/// A sysfs: the node's own, or one that a test has made.
#[derive(Debug, Clone)]
pub struct Sysfs {
    root: Utf8PathBuf,
}

impl Default for Sysfs {
    fn default() -> Self {
        Self::at("/sys")
    }
}

impl Sysfs {
    /// The sysfs that is mounted at `root`.
    #[must_use]
    pub fn at(root: impl Into<Utf8PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The kernel's names of all block devices, in order. What cannot be listed is an error and never a shorter list.
    pub fn names(&self) -> Result<Vec<String>, Error> {
        let class = self.root.join("class/block");
        let failed = |source| Error::Read {
            path: class.clone(),
            source,
        };
        let mut names = Vec::new();
        for entry in class.read_dir_utf8().map_err(failed)? {
            names.push(entry.map_err(failed)?.file_name().to_owned());
        }
        names.sort();
        Ok(names)
    }

    /// What the kernel says of one device, or `None` if it is not there (any more), or is the hidden half of another.
    ///
    /// # Errors
    /// The device is there, and what tells it from others could not be read.
    pub fn device(&self, name: &str) -> Result<Option<Device>, Error> {
        let read = self.read(name);
        // The kernel takes the name away before anything else of a device. While it is there, no failure says that the
        // device is gone; once it is not, a value that was not found says nothing.
        let place = self.root.join("class/block").join(name);
        match place.symlink_metadata() {
            Ok(_) => read,
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Read { path: place, source }),
        }
    }

    fn read(&self, name: &str) -> Result<Option<Device>, Error> {
        // In sysfs, "/" of a kernel name is "!", as in cciss!c0d0.
        let path = self.root.join("class/block").join(name);
        let files = Attributes::of(path.clone());
        if files.flag("hidden")? {
            return Ok(None);
        }
        let number: DeviceNumber = files.parse("dev", "a device number")?;
        let bytes = files.sectors("size")?;
        let whole = path.canonicalize_utf8().map_err(|source| Error::Read {
            path: path.clone(),
            source,
        })?;
        let parent = files
            .has("partition")?
            .then(|| whole.parent())
            .flatten()
            .map(Utf8Path::to_owned);
        // Queue and hardware of a partition are its disk's.
        let disk = Attributes::of(parent.clone().unwrap_or_else(|| whole.clone()));

        let mut device = Device::new(name, number, kind(name, &files)?, bytes);
        device.path = Utf8PathBuf::from("/dev").join(name.replace('!', "/"));
        device.sequence = disk.number("diskseq")?;
        device.read_only = files.flag("ro")?;
        device.removable = disk.flag("removable")?;
        let beside = |name: &str| disk.beside(name)?.parse().ok();
        device.logical_sector = beside("queue/logical_block_size");
        device.physical_sector = beside("queue/physical_block_size");
        device.rotational = disk.beside("queue/rotational").map(|text| text == "1");
        device.zoned = disk.text("queue/zoned")?.is_some_and(|text| text != "none");
        device.holders = files.children("holders")?;
        device.slaves = files.children("slaves")?;
        if let Some(parent) = parent {
            device.parent = parent.file_name().map(str::to_owned);
            device.partition = Some(Partition {
                number: files.parse("partition", "the number of a partition")?,
                start: files.sectors("start")?,
                type_id: None,
                uuid: None,
            });
        } else {
            device.partitions = partitions(&whole)?;
            hardware(&mut device, &files)?;
        }
        if let Some(name) = files.text("dm/name")? {
            let uuid = files.text("dm/uuid")?;
            device.device_mapper = Some(DeviceMapper { name, uuid });
        }
        device.md_level = files.text("md/level")?;
        device.md_uuid = files.text("md/uuid")?;
        if let Some(file) = files.text("loop/backing_file")? {
            let offset = files.number("loop/offset")?.unwrap_or_default();
            device.backing = Some(Loop {
                file: file.into(),
                offset,
            });
        }
        // The name may have gone to another disk in between, and half of this be about that.
        let now = path.canonicalize_utf8().ok();
        if now != Some(whole) || disk.number("diskseq")? != device.sequence {
            return Err(Error::Replaced { path });
        }
        Ok(Some(device))
    }

    /// Who hands devices to other machines, by the path that the export names.
    ///
    /// # Errors
    /// The exports could not be listed: any device may be exported then.
    pub fn exports(&self) -> Result<Vec<(Utf8PathBuf, String)>, Error> {
        let config = self.root.join("kernel/config");
        let mut exports = Vec::new();
        let subsystems = config.join("nvmet/subsystems");
        for subsystem in Attributes::of(subsystems.clone()).children(".")? {
            let namespaces = subsystems.join(&subsystem).join("namespaces");
            for namespace in Attributes::of(namespaces.clone()).children(".")? {
                if let Some(path) = Attributes::of(namespaces.join(namespace)).text("device_path")? {
                    exports.push((path.into(), format!("nvmet:{subsystem}")));
                }
            }
        }
        let core = config.join("target/core");
        let cores = Attributes::of(core.clone());
        for backend in cores.children(".")? {
            // Beside the backends there are files.
            if !core.join(&backend).is_dir() {
                continue;
            }
            for object in cores.children(&backend)? {
                let object_files = Attributes::of(core.join(&backend).join(&object));
                if !core.join(&backend).join(&object).is_dir() {
                    continue;
                }
                if let Some(path) = object_files.text("udev_path")? {
                    exports.push((path.into(), format!("target:{backend}/{object}")));
                }
            }
        }
        Ok(exports)
    }
}

fn kind(name: &str, files: &Attributes) -> Result<Kind, Error> {
    let begins = |prefix: &str| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    if files.has("partition")? {
        return Ok(Kind::Partition);
    }
    if files.has("dm")? {
        let uuid = files.text("dm/uuid")?.unwrap_or_default();
        return Ok(match uuid.split_once('-').map(|(prefix, _)| prefix) {
            Some("LVM") => Kind::Lvm,
            Some("CRYPT") => Kind::Crypt,
            Some("mpath") => Kind::Multipath,
            _ => Kind::DeviceMapper,
        });
    }
    if files.has("md")? {
        return Ok(Kind::Md);
    }
    if begins("loop") {
        return Ok(Kind::Loop);
    }
    if begins("zd") {
        return Ok(Kind::Zvol);
    }
    let optical = files.text("device/type")?.as_deref() == Some(SCSI_OPTICAL);
    if !files.has("device")? || optical || begins("fd") || begins("sr") {
        return Ok(Kind::Other);
    }
    Ok(Kind::Disk)
}

/// The kernel's names of the partitions of the disk at `disk`.
fn partitions(disk: &Utf8Path) -> Result<Vec<String>, Error> {
    let files = Attributes::of(disk.to_owned());
    let mut names = Vec::new();
    for name in files.children(".")? {
        if files.has(&format!("{name}/partition"))? {
            names.push(name);
        }
    }
    Ok(names)
}

/// What the hardware says of itself.
fn hardware(device: &mut Device, files: &Attributes) -> Result<(), Error> {
    device.bus = files.link("device/subsystem")?;
    device.vendor = files
        .text("device/vendor")?
        .filter(|_| device.bus.as_deref() == Some("scsi"));
    device.model = files.first(&["device/model", "device/name"])?;
    device.firmware = files
        .beside("device/firmware_rev")
        .or_else(|| files.beside("device/rev"));
    device.wwid = files.first(&["wwid", "device/wwid"])?;
    // An MMC card has two; its CID holds maker and product beside the serial number.
    device.serial = files.first(&["serial", "device/cid", "device/serial"])?;
    if files.has("nsid")? {
        // With multipath the disk hangs on the subsystem, which has the same files as a controller.
        device.bus = Some("nvme".to_owned());
        device.nvme = Some(Nvme {
            namespace: files.number("nsid")?,
            uuid: files.text("uuid")?.and_then(nonzero),
            nguid: files.text("nguid")?.and_then(nonzero).map(|id| digits(&id)),
            eui64: files.text("eui")?.and_then(nonzero).map(|id| digits(&id)),
            subsystem_nqn: files.text("device/subsysnqn")?,
            transport: transport(files)?,
        });
    }
    if device.bus.as_deref() == Some("scsi") {
        let page80 = files.bytes("device/vpd_pg80")?;
        let page80 = page80.and_then(|page| vpd::serial(&page));
        device.serial = page80.clone().or(device.serial.take());
        device.scsi = Some(Scsi {
            address: files.link("device")?.and_then(|name| address(&name)),
            page80,
            page83: files
                .bytes("device/vpd_pg83")?
                .map(|page| vpd::designators(&page))
                .unwrap_or_default(),
        });
    }
    Ok(())
}

/// How an NVMe disk is reached. A subsystem does not say it, but has links to its controllers, which do; if they say
/// different things, nothing is said.
fn transport(files: &Attributes) -> Result<Option<String>, Error> {
    if let Some(transport) = files.text("device/transport")? {
        return Ok(Some(transport));
    }
    let mut all = BTreeSet::new();
    for name in files.children("device")? {
        if name.starts_with("nvme") {
            all.extend(files.text(&format!("device/{name}/transport"))?);
        }
    }
    Ok(if all.len() == 1 { all.pop_first() } else { None })
}

/// The kernel shows an id that the device leaves out as zeros.
fn nonzero(id: String) -> Option<String> {
    let said = id.chars().any(|c| !matches!(c, '0' | '-' | ' '));
    said.then(|| id.to_ascii_lowercase())
}

fn digits(id: &str) -> String {
    id.chars().filter(char::is_ascii_hexdigit).collect()
}

/// Host, channel, target and unit, as in `2:0:1:3`.
fn address(name: &str) -> Option<[u64; 4]> {
    let parts: Option<Vec<u64>> = name.split(':').map(|part| part.parse().ok()).collect();
    parts?.try_into().ok()
}

/// Where links that say which disk it is are, under `/dev/disk`: udev's own, and those of Azure's rules, which tell its own
/// disks from data disks. Those by what is on a disk are of no use.
const LINKS: [&str; 9] = [
    "by-id",
    "by-path",
    "azure",
    "azure/scsi0",
    "azure/scsi1",
    "azure/data/by-lun",
    "azure/data/by-name",
    "azure/local/by-index",
    "azure/local/by-serial",
];

/// The links under `/dev/disk`, by the kernel's name of the device they lead to.
///
/// They are read from the file system and not from udev's database, which says what links should be there.
///
/// # Errors
/// They could not be listed.
pub fn links(dev: &Utf8Path) -> Result<BTreeMap<String, Vec<Utf8PathBuf>>, Error> {
    let mut links: BTreeMap<String, Vec<Utf8PathBuf>> = BTreeMap::new();
    for directory in LINKS {
        let directory = dev.join("disk").join(directory);
        let names = match Attributes::of(directory.clone()).children(".") {
            // Rules of another cloud make a link of this name.
            Err(Error::Read { source, .. }) if source.kind() == ErrorKind::NotADirectory => continue,
            names => names?,
        };
        for name in names {
            let link = directory.join(name);
            let Ok(target) = link.read_link_utf8() else {
                continue;
            };
            if let Some(device) = target.file_name() {
                links.entry(device.to_owned()).or_default().push(link);
            }
        }
    }
    for list in links.values_mut() {
        list.sort();
    }
    Ok(links)
}

#[cfg(test)]
mod tests;
