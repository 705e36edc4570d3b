//! New devices and groups: what ZFS takes without being forced.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};

use super::disk::{self, Behaviour, Content, Place, Stamp, Written};
use super::pool::{self, Pool};
use super::pools::FIRST;
use super::vdev::{self, Kind, Leaf, Node};
use super::world::{Answer, No, World, no};
use crate::{Group, Label, Layout, Redundancy, VdevClass};

/// The vdevs that a layout makes.
pub(super) struct Built {
    pub(super) tops: Vec<Node>,
    pub(super) cache: Vec<Node>,
    pub(super) spares: Vec<Node>,
}

/// How well a group is protected, as ZFS compares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Protection {
    kind: &'static str,
    tolerance: usize,
    width: usize,
}

impl Protection {
    /// Whether ZFS takes both in one pool. Mirrors and raidz of the same tolerance go together.
    fn fits(self, other: Self) -> bool {
        let both = |kind| self.kind == kind || other.kind == kind;
        if self.kind != other.kind {
            return both("mirror") && both("raidz") && self.tolerance == other.tolerance;
        }
        self.tolerance == other.tolerance && self.width == other.width
    }
}

fn protection_of_group(group: &Group) -> Protection {
    let width = group.devices.len();
    let (kind, tolerance, width) = match group.redundancy {
        Redundancy::Stripe => ("disk", 0, 1),
        Redundancy::Mirror => ("mirror", width.saturating_sub(1), width),
        Redundancy::Raidz(parity) => ("raidz", usize::from(parity), width),
        Redundancy::Draid(shape) => ("draid", usize::from(shape.parity), width),
    };
    Protection {
        kind,
        tolerance,
        width,
    }
}

fn protection_of_vdev(top: &Node) -> Option<Protection> {
    let width = top.children.len();
    let (kind, tolerance, width) = match top.kind {
        Kind::Mirror => ("mirror", width.saturating_sub(1), width),
        Kind::Raidz(parity) => ("raidz", usize::from(parity), width),
        Kind::Draid(shape) => ("draid", usize::from(shape.parity), width),
        Kind::Disk | Kind::Replacing | Kind::Spare => ("disk", 0, 1),
        Kind::DraidSpare { .. } | Kind::Hole | Kind::Indirect => return None,
    };
    (top.class != VdevClass::Log).then_some(Protection {
        kind,
        tolerance,
        width,
    })
}

/// Whether the groups make sense, each by itself and together with the vdevs that are there.
fn check(layout: &Layout, there: &[Node]) -> Answer<()> {
    let mut paths = BTreeSet::new();
    if let Some(twice) = layout.devices().find(|path| !paths.insert(*path)) {
        return no(format!(
            "invalid vdev specification: '{twice}' is given more than once"
        ));
    }
    for group in [&layout.data, &layout.special, &layout.dedup, &layout.log]
        .into_iter()
        .flatten()
    {
        let (least, most) = match group.redundancy {
            Redundancy::Stripe => (1, usize::MAX),
            Redundancy::Mirror => (2, usize::MAX),
            Redundancy::Raidz(parity @ 1..=3) => (usize::from(parity) + 1, 255),
            Redundancy::Draid(shape) if (1..=3).contains(&shape.parity) => {
                let least = vdev::draid_data(shape) + u16::from(shape.parity) + shape.spares;
                let all = usize::from(shape.children);
                (all.max(usize::from(least)), all)
            }
            Redundancy::Raidz(_) | Redundancy::Draid(_) => {
                return no("invalid vdev specification: parity must be 1, 2 or 3");
            }
        };
        let given = group.devices.len();
        if !(least..=most).contains(&given) {
            return no(format!(
                "invalid vdev specification: {} requires at least {least} devices and at most {most}, not {given}",
                group.redundancy
            ));
        }
    }
    let raidz = |group: &&Group| matches!(group.redundancy, Redundancy::Raidz(_) | Redundancy::Draid(_));
    if layout.log.iter().any(|group| raidz(&group)) {
        return no("invalid vdev specification: unsupported 'log' device: raidz");
    }
    let new = [&layout.data, &layout.special, &layout.dedup];
    let new = new.into_iter().flatten().map(protection_of_group);
    let mut all = there.iter().filter_map(protection_of_vdev).chain(new);
    if let Some(first) = all.next()
        && let Some(other) = all.find(|other| !first.fits(*other))
    {
        return no(format!(
            "invalid vdev specification; use '-f' to override: mismatched replication level: {first:?} and {other:?}"
        ));
    }
    Ok(())
}

impl World {
    /// Opens a device that is to be new in a pool, if ZFS takes it without being forced.
    pub(super) fn take(&self, host: &str, path: &Utf8Path) -> Answer<Leaf> {
        let Some((serial, disk)) = self
            .at(host, path)
            .and_then(|serial| Some((serial, self.disks.get(serial)?)))
        else {
            return no(format!("cannot open '{path}': No such file or directory"));
        };
        match disk.behaviour {
            Behaviour::Good => {}
            Behaviour::Failing => return no(format!("cannot open '{path}': Input/output error")),
            Behaviour::Hanging => return Err(No::Hang),
        }
        let forced = "invalid vdev specification; use '-f' to override the following errors";
        if let Some(pool) = self.held_by(host, serial) {
            return no(format!("{forced}: {path} is part of active pool '{pool}'"));
        }
        match &disk.content {
            Content::Nothing => {}
            Content::Other(what) => {
                return no(format!("{forced}: {path} contains a filesystem of type '{what}'"));
            }
            Content::Zfs(stamp) => {
                let label = &stamp.label;
                let name = label.pool_name.as_deref().unwrap_or_default();
                // A label of txg 0 was left behind; spares and cache devices may be shared. ZFS takes them all.
                match label.state {
                    pool::ACTIVE if label.txg > 0 => {
                        return no(format!(
                            "{forced}: {path} is part of potentially active pool '{name}'"
                        ));
                    }
                    pool::EXPORTED => {
                        return no(format!("{forced}: {path} is part of exported pool '{name}'"));
                    }
                    _ => {}
                }
            }
        }
        if disk.bytes < disk::SMALLEST {
            return no(format!(
                "one or more devices is less than the minimum size (64M): {path}"
            ));
        }
        let (used, partitioned) = match disk.place(host, path) {
            Some(Place::First) => (path.to_owned(), true),
            _ => (disk::used_path(path), disk::is_whole_disk(path)),
        };
        Ok(Leaf::new(used, serial, disk::usable(disk.bytes, partitioned)))
    }

    /// Opens all devices of a layout and makes vdevs of them, which are to stand beside `there`.
    pub(super) fn build(&mut self, host: &str, layout: &Layout, there: &[Node]) -> Answer<Built> {
        check(layout, there)?;
        let mut serials = BTreeSet::new();
        // All are looked at before anything is written, and a hang is one before it is refused.
        let taken: Vec<_> = layout.devices().map(|path| self.take(host, path)).collect();
        if taken.contains(&Err(No::Hang)) {
            return Err(No::Hang);
        }
        let mut leaves = BTreeMap::new();
        for (path, leaf) in layout.devices().zip(taken) {
            let leaf = leaf?;
            if !serials.insert(leaf.disk.clone()) {
                return no("one or more vdevs refer to the same device");
            }
            leaves.insert(path.clone(), leaf);
        }
        let mut new = |world: &mut Self, path: &Utf8PathBuf, class| {
            let leaf = leaves.remove(path);
            leaf.map(|leaf| world.new_device(host, path, class, leaf))
        };
        let mut built = Built {
            tops: Vec::new(),
            cache: Vec::new(),
            spares: Vec::new(),
        };
        for (class, groups) in [
            (VdevClass::Data, &layout.data),
            (VdevClass::Special, &layout.special),
            (VdevClass::Dedup, &layout.dedup),
            (VdevClass::Log, &layout.log),
        ] {
            for group in groups {
                let devices = group.devices.iter().filter_map(|path| new(self, path, class));
                let devices: Vec<Node> = devices.collect();
                let kind = match group.redundancy {
                    Redundancy::Stripe => {
                        built.tops.extend(devices);
                        continue;
                    }
                    Redundancy::Mirror => Kind::Mirror,
                    Redundancy::Raidz(parity) => Kind::Raidz(parity),
                    Redundancy::Draid(shape) => Kind::Draid(shape),
                };
                if let Kind::Draid(shape) = kind {
                    let top = there.len() + built.tops.len();
                    for index in 0..shape.spares {
                        let parity = shape.parity;
                        let kind = Kind::DraidSpare { parity, top, index };
                        let spare = Node::group(self.guid(), VdevClass::Spare, kind, Vec::new());
                        built.spares.push(spare);
                    }
                }
                built.tops.push(Node::group(self.guid(), class, kind, devices));
            }
        }
        for path in &layout.cache {
            built.cache.extend(new(self, path, VdevClass::Cache));
        }
        for path in &layout.spare {
            built.spares.extend(new(self, path, VdevClass::Spare));
        }
        Ok(built)
    }

    /// Makes a device of a pool of what was found at a path. On a whole disk ZFS makes partitions.
    pub(super) fn new_device(&mut self, host: &str, path: &Utf8Path, class: VdevClass, leaf: Leaf) -> Node {
        let vdev = self.guid();
        if let Some(serial) = leaf.disk.as_ref().filter(|_| leaf.path != path) {
            let is_made = self.write(Some(host), serial, Written::Partitions { vdev }, Content::Nothing);
            if let Some(disk) = self.disks.get_mut(serial).filter(|_| is_made) {
                disk.partitioned = true;
            }
        }
        Node::device(vdev, class, leaf)
    }

    /// Says on new devices which pool they are to be in. They are when the pool is written.
    pub(super) fn label_new<'a>(&mut self, host: &str, pool: &Pool, new: impl IntoIterator<Item = &'a Node>) {
        for (vdev, leaf) in new.into_iter().flat_map(Node::leaves) {
            let Some(serial) = &leaf.disk else {
                continue;
            };
            let mut label = Label {
                txg: 0,
                ..pool.label(vdev)
            };
            // A pool that is being made gets its properties when it is there.
            label.comment = label.comment.filter(|_| pool.txg > FIRST);
            let written = Written::Label {
                pool: pool.guid,
                vdev,
                txg: 0,
            };
            let content = Content::Zfs(Stamp { label, image: None });
            self.write(Some(host), serial, written, content);
        }
    }

    /// Puts new vdevs into a pool and says so on them.
    pub(super) fn put(&mut self, host: &str, pool: &mut Pool, built: Built) {
        self.label_new(host, pool, &built.tops);
        for (nodes, state) in [(&built.spares, pool::SPARE), (&built.cache, pool::L2CACHE)] {
            for node in nodes {
                let serial = node.leaf.as_ref().and_then(|leaf| leaf.disk.clone());
                if let Some(serial) = serial {
                    self.write_waiting(host, &serial, node.guid, state);
                }
            }
        }
        pool.tops.extend(built.tops);
        pool.cache.extend(built.cache);
        pool.spares.extend(built.spares);
    }
}
