//! The devices of a pool: which disk each is, and whether it is fit to be used.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use cstor_api::cstor::PoolDevice;
use cstor_api::names::{label, reason};
use cstor_api::openebs::{BlockDevice, BlockDeviceClaim};
use cstor_blockdev::Device;
use cstor_blockdev::contents::Probe;
use cstor_blockdev::ownership::Ownership;
use cstor_blockdev::scan::Found;
use cstor_zfs::{Guid, Label, PoolStatus, Vdev};

use super::super::Target;
use super::{Claimed, Observed};
use crate::disk::view::{Disk, View};

/// What ZFS leaves free at the end of a disk, and some more: a second partition of 8 MiB, a second partition table, and what
/// does not fill a whole unit. What is less is not worth a change.
const BEHIND: u64 = 48 << 20;

/// Why a device cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unfit {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Unfit {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

/// A label, and the device that carries it: a partition of the disk, or the disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Labelled<'a> {
    pub(super) disk: &'a Disk,
    pub(super) carrier: &'a Device,
    pub(super) label: &'a Label,
}

/// The node's disks as a pool sees them.
pub(super) struct Devices<'a> {
    seen: &'a Observed,
    view: &'a View,
    /// Every disk with a ZFS label.
    labelled: Vec<Labelled<'a>>,
    /// The BlockDevice of each disk, by the kernel's name of the disk.
    names: BTreeMap<&'a str, &'a str>,
}

impl<'a> Devices<'a> {
    pub(super) fn new(seen: &'a Observed, view: &'a View) -> Self {
        let mut names = BTreeMap::new();
        for (name, object) in &seen.devices {
            if let [disk] = view.matching(object).as_slice() {
                names.insert(disk.device().name.as_str(), name.as_str());
            }
        }
        let labelled = view
            .disks
            .values()
            .filter_map(|disk| labelled_of(view, disk))
            .collect();
        Self {
            seen,
            view,
            labelled,
            names,
        }
    }

    /// The disks whose labels speak of the pool of this number.
    pub(super) fn of_pool(&self, guid: Guid) -> impl Iterator<Item = &Labelled<'a>> {
        let of = move |one: &&Labelled<'a>| one.label.pool_guid == Some(guid.0);
        self.labelled.iter().filter(of)
    }

    /// All disks with labels.
    pub(super) fn labelled(&self) -> &[Labelled<'a>] {
        &self.labelled
    }

    /// The BlockDevice that is a device of the pool: by the label on the disk, or by what was recorded of a disk that is
    /// not here.
    pub(super) fn name_of(&self, vdev: Guid) -> Option<&'a str> {
        let by_label = self.labelled.iter().find(|one| one.label.vdev_guid == vdev.0);
        if let Some(name) = by_label.and_then(|one| self.names.get(one.disk.device().name.as_str())) {
            return Some(name);
        }
        let recorded = self.seen.object.status.as_ref()?.vdevs.as_ref()?;
        let text = vdev.to_string();
        let recorded = recorded.iter().find(|known| known.guid == text)?;
        recorded.block_device_name.as_deref()
    }

    /// The device of the pool that a BlockDevice is.
    pub(super) fn vdev_of(&self, block_device: &str, pool: &PoolStatus) -> Option<Guid> {
        let is_it = |guid: &Guid| pool.vdev(*guid).is_some();
        let disk = self.disk(block_device);
        if let Some(one) = disk.and_then(|disk| labelled_of(self.view, disk)) {
            // A disk that is here is what its label says, whatever was recorded.
            let same = one.label.pool_guid.is_none_or(|guid| guid == pool.guid.0);
            return same.then_some(Guid(one.label.vdev_guid)).filter(is_it);
        }
        if disk.is_some_and(was_read) {
            return None;
        }
        let recorded = self.seen.object.status.as_ref()?.vdevs.as_ref()?;
        let known = recorded
            .iter()
            .find(|known| known.block_device_name.as_deref() == Some(block_device))?;
        known.guid.parse().ok().map(Guid).filter(is_it)
    }

    /// Whether the disk of a device of the pool is here and can be read.
    pub(super) fn is_here(&self, vdev: Guid) -> bool {
        self.labelled.iter().any(|one| one.label.vdev_guid == vdev.0)
    }

    /// Whether the disk of a BlockDevice is here, was read, and has no ZFS label.
    pub(super) fn is_without_label(&self, block_device: &str) -> bool {
        let disk = self.disk(block_device).filter(|disk| was_read(disk));
        disk.is_some_and(|disk| labelled_of(self.view, disk).is_none())
    }

    /// Whether the disk of a device of the pool has room behind what the pool uses of it.
    pub(super) fn has_grown(&self, vdev: &Vdev) -> bool {
        let Some(one) = self
            .labelled
            .iter()
            .find(|one| one.label.vdev_guid == vdev.guid.0)
        else {
            return false;
        };
        let disk = one.disk.device();
        let used = match &one.carrier.partition {
            // Partitions that ZFS did not make are as large as somebody wanted them.
            Some(_) if one.carrier.name == disk.name => return false,
            Some(partition) => partition.start.saturating_add(one.carrier.bytes),
            None if vdev.size == 0 => return false,
            None => vdev.size,
        };
        disk.bytes.saturating_sub(used) > BEHIND
    }

    /// Whether the disk of a device of the pool is positively not here.
    pub(super) fn is_gone(&self, vdev: Guid) -> bool {
        let object = self.name_of(vdev).and_then(|name| self.object(name));
        let unseen = object.is_some_and(|object| self.view.matching(object).is_empty());
        unseen && self.view.undescribed.is_empty() && !self.is_here(vdev)
    }

    /// The object of this name on this node.
    pub(super) fn object(&self, name: &str) -> Option<&'a BlockDevice> {
        self.seen.devices.get(name).map(AsRef::as_ref)
    }

    /// The disk of a BlockDevice, if there is one alone.
    pub(super) fn disk(&self, block_device: &str) -> Option<&'a Disk> {
        let object = self.object(block_device)?;
        match self.view.matching(object).as_slice() {
            [disk] => Some(disk),
            _ => None,
        }
    }

    /// Whether any of these devices was brought by a VolumeAttachment, and so may be on another node one day.
    pub(super) fn are_attached<'d>(&self, mut devices: impl Iterator<Item = &'d PoolDevice>) -> bool {
        devices.any(|device| {
            let object = self.object(&device.block_device_name);
            let status = object.and_then(|object| object.status.as_ref());
            status.is_some_and(|status| status.attachment.is_some())
        })
    }

    /// A disk that may be written to, because it is proved blank and nobody else's.
    pub(super) fn blank(&self, device: &PoolDevice) -> Result<Target, Unfit> {
        let name = &device.block_device_name;
        let (target, disk) = self.target(name)?;
        if let Some(unfit) = self.claimed_by_another(name) {
            return Err(unfit);
        }
        match self.seen.judge(self.view).whose(disk) {
            Ownership::Blank => Ok(target),
            Ownership::Ours(ours) => Err(Unfit::new(
                reason::IN_OUR_POOL,
                format!("{name} is in the pool {} already", ours.pool_name),
            )),
            Ownership::Theirs(findings) => {
                let reason = findings.first().map_or(reason::SIGNATURE, |first| first.reason);
                let what: Vec<_> = findings.into_iter().map(|finding| finding.message).collect();
                let help = "It is left alone. Name another device, or have this one wiped if nobody needs what is on it";
                Err(Unfit::new(
                    reason,
                    format!("{name} is not blank: {}. {help}", what.join("; ")),
                ))
            }
            Ownership::Unknown { reason, message } => Err(Unfit::new(reason, format!("{name}: {message}"))),
        }
    }

    /// A disk of this node by the name of its BlockDevice.
    pub(super) fn target(&self, name: &str) -> Result<(Target, &'a Disk), Unfit> {
        let Some(object) = self.object(name) else {
            return Err(Unfit::new(
                reason::DEVICE_NOT_FOUND,
                format!("there is no BlockDevice {name} on {}", self.seen.node),
            ));
        };
        let disk = match self.view.matching(object).as_slice() {
            [disk] => *disk,
            [] => return Err(Unfit::new(reason::GONE, format!("{name} is not plugged in"))),
            _ => {
                return Err(Unfit::new(
                    reason::DUPLICATE_IDENTITY,
                    format!("there are several disks that say they are {name}"),
                ));
            }
        };
        let Ok(identity) = &disk.identity else {
            return Err(Unfit::new(
                reason::NO_IDENTITY,
                format!("nothing tells {name} from other disks"),
            ));
        };
        let target = Target {
            block_device: name.to_owned(),
            name: disk.device().name.clone(),
            identity: identity.value.clone(),
            path: link(disk.device()),
        };
        Ok((target, disk))
    }

    /// A disk with what a `zpool create` of this pool had written when it was cut off, and nothing else.
    pub(super) fn beginnings(&self, device: &PoolDevice, pool_name: &str) -> Option<Target> {
        let (target, disk) = self.target(&device.block_device_name).ok()?;
        let judge = self.seen.judge(self.view);
        judge.is_beginning(disk, pool_name).then_some(target)
    }

    /// A disk with the label of a device of this pool, and nothing else on it. One that somebody has put something on since
    /// is theirs.
    pub(super) fn left_over(&self, one: &Labelled<'a>) -> Option<Target> {
        let ours = match self.seen.judge(self.view).whose(one.disk) {
            Ownership::Ours(ours) => ours,
            _ => return None,
        };
        let same = ours.instance_uid == self.seen.uid && ours.vdev_guid == one.label.vdev_guid;
        let name = self.names.get(one.disk.device().name.as_str()).filter(|_| same)?;
        self.target(name).ok().map(|(target, _)| target)
    }

    fn claimed_by_another(&self, name: &str) -> Option<Unfit> {
        let message = match self.seen.claims.get(name)? {
            Claimed::Nobody => return None,
            Claimed::By(claim) if self.is_for_us(claim) => return None,
            Claimed::By(claim) => {
                let claim = claim.metadata.name.as_deref().unwrap_or_default();
                format!("{name} is claimed by BlockDeviceClaim {claim}, which is not for this pool")
            }
            Claimed::Missing(claim) => {
                format!("{name} is claimed by BlockDeviceClaim {claim}, which cannot be found")
            }
        };
        Some(Unfit::new(reason::CLAIMED, message))
    }

    /// Whether a claim is for this pool: it belongs to this instance, or to the cluster that the instance belongs to.
    fn is_for_us(&self, claim: &BlockDeviceClaim) -> bool {
        let meta = &self.seen.object.metadata;
        let value = |labels: Option<&BTreeMap<String, String>>, key: &str| {
            labels.and_then(|all| all.get(key).cloned())
        };
        let claimed_for = |key: &str| value(claim.metadata.labels.as_ref(), key);
        let owners = claim.metadata.owner_references.iter().flatten();
        let owned = owners.clone().any(|owner| owner.uid == self.seen.uid.as_str());
        let named = claimed_for(label::POOL_INSTANCE).is_some_and(|name| Some(name) == meta.name);
        let cluster = value(meta.labels.as_ref(), label::POOL_CLUSTER);
        let of_cluster = cluster.is_some() && claimed_for(label::POOL_CLUSTER) == cluster;
        owned || named || of_cluster
    }
}

/// The label on a disk, or on the partition that ZFS made on it. A partition that is offered by itself speaks for itself.
fn labelled_of<'a>(view: &'a View, disk: &'a Disk) -> Option<Labelled<'a>> {
    let of_disk = |found: &&Found| !view.disks.contains_key(&found.device.name);
    let parts = disk.partitions.iter().filter(of_disk);
    parts.chain([&disk.found]).find_map(|found| match &found.probe {
        Some(Probe::Read(contents)) => contents.zfs.as_ref().map(|label| Labelled {
            disk,
            carrier: &found.device,
            label,
        }),
        _ => None,
    })
}

/// Whether it is known what is on the disk.
fn was_read(disk: &Disk) -> bool {
    let read = |found: &Found| matches!(found.probe, Some(Probe::Read(_)));
    read(&disk.found) && disk.partitions.iter().all(read)
}

/// The path by which ZFS is to know a device: one that says which it is, for those change least.
pub(super) fn link(device: &Device) -> Utf8PathBuf {
    let by_id = |link: &&Utf8PathBuf| link.starts_with("/dev/disk/by-id");
    let by_path = |link: &&Utf8PathBuf| link.starts_with("/dev/disk/by-path");
    let shortest = |links: Vec<&Utf8PathBuf>| {
        let key = |link: &&Utf8PathBuf| (link.as_str().len(), link.to_string());
        links.into_iter().min_by_key(key).cloned()
    };
    let of = |kind: &dyn Fn(&&Utf8PathBuf) -> bool| {
        shortest(device.links.iter().filter(|link| kind(link)).collect())
    };
    of(&by_id).or_else(|| of(&by_path)).unwrap_or_else(|| {
        let path: &Utf8Path = &device.path;
        path.to_owned()
    })
}
