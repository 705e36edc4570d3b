//! What the pool is made of, against what it shall be made of. One change at a time.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8PathBuf;
use cstor_api::cstor::{CStorPoolInstanceSpec, PoolConfig, PoolDevice, RaidGroup, RaidType};
use cstor_api::names::{annotation, reason};
use cstor_zfs::{
    DraidShape, Group, Guid, Layout, PoolName, PoolStatus, Redundancy, State, Vdev, VdevClass, VdevKind,
};

use super::super::{PoolStep, Target};
use super::devices::{Devices, Unfit};
use super::{Claimed, Observed};

/// What is to be done about the shape of the pool.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Change {
    /// The next step.
    pub(super) step: Option<PoolStep>,
    /// Devices that replace others: (old, new), running or to come.
    pub(super) replacing: Vec<(String, String)>,
    /// What is being added, or is to come.
    pub(super) growing: Vec<String>,
    /// What is wished and cannot be done, and why.
    pub(super) refused: Vec<Unfit>,
}

/// The layout of a whole new pool.
pub(super) fn whole(spec: &CStorPoolInstanceSpec, disks: &[Target]) -> Result<Layout, Unfit> {
    let paths: BTreeMap<&str, &Utf8PathBuf> = disks
        .iter()
        .map(|disk| (disk.block_device.as_str(), &disk.path))
        .collect();
    let path = |device: &PoolDevice| {
        let path = paths.get(device.block_device_name.as_str());
        path.map(|path| (*path).clone()).ok_or_else(|| Unfit {
            reason: reason::DEVICE_NOT_FOUND,
            message: format!("{} is not known", device.block_device_name),
        })
    };
    let config = &spec.pool_config;
    let group = |group: &RaidGroup, kind: &RaidType| {
        let devices: Vec<_> = group.block_devices.iter().map(path).collect::<Result<_, _>>()?;
        Ok(Group {
            redundancy: redundancy(kind, config, devices.len())?,
            devices,
        })
    };
    let groups = |groups: Option<&Vec<RaidGroup>>, kind: Option<&RaidType>| {
        let kind = kind.unwrap_or(&RaidType::Stripe);
        let all = groups.into_iter().flatten();
        all.map(|one| group(one, kind)).collect::<Result<Vec<_>, Unfit>>()
    };
    let list = |devices: Option<&Vec<PoolDevice>>| {
        let all = devices.into_iter().flatten();
        all.map(path).collect::<Result<Vec<_>, Unfit>>()
    };
    Ok(Layout {
        data: groups(Some(&spec.data_raid_groups), Some(&config.data_raid_group_type))?,
        log: groups(
            spec.write_cache_raid_groups.as_ref(),
            config.write_cache_group_type.as_ref(),
        )?,
        special: groups(
            spec.special_raid_groups.as_ref(),
            config.special_group_type.as_ref(),
        )?,
        dedup: Vec::new(),
        cache: list(spec.read_cache_block_devices.as_ref())?,
        spare: list(spec.spare_block_devices.as_ref())?,
    })
}

fn redundancy(kind: &RaidType, config: &PoolConfig, devices: usize) -> Result<Redundancy, Unfit> {
    let number = |value: Option<i32>, default: u16| {
        value
            .and_then(|value| u16::try_from(value).ok())
            .unwrap_or(default)
    };
    Ok(match kind {
        RaidType::Stripe => Redundancy::Stripe,
        RaidType::Mirror => Redundancy::Mirror,
        RaidType::Raidz => Redundancy::Raidz(1),
        RaidType::Raidz2 => Redundancy::Raidz(2),
        RaidType::Raidz3 => Redundancy::Raidz(3),
        RaidType::Draid => {
            let wish = config.draid.clone().unwrap_or_default();
            Redundancy::Draid(DraidShape {
                parity: u8::try_from(number(wish.parity, 1)).unwrap_or(1),
                data: wish.data.and_then(|data| u16::try_from(data).ok()),
                children: u16::try_from(devices).unwrap_or(u16::MAX),
                spares: number(wish.spares, 0),
            })
        }
        RaidType::Other(word) if word.is_empty() => Redundancy::Stripe,
        RaidType::Other(word) => {
            return Err(Unfit {
                reason: reason::INVALID_REQUEST,
                message: format!(
                    "{word:?} is no raid type: use stripe, mirror, raidz, raidz2, raidz3 or draid"
                ),
            });
        }
    })
}

/// A device of a group, with what stands in for it or takes its place.
struct Slot<'a> {
    vdev: &'a Vdev,
}

impl Slot<'_> {
    fn devices(&self) -> impl Iterator<Item = &Vdev> {
        self.vdev.all().filter(|vdev| vdev.is_device())
    }

    fn has(&self, guid: Guid) -> bool {
        self.devices().any(|device| device.guid == guid)
    }

    fn is_moving(&self) -> bool {
        self.vdev.all().any(|vdev| vdev.kind == VdevKind::Replacing)
    }

    /// The device that a replacement is put in the place of.
    fn replaced(&self) -> Option<Guid> {
        self.devices().next().map(|device| device.guid)
    }
}

struct Shaper<'a> {
    seen: &'a Observed,
    devices: &'a Devices<'a>,
    pool: &'a PoolStatus,
    /// Whether the pool was made for the instance. Of one that was adopted nothing is taken away that nobody names.
    made_by_us: bool,
    change: Change,
}

/// What is to be done so that the pool becomes what is wished.
pub(super) fn change(seen: &Observed, devices: &Devices<'_>, pool: &PoolStatus, made_by_us: bool) -> Change {
    let spec = &seen.object.spec;
    let config = &spec.pool_config;
    let mut shaper = Shaper {
        seen,
        devices,
        pool,
        made_by_us,
        change: Change::default(),
    };
    shaper.groups(
        VdevClass::Data,
        &spec.data_raid_groups,
        &config.data_raid_group_type,
    );
    let stripe = RaidType::Stripe;
    if let Some(groups) = &spec.special_raid_groups {
        let kind = config.special_group_type.as_ref().unwrap_or(&stripe);
        shaper.groups(VdevClass::Special, groups, kind);
    }
    let none = Vec::new();
    let logs = spec.write_cache_raid_groups.as_ref().unwrap_or(&none);
    let kind = config.write_cache_group_type.as_ref().unwrap_or(&stripe);
    shaper.groups(VdevClass::Log, logs, kind);
    shaper.list(VdevClass::Cache, spec.read_cache_block_devices.as_ref());
    shaper.list(VdevClass::Spare, spec.spare_block_devices.as_ref());
    shaper.change
}

impl Shaper<'_> {
    fn pool_name(&self) -> PoolName {
        self.pool.name.clone()
    }

    fn step(&mut self, step: PoolStep) {
        self.change.step.get_or_insert(step);
    }

    fn remove(&mut self, vdev: Guid) {
        if self.made_by_us {
            let pool = self.pool_name();
            self.step(PoolStep::Remove { pool, vdev });
        }
    }

    fn vdev_of(&self, device: &PoolDevice) -> Option<Guid> {
        self.devices.vdev_of(&device.block_device_name, self.pool)
    }

    fn name_of(&self, guid: Guid) -> String {
        let name = self.devices.name_of(guid).map(str::to_owned);
        name.unwrap_or_else(|| guid.to_string())
    }

    fn groups(&mut self, class: VdevClass, wished: &[RaidGroup], kind: &RaidType) {
        let tops: Vec<&Vdev> = self
            .pool
            .vdevs
            .iter()
            .filter(|vdev| vdev.class == class && !matches!(vdev.kind, VdevKind::Hole | VdevKind::Indirect))
            .collect();
        if matches!(kind, RaidType::Stripe) || matches!(kind, RaidType::Other(word) if word.is_empty()) {
            let all: Vec<&PoolDevice> = wished.iter().flat_map(|group| &group.block_devices).collect();
            let slots = tops.iter().map(|vdev| Slot { vdev }).collect::<Vec<_>>();
            self.slots(&all, &slots, None, class);
            return;
        }
        let pairs = self.paired(wished, &tops);
        for (group, top) in wished.iter().zip(&pairs) {
            let all: Vec<&PoolDevice> = group.block_devices.iter().collect();
            match top {
                Some(top) => {
                    // A mirror that has lost all but one device is that device.
                    let slots: Vec<_> = match top.children.as_slice() {
                        [] => vec![Slot { vdev: top }],
                        children => children.iter().map(|vdev| Slot { vdev }).collect(),
                    };
                    self.slots(&all, &slots, Some((top, kind)), class);
                }
                None => self.add_group(&all, kind, class),
            }
        }
        if class == VdevClass::Log {
            let used: BTreeSet<Guid> = pairs.iter().flatten().map(|top| top.guid).collect();
            let surplus = tops.iter().find(|top| !used.contains(&top.guid));
            if let Some(top) = surplus {
                self.remove(top.guid);
            }
        }
    }

    /// Which vdev of the pool each wished group is: the one that has a device of it; what is left is paired in order.
    fn paired<'v>(&self, wished: &[RaidGroup], tops: &[&'v Vdev]) -> Vec<Option<&'v Vdev>> {
        let mut free: Vec<&Vdev> = tops.to_vec();
        let mut pairs: Vec<Option<&Vdev>> = Vec::new();
        for group in wished {
            let guids: Vec<Guid> = group
                .block_devices
                .iter()
                .filter_map(|one| self.vdev_of(one))
                .collect();
            let holds = |top: &&Vdev| top.all().any(|vdev| guids.contains(&vdev.guid));
            let found = free.iter().position(holds).map(|index| free.remove(index));
            pairs.push(found);
        }
        let mut rest = free.into_iter();
        for pair in pairs.iter_mut().filter(|pair| pair.is_none()) {
            *pair = rest.next();
        }
        pairs
    }

    /// The devices of one group, or those by themselves.
    fn slots(
        &mut self,
        wished: &[&PoolDevice],
        slots: &[Slot<'_>],
        group: Option<(&Vdev, &RaidType)>,
        class: VdevClass,
    ) {
        let placed = |device: &&PoolDevice| {
            let guid = self.vdev_of(device);
            guid.and_then(|guid| slots.iter().position(|slot| slot.has(guid)))
        };
        let at: Vec<Option<usize>> = wished.iter().map(placed).collect();
        let taken: BTreeSet<usize> = at.iter().flatten().copied().collect();
        let mut surplus: Vec<usize> = (0..slots.len()).filter(|index| !taken.contains(index)).collect();
        let missing = wished.iter().zip(&at).filter(|(_, at)| at.is_none());
        let missing: Vec<&PoolDevice> = missing.map(|(device, _)| *device).collect();
        self.tell_moving(wished, slots);
        if group.is_some() && taken.is_empty() && !missing.is_empty() {
            let names: Vec<_> = wished
                .iter()
                .map(|device| device.block_device_name.as_str())
                .collect();
            self.change.refused.push(Unfit {
                reason: reason::INVALID_REQUEST,
                message: format!(
                    "no device of the group {} is in the pool: replace the devices of a group one after the other",
                    names.join(", ")
                ),
            });
            return;
        }
        let moving = slots.iter().any(Slot::is_moving);
        let mut further = Vec::new();
        for device in missing {
            let slot = self.slot_for(device, slots, &surplus, wished);
            match slot.and_then(|index| slots.get(index).map(|slot| (index, slot))) {
                Some((index, slot)) => {
                    surplus.retain(|other| *other != index);
                    self.replace(slot, device, moving);
                }
                None => further.push(device),
            }
        }
        match group {
            None if !further.is_empty() => self.add_group(&further, &RaidType::Stripe, class),
            None => {}
            Some((top, kind)) => {
                if let Some(device) = further.first() {
                    self.widen(top, kind, device, moving);
                }
            }
        }
        if group.is_none() && class == VdevClass::Log {
            for index in surplus {
                if let Some(slot) = slots.get(index) {
                    self.remove(slot.vdev.guid);
                }
            }
        }
    }

    /// Which slot a device that is not in the pool takes: the one its claim names, or the one in its place.
    fn slot_for(
        &self,
        device: &PoolDevice,
        slots: &[Slot<'_>],
        surplus: &[usize],
        wished: &[&PoolDevice],
    ) -> Option<usize> {
        let named = match self.seen.claims.get(&device.block_device_name) {
            Some(Claimed::By(claim)) => {
                let annotations = claim.metadata.annotations.as_ref();
                annotations.and_then(|all| all.get(annotation::BLOCK_DEVICE_PREDECESSOR))
            }
            _ => None,
        };
        if let Some(old) = named
            && let Some(guid) = self.devices.vdev_of(old, self.pool)
        {
            return surplus
                .iter()
                .copied()
                .find(|index| slots.get(*index).is_some_and(|slot| slot.has(guid)));
        }
        if !self.made_by_us {
            return None;
        }
        let place = wished
            .iter()
            .position(|other| other.block_device_name == device.block_device_name)?;
        surplus
            .contains(&place)
            .then_some(place)
            .or_else(|| surplus.first().copied())
    }

    fn tell_moving(&mut self, wished: &[&PoolDevice], slots: &[Slot<'_>]) {
        for slot in slots.iter().filter(|slot| slot.is_moving()) {
            let names: Vec<String> = slot.devices().map(|device| self.name_of(device.guid)).collect();
            let is_wished = |name: &&String| wished.iter().any(|device| device.block_device_name == **name);
            let new = names.iter().find(is_wished).cloned();
            let old = names.iter().find(|name| Some(*name) != new.as_ref()).cloned();
            self.change
                .replacing
                .push((old.unwrap_or_default(), new.unwrap_or_default()));
        }
    }

    fn replace(&mut self, slot: &Slot<'_>, device: &PoolDevice, moving: bool) {
        let Some(old) = slot.replaced() else {
            return;
        };
        let pair = (self.name_of(old), device.block_device_name.clone());
        self.change.replacing.push(pair);
        if moving {
            // One in a group at a time: each takes redundancy away.
            return;
        }
        match self.devices.blank(device) {
            Ok(disk) => {
                let step = PoolStep::Replace {
                    pool: self.pool_name(),
                    old,
                    disk: Box::new(disk),
                };
                self.step(step);
            }
            Err(unfit) => self.change.refused.push(unfit),
        }
    }

    fn widen(&mut self, top: &Vdev, kind: &RaidType, device: &PoolDevice, moving: bool) {
        self.change.growing.push(device.block_device_name.clone());
        let expanding = self
            .pool
            .expansion
            .as_ref()
            .is_some_and(|expansion| expansion.running);
        if moving || expanding || self.pool.is_resilvering() {
            return;
        }
        let to = match kind {
            RaidType::Mirror => top
                .all()
                .find(|vdev| vdev.is_device() && vdev.state == State::Online),
            RaidType::Raidz | RaidType::Raidz2 | RaidType::Raidz3 => Some(top),
            _ => {
                self.change.refused.push(Unfit {
                    reason: reason::INVALID_REQUEST,
                    message: format!(
                        "{} cannot be added to a {kind} group: add devices as a group of their own",
                        device.block_device_name
                    ),
                });
                return;
            }
        };
        let Some(to) = to.map(|vdev| vdev.guid) else {
            return;
        };
        match self.devices.blank(device) {
            Ok(disk) => {
                let step = PoolStep::Attach {
                    pool: self.pool_name(),
                    to,
                    disk: Box::new(disk),
                };
                self.step(step);
            }
            Err(unfit) => self.change.refused.push(unfit),
        }
    }

    fn add_group(&mut self, wished: &[&PoolDevice], kind: &RaidType, class: VdevClass) {
        let names = wished.iter().map(|device| device.block_device_name.clone());
        self.change.growing.extend(names);
        let mut disks = Vec::new();
        for device in wished {
            match self.devices.blank(device) {
                Ok(disk) => disks.push(disk),
                Err(unfit) => self.change.refused.push(unfit),
            }
        }
        if disks.len() < wished.len() {
            return;
        }
        let redundancy = match redundancy(kind, &self.seen.object.spec.pool_config, disks.len()) {
            Ok(redundancy) => redundancy,
            Err(unfit) => {
                self.change.refused.push(unfit);
                return;
            }
        };
        let group = Group {
            redundancy,
            devices: disks.iter().map(|disk| disk.path.clone()).collect(),
        };
        let mut layout = Layout::default();
        match class {
            VdevClass::Log => layout.log.push(group),
            VdevClass::Special => layout.special.push(group),
            VdevClass::Dedup => layout.dedup.push(group),
            VdevClass::Cache => layout.cache = group.devices,
            VdevClass::Spare => layout.spare = group.devices,
            VdevClass::Data => layout.data.push(group),
        }
        let step = PoolStep::Add {
            pool: self.pool_name(),
            layout: Box::new(layout),
            disks,
        };
        self.step(step);
    }

    /// Cache devices and spares: what is missing is added, what is too many is removed.
    fn list(&mut self, class: VdevClass, wished: Option<&Vec<PoolDevice>>) {
        let wished: Vec<&PoolDevice> = wished.into_iter().flatten().collect();
        let there: Vec<&Vdev> = self
            .pool
            .vdevs
            .iter()
            .filter(|vdev| vdev.class == class)
            .collect();
        let guids: BTreeSet<Guid> = wished.iter().filter_map(|device| self.vdev_of(device)).collect();
        // A disk that is in the pool for something else is no cache device or spare that is missing: a spare that is
        // wished for elsewhere is the change of a person's mind, and told by ZFS.
        let missing: Vec<&PoolDevice> = wished
            .iter()
            .copied()
            .filter(|device| self.vdev_of(device).is_none())
            .collect();
        let surplus = there.iter().find(|vdev| {
            !guids.contains(&vdev.guid) && vdev.state != State::InUse && vdev.kind != VdevKind::DraidSpare
        });
        if let Some(vdev) = surplus {
            self.remove(vdev.guid);
        }
        if !missing.is_empty() {
            self.add_group(&missing, &RaidType::Stripe, class);
        }
    }
}
