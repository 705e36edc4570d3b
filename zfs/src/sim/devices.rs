//! Devices of a pool: attached, detached, replaced, switched on and off, removed.

use camino::Utf8Path;

use super::disk::Behaviour;
use super::job::{Job, ScanJob, VdevJob};
use super::pool::{self, Pool};
use super::pools::reopen;
use super::vdev::{CORRUPT_DATA, Health, Kind, Leaf, Node, OPEN_FAILED};
use super::world::{Answer, No, World, no};
use crate::{Guid, Offline, Online, ScanFunction, ScanState, ScrubCommand, State, VdevClass};

fn no_such<T>(guid: Guid) -> Answer<T> {
    no(format!("no such device in pool: {guid}"))
}

/// Whether everything on a vdev can be read when one of its devices, or a group of them, is gone.
fn is_readable_without(top: &Node, device: Guid) -> bool {
    let mut top = top.clone();
    if let Some(node) = top.find_mut(device) {
        node.each_leaf(&mut |_, leaf| leaf.close(Health::Removed));
    }
    top.is_readable()
}

/// Wraps a device and another into a group.
fn join(world: &mut World, pool: &mut Pool, old: Guid, kind: Kind, new: &Node) {
    let guid = world.guid();
    pool.edit(old, |node| {
        let class = node.class;
        Node::group(guid, class, kind, vec![node, new.clone()])
    });
}

impl World {
    /// Begins a resilver if one is needed, and says so.
    fn fill(&mut self, host: &str, pool: &mut Pool) {
        if pool.resilver_if_needed(self.now(), self.rate) {
            self.emit(host, "sysevent.fs.zfs.resilver_start", &pool.name, None);
        }
    }

    pub(super) fn attach(&mut self, host: &str, name: &str, to: Guid, path: &Utf8Path) -> Answer<()> {
        self.change(host, name, |world, pool| {
            let Some(top) = pool.top_of(to).cloned() else {
                return no_such(to);
            };
            let new = world.take(host, path)?;
            if pool.expansion.as_ref().is_some_and(|job| job.job.is_running()) {
                return no("raidz expansion is in progress");
            }
            let is_mirror = top.guid == to && top.kind == Kind::Disk
                || top.kind == Kind::Mirror && top.children.iter().any(|child| child.guid == to);
            let smallest = top.leaves().into_iter().map(|(_, leaf)| leaf.bytes).min();
            if new.bytes < smallest.unwrap_or_default() {
                return no(format!("cannot attach {path} to {to}: device is too small"));
            }
            match top.kind {
                Kind::Raidz(_) if top.guid == to => world.widen(host, pool, &top, path, new),
                _ if !is_mirror => no(format!(
                    "cannot attach {path} to {to}: can only attach to mirrors and top-level disks"
                )),
                _ => {
                    let new = Leaf { stale: true, ..new };
                    let new = world.new_device(host, path, top.class, new);
                    world.label_new(host, pool, [&new]);
                    if top.kind == Kind::Disk {
                        join(world, pool, to, Kind::Mirror, &new);
                    } else if let Some(mirror) = pool.find_mut(top.guid) {
                        mirror.children.push(new);
                    }
                    world.fill(host, pool);
                    Ok(())
                }
            }
        })?;
        self.emit(host, "sysevent.fs.zfs.vdev_attach", name, Some(to));
        Ok(())
    }

    /// Widens a raidz group.
    fn widen(&mut self, host: &str, pool: &mut Pool, top: &Node, path: &Utf8Path, new: Leaf) -> Answer<()> {
        if top.state().0 != State::Online {
            return no("raidz vdev is not healthy");
        }
        let new = self.new_device(host, path, top.class, new);
        self.label_new(host, pool, [&new]);
        let total = pool.allocated_on(top);
        pool.edit(top.guid, |mut node| {
            node.children.push(new.clone());
            node.reflowing = true;
            node
        });
        pool.expansion = Some(VdevJob {
            vdev: top.guid,
            job: Job::new(total, self.now(), self.rate),
        });
        Ok(())
    }

    pub(super) fn detach(&mut self, host: &str, name: &str, device: Guid) -> Answer<()> {
        self.change(host, name, |world, pool| {
            let Some(top) = pool.top_of(device).cloned() else {
                return no_such(device);
            };
            let group = top.parent_of(device);
            let shared = |group: &&Node| matches!(group.kind, Kind::Mirror | Kind::Replacing | Kind::Spare);
            let Some(group) = group.filter(shared) else {
                return no(format!(
                    "cannot detach {device}: only applicable to mirror and replacing vdevs"
                ));
            };
            if !is_readable_without(&top, device) {
                return no(format!("cannot detach {device}: no valid replicas"));
            }
            let spare = group
                .children
                .iter()
                .find(|child| child.class == VdevClass::Spare);
            // The device is taken away for good, so what stood in for it stays for good.
            let for_good = group.kind == Kind::Spare && spare.is_some_and(|spare| spare.guid != device);
            if let Some(spare) = spare.filter(|_| for_good) {
                pool.spares.retain(|other| other.guid != spare.guid);
            }
            world.take_out(host, pool, group.guid, device);
            Ok(())
        })?;
        self.emit(host, "sysevent.fs.zfs.vdev_remove", name, Some(device));
        Ok(())
    }

    /// Takes a device out of a group of equals; a group of one becomes the one. A spare goes back to waiting. Like ZFS, it
    /// says so on the device before the pool is written.
    pub(super) fn take_out(&mut self, host: &str, pool: &mut Pool, group: Guid, device: Guid) {
        let Some(node) = pool.find_mut(device).cloned() else {
            return;
        };
        pool.edit(group, |mut group| {
            group.children.retain(|child| child.guid != device);
            let class = group.class;
            match group.children.pop() {
                Some(mut last) if group.children.is_empty() => {
                    last.each_class(class);
                    last
                }
                last => {
                    group.children.extend(last);
                    group
                }
            }
        });
        let waits = pool.spares.iter().any(|spare| spare.guid == device);
        for (guid, leaf) in node.leaves() {
            match &leaf.disk {
                Some(serial) if waits => self.write_waiting(host, serial, guid, pool::SPARE),
                Some(serial) => self.write_left(host, serial, pool, guid),
                None => {}
            }
        }
    }

    pub(super) fn replace(&mut self, host: &str, name: &str, old: Guid, path: &Utf8Path) -> Answer<()> {
        self.change(host, name, |world, pool| {
            let Some(top) = pool.top_of(old).cloned() else {
                return no_such(old);
            };
            let Some(leaf) = top.find(old).and_then(|node| node.leaf.clone()) else {
                return no(format!("cannot replace {old}: it is no device"));
            };
            if top.parent_of(old).is_some_and(|group| group.kind == Kind::Replacing) {
                return no(format!(
                    "cannot replace {old} with {path}: already in replacing/spare config; wait for completion or use 'zpool detach'"
                ));
            }
            if pool.expansion.as_ref().is_some_and(|job| job.job.is_running()) {
                return no("raidz expansion is in progress");
            }
            let serial = world.at(host, path).map(ToOwned::to_owned);
            let is_it = |spare: &&Node| match (&spare.leaf, spare.kind) {
                (_, Kind::DraidSpare { .. }) => super::status::draid_spare_name(spare.kind) == path.as_str(),
                (Some(leaf), _) => leaf.disk.is_some() && leaf.disk == serial,
                (None, _) => false,
            };
            if let Some(spare) = pool.spares.iter().find(is_it).cloned() {
                return world.stand_in(host, pool, old, &leaf, spare);
            }
            let new = world.take(host, path)?;
            if new.bytes < leaf.bytes {
                return no(format!("cannot replace {old} with {path}: device is too small"));
            }
            if new.path == leaf.path
                && let Some(leaf) = pool.leaf_mut(old)
            {
                leaf.path.push("old");
            }
            let new = Leaf { stale: true, ..new };
            let new = world.new_device(host, path, top.class, new);
            world.label_new(host, pool, [&new]);
            join(world, pool, old, Kind::Replacing, &new);
            world.fill(host, pool);
            Ok(())
        })?;
        self.emit(host, "sysevent.fs.zfs.vdev_attach", name, Some(old));
        Ok(())
    }

    /// Has a spare stand in for a device.
    fn stand_in(&mut self, host: &str, pool: &mut Pool, old: Guid, leaf: &Leaf, spare: Node) -> Answer<()> {
        if pool.is_spare_in_use(spare.guid) {
            return no("device is busy: the spare is in use");
        }
        let mut spare = spare;
        match &mut spare.leaf {
            Some(own) if own.bytes < leaf.bytes => return no("device is too small"),
            Some(own) if !own.is_open() => return no("one or more devices is currently unavailable"),
            Some(own) => own.stale = true,
            None => {
                pool.scan = Some(ScanJob {
                    function: ScanFunction::Resilver,
                    job: Job::new(pool.allocated(), self.now(), self.rate),
                    targets: [spare.guid].into(),
                    errors: 0,
                });
            }
        }
        join(self, pool, old, Kind::Spare, &spare);
        self.fill(host, pool);
        self.emit(host, "sysevent.fs.zfs.vdev_spare", &pool.name, Some(spare.guid));
        Ok(())
    }

    /// Opens a device of a pool again where the pool knows it, if it is the one.
    pub(super) fn try_open(&self, host: &str, pool: Guid, vdev: Guid, leaf: &mut Leaf) -> Answer<()> {
        if leaf.disk.is_some() || leaf.offline.is_some() {
            return Ok(());
        }
        let path = leaf.path.clone();
        let found = self
            .at(host, &path)
            .and_then(|serial| Some((serial, self.disks.get(serial)?)));
        let Some((serial, disk)) = found else {
            leaf.close(Health::Unopenable(OPEN_FAILED));
            return Ok(());
        };
        match disk.behaviour {
            Behaviour::Good => {}
            Behaviour::Failing => {
                leaf.close(Health::Faulted);
                return Ok(());
            }
            Behaviour::Hanging => return Err(No::Hang),
        }
        let is_it = disk.stamp_at(host, &path).is_some_and(|stamp| {
            let label = &stamp.label;
            label.vdev_guid == vdev.0 && label.pool_guid.is_none_or(|of| of == pool.0)
        });
        if is_it {
            reopen(leaf, &path, serial);
        } else {
            leaf.close(Health::Unopenable(CORRUPT_DATA));
        }
        Ok(())
    }

    pub(super) fn online(&mut self, host: &str, name: &str, device: Guid, how: Online) -> Answer<()> {
        self.reopening(host, name, |world, pool| {
            let guid = pool.guid;
            let Some(leaf) = pool.leaf_mut(device) else {
                return no_such(device);
            };
            leaf.offline = None;
            // What ZFS has given up stays so until its errors are cleared.
            if leaf.health != Health::Faulted {
                world.try_open(host, guid, device, leaf)?;
            }
            let disk = leaf.disk.as_ref().and_then(|serial| world.disks.get(serial));
            if let Some(disk) = disk.filter(|_| how == Online::Expand) {
                leaf.bytes = leaf.bytes.max(disk.used_bytes(host, &leaf.path));
            }
            Ok(())
        })?;
        self.emit(host, "sysevent.fs.zfs.vdev_online", name, Some(device));
        Ok(())
    }

    /// Changes which devices of a pool are open. Unlike other changes, this may end a suspension.
    pub(super) fn reopening(
        &mut self,
        host: &str,
        name: &str,
        f: impl FnOnce(&Self, &mut Pool) -> Answer<()>,
    ) -> Answer<()> {
        if self.hangs(host, name) {
            return Err(No::Hang);
        }
        self.notice(host, name);
        let imported = self.imported(host, name)?;
        let mut pool = (*imported.pool).clone();
        f(self, &mut pool)?;
        let writable = pool.is_writable();
        if let Some(imported) = self.imported_mut(host, name) {
            imported.pool = std::sync::Arc::new(pool);
            imported.suspended &= !writable;
        }
        if !writable || self.imported(host, name)?.read_only {
            return Ok(());
        }
        self.change(host, name, |world, pool| {
            world.fill(host, pool);
            Ok(())
        })
    }

    pub(super) fn offline(&mut self, host: &str, name: &str, device: Guid, how: Offline) -> Answer<()> {
        self.change(host, name, |_, pool| {
            let Some(leaf) = pool.leaf_mut(device) else {
                return no_such(device);
            };
            leaf.offline = Some(how);
            let health = leaf.health;
            leaf.close(health);
            if !pool.top_of(device).is_some_and(Node::is_readable) {
                return no(format!("cannot offline {device}: no valid replicas"));
            }
            Ok(())
        })?;
        self.emit(host, "resource.fs.zfs.statechange", name, Some(device));
        Ok(())
    }

    pub(super) fn clear(&mut self, host: &str, name: &str, device: Option<Guid>) -> Answer<()> {
        if let Some(guid) = device {
            let pool = &self.imported(host, name)?.pool;
            if pool.nodes().all(|node| node.find(guid).is_none()) {
                return no_such(guid);
            }
        }
        self.reopening(host, name, |world, pool| {
            let guid = pool.guid;
            let mut hangs = Ok(());
            pool.each_device(|vdev, leaf| {
                if device.is_none_or(|device| device == vdev) {
                    leaf.forget_errors();
                    hangs = hangs.clone().and(world.try_open(host, guid, vdev, leaf));
                }
            });
            hangs
        })?;
        self.emit(host, "sysevent.fs.zfs.vdev_clear", name, device);
        Ok(())
    }

    /// Opens all devices anew: who is gone is closed, who is back is opened.
    pub(super) fn reopen(&mut self, host: &str, name: &str) -> Answer<()> {
        self.reopening(host, name, |world, pool| {
            let guid = pool.guid;
            let mut hangs = Ok(());
            pool.each_device(|vdev, leaf| {
                hangs = hangs.clone().and(world.try_open(host, guid, vdev, leaf));
            });
            hangs
        })
    }

    pub(super) fn remove(&mut self, host: &str, name: &str, vdev: Guid) -> Answer<()> {
        self.change(host, name, |world, pool| {
            for waiting in [pool.spares.clone(), pool.cache.clone()] {
                let Some(node) = waiting.into_iter().find(|node| node.guid == vdev) else {
                    continue;
                };
                if pool.is_spare_in_use(vdev) {
                    return no(format!("cannot remove {vdev}: device is in use"));
                }
                if matches!(node.kind, Kind::DraidSpare { .. }) {
                    return no(format!("cannot remove {vdev}: operation not supported"));
                }
                pool.spares.retain(|other| other.guid != vdev);
                pool.cache.retain(|other| other.guid != vdev);
                // A spare keeps the label that it has.
                let serial = node.leaf.and_then(|leaf| leaf.disk);
                if let Some(serial) = serial.filter(|_| node.class == VdevClass::Cache) {
                    world.leave_cache(&serial, vdev);
                }
                return Ok(());
            }
            world.remove_top(pool, vdev)
        })?;
        self.emit(host, "sysevent.fs.zfs.vdev_remove", name, Some(vdev));
        Ok(())
    }

    fn remove_top(&mut self, pool: &mut Pool, vdev: Guid) -> Answer<()> {
        let Some(top) = pool.tops.iter().find(|top| top.guid == vdev).cloned() else {
            return no(format!(
                "cannot remove {vdev}: operation not supported on this type of pool"
            ));
        };
        if top.class == VdevClass::Log {
            self.vacate(pool, &top, Kind::Hole);
            return Ok(());
        }
        let plain = |top: &Node| matches!(top.kind, Kind::Disk | Kind::Mirror | Kind::Hole | Kind::Indirect);
        let data = |top: &&Node| {
            top.class == VdevClass::Data
                && top.guid != vdev
                && !matches!(top.kind, Kind::Hole | Kind::Indirect)
        };
        if !pool.tops.iter().all(plain) || !pool.tops.iter().any(|top| data(&top)) {
            return no(format!(
                "cannot remove {vdev}: invalid config; all top-level vdevs must be mirrors or disks, and not the last"
            ));
        }
        if pool.removal.as_ref().is_some_and(|job| job.job.is_running()) {
            return no(format!("cannot remove {vdev}: a removal is in progress"));
        }
        if pool.datasets.used() > pool.capacity().saturating_sub(top.usable()) {
            return no(format!("cannot remove {vdev}: out of space"));
        }
        pool.removal = Some(VdevJob {
            vdev,
            job: Job::new(pool.allocated_on(&top), self.now(), self.rate),
        });
        Ok(())
    }

    /// Leaves a mark where a vdev was, and says on its devices that they have left.
    pub(super) fn vacate(&mut self, pool: &mut Pool, top: &Node, mark: Kind) {
        for (guid, leaf) in top.leaves() {
            if let Some(serial) = &leaf.disk {
                self.leave_label(serial, pool, guid);
            }
        }
        pool.edit(top.guid, |node| {
            Node::group(node.guid, node.class, mark, Vec::new())
        });
    }

    pub(super) fn scrub(&mut self, host: &str, name: &str, what: ScrubCommand) -> Answer<()> {
        let class = self.change(host, name, |world, pool| {
            let (now, total) = (world.now(), pool.allocated());
            let fresh = Job::new(total, now, world.rate);
            let scan = pool
                .scan
                .as_mut()
                .filter(|scan| matches!(scan.job.state, ScanState::Scanning | ScanState::Paused));
            match (what, scan) {
                (_, Some(scan)) if scan.function == ScanFunction::Resilver => {
                    no(format!("cannot scrub {name}: currently resilvering"))
                }
                (ScrubCommand::Start, Some(scan)) if scan.job.is_running() => {
                    no(format!("cannot scrub {name}: currently scrubbing"))
                }
                (ScrubCommand::Start, Some(scan)) => {
                    scan.job.resume(now);
                    Ok("sysevent.fs.zfs.scrub_resume")
                }
                (ScrubCommand::Start, None) => {
                    pool.scan = Some(ScanJob {
                        function: ScanFunction::Scrub,
                        job: fresh,
                        targets: std::collections::BTreeSet::new(),
                        errors: 0,
                    });
                    Ok("sysevent.fs.zfs.scrub_start")
                }
                (ScrubCommand::Pause, Some(scan)) if scan.job.is_running() => {
                    scan.job.pause(now);
                    Ok("sysevent.fs.zfs.scrub_paused")
                }
                (ScrubCommand::Stop, Some(scan)) => {
                    scan.job.cancel(now);
                    Ok("sysevent.fs.zfs.scrub_abort")
                }
                _ => no(format!("cannot stop scrubbing {name}: there is no active scrub")),
            }
        })?;
        self.emit(host, class, name, None);
        Ok(())
    }

    /// Begins to trim or to initialize.
    pub(super) fn sweep(&mut self, host: &str, name: &str, trim: bool) -> Answer<()> {
        self.change(host, name, |world, pool| {
            let job = Job::new(
                pool.raw().saturating_sub(pool.allocated()),
                world.now(),
                world.rate,
            );
            let running = if trim {
                &mut pool.trim
            } else {
                &mut pool.initialize
            };
            if running.as_ref().is_some_and(Job::is_running) {
                let doing = if trim { "trimming" } else { "initializing" };
                return no(format!("cannot begin on '{name}': currently {doing}"));
            }
            *running = Some(job);
            Ok(())
        })?;
        let class = if trim {
            "sysevent.fs.zfs.trim_start"
        } else {
            "sysevent.fs.zfs.initialize_start"
        };
        self.emit(host, class, name, None);
        Ok(())
    }
}

impl Node {
    /// Has what is left of a group be for what the group was for.
    fn each_class(&mut self, class: VdevClass) {
        self.class = class;
        for child in &mut self.children {
            child.each_class(class);
        }
    }
}
