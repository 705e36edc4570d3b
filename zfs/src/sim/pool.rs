//! A pool as it lies on its disks.
//!
//! Every disk holds the pool as it was when that disk was last written, so what a host finds after a power cut, or on one
//! half of a mirror that was pulled long ago, is what was there.

use std::collections::BTreeMap;
use std::time::Duration;

use super::job::{Job, ScanJob, VdevJob};
use super::tree::Tree;
use super::vdev::{Kind, Leaf, Node};
use crate::{Guid, Label, ScanFunction, State, VdevClass};

/// What ZFS writes into labels for the state of a pool.
pub(super) const ACTIVE: u64 = 0;
pub(super) const EXPORTED: u64 = 1;
pub(super) const DESTROYED: u64 = 2;
pub(super) const SPARE: u64 = 3;
pub(super) const L2CACHE: u64 = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pool {
    pub(super) name: String,
    pub(super) guid: Guid,
    pub(super) txg: u64,
    pub(super) state: u64,
    pub(super) hostid: u64,
    pub(super) hostname: String,
    /// The properties that were set.
    pub(super) properties: BTreeMap<String, String>,
    /// What data, metadata and logs lie on.
    pub(super) tops: Vec<Node>,
    pub(super) cache: Vec<Node>,
    pub(super) spares: Vec<Node>,
    pub(super) scan: Option<ScanJob>,
    pub(super) expansion: Option<VdevJob>,
    pub(super) removal: Option<VdevJob>,
    pub(super) trim: Option<Job>,
    pub(super) initialize: Option<Job>,
    /// Blocks that are damaged for good.
    pub(super) data_errors: u64,
    pub(super) datasets: Tree,
}

impl Pool {
    pub(super) fn property(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(String::as_str)
    }

    pub(super) fn label(&self, vdev: Guid) -> Label {
        Label {
            pool_name: Some(self.name.clone()),
            pool_guid: Some(self.guid.0),
            vdev_guid: vdev.0,
            comment: self.property("comment").map(ToOwned::to_owned),
            state: self.state,
            txg: self.txg,
            hostname: Some(self.hostname.clone()),
            hostid: Some(self.hostid),
        }
    }

    /// The devices that the pool lies on: not those of the cache, nor spares that wait.
    pub(super) fn leaves(&self) -> Vec<(Guid, &Leaf)> {
        self.tops.iter().flat_map(Node::leaves).collect()
    }

    pub(super) fn each_leaf(&mut self, mut f: impl FnMut(Guid, &mut Leaf)) {
        for top in &mut self.tops {
            top.each_leaf(&mut f);
        }
    }

    /// All devices. A spare that stands in for another comes twice.
    pub(super) fn each_device(&mut self, mut f: impl FnMut(Guid, &mut Leaf)) {
        for node in self
            .tops
            .iter_mut()
            .chain(&mut self.cache)
            .chain(&mut self.spares)
        {
            node.each_leaf(&mut f);
        }
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.tops.iter().chain(&self.cache).chain(&self.spares)
    }

    /// Whether that disk is open in the pool.
    pub(super) fn has_open(&self, serial: &str) -> bool {
        let leaves = self.nodes().flat_map(Node::leaves);
        leaves
            .into_iter()
            .any(|(_, leaf)| leaf.disk.as_deref() == Some(serial))
    }

    /// Where among the vdevs the one of this number is.
    pub(super) fn top_of(&self, guid: Guid) -> Option<&Node> {
        self.tops.iter().find(|top| top.find(guid).is_some())
    }

    pub(super) fn find_mut(&mut self, guid: Guid) -> Option<&mut Node> {
        self.tops.iter_mut().find_map(|top| top.find_mut(guid))
    }

    pub(super) fn leaf_mut(&mut self, guid: Guid) -> Option<&mut Leaf> {
        self.find_mut(guid)?.leaf.as_mut()
    }

    pub(super) fn edit(&mut self, guid: Guid, mut f: impl FnMut(Node) -> Node) -> bool {
        self.tops.iter_mut().any(|top| top.edit(guid, &mut f))
    }

    /// Whether the spare of this number stands in for a device.
    pub(super) fn is_spare_in_use(&self, guid: Guid) -> bool {
        self.tops.iter().any(|top| top.find(guid).is_some())
    }

    /// The state as it follows from the vdevs.
    pub(super) fn state_of_vdevs(&self) -> State {
        let states: Vec<(VdevClass, State)> =
            self.tops.iter().map(|top| (top.class, top.state().0)).collect();
        let lost = |(class, state): &(VdevClass, State)| {
            // A pool lives without its log.
            *class != VdevClass::Log && *state == State::Unavailable
        };
        if states
            .iter()
            .any(|each| lost(each) || is_lone_and_gone(each.0, each.1))
        {
            State::Unavailable
        } else if states.iter().any(|(_, state)| *state != State::Online) {
            State::Degraded
        } else {
            State::Online
        }
    }

    /// Whether every part of the data can be written.
    pub(super) fn is_writable(&self) -> bool {
        self.state_of_vdevs() != State::Unavailable
    }

    fn holding(&self) -> impl Iterator<Item = &Node> {
        let holds = |top: &&Node| {
            !matches!(top.kind, Kind::Hole | Kind::Indirect)
                && !matches!(top.class, VdevClass::Log | VdevClass::Cache | VdevClass::Spare)
        };
        self.tops.iter().filter(holds)
    }

    /// What it holds, parity included.
    pub(super) fn raw(&self) -> u64 {
        self.holding().map(Node::raw).sum()
    }

    /// What of it is for data.
    pub(super) fn usable(&self) -> u64 {
        self.holding().map(Node::usable).sum()
    }

    /// What ZFS keeps back so that it can always free something.
    fn slop(&self) -> u64 {
        let usable = self.usable();
        let least = (usable / 2).min(128 << 20);
        (usable / 32).min(128 << 30).max(least)
    }

    /// What can be given to datasets.
    pub(super) fn capacity(&self) -> u64 {
        self.usable().saturating_sub(self.slop())
    }

    /// What is written, parity included.
    pub(super) fn allocated(&self) -> u64 {
        scale(self.datasets.written(), self.raw(), self.usable())
    }

    /// What of that is on one of the vdevs.
    pub(super) fn allocated_on(&self, top: &Node) -> u64 {
        if self.holding().any(|other| other.guid == top.guid) {
            scale(self.allocated(), top.raw(), self.raw())
        } else {
            0
        }
    }

    /// Has the devices filled that lack something. Whether a resilver began.
    pub(super) fn resilver_if_needed(&mut self, now: Duration, rate: u64) -> bool {
        let lacking = self.leaves().into_iter();
        let lacking = lacking.filter(|(_, leaf)| leaf.is_open() && leaf.stale);
        let targets: std::collections::BTreeSet<Guid> = lacking.map(|(guid, _)| guid).collect();
        let running = |scan: &ScanJob| {
            scan.function == ScanFunction::Resilver
                && scan.job.is_running()
                && targets.is_subset(&scan.targets)
        };
        if targets.is_empty() || self.scan.as_ref().is_some_and(running) {
            return false;
        }
        self.scan = Some(ScanJob {
            function: ScanFunction::Resilver,
            job: Job::new(self.allocated(), now, rate),
            targets,
            errors: 0,
        });
        true
    }

    pub(super) fn jobs(&self) -> impl Iterator<Item = &Job> {
        let scan = self.scan.as_ref().map(|scan| &scan.job);
        let vdevs = [&self.expansion, &self.removal].map(|job| job.as_ref().map(|job| &job.job));
        let rest = [self.trim.as_ref(), self.initialize.as_ref()];
        std::iter::once(scan).chain(vdevs).chain(rest).flatten()
    }

    pub(super) fn each_job(&mut self, mut f: impl FnMut(&mut Job)) {
        if let Some(scan) = &mut self.scan {
            f(&mut scan.job);
        }
        for job in [&mut self.expansion, &mut self.removal].into_iter().flatten() {
            f(&mut job.job);
        }
        for job in [&mut self.trim, &mut self.initialize].into_iter().flatten() {
            f(job);
        }
    }
}

/// A device by itself has no group that turns its state into UNAVAIL.
fn is_lone_and_gone(class: VdevClass, state: State) -> bool {
    let gone = matches!(state, State::Removed | State::Faulted | State::Offline);
    class != VdevClass::Log && gone
}

fn scale(value: u64, by: u64, of: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(by) / u128::from(of.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
