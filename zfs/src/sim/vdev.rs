//! The vdevs of a pool: what they are made of, and what follows for the whole from the state of each device.

use camino::Utf8PathBuf;

use crate::{DraidShape, Guid, Offline, State, VdevClass, VdevKind};

/// What a vdev is. The numbers that [`VdevKind`] leaves out are needed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Disk,
    Mirror,
    Raidz(u8),
    Draid(DraidShape),
    /// Spare space of the draid group of this place among the vdevs, and which of its spares.
    DraidSpare {
        parity: u8,
        top: usize,
        index: u16,
    },
    Replacing,
    Spare,
    /// Where a log was.
    Hole,
    /// Where data was.
    Indirect,
}

impl From<Kind> for VdevKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Disk => Self::Disk,
            Kind::Mirror => Self::Mirror,
            Kind::Raidz(_) => Self::Raidz,
            Kind::Draid(_) => Self::Draid,
            Kind::DraidSpare { .. } => Self::DraidSpare,
            Kind::Replacing => Self::Replacing,
            Kind::Spare => Self::Spare,
            Kind::Hole => Self::Hole,
            Kind::Indirect => Self::Indirect,
        }
    }
}

/// What became of a device when it was last used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    /// It is open.
    Open,
    /// It was pulled while it was open.
    Removed,
    /// It could not be opened; ZFS's word for why.
    Unopenable(&'static str),
    /// It answered with errors.
    Faulted,
}

/// Not there.
pub(super) const OPEN_FAILED: &str = "OPEN_FAILED";
/// There, but something else is on it.
pub(super) const CORRUPT_DATA: &str = "CORRUPT_DATA";
/// Too many errors.
pub(super) const ERR_EXCEEDED: &str = "ERR_EXCEEDED";
/// Too few devices of the group are left.
pub(super) const NO_REPLICAS: &str = "NO_REPLICAS";

/// The device of a vdev without parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leaf {
    /// The path ZFS uses: of the partition, if it was given a whole disk.
    pub(super) path: Utf8PathBuf,
    /// The disk that is open, by its serial.
    pub(super) disk: Option<String>,
    pub(super) health: Health,
    pub(super) offline: Option<Offline>,
    /// Whether it was not there at the import.
    pub(super) not_present: bool,
    /// Whether something was written to the pool that is not on it.
    pub(super) stale: bool,
    /// What the pool uses of it.
    pub(super) bytes: u64,
    pub(super) read_errors: u64,
    pub(super) write_errors: u64,
    pub(super) checksum_errors: u64,
}

impl Leaf {
    /// A device that has been opened and holds nothing yet.
    pub(super) fn new(path: Utf8PathBuf, serial: &str, bytes: u64) -> Self {
        Self {
            path,
            disk: Some(serial.to_owned()),
            health: Health::Open,
            offline: None,
            not_present: false,
            stale: false,
            bytes,
            read_errors: 0,
            write_errors: 0,
            checksum_errors: 0,
        }
    }

    pub(super) fn state(&self) -> (State, Option<&'static str>) {
        match self.health {
            _ if self.offline.is_some() => (State::Offline, None),
            Health::Open => (State::Online, None),
            Health::Removed => (State::Removed, None),
            Health::Unopenable(why) => (State::Unavailable, Some(why)),
            Health::Faulted => (State::Faulted, Some(ERR_EXCEEDED)),
        }
    }

    /// Whether it takes part in what is written.
    pub(super) fn is_open(&self) -> bool {
        self.disk.is_some() && self.state().0 == State::Online
    }

    /// Whether it has everything.
    pub(super) fn is_whole(&self) -> bool {
        self.is_open() && !self.stale
    }

    pub(super) fn close(&mut self, health: Health) {
        self.disk = None;
        self.health = health;
    }

    pub(super) fn forget_errors(&mut self) {
        (self.read_errors, self.write_errors, self.checksum_errors) = (0, 0, 0);
    }
}

/// A device or group of devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) guid: Guid,
    pub(super) class: VdevClass,
    pub(super) kind: Kind,
    pub(super) leaf: Option<Leaf>,
    pub(super) children: Vec<Self>,
    /// Whether the last part is new and does not hold anything yet: a raidz group that is being widened.
    pub(super) reflowing: bool,
}

impl Node {
    pub(super) fn device(guid: Guid, class: VdevClass, leaf: Leaf) -> Self {
        Self {
            guid,
            class,
            kind: Kind::Disk,
            leaf: Some(leaf),
            children: Vec::new(),
            reflowing: false,
        }
    }

    pub(super) fn group(guid: Guid, class: VdevClass, kind: Kind, children: Vec<Self>) -> Self {
        Self {
            guid,
            class,
            kind,
            leaf: None,
            children,
            reflowing: false,
        }
    }

    /// This vdev and all below it, each before its parts.
    pub(super) fn all(&self) -> Vec<&Self> {
        let below = self.children.iter().flat_map(Self::all);
        std::iter::once(self).chain(below).collect()
    }

    pub(super) fn leaves(&self) -> Vec<(Guid, &Leaf)> {
        self.all()
            .into_iter()
            .filter_map(|node| Some((node.guid, node.leaf.as_ref()?)))
            .collect()
    }

    pub(super) fn each_leaf(&mut self, f: &mut dyn FnMut(Guid, &mut Leaf)) {
        if let Some(leaf) = &mut self.leaf {
            f(self.guid, leaf);
        }
        for child in &mut self.children {
            child.each_leaf(f);
        }
    }

    pub(super) fn find(&self, guid: Guid) -> Option<&Self> {
        self.all().into_iter().find(|node| node.guid == guid)
    }

    pub(super) fn find_mut(&mut self, guid: Guid) -> Option<&mut Self> {
        if self.guid == guid {
            return Some(self);
        }
        self.children.iter_mut().find_map(|child| child.find_mut(guid))
    }

    /// The group that the vdev of this number is a direct part of.
    pub(super) fn parent_of(&self, guid: Guid) -> Option<&Self> {
        self.all()
            .into_iter()
            .find(|node| node.children.iter().any(|child| child.guid == guid))
    }

    /// Puts what `f` makes of the vdev of this number in its place. Whether there is one.
    pub(super) fn edit(&mut self, guid: Guid, f: &mut dyn FnMut(Self) -> Self) -> bool {
        if self.guid == guid {
            *self = f(self.clone());
            return true;
        }
        self.children.iter_mut().any(|child| child.edit(guid, f))
    }

    /// How many parts may be missing.
    fn tolerance(&self) -> usize {
        match self.kind {
            Kind::Mirror | Kind::Replacing | Kind::Spare => self.children.len().saturating_sub(1),
            Kind::Raidz(parity) => usize::from(parity),
            Kind::Draid(shape) => usize::from(shape.parity),
            Kind::Disk | Kind::DraidSpare { .. } | Kind::Hole | Kind::Indirect => 0,
        }
    }

    pub(super) fn state(&self) -> (State, Option<&'static str>) {
        if let Some(leaf) = &self.leaf {
            return leaf.state();
        }
        let states: Vec<State> = self.children.iter().map(|child| child.state().0).collect();
        let bad = states.iter().filter(|state| !is_usable(**state)).count();
        if bad > self.tolerance() {
            (State::Unavailable, Some(NO_REPLICAS))
        } else if bad > 0 || states.contains(&State::Degraded) {
            (State::Degraded, None)
        } else {
            (State::Online, None)
        }
    }

    /// Whether what was written to it can be read: enough parts that have everything.
    pub(super) fn is_readable(&self) -> bool {
        match &self.leaf {
            Some(leaf) => leaf.is_whole(),
            None => {
                let missing = self.children.iter().filter(|child| !child.is_readable());
                missing.count() <= self.tolerance()
            }
        }
    }

    fn width(&self) -> usize {
        self.children.len() - usize::from(self.reflowing && !self.children.is_empty())
    }

    /// What it holds, parity included.
    pub(super) fn raw(&self) -> u64 {
        if let Some(leaf) = &self.leaf {
            return leaf.bytes;
        }
        let real = |child: &&Self| !matches!(child.kind, Kind::DraidSpare { .. });
        let parts = self.children.iter().filter(real);
        let smallest = parts.map(Self::raw).min().unwrap_or_default();
        match self.kind {
            Kind::Raidz(_) => smallest.saturating_mul(self.width() as u64),
            Kind::Draid(shape) => {
                let used = self.children.len().saturating_sub(usize::from(shape.spares));
                smallest.saturating_mul(used as u64)
            }
            _ => smallest,
        }
    }

    /// What of it is for data.
    pub(super) fn usable(&self) -> u64 {
        let (data, all) = self.share();
        u64::try_from(u128::from(self.raw()) * data / all).unwrap_or(u64::MAX)
    }

    /// Of how many parts how many are for data.
    pub(super) fn share(&self) -> (u128, u128) {
        match self.kind {
            Kind::Raidz(parity) => {
                let width = self.width().max(1);
                let data = width.saturating_sub(usize::from(parity)).max(1);
                (data as u128, width as u128)
            }
            Kind::Draid(shape) => {
                let data = u128::from(draid_data(shape));
                (data, data + u128::from(shape.parity))
            }
            _ => (1, 1),
        }
    }
}

/// Devices' worth of data in a redundancy group of a draid: eight, or as many as there are.
pub(super) fn draid_data(shape: DraidShape) -> u16 {
    let left = shape.children.saturating_sub(shape.spares);
    let most = left.saturating_sub(u16::from(shape.parity)).max(1);
    shape.data.unwrap_or_else(|| most.min(8))
}

/// Whether a part in this state still takes part.
pub(super) fn is_usable(state: State) -> bool {
    matches!(
        state,
        State::Online | State::Degraded | State::Available | State::InUse
    )
}
