//! A pool as ZFS tells of it.

use std::time::Duration;

use jiff::Timestamp;

use super::job::Job;
use super::pool::Pool;
use super::vdev::{Kind, Leaf, Node};
use super::world::{Answer, BEGAN, Imported, No, World};
use crate::{Expansion, PoolName, PoolStatus, PoolSummary, Scan, ScanFunction, State, Vdev, VdevClass};

/// A time of this world as the clock on the wall has it.
pub(super) fn wall(time: Duration) -> Timestamp {
    let seconds = i64::try_from(time.as_secs()).unwrap_or_default();
    Timestamp::from_second(BEGAN.saturating_add(seconds)).unwrap_or(Timestamp::UNIX_EPOCH)
}

pub(super) fn draid_spare_name(kind: Kind) -> String {
    match kind {
        Kind::DraidSpare { parity, top, index } => format!("draid{parity}-{top}-{index}"),
        _ => String::new(),
    }
}

fn pool_name(name: &str) -> Answer<PoolName> {
    PoolName::new(name).map_err(|error| No::Said(error.to_string()))
}

impl World {
    pub(super) fn list(&self, host: &str) -> Answer<Vec<PoolSummary>> {
        let pools = self.host(host)?.pools.iter();
        pools
            .map(|(name, imported)| {
                Ok(PoolSummary {
                    name: pool_name(name)?,
                    guid: imported.pool.guid,
                    state: imported.state(),
                })
            })
            .collect()
    }

    pub(super) fn status(&self, host: &str, name: &str) -> Answer<PoolStatus> {
        let imported = self.imported(host, name)?;
        let (pool, now) = (&imported.pool, self.now());
        let told = tell(imported);
        Ok(PoolStatus {
            name: pool_name(name)?,
            guid: pool.guid,
            state: imported.state(),
            status: told.map(|told| told.1.to_owned()),
            action: told.map(|told| told.2.to_owned()),
            message_id: told.and_then(|told| told.0).map(ToOwned::to_owned),
            scan: pool.scan.as_ref().map(|scan| {
                let done = scan.job.done(now);
                Scan {
                    function: scan.function,
                    state: scan.job.state,
                    started: Some(wall(scan.job.started)),
                    ended: scan.job.ended.map(wall),
                    to_examine: scan.job.total,
                    examined: done,
                    issued: done,
                    processed: if scan.function == ScanFunction::Resilver {
                        done
                    } else {
                        0
                    },
                    errors: scan.errors,
                }
            }),
            expansion: pool.expansion.as_ref().map(|expansion| {
                let job = &expansion.job;
                Expansion {
                    running: job.is_running(),
                    to_reflow: job.total,
                    reflowed: job.done(now),
                    started: Some(wall(job.started)),
                    ended: job.ended.map(wall),
                }
            }),
            vdevs: self.vdevs(host, pool),
            data_errors: pool.data_errors,
        })
    }

    /// The vdevs by what they are for, in ZFS's order.
    fn vdevs(&self, host: &str, pool: &Pool) -> Vec<Vdev> {
        let mut vdevs = Vec::new();
        for (index, top) in pool.tops.iter().enumerate() {
            if !matches!(top.kind, Kind::Hole | Kind::Indirect) {
                let mut vdev = self.vdev(host, top, top.class, index);
                (vdev.size, vdev.allocated) = (top.raw(), pool.allocated_on(top));
                vdevs.push(vdev);
            }
        }
        for (index, node) in pool.cache.iter().chain(&pool.spares).enumerate() {
            let mut vdev = self.vdev(host, node, node.class, index);
            if node.class == VdevClass::Spare && vdev.state == State::Online {
                vdev.state = if pool.is_spare_in_use(node.guid) {
                    State::InUse
                } else {
                    State::Available
                };
            }
            vdevs.push(vdev);
        }
        vdevs.sort_by_key(|vdev| match vdev.class {
            VdevClass::Data => 0,
            VdevClass::Special => 1,
            VdevClass::Dedup => 2,
            VdevClass::Log => 3,
            VdevClass::Cache => 4,
            VdevClass::Spare => 5,
        });
        vdevs
    }

    /// A spare that stands in for another is for what that one is for.
    fn vdev(&self, host: &str, node: &Node, class: VdevClass, index: usize) -> Vdev {
        let (state, why) = node.state();
        let leaf = node.leaf.as_ref();
        let errors = |f: fn(&Leaf) -> u64| leaf.map_or(0, f);
        let children = node.children.iter().enumerate();
        Vdev {
            name: name(node, index),
            kind: node.kind.into(),
            class,
            guid: node.guid,
            path: leaf.map(|leaf| leaf.path.clone()),
            state,
            why: why.map(ToOwned::to_owned),
            not_present: leaf.is_some_and(|leaf| leaf.not_present),
            read_errors: errors(|leaf| leaf.read_errors),
            write_errors: errors(|leaf| leaf.write_errors),
            checksum_errors: errors(|leaf| leaf.checksum_errors),
            slow_ios: 0,
            expandable: self.expandable(host, node),
            size: leaf.map_or(0, |leaf| leaf.bytes),
            allocated: 0,
            children: children
                .map(|(index, child)| self.vdev(host, child, class, index))
                .collect(),
        }
    }

    /// By how much more of a vdev could be used, if all its devices were used at the size they have grown to.
    fn expandable(&self, host: &str, node: &Node) -> u64 {
        let mut grown = node.clone();
        grown.each_leaf(&mut |_, leaf| {
            let disk = leaf.disk.as_ref().and_then(|serial| self.disks.get(serial));
            let could = disk.map_or(0, |disk| disk.used_bytes(host, &leaf.path));
            leaf.bytes = leaf.bytes.max(could);
        });
        grown.raw().saturating_sub(node.raw())
    }

    /// When the next thing that is under way on a host ends, as far as can be told. What should have ended by now waits for
    /// something that nobody can foresee.
    pub(super) fn next_end(&self, host: &str) -> Option<Duration> {
        let pools = self.hosts.get(host)?.pools.values();
        let jobs = pools
            .filter(|imported| !imported.suspended && !imported.read_only)
            .flat_map(|imported| imported.pool.jobs().filter_map(Job::end).collect::<Vec<_>>());
        let late = self.later.iter().filter(|late| late.host == host);
        let ends = jobs.chain(late.filter_map(|late| late.due));
        ends.filter(|end| *end > self.now()).min()
    }
}

/// What `zpool status` calls a vdev.
fn name(node: &Node, index: usize) -> String {
    match (node.kind, &node.leaf) {
        (Kind::Mirror, _) => format!("mirror-{index}"),
        (Kind::Raidz(parity), _) => format!("raidz{parity}-{index}"),
        (Kind::Draid(shape), _) => {
            let shape = crate::DraidShape {
                data: Some(super::vdev::draid_data(shape)),
                ..shape
            };
            format!("{shape}-{index}")
        }
        (Kind::DraidSpare { .. }, _) => draid_spare_name(node.kind),
        (Kind::Replacing, _) => format!("replacing-{index}"),
        (Kind::Spare, _) => format!("spare-{index}"),
        (Kind::Hole, _) => format!("hole-{index}"),
        (Kind::Indirect, _) => format!("indirect-{index}"),
        (Kind::Disk, Some(leaf)) if leaf.not_present => node.guid.to_string(),
        (Kind::Disk, Some(leaf)) => leaf.path.to_string(),
        (Kind::Disk, None) => node.guid.to_string(),
    }
}

/// ZFS's code for what is wrong, what is wrong, and what to do.
fn tell(imported: &Imported) -> Option<(Option<&'static str>, &'static str, &'static str)> {
    let pool = &imported.pool;
    let leaves = pool.leaves();
    let any = |wanted: State| leaves.iter().any(|(_, leaf)| leaf.state().0 == wanted);
    let resilvers = pool.is_at(crate::Activity::Resilver);
    if imported.suspended {
        return Some((
            Some("ZFS-8000-HC"),
            "One or more devices are faulted in response to IO failures.",
            "Make sure the affected devices are connected, then run 'zpool clear'.",
        ));
    }
    if pool.data_errors > 0 {
        return Some((
            Some("ZFS-8000-8A"),
            "One or more devices has experienced an error resulting in data corruption.",
            "Restore the file in question if possible.",
        ));
    }
    if resilvers {
        return Some((
            None,
            "One or more devices is currently being resilvered.",
            "Wait for the resilver to complete.",
        ));
    }
    if any(State::Unavailable) {
        return Some((
            Some("ZFS-8000-2Q"),
            "One or more devices could not be opened. Sufficient replicas exist for the pool to continue functioning.",
            "Attach the missing device and online it using 'zpool online'.",
        ));
    }
    if any(State::Faulted) {
        return Some((
            None,
            "One or more devices are faulted in response to persistent errors.",
            "Replace the faulted device, or use 'zpool clear' to mark the device repaired.",
        ));
    }
    if any(State::Removed) {
        return Some((
            None,
            "One or more devices have been removed.",
            "Online the device using 'zpool online' or replace the device with 'zpool replace'.",
        ));
    }
    if any(State::Offline) {
        return Some((
            None,
            "One or more devices has been taken offline by the administrator.",
            "Online the device using 'zpool online' or replace the device with 'zpool replace'.",
        ));
    }
    let failing =
        |(_, leaf): &(crate::Guid, &Leaf)| leaf.read_errors + leaf.write_errors + leaf.checksum_errors > 0;
    if leaves.iter().any(failing) {
        return Some((
            Some("ZFS-8000-9P"),
            "One or more devices has experienced an unrecoverable error.",
            "Determine if the device needs to be replaced, and clear the errors using 'zpool clear'.",
        ));
    }
    None
}
