//! Which devices are looked at, and how they are tagged.
//!
//! The configuration has the shape that users of NDM have in their ConfigMap:
//!
//! ```yaml
//! filterconfigs:
//!   - key: os-disk-exclude-filter
//!     state: true
//!     exclude: "/,/etc/hosts,/boot"
//!   - key: vendor-filter
//!     state: true
//!     include: ""
//!     exclude: "CLOUDBYT,OpenEBS"
//!   - key: path-filter
//!     state: true
//!     include: ""
//!     exclude: "/dev/loop,/dev/fd0,/dev/sr0,/dev/ram,/dev/md,/dev/dm-,/dev/rbd,/dev/zd"
//! tagconfigs:
//!   - name: fast disks
//!     type: path
//!     pattern: "/dev/nvme.*"
//!     tag: fast
//! ```
//!
//! A filter that is not there is the one above: a file that was written for tags alone does not open the rest. A device
//! is left out if a filter that is on excludes it, or has an include list that does not name it.
//!
//! A filter keeps a device away from us. It never makes a device ours: what is on it decides that
//! ([`ownership`](crate::ownership)), whatever is configured here.

use std::collections::{BTreeMap, BTreeSet};

use cstor_api::names::label;
use regex::Regex;

use crate::device::{Device, Kind};

mod config;

pub use config::ConfigError;

/// The key of the filter for the disks of the operating system.
pub const OS_DISK: &str = "os-disk-exclude-filter";
/// The key of the filter by vendor.
pub const VENDOR: &str = "vendor-filter";
/// The key of the filter by path.
pub const PATH: &str = "path-filter";

/// What a filter lets pass: what is in the first list, if it is not empty, without what is in the second.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Lists {
    include: Vec<String>,
    exclude: Vec<String>,
}

/// A rule for tags.
#[derive(Debug, Clone)]
struct Tag {
    pattern: Regex,
    tag: String,
}

/// Which devices are left out, and how the others are tagged. The default is what NDM came with.
#[derive(Debug, Clone)]
pub struct Filters {
    /// The mount points whose disks are left out; `None` if the filter is off.
    mount_points: Option<Vec<String>>,
    vendors: Option<Lists>,
    paths: Option<Lists>,
    tags: Vec<Tag>,
}

impl Default for Filters {
    fn default() -> Self {
        let list = |items: &[&str]| items.iter().copied().map(str::to_owned).collect::<Vec<_>>();
        let excluding = |items: &[&str]| Lists {
            include: Vec::new(),
            exclude: list(items),
        };
        Self {
            mount_points: Some(list(&["/", "/etc/hosts", "/boot"])),
            vendors: Some(excluding(&["CLOUDBYT", "OpenEBS"])),
            paths: Some(excluding(&[
                "/dev/loop",
                "/dev/fd0",
                "/dev/sr0",
                "/dev/ram",
                "/dev/md",
                "/dev/dm-",
                "/dev/rbd",
                "/dev/zd",
            ])),
            tags: Vec::new(),
        }
    }
}

impl Filters {
    /// Reads a configuration. Comes with warnings about what was not understood and is ignored.
    pub fn parse(text: &str) -> Result<(Self, Vec<String>), ConfigError> {
        config::parse(text)
    }

    /// Why a device is left out, if it is. `all` are the devices of the node by the kernel's names.
    #[must_use]
    pub fn excluded(&self, device: &Device, all: &BTreeMap<String, Device>) -> Option<String> {
        let parent = device.parent.as_ref().and_then(|parent| all.get(parent));
        let of_ignored = parent.and_then(ignored).map(|why| format!("a part of {why}"));
        of_ignored
            .or_else(|| self.by_mount_point(device, all))
            .or_else(|| self.by_vendor(device, all))
            .or_else(|| self.by_path(device))
    }

    /// The tag for a device; of several rules that fit, the last.
    #[must_use]
    pub fn tag(&self, device: &Device) -> Option<&str> {
        let fits = |tag: &&Tag| tag.pattern.is_match(device.path.as_str());
        self.tags.iter().rfind(fits).map(|tag| tag.tag.as_str())
    }

    fn by_mount_point(&self, device: &Device, all: &BTreeMap<String, Device>) -> Option<String> {
        for point in self.mount_points.as_ref()? {
            let mounted = all.values().filter(|other| {
                // The node of a device that is bound somewhere is not a mounted file system.
                let mut mounts = other.mounts.iter().filter(|mount| mount.file_system.is_some());
                mounts.any(|mount| mount.point == point.as_str())
            });
            let disks = beneath(mounted.map(|device| device.name.as_str()), all);
            if is_of(device, &disks) {
                return Some(format!(
                    "{OS_DISK}: {point} is on it, or on the disk it is a part of"
                ));
            }
        }
        None
    }

    fn by_vendor(&self, device: &Device, all: &BTreeMap<String, Device>) -> Option<String> {
        let Lists { include, exclude } = self.vendors.as_ref()?;
        // The kernel says nothing of the vendor at a partition; udev does, as NDM did.
        let parent = device.parent.as_ref().and_then(|parent| all.get(parent));
        let of = |device: &Device| {
            let udev = device.udev("ID_VENDOR").map(str::to_owned);
            device.vendor.clone().into_iter().chain(udev)
        };
        let vendors: Vec<_> = of(device).chain(parent.into_iter().flat_map(of)).collect();
        let named = |list: &[String]| {
            let same = |item: &&String| vendors.iter().any(|vendor| vendor.eq_ignore_ascii_case(item));
            list.iter().find(same).cloned()
        };
        if let Some(vendor) = named(exclude) {
            return Some(format!("{VENDOR}: excludes the vendor {vendor}"));
        }
        if !include.is_empty() && named(include).is_none() {
            let vendor = vendors.first().map_or("unknown", String::as_str);
            return Some(format!(
                "{VENDOR}: does not include the vendor, which is {vendor}"
            ));
        }
        None
    }

    fn by_path(&self, device: &Device) -> Option<String> {
        let Lists { include, exclude } = self.paths.as_ref()?;
        let mut paths = vec![device.path.to_string()];
        if let Some(mapper) = &device.device_mapper {
            paths.push(format!("/dev/mapper/{}", mapper.name));
        }
        let named = |list: &[String]| {
            let fits = |item: &&String| {
                let part = item.to_lowercase();
                let by_path = paths.iter().any(|path| path.to_lowercase().contains(&part));
                let by_link = device.links.iter().any(|link| link == item.as_str());
                let made = device.udev("DEVLINKS").unwrap_or_default();
                by_path || by_link || made.split_whitespace().any(|link| link == item.as_str())
            };
            list.iter().find(fits).cloned()
        };
        if let Some(item) = named(exclude) {
            return Some(format!("{PATH}: excludes {item}"));
        }
        if !include.is_empty() && named(include).is_none() {
            return Some(format!("{PATH}: does not include {}", device.path));
        }
        None
    }
}

/// The names of these devices and of all that they are built on, down to the disks.
pub fn beneath<'a>(
    names: impl Iterator<Item = &'a str>,
    all: &'a BTreeMap<String, Device>,
) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut left: Vec<&str> = names.collect();
    while let Some(name) = left.pop() {
        if !found.insert(name) {
            continue;
        }
        if let Some(device) = all.get(name) {
            left.extend(device.parent.as_deref());
            left.extend(device.slaves.iter().map(String::as_str));
        }
        // Told from below as well: a mapping that is being made may not know yet what it is made of.
        let holds = |other: &&Device| other.holders.iter().any(|holder| holder == name);
        left.extend(all.values().filter(holds).map(|other| other.name.as_str()));
    }
    found
}

/// Whether a device is one of `disks` or a partition of one.
fn is_of(device: &Device, disks: &BTreeSet<&str>) -> bool {
    let has = |name: &String| disks.contains(name.as_str());
    // Partitions of a disk with several paths are mappings, whose UUIDs say so.
    let mapper = device
        .device_mapper
        .as_ref()
        .and_then(|mapper| mapper.uuid.as_ref());
    let is_mapped_part = mapper.is_some_and(|uuid| uuid.starts_with("part"));
    has(&device.name)
        || device.parent.as_ref().is_some_and(has)
        || (is_mapped_part && device.slaves.iter().any(has))
}

/// Why nobody wants to see a device, whatever is configured.
#[must_use]
pub fn ignored(device: &Device) -> Option<&'static str> {
    const RAM: u32 = 1;
    const FLOPPY: u32 = 2;
    const OPTICAL: u32 = 11;
    // A partition is what its disk is.
    let name = device.parent.as_ref().unwrap_or(&device.name);
    let is_numbered = |prefix: &str| {
        let rest = name.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    if device.kind == Kind::Zvol || is_numbered("zd") {
        return Some("a volume of a ZFS pool");
    }
    if is_numbered("ram") || is_numbered("zram") || (device.kind == Kind::Other && device.number.major == RAM)
    {
        return Some("memory, and gone at the next boot");
    }
    if device.kind != Kind::Sparse && matches!(device.number.major, FLOPPY | OPTICAL) {
        return Some("an optical drive or a floppy");
    }
    if device.kind == Kind::Other {
        return Some("not a disk");
    }
    // A kubelet keeps a loop device on each volume of mode Block, to hold it. The folder is elsewhere in some distributions.
    let file = device.backing.as_ref().map(|backing| &backing.file);
    if file.is_some_and(|file| file.components().any(|part| part.as_str() == "kubelet")) {
        return Some("a kubelet's loop device");
    }
    if device.bytes == 0 {
        return Some("an empty device: it has no medium, or nothing is attached to it");
    }
    None
}

/// Whether a text can be the value of [`label::BLOCK_DEVICE_TAG`].
fn is_label_value(text: &str) -> bool {
    const LONGEST: usize = 63;
    let ends = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.len() <= LONGEST
        && ends(text.chars().next())
        && ends(text.chars().next_back())
        && text.chars().all(inside)
}

#[cfg(test)]
mod tests;
