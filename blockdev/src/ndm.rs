//! The names NDM gave to BlockDevice objects, so that its object for a disk is kept and not made a second time.
//!
//! NDM named an object by the MD5 of one thing it knew of the disk, and what that was depended on its version and
//! settings, on udev, and on what was on the disk at the time. [`names`] gives every name it could have chosen for a device
//! as the device is now. A name is a hint. Some are made of a path, which another disk may have today; so
//! [`same_disk`] compares what NDM wrote into the object with the device, and wants something that speaks for it besides
//! nothing that speaks against it.
//!
//! | NDM's rule | made of | speaks for the device by itself |
//! |---|---|---|
//! | device mapper | DM UUID | yes |
//! | partition | UUID of the partition | yes |
//! | World Wide Name | `ID_WWN` and `ID_SERIAL_SHORT` | yes |
//! | file system, partition table | their UUID | yes, if the size is the same: they are copied with the disk |
//! | legacy | World Wide Name, model, serial number, vendor | if there is a World Wide Name or a serial number |
//! | legacy, no `ID_TYPE` or a virtual model | the same with host name and path | no |
//! | loop device | host name and path | no |
//! | sparse file | host name and file | the file does |
//!
//! # What NDM partitioned itself
//!
//! On a disk without World Wide Name and file system NDM wrote a GPT with one partition named `OpenEBS_NDM`; its object
//! is for the partition, by the partition's UUID, and cStor made its pool there. The object is kept for the partition:
//! a device stays at the level at which it was claimed. The disk gets no object of NDM's, and one of ours says that it
//! is partitioned. If the disk has no serial number either, then neither it nor the partition has an identity in our
//! sense; what NDM wrote is all there is. The object is then still recognised, so that a pool on it goes on; but such a device
//! is not offered to anybody new.
//!
//! With the gate `PartitionTableUUID` NDM wrote an empty table instead, and its object is for the disk by the table's UUID.
//! When the pool was made, ZFS wrote a table of its own, and the object was found again by the annotation
//! `internal.openebs.io/partition-uuid`, which (in spite of its name) is the UUID of the disk's table.
//!
//! # Caveats
//!
//! * Without udev's database only the names by World Wide Name and DM UUID are known. Wait until udev is done with a device
//!   before making an object for it.
//! * Several devices may be recognised as one object (copies of a disk), or one device as several objects (NDM made
//!   duplicates after upgrades). The caller sees that, and takes none of them.

use cstor_api::names::annotation;
use cstor_api::openebs::{BlockDevice, DeviceType};
use md5::{Digest as _, Md5};

use crate::device::{Designator, DesignatorKind, Device, Kind};
use crate::identity::{PREFIX, unusable};

/// What the names of NDM's objects for sparse files begin with.
const SPARSE_PREFIX: &str = "sparse-";

/// Models of which NDM knew that their serial numbers are not unique. The last was added later.
const VIRTUAL_MODELS: [&str; 3] = ["EphemeralDisk", "Virtual_disk", "QEMU_HARDDISK"];

/// How much a name says of the device that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// Another device can have it tomorrow.
    Place,
    /// It is copied with what is on the device.
    Contents,
    /// It is the device's.
    Device,
}

/// Every name NDM could have given to the object of this device, the likeliest first.
///
/// `hostname` is what the node calls itself, which is mostly but not always the name of the Node.
#[must_use]
pub fn names(device: &Device, hostname: &str) -> Vec<String> {
    let mut names: Vec<_> = weighed(device, hostname)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// Whether NDM made this object for this device: by its name or the annotations that it looked for, and by everything
/// else that is known of both. See [`same_disk`] for what remains to be checked.
#[must_use]
pub fn is_for(object: &BlockDevice, device: &Device, hostname: &str) -> bool {
    let named = names(device, hostname).iter().any(|known| known == name(object));
    (named || is_annotated(object, device)) && same_disk(object, device)
}

/// Whether an object that NDM made is about this device: something speaks for it, and nothing against it.
///
/// An object with an identity of ours is not NDM's any more, and the answer is no: compare the identities. The caller
/// checks the node: serial numbers that are unique on one node only are compared here as well.
#[must_use]
pub fn same_disk(object: &BlockDevice, device: &Device) -> bool {
    if object.spec.identity.is_some() || !is_of_kind(object, device.kind) {
        return false;
    }
    let details = object.spec.details.clone().unwrap_or_default();
    let model = details
        .model
        .and_then(|model| agrees(&model, &models(device), is_beginning));
    let serial = details.serial.filter(|serial| !serial.trim().is_empty());
    let known = serial
        .as_deref()
        .and_then(|serial| agrees(serial, &serials(device), str::eq));
    if model == Some(false) || known == Some(false) {
        return false;
    }
    let by_serial = known == Some(true) && serial.is_some_and(|serial| unusable::serial(&serial).is_ok());
    // A name that holds a path is not asked for here, and so the host name does not matter.
    let by_name = weighed(device, "")
        .into_iter()
        .find(|(known, _)| known == name(object))
        .map(|(_, weight)| weight);
    let by_file = device.kind == Kind::Sparse && object.spec.path == device.path.as_str();

    let is_certain = by_serial || by_name == Some(Weight::Device);
    let is_likely = by_name == Some(Weight::Contents) || is_annotated(object, device) || by_file;
    match object.spec.capacity.storage {
        // NDM could not read it.
        0 => is_certain || is_likely,
        bytes if bytes == device.bytes => is_certain || is_likely,
        // Disks grow while nobody looks.
        bytes => is_certain && bytes < device.bytes,
    }
}

fn weighed(device: &Device, hostname: &str) -> Vec<(String, Weight)> {
    let path = device.path.as_str();
    let udev = |key: &str| device.udev(key);
    let mapper = device
        .device_mapper
        .as_ref()
        .and_then(|mapper| mapper.uuid.as_deref());
    let partition = device
        .partition
        .as_ref()
        .and_then(|partition| partition.uuid.as_deref());
    let mut names = Vec::new();
    let mut name = |of: &str, weight| names.push((format!("{PREFIX}{}", md5(of)), weight));
    match device.kind {
        Kind::Sparse => {
            return vec![(
                format!("{SPARSE_PREFIX}{}", md5(&format!("{hostname}{path}"))),
                Weight::Place,
            )];
        }
        Kind::Zvol | Kind::Other => return Vec::new(),
        Kind::Loop => name(&format!("{hostname}{path}"), Weight::Place),
        Kind::Lvm | Kind::Crypt | Kind::Multipath | Kind::DeviceMapper => {
            if let Some(uuid) = mapper.or_else(|| udev("DM_UUID")) {
                name(uuid, Weight::Device);
            }
        }
        Kind::Partition => {
            if let Some(uuid) = udev("ID_PART_ENTRY_UUID").or(partition) {
                name(uuid, Weight::Device);
            }
        }
        Kind::Disk | Kind::Md => {
            for of in without_udev(device) {
                name(&of, Weight::Device);
            }
            if let Some(wwn) = udev("ID_WWN") {
                let serial = udev("ID_SERIAL_SHORT").unwrap_or_default();
                name(&format!("{wwn}{serial}"), Weight::Device);
            }
            // Reached by NDM if there is no World Wide Name; but there may have been none for its udev.
            for uuid in ["ID_FS_UUID", "ID_PART_TABLE_UUID"].into_iter().filter_map(udev) {
                name(uuid, Weight::Contents);
            }
        }
    }
    if matches!(device.kind, Kind::Disk | Kind::Partition) && device.udev.is_some() {
        let of = |key| udev(key).unwrap_or_default();
        let (wwn, model, serial) = (of("ID_WWN"), of("ID_MODEL"), of("ID_SERIAL_SHORT"));
        let all = format!("{wwn}{model}{serial}{}", of("ID_VENDOR"));
        let is_own = !wwn.is_empty() || unusable::serial(serial).is_ok();
        let is_virtual = VIRTUAL_MODELS.contains(&model);
        if udev("ID_TYPE").is_some() && !all.is_empty() {
            // The release that first met a virtual model did not know it yet.
            let weight = if is_own && !is_virtual {
                Weight::Device
            } else {
                Weight::Place
            };
            name(&all, weight);
        }
        if udev("ID_TYPE").is_none() || is_virtual {
            name(&format!("{all}{hostname}{path}"), Weight::Place);
        }
    }
    names
}

/// `ID_WWN` with `ID_SERIAL_SHORT` as udev would put them together from what the kernel says, if udev does not.
fn without_udev(device: &Device) -> Vec<String> {
    /// udev has the rest of a long name elsewhere.
    const DIGITS: usize = 16;
    if device.udev.is_some() {
        return Vec::new();
    }
    let serial = device.serial.as_deref().map(|serial| {
        let words: Vec<_> = serial.split_whitespace().collect();
        words.join("_")
    });
    if device.nvme.is_some() {
        let wwid = device.wwid.as_deref();
        return wwid
            .map(|wwid| format!("{wwid}{}", serial.unwrap_or_default()))
            .into_iter()
            .collect();
    }
    let designators = device.scsi.iter().flat_map(|scsi| &scsi.page83);
    let names = designators.filter(|designator| designator.kind == DesignatorKind::Naa);
    names
        .filter_map(|Designator { value, .. }| Some((value.get(..DIGITS)?, value)))
        // What udev calls the serial number depends on whether it is SATA or SAS.
        .flat_map(|(short, value)| {
            [Some(value), serial.as_ref()]
                .into_iter()
                .flatten()
                .map(move |of| format!("0x{short}{of}"))
        })
        .collect()
}

fn name(object: &BlockDevice) -> &str {
    object.metadata.name.as_deref().unwrap_or_default()
}

fn md5(text: &str) -> String {
    Md5::digest(text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// NDM noted what was on a disk whose name says too little.
fn is_annotated(object: &BlockDevice, device: &Device) -> bool {
    let rows = [
        (annotation::FS_UUID, "ID_FS_UUID"),
        (annotation::PARTITION_UUID, "ID_PART_TABLE_UUID"),
    ];
    rows.into_iter().any(|(noted, found)| {
        let noted = object
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(noted));
        noted.is_some_and(|noted| device.udev(found) == Some(noted))
    })
}

/// Whether NDM could have called such a device what the object says it is.
fn is_of_kind(object: &BlockDevice, kind: Kind) -> bool {
    let said = object
        .spec
        .details
        .as_ref()
        .and_then(|details| details.device_type.as_ref());
    match said {
        None => true,
        Some(DeviceType::Disk) => kind == Kind::Disk,
        Some(DeviceType::Partition) => kind == Kind::Partition,
        Some(DeviceType::Sparse) => kind == Kind::Sparse,
        Some(DeviceType::Loop) => kind == Kind::Loop,
        Some(DeviceType::Lvm) => kind == Kind::Lvm,
        Some(DeviceType::Crypt) => kind == Kind::Crypt,
        Some(DeviceType::DeviceMapper) => kind == Kind::DeviceMapper,
        Some(DeviceType::Multipath) => kind == Kind::Multipath,
        Some(DeviceType::Md) => kind == Kind::Md,
        Some(DeviceType::Other(other)) => other.is_empty() || (other.starts_with("raid") && kind == Kind::Md),
    }
}

/// Whether `said` is one of what is known; `None` if nothing is known, or nothing was said.
fn agrees(said: &str, known: &[String], same: fn(&str, &str) -> bool) -> Option<bool> {
    let said = plain(said);
    (!said.is_empty() && !known.is_empty()).then(|| known.iter().any(|known| same(known, &said)))
}

/// Everything of this device that udev, and so NDM, may have called its serial number.
fn serials(device: &Device) -> Vec<String> {
    let udev = ["ID_SERIAL_SHORT", "ID_SCSI_SERIAL"]
        .into_iter()
        .filter_map(|key| device.udev(key));
    let scsi = device.scsi.iter();
    let designators = scsi
        .flat_map(|scsi| &scsi.page83)
        .map(|designator| designator.value.as_str());
    // The last word of a text designator is the serial number.
    let words = designators
        .flat_map(|value| [Some(value), value.split_whitespace().next_back()])
        .flatten();
    let page80 = device.scsi.as_ref().and_then(|scsi| scsi.page80.as_deref());
    let own = device.serial.as_deref().into_iter().chain(page80);
    udev.chain(own)
        .chain(words)
        .map(plain)
        .filter(|text| !text.is_empty())
        .collect()
}

fn models(device: &Device) -> Vec<String> {
    let known = device.model.as_deref().into_iter().chain(device.udev("ID_MODEL"));
    known.map(plain).filter(|text| !text.is_empty()).collect()
}

/// SCSI cuts models off after 16 characters, udev does not.
fn is_beginning(one: &str, other: &str) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// A text as udev writes it: what is no letter or digit is an underscore, and only one of them.
fn plain(text: &str) -> String {
    let words = text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests;
