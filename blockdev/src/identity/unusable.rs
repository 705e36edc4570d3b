//! What devices say that tells no device from another: placeholders, counters, names that are only unique on a node.
//!
//! The tables grow with what is met in the field. Adding a row takes the identity away from devices that had it, so it
//! is a new version of the scheme (see [`super`]) unless such devices cannot have been in use.

use crate::device::Device;

/// What stands where a serial number should be, in lower case.
const PLACEHOLDERS: &[&str] = &[
    // What firmware and hypervisors write when nobody filled in the field.
    "none",
    "n/a",
    "na",
    "null",
    "nil",
    "unknown",
    "empty",
    "serial",
    "serial number",
    "system serial number",
    "default",
    "default string",
    "not specified",
    "not available",
    "not applicable",
    "invalid",
    "to be filled by o.e.m.",
    "o.e.m.",
    "xxxxxx-xxxxxx",
    // Somebody's fingers on the top row.
    "12345",
    "123456",
    "1234567",
    "12345678",
    "123456789",
    "1234567890",
    "12345678901",
    "123456789012",
    "01234567",
    "012345678",
    "0123456789",
    "01234567890",
    "012345678901",
    "0123456789ab",
    "0123456789abcde",
    "0123456789abcdef",
    "123456789abc",
    "123456789abcdef",
    "abcdef",
    "abcdefgh",
    "deadbeef",
    // USB bridges that show one number, whichever disk is behind them.
    "dd56419883891",
    "012345678999",
    "201503310007f",
    "152d00539000",
];

/// Counters that begin anew in every machine: what they begin with, and why they are no identity. Digits follow.
const COUNTERS: &[(&str, &str)] = &[
    (
        "QM",
        "is QEMU's own, which counts from 1 in every virtual machine",
    ),
    ("VMware NVME_", "is the number of a slot of the virtual machine"),
    ("drive-scsi", "is the name of a slot of the virtual machine"),
    ("drive-virtio", "is the name of a slot of the virtual machine"),
    ("drive-sata", "is the name of a slot of the virtual machine"),
    ("drive-ide", "is the name of a slot of the virtual machine"),
    ("beaf", "is made up by tgtd of the numbers of target and unit"),
];

/// Disks whose designators and serial numbers are unique on a node and no further.
#[derive(Debug)]
pub struct PerNode {
    /// The vendor; any if `None`.
    pub vendor: Option<&'static str>,
    /// What the model begins with.
    pub model: &'static str,
    /// What the serial number is.
    pub what: &'static str,
}

/// The table of them.
pub const PER_NODE: &[PerNode] = &[
    PerNode {
        vendor: Some("Google"),
        model: "PersistentDisk",
        what: "the device name chosen when the disk was attached to the instance",
    },
    PerNode {
        vendor: Some("Google"),
        model: "EphemeralDisk",
        what: "the number of the local SSD in the instance",
    },
    PerNode {
        vendor: None,
        model: "nvme_card",
        what: "the same for all disks of the instance (Google Cloud); the namespace tells them apart",
    },
    PerNode {
        vendor: None,
        model: "MSFT NVMe Accelerator",
        what: "the same for all disks of all machines (Azure); the namespace is the slot",
    },
];

/// Whether the device's designators and serial number are unique on its node and no further.
pub(super) fn is_per_node(device: &Device) -> bool {
    let model = device.model.as_deref().unwrap_or_default();
    PER_NODE.iter().any(|row| {
        let vendor = row
            .vendor
            .is_none_or(|vendor| device.vendor.as_deref() == Some(vendor));
        vendor && model.starts_with(row.model)
    })
}

/// What a person can do so that such a device has an identity.
pub(super) fn advice(device: &Device) -> &'static str {
    use crate::device::Kind;

    let is = |field: &Option<String>, text: &str| field.as_ref().is_some_and(|field| field.starts_with(text));
    match device.kind {
        Kind::Lvm | Kind::Crypt | Kind::Multipath | Kind::DeviceMapper => {
            "give the mapping a UUID of its own: use LVM or LUKS, or `dmsetup create --uuid`"
        }
        Kind::Md => {
            "use metadata that has a UUID (1.x), and a kernel that shows it in sysfs, or the disks themselves"
        }
        Kind::Loop => "attach it to a file, and keep the file where it is",
        _ if is(&device.vendor, "VMware") || is(&device.model, "VMware") => {
            "set disk.EnableUUID=TRUE for the virtual machine, and restart it"
        }
        _ if is(&device.vendor, "QEMU") || is(&device.model, "QEMU") || is(&device.bus, "virtio") => {
            "give the disk a serial number of its own in the hypervisor (QEMU and Proxmox: serial=…, libvirt: <serial>)"
        }
        _ if is(&device.bus, "xen") || is(&device.bus, "vbd") => {
            "Xen shows no serial numbers: use a machine type with NVMe or SCSI disks"
        }
        _ => {
            "use a disk that has a serial number or a World Wide Name: behind a USB bridge, attach it directly; in a virtual machine, set one in the hypervisor"
        }
    }
}

/// Whether all of a text is one character, whatever separates it.
fn is_uniform(text: &str) -> bool {
    let mut characters = text.chars().filter(|c| !matches!(c, ' ' | '-' | '_' | '.' | ':'));
    let first = characters.next();
    characters.all(|c| Some(c) == first)
}

/// Whether a text is as many hex digits as one of `lengths`.
pub(super) fn is_hex(text: &str, lengths: &[usize]) -> bool {
    lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Made-up ids are mostly zeros, with a count somewhere.
fn is_nearly_zero(digits: &str) -> bool {
    const LEAST: usize = 3;
    digits.bytes().filter(|byte| *byte != b'0').count() < LEAST
}

/// Whether a serial number is one.
pub(crate) fn serial(text: &str) -> Result<(), &'static str> {
    let text = text.trim();
    let number = text.strip_prefix("0x").unwrap_or(text);
    if is_uniform(number) {
        return Err("is empty, or one character over and over");
    }
    if PLACEHOLDERS.contains(&text.to_ascii_lowercase().as_str()) {
        return Err("is a placeholder that many devices have");
    }
    for (prefix, why) in COUNTERS {
        let count = text.strip_prefix(prefix);
        if count.is_some_and(|count| !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit())) {
            return Err(why);
        }
    }
    Ok(())
}

fn digits(text: &str, lengths: &[usize]) -> Result<(), &'static str> {
    if !is_hex(text, lengths) {
        return Err("does not have the form of one");
    }
    if is_uniform(text) || is_nearly_zero(text) {
        return Err("is a placeholder");
    }
    Ok(())
}

/// Whether a UUID is one.
pub(super) fn uuid(text: &str) -> Result<(), &'static str> {
    let plain: String = text.chars().filter(|c| !matches!(c, '-' | ':')).collect();
    digits(&plain, &[32])
}

/// Whether 16 bytes of hex digits are an id.
pub(super) fn nguid(text: &str) -> Result<(), &'static str> {
    digits(text, &[32])
}

/// Whether an EUI-64, or one of its extensions in SCSI, was given by a maker.
pub(super) fn eui64(text: &str) -> Result<(), &'static str> {
    const LOCAL: u8 = 0x02;
    digits(text, &[16, 24, 32])?;
    // Of 16 bytes, the first 8 are the extension and the EUI-64 follows.
    let begin = if text.len() == 32 { 16 } else { 0 };
    let octet = text
        .get(begin..begin + 2)
        .and_then(|octet| u8::from_str_radix(octet, 16).ok());
    match octet {
        Some(octet) if octet & LOCAL == 0 => company(text.get(begin..begin + 6)),
        _ => Err(
            "is locally administered: whoever runs the machine made it up, and it may change at the next boot",
        ),
    }
}

/// Whether a World Wide Name was given by a maker.
pub(super) fn naa(text: &str) -> Result<(), &'static str> {
    // The digit that says which kind it is, the length, and where the company is in it.
    let (length, begin) = match text.bytes().next() {
        Some(b'2') => (16, 4),
        Some(b'5') => (16, 1),
        Some(b'6') => (32, 1),
        Some(b'3') => return Err("is locally assigned, and another may be the same"),
        _ => return Err("is of a kind that does not exist"),
    };
    digits(text, &[length])?;
    if text.get(1..).is_some_and(is_uniform) {
        return Err("is a placeholder");
    }
    company(text.get(begin..begin + 6))
}

fn company(digits: Option<&str>) -> Result<(), &'static str> {
    match digits {
        Some("000000") | None => Err("names no maker"),
        Some(_) => Ok(()),
    }
}

/// Whether a T10 designator, with single blanks, names the unit and not only its model.
pub(super) fn t10(text: &str, device: &Device, page80: Option<&str>) -> Result<(), &'static str> {
    if let Some(page80) = page80 {
        let page80 = super::single_blanks(page80);
        serial(&page80)?;
        return match text.contains(&page80) {
            true => Ok(()),
            false => Err("does not hold the serial number of the unit"),
        };
    }
    let after = |text: &str, prefix: &Option<String>| {
        let prefix = super::single_blanks(prefix.as_deref().unwrap_or_default());
        text.strip_prefix(&prefix).unwrap_or(text).trim().to_owned()
    };
    let rest = after(&after(text, &device.vendor), &device.model);
    match rest.split(' ').next_back() {
        Some("") | None => Err("names a model and no unit"),
        Some(last) => serial(last),
    }
}

/// Whether the UUID of a mapping tells it from others.
pub(super) fn device_mapper(uuid: &str) -> Result<(), &'static str> {
    let Some((subsystem, rest)) = uuid.split_once('-') else {
        return serial(uuid);
    };
    match subsystem {
        "CRYPT" if luks_length(uuid).is_none() => {
            Err("is made of the name of the mapping, which somebody chose")
        }
        "mpath" => multipath(rest),
        _ => serial(rest),
    }
}

/// The id of a multipath device is the identity of the disk, after a digit that says which it is.
fn multipath(id: &str) -> Result<(), &'static str> {
    match id.split_at_checked(1) {
        Some(("3", name)) if is_hex(name, &[16, 32]) => naa(name),
        Some(("2", name)) if is_hex(name, &[16, 24, 32]) => eui64(name),
        _ => id.rsplit([' ', '_']).next().map_or(Ok(()), serial),
    }
}

/// `CRYPT-LUKS2-<32 digits>-<name>` without the name, which is whatever the mapping was called when it was opened.
pub(super) fn without_mapping_name(uuid: &str) -> &str {
    luks_length(uuid)
        .and_then(|length| uuid.get(..length))
        .unwrap_or(uuid)
}

/// How much of a `CRYPT-…` UUID is not the name of the mapping, if there is anything.
fn luks_length(uuid: &str) -> Option<usize> {
    const DIGITS: usize = 32;
    let rest = uuid.strip_prefix("CRYPT-")?;
    let (kind, rest) = rest.split_once('-')?;
    let digits = rest.get(..DIGITS)?;
    let name = rest.get(DIGITS..)?;
    let fits = is_hex(digits, &[DIGITS]) && !is_uniform(digits) && (name.is_empty() || name.starts_with('-'));
    fits.then_some("CRYPT-".len() + kind.len() + 1 + DIGITS)
}
