//! What the agent makes of the devices it found: which are disks to be published, and as what.

use std::collections::{BTreeMap, BTreeSet};

use cstor_api::openebs::BlockDevice;
use cstor_blockdev::filter::{self, Filters};
use cstor_blockdev::identity::{self, Identity, Unidentified};
use cstor_blockdev::ownership::DATA_PARTITIONS;
use cstor_blockdev::scan::{Found, Inventory};
use cstor_blockdev::{Device, Kind, ndm};

/// By what rules devices are published. They come from the agent's configuration.
#[derive(Debug)]
pub struct Catalogue {
    /// The name of the node in Kubernetes.
    pub node: String,
    /// The name of its host.
    pub host: String,
    /// Which devices are left out, and how they are tagged.
    pub filters: Filters,
}

/// A device that is published, or is left out for a reason that people should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// What was found.
    pub found: Found,
    /// Its partitions.
    pub partitions: Vec<Found>,
    /// What tells it from all others.
    pub identity: Result<Identity, Unidentified>,
    /// Everything that could be its identity: an object may have been made when the best of them could not be read.
    pub candidates: Vec<Identity>,
    /// The name its object has if we make it.
    pub object_name: String,
    /// The names its object has if NDM made it.
    pub ndm_names: Vec<String>,
    /// Why it is left out, if it is.
    pub excluded: Option<String>,
    /// Its tag.
    pub tag: Option<String>,
    /// The host it is on, which NDM's names for some devices depend on.
    pub host: String,
}

impl Disk {
    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.found.device
    }

    /// Whether it is time to publish it: it is not left out, and udevd is done with it.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.excluded.is_none() && !self.found.settling
    }

    /// The names its object may have, the likeliest first: ours, those it got if it was made when the device answered one
    /// question less or by an older rule, those that NDM gives.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names = vec![self.object_name.clone()];
        let older = self.candidates.iter().map(Identity::object_name);
        for name in older.chain(self.ndm_names.iter().cloned()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Whether `object` is about this device.
    #[must_use]
    pub fn is(&self, object: &BlockDevice) -> bool {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        match &object.spec.identity {
            Some(recorded) => self.candidates.iter().any(|identity| identity.is(recorded)),
            None => name == self.object_name || ndm::is_for(object, self.device(), &self.host),
        }
    }
}

/// The disks of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// What is or could be published, by the kernel's names.
    pub disks: BTreeMap<String, Disk>,
    /// What is there and could not be described, and why.
    pub undescribed: BTreeMap<String, String>,
    /// What is there and has not said yet what it is. It may soon: nothing is concluded before.
    pub awaited: BTreeSet<String>,
    /// Everything that is there, for whoever looks for something else than a disk to publish.
    pub devices: BTreeMap<String, Device>,
    /// The kernel's names of the disks that could have an identity. Every object is held against every disk, often.
    by_identity: BTreeMap<(String, String), Vec<String>>,
}

impl View {
    /// The disk that `disk` is a part of, or itself.
    #[must_use]
    pub fn whole<'a>(&'a self, disk: &'a Disk) -> &'a Disk {
        let parent = disk.device().parent.as_ref();
        parent.and_then(|parent| self.disks.get(parent)).unwrap_or(disk)
    }

    /// The devices that `object` is about: one, none, or several that cannot be told apart.
    #[must_use]
    pub fn matching(&self, object: &BlockDevice) -> Vec<&Disk> {
        let Some(recorded) = &object.spec.identity else {
            return self.disks.values().filter(|disk| disk.is(object)).collect();
        };
        let key = (recorded.scheme.clone(), recorded.value.clone());
        let names = self.by_identity.get(&key).into_iter().flatten();
        names.filter_map(|name| self.disks.get(name)).collect()
    }
}

impl Catalogue {
    /// Whether anybody wants to know what is on a device: not if it is left out, for then it is nobody's business.
    #[must_use]
    pub fn wants(&self, device: &Device, all: &BTreeMap<String, Device>) -> bool {
        filter::ignored(device).is_none() && self.filters.excluded(device, all).is_none()
    }

    /// What to make of an inventory.
    #[must_use]
    pub fn view(&self, inventory: &Inventory) -> View {
        let devices = inventory.devices();
        let published = inventory
            .found
            .values()
            .filter(|found| is_published(&found.device));
        let disks = published.map(|found| {
            let device = &found.device;
            let parent = device.parent.as_ref().and_then(|parent| devices.get(parent));
            let identity = identity::identify(device, parent, &self.node);
            let object_name = match &identity {
                Ok(identity) => identity.object_name(),
                Err(_) => self.name_without_identity(device),
            };
            let partitions = device.partitions.iter();
            let disk = Disk {
                found: found.clone(),
                partitions: partitions
                    .filter_map(|name| inventory.found.get(name).cloned())
                    .collect(),
                identity,
                candidates: identity::candidates(device, parent, &self.node),
                object_name,
                ndm_names: ndm::names(device, &self.host),
                excluded: self.filters.excluded(device, &devices),
                tag: self.filters.tag(device).map(str::to_owned),
                host: self.host.clone(),
            };
            (device.name.clone(), disk)
        });
        let disks: BTreeMap<String, Disk> = disks.collect();
        let mut by_identity: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (name, disk) in &disks {
            for identity in &disk.candidates {
                let key = (identity.scheme.to_string(), identity.value.clone());
                by_identity.entry(key).or_default().push(name.clone());
            }
        }
        View {
            disks,
            by_identity,
            undescribed: inventory.undescribed.clone(),
            awaited: inventory
                .awaited
                .keys()
                .filter(|name| {
                    !inventory.found.contains_key(*name) && !inventory.undescribed.contains_key(*name)
                })
                .cloned()
                .collect(),
            devices: devices.clone(),
        }
    }

    /// A name for the object of a device that nothing tells from others: it goes when the device goes.
    fn name_without_identity(&self, device: &Device) -> String {
        let plain = |c: char| {
            if c.is_ascii_lowercase() || c.is_ascii_digit() {
                c
            } else {
                '-'
            }
        };
        let name: String = device.name.to_ascii_lowercase().chars().map(plain).collect();
        format!("unidentified-{}-{}", self.node, name.trim_matches('-'))
    }
}

/// Whether a device is one that could ever be offered.
fn is_published(device: &Device) -> bool {
    if filter::ignored(device).is_some() || device.bytes == 0 {
        return false;
    }
    match (&device.kind, &device.partition) {
        (Kind::Zvol | Kind::Other, _) => false,
        // What others reserve (for a boot loader, for ZFS itself) is not worth an object. Without udev the type is not
        // known, and then it is not told to be free either.
        (Kind::Partition, Some(partition)) => {
            let plain = |id: &String| DATA_PARTITIONS.contains(&id.as_str());
            partition.type_id.as_ref().is_none_or(plain)
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests;
