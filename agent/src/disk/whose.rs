//! Whose a disk is, of all that the agent knows: what is on it, which pools are ours, which attachments brought it.

use std::collections::BTreeSet;
use std::sync::Arc;

use cstor_api::cstor::{CStorPoolInstance, VdevStatus};
use cstor_api::dao::Storage;
use cstor_api::names::reason;
use cstor_api::openebs::Attachment;
use cstor_blockdev::contents::Probe;
use cstor_blockdev::filter;
use cstor_blockdev::ownership::{self, Examined, Ownership, Record, Records, Subject, ownership};
use cstor_blockdev::scan::Found;

use super::matches::{Bound, Matched};
use super::view::{Disk, View};

/// Whom a disk was brought for.
enum Brought {
    /// Nobody by an attachment, or us.
    ForUs,
    /// Somebody else, for certain or maybe.
    ForOthers(String),
    /// It was not held against the attachments yet.
    Unknown,
}

/// What is known.
#[derive(Debug, Clone, Copy)]
pub struct Judge<'a> {
    /// The disks of the node.
    pub view: &'a View,
    /// The pools that are ours.
    pub records: &'a Records,
    /// Which disks VolumeAttachments brought.
    pub matched: &'a Matched,
    /// The PersistentVolumes that were attached on our behalf.
    pub our_volumes: &'a BTreeSet<String>,
}

impl Judge<'_> {
    /// Whose a disk is.
    #[must_use]
    pub fn whose(&self, disk: &Disk) -> Ownership {
        let brought = self.brought(disk);
        let unknown = |reason, message: &str| Ownership::Unknown {
            reason,
            message: message.to_owned(),
        };
        let owned = self.asked(disk, &brought, |subject| ownership(subject, self.records));
        match (owned, brought) {
            _ if disk.excluded.is_some() => unknown(
                reason::EXCLUDED,
                "The agent's configuration leaves the disk out, so it is not looked at.",
            ),
            (Ownership::Blank, Brought::Unknown) => unknown(
                reason::NOT_YET_MATCHED,
                "It was not held against the VolumeAttachments of the node yet.",
            ),
            (Ownership::Blank, _) if is_being_read(disk) => unknown(
                reason::BEING_READ,
                "Something has changed on it, and it is being read anew.",
            ),
            (owned, _) => owned,
        }
    }

    /// Whether the disk holds what a `zpool create` of the pool of this name had written when it was cut off, and nothing
    /// else. Whether it was ours and blank before that is not told by the disk: that was recorded.
    #[must_use]
    pub fn is_beginning(&self, disk: &Disk, pool_name: &str) -> bool {
        let brought = self.brought(disk);
        disk.excluded.is_none()
            && !is_being_read(disk)
            && self.asked(disk, &brought, |subject| {
                ownership::is_beginning(subject, pool_name)
            })
    }

    /// Asks something of all that is known of a disk.
    fn asked<T>(&self, disk: &Disk, brought: &Brought, ask: impl FnOnce(&Subject<'_>) -> T) -> T {
        let not_read = Probe::NotResponding;
        let probes = disk.partitions.iter().map(|found| found.probe.as_ref());
        let partitions: Vec<_> = disk
            .partitions
            .iter()
            .zip(probes)
            .map(|(found, probe)| Examined {
                device: &found.device,
                probe: probe.unwrap_or(&not_read),
            })
            .collect();
        let parent = disk.device().parent.as_ref().map(|_| self.view.whole(disk));
        ask(&Subject {
            examined: Examined {
                device: disk.device(),
                probe: disk.found.probe.as_ref().unwrap_or(&not_read),
            },
            partitions: &partitions,
            parent: parent.map(|parent| Examined {
                device: parent.device(),
                probe: parent.found.probe.as_ref().unwrap_or(&not_read),
            }),
            foreign_attachment: match brought {
                Brought::ForOthers(whom) => Some(whom),
                Brought::ForUs | Brought::Unknown => None,
            },
        })
    }

    fn brought(&self, disk: &Disk) -> Brought {
        let whom = |attachment: &Attachment| {
            let name = &attachment.persistent_volume_name;
            match self.our_volumes.contains(name) {
                true => Brought::ForUs,
                false => Brought::ForOthers(format!("PersistentVolume {name} of {}", attachment.driver)),
            }
        };
        let brought = |bound: &Bound| match bound {
            Bound::Certain(attachment) | Bound::Settling(attachment) => whom(attachment),
            Bound::Doubtful { message, .. } => Brought::ForOthers(message.clone()),
        };
        match self.matched.of(self.view.whole(disk).device()) {
            None => Brought::Unknown,
            Some(Some(bound)) => brought(bound),
            Some(None) => self.beneath(disk, brought),
        }
    }

    /// Whom the disks were brought for that a volume, a mapping or an array is made of: it is theirs as well.
    fn beneath(&self, disk: &Disk, brought: impl Fn(&Bound) -> Brought) -> Brought {
        let devices = &self.view.devices;
        let names = filter::beneath(std::iter::once(disk.device().name.as_str()), devices);
        let mut all = Brought::ForUs;
        for name in names {
            match devices.get(name).map(|device| self.matched.of(device)) {
                Some(Some(None)) => {}
                Some(Some(Some(bound))) => {
                    let one = brought(bound);
                    if matches!(one, Brought::ForOthers(_)) {
                        return one;
                    }
                }
                // What is under it is not known, so neither is whom it was brought for.
                None | Some(None) => all = Brought::Unknown,
            }
        }
        all
    }
}

/// Whether what is known of the disk or of a part of it is from before a change.
#[must_use]
pub fn is_being_read(disk: &Disk) -> bool {
    let changed = |found: &Found| found.changed;
    changed(&disk.found) || disk.partitions.iter().any(changed)
}

/// The pools that instances record.
#[must_use]
pub fn records(instances: &[Arc<CStorPoolInstance>]) -> Records {
    instances.iter().filter_map(|instance| record(instance)).collect()
}

fn record(instance: &CStorPoolInstance) -> Option<Record> {
    let status = instance.status.as_ref();
    let vdevs = status.and_then(|status| status.vdevs.as_deref());
    Some(Record {
        instance: instance.metadata.uid.as_deref()?.parse().ok()?,
        pool_name: status.and_then(|status| status.pool_name.clone()),
        pool_guid: status.and_then(|status| status.pool_guid.as_ref()?.parse().ok()),
        vdev_guids: vdevs.map(guids).unwrap_or_default(),
    })
}

fn guids(vdevs: &[VdevStatus]) -> BTreeSet<u64> {
    vdevs.iter().filter_map(|vdev| vdev.guid.parse().ok()).collect()
}

/// The PersistentVolumes that were attached on our behalf.
#[must_use]
pub fn our_volumes(storages: &[Arc<Storage>]) -> BTreeSet<String> {
    let volumes = storages.iter().filter_map(|storage| {
        let status = storage.status.as_ref()?;
        status.persistent_volume_name.clone()
    });
    volumes.collect()
}
