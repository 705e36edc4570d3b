//! Time passes: what was begun goes on and ends.

use std::sync::Arc;
use std::time::Duration;

use super::job::Job;
use super::pool::Pool;
use super::vdev::{Kind, Leaf, Node};
use super::world::{Later, No, World};
use crate::{Activity, Guid, ScanFunction, ScanState};

impl World {
    /// Brings everything up to now.
    pub(super) fn tick(&mut self) {
        let now = self.now();
        self.run_late(now);
        let pools: Vec<(String, String)> = self
            .hosts
            .iter()
            .filter(|(_, state)| state.running)
            .flat_map(|(host, state)| state.pools.keys().map(|pool| (host.clone(), pool.clone())))
            .collect();
        for (host, pool) in pools {
            self.progress(&host, &pool, now);
        }
    }

    /// Makes the changes that came late or hung and can be made now, those of one pool in their order.
    fn run_late(&mut self, now: Duration) {
        let mut waiting = Vec::new();
        let mut blocked = std::collections::BTreeSet::new();
        for late in std::mem::take(&mut self.later) {
            let key = (late.host.clone(), late.pool().to_owned());
            let waits = late.due.is_some_and(|due| due > now);
            if blocked.contains(&key) || waits || self.hangs(&late.host, late.pool()) {
                blocked.insert(key);
                waiting.push(late);
                continue;
            }
            match (late.run)(self) {
                Err(No::Hang) => {
                    blocked.insert(key);
                    waiting.push(late);
                }
                answer => self.record(&late.host, late.call, &late.target, answer.is_ok()),
            }
        }
        let runs = |late: &Later| self.host(&late.host).is_ok();
        waiting.retain(runs);
        self.later.extend(waiting);
    }

    /// Has what is under way in a pool go on, or stand still while the pool does.
    pub(super) fn progress(&mut self, host: &str, name: &str, now: Duration) {
        let stuck = self.hangs(host, name);
        let Some(imported) = self.imported_mut(host, name) else {
            return;
        };
        let stuck = stuck || imported.suspended || imported.read_only;
        if !imported.pool.jobs().any(Job::is_running) {
            return;
        }
        let is_wrong = |job: &Job| job.is_running() && job.is_held() != stuck;
        if imported.pool.jobs().any(is_wrong) {
            let mut pool = (*imported.pool).clone();
            pool.each_job(|job| match stuck {
                _ if !is_wrong(job) => {}
                true => job.hold(now),
                false => job.go_on(now),
            });
            imported.pool = Arc::new(pool);
        }
        if stuck {
            return;
        }
        let due = |job: &Job| job.end().is_some_and(|end| end <= now);
        if !imported.pool.jobs().any(due) {
            return;
        }
        let _ = self.change(host, name, |world, pool| {
            world.finish(host, pool, now);
            Ok(())
        });
    }

    /// Ends what is to end by now.
    fn finish(&mut self, host: &str, pool: &mut Pool, now: Duration) {
        let name = pool.name.clone();
        if let Some(scan) = &mut pool.scan
            && scan.job.step(now)
        {
            let class = if scan.function == ScanFunction::Resilver {
                self.resilvered(host, pool);
                "sysevent.fs.zfs.resilver_finish"
            } else {
                "sysevent.fs.zfs.scrub_finish"
            };
            self.emit(host, class, &name, None);
        }
        if let Some(job) = &mut pool.expansion
            && job.job.step(now)
        {
            let vdev = job.vdev;
            if let Some(node) = pool.find_mut(vdev) {
                node.reflowing = false;
            }
        }
        if let Some(job) = &mut pool.removal
            && job.job.step(now)
        {
            let vdev = job.vdev;
            if let Some(top) = pool.tops.iter().find(|top| top.guid == vdev).cloned() {
                self.vacate(pool, &top, Kind::Indirect);
            }
            self.emit(host, "sysevent.fs.zfs.vdev_remove_dev", &name, Some(vdev));
        }
        for (job, class) in [
            (&mut pool.trim, "sysevent.fs.zfs.trim_finish"),
            (&mut pool.initialize, "sysevent.fs.zfs.initialize_finish"),
        ] {
            if job.as_mut().is_some_and(|job| job.step(now)) {
                self.emit(host, class, &name, None);
            }
        }
    }

    /// The devices that were filled have everything, as far as it could be read.
    fn resilvered(&mut self, host: &str, pool: &mut Pool) {
        let targets = pool.scan.as_ref().map(|scan| scan.targets.clone());
        let targets = targets.unwrap_or_default();
        let mut errors = 0;
        for top in &mut pool.tops {
            let filled = |(guid, leaf): &(Guid, &Leaf)| targets.contains(guid) && leaf.is_open();
            if !top.is_readable() && top.leaves().iter().any(filled) {
                errors += 1;
            }
            top.each_leaf(&mut |guid, leaf| {
                if targets.contains(&guid) && leaf.is_open() {
                    leaf.stale = false;
                }
            });
        }
        if let Some(scan) = &mut pool.scan {
            scan.errors = errors;
        }
        pool.data_errors += errors;
        while let Some((group, device)) = pool.tops.iter().find_map(superfluous) {
            self.take_out(host, pool, group, device);
        }
    }
}

/// A device that was replaced, or a spare whose device is back: the group and the device to be taken out of it.
fn superfluous(top: &Node) -> Option<(Guid, Guid)> {
    let mut groups = top.all().into_iter();
    groups.find_map(|group| {
        let (first, last) = (group.children.first()?, group.children.last()?);
        match group.kind {
            Kind::Replacing if last.is_readable() => Some((group.guid, first.guid)),
            Kind::Spare if first.is_readable() => Some((group.guid, last.guid)),
            _ => None,
        }
    })
}

impl Pool {
    /// Whether something of this kind is under way.
    pub(super) fn is_at(&self, activity: Activity) -> bool {
        let scan = |function| {
            let scan = self.scan.as_ref();
            scan.is_some_and(|scan| scan.function == function && is_under_way(&scan.job))
        };
        let replaces = |node: &Node| matches!(node.kind, Kind::Replacing | Kind::Spare);
        match activity {
            Activity::Resilver => scan(ScanFunction::Resilver),
            Activity::Replace => {
                let mut nodes = self.tops.iter().flat_map(Node::all);
                scan(ScanFunction::Resilver) && nodes.any(replaces)
            }
            Activity::Scrub => scan(ScanFunction::Scrub),
            Activity::Remove => self.removal.as_ref().is_some_and(|job| job.job.is_running()),
            Activity::RaidzExpand => self.expansion.as_ref().is_some_and(|job| job.job.is_running()),
            Activity::Initialize => self.initialize.as_ref().is_some_and(Job::is_running),
            Activity::Trim => self.trim.as_ref().is_some_and(Job::is_running),
            Activity::Free => false,
        }
    }
}

/// A scan that is paused is not over.
fn is_under_way(job: &Job) -> bool {
    matches!(job.state, ScanState::Scanning | ScanState::Paused)
}
