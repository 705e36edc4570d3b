//! The datasets of a pool, and what they take up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::extents::{Extents, together};
use super::properties;
use super::world::{Answer, BEGAN, No, no};
use crate::{DatasetKind, Guid};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snap {
    pub(super) name: String,
    pub(super) guid: Guid,
    pub(super) createtxg: u64,
    pub(super) creation: i64,
    /// The properties that were set.
    pub(super) set: BTreeMap<String, String>,
    pub(super) volsize: u64,
    pub(super) data: Extents,
    pub(super) holds: BTreeSet<String>,
}

/// What arrived of a stream that was interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Partial {
    pub(super) header: super::stream::Header,
    pub(super) frames: Vec<super::stream::Frame>,
    /// Whether the dataset exists for nothing else.
    pub(super) new: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ds {
    pub(super) kind: DatasetKind,
    pub(super) guid: Guid,
    pub(super) createtxg: u64,
    pub(super) creation: i64,
    /// The properties that were set.
    pub(super) set: BTreeMap<String, String>,
    pub(super) data: Extents,
    /// In the order in which they were taken.
    pub(super) snaps: Vec<Snap>,
    /// The snapshot it is a clone of.
    pub(super) origin: Option<Guid>,
    pub(super) partial: Option<Partial>,
}

impl Ds {
    pub(super) fn new(kind: DatasetKind, guid: Guid, txg: u64, now: Duration) -> Self {
        Self {
            kind,
            guid,
            createtxg: txg,
            creation: seconds(now),
            set: BTreeMap::new(),
            data: Extents::default(),
            snaps: Vec::new(),
            origin: None,
            partial: None,
        }
    }

    pub(super) fn number(&self, property: &str) -> u64 {
        let set = self.set.get(property);
        set.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    pub(super) fn block(&self) -> u64 {
        match self.number("volblocksize") {
            0 => 16 << 10,
            block => block,
        }
    }

    pub(super) fn snap(&self, name: &str) -> Option<&Snap> {
        self.snaps.iter().find(|snap| snap.name == name)
    }

    pub(super) fn snap_mut(&mut self, name: &str) -> Option<&mut Snap> {
        self.snaps.iter_mut().find(|snap| snap.name == name)
    }

    pub(super) fn put(&mut self, property: &str, text: impl Into<String>) {
        self.set.insert(property.to_owned(), text.into());
    }
}

pub(super) fn seconds(now: Duration) -> i64 {
    BEGAN.saturating_add(i64::try_from(now.as_secs()).unwrap_or_default())
}

/// What a dataset takes up, and of what that is the sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) data: u64,
    pub(super) snapshots: u64,
    pub(super) reservation: u64,
    pub(super) children: u64,
    /// What was set aside for it and those below it beyond that.
    set_aside: u64,
}

impl Usage {
    pub(super) fn used(&self) -> u64 {
        self.data + self.snapshots + self.reservation + self.children
    }

    /// What the dataset above it is charged.
    fn charged(&self) -> u64 {
        self.used().max(self.set_aside)
    }
}

/// The datasets by their names below the pool's; the one at the top has the empty name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) all: BTreeMap<String, Ds>,
    last_stamp: u64,
}

/// The name of the dataset above.
pub(super) fn parent(name: &str) -> Option<&str> {
    match name.rsplit_once('/') {
        Some((parent, _)) => Some(parent),
        None => (!name.is_empty()).then_some(""),
    }
}

/// Whether a dataset lies below another.
pub(super) fn is_below(name: &str, above: &str) -> bool {
    name != above && (above.is_empty() || name.strip_prefix(above).is_some_and(|rest| rest.starts_with('/')))
}

impl Tree {
    pub(super) fn new(guid: Guid, txg: u64, now: Duration, root: &BTreeMap<String, String>) -> Answer<Self> {
        let mut top = Ds::new(DatasetKind::FileSystem, guid, txg, now);
        for (property, value) in root {
            properties::check_dataset(DatasetKind::FileSystem, property, value)?;
            top.put(property, value);
        }
        Ok(Self {
            all: BTreeMap::from([(String::new(), top)]),
            last_stamp: 0,
        })
    }

    /// A stamp that no write has.
    pub(super) fn stamp(&mut self) -> u64 {
        self.last_stamp += 1;
        self.last_stamp
    }

    pub(super) fn get(&self, name: &str) -> Answer<&Ds> {
        let found = self.all.get(name);
        found.ok_or_else(|| No::Said(format!("cannot open '{name}': dataset does not exist")))
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Answer<&mut Ds> {
        let found = self.all.get_mut(name);
        found.ok_or_else(|| No::Said(format!("cannot open '{name}': dataset does not exist")))
    }

    /// Whether there can be a new dataset of this name.
    pub(super) fn check_new(&self, name: &str) -> Answer<()> {
        if self.all.contains_key(name) {
            return no(format!("cannot create '{name}': dataset already exists"));
        }
        match parent(name).map(|parent| self.all.get(parent)) {
            Some(Some(parent)) if parent.kind == DatasetKind::FileSystem => Ok(()),
            Some(Some(_)) => no(format!("cannot create '{name}': parent is not a filesystem")),
            _ => no(format!("cannot create '{name}': parent does not exist")),
        }
    }

    pub(super) fn children(&self, name: &str) -> impl Iterator<Item = &str> {
        let below = self.all.keys().filter(move |other| is_below(other, name));
        below.map(String::as_str)
    }

    /// The snapshot of this number, and whose it is.
    pub(super) fn snapshot(&self, guid: Guid) -> Option<(&str, &Snap)> {
        self.all.iter().find_map(|(name, ds)| {
            let snap = ds.snaps.iter().find(|snap| snap.guid == guid)?;
            Some((name.as_str(), snap))
        })
    }

    pub(super) fn clones(&self, guid: Guid) -> impl Iterator<Item = &str> {
        let clones = self.all.iter().filter(move |(_, ds)| ds.origin == Some(guid));
        clones.map(|(name, _)| name.as_str())
    }

    fn origin(&self, ds: &Ds) -> Extents {
        let origin = ds.origin.and_then(|origin| self.snapshot(origin));
        origin.map(|(_, snap)| snap.data.clone()).unwrap_or_default()
    }

    /// What a snapshot alone has.
    pub(super) fn unique(&self, ds: &Ds, snap: &Snap) -> u64 {
        let clones: Vec<&Ds> = self
            .clones(snap.guid)
            .filter_map(|name| self.all.get(name))
            .collect();
        let origin = self.origin(ds);
        let mut others = vec![&ds.data, &origin];
        others.extend(
            ds.snaps
                .iter()
                .filter(|other| other.guid != snap.guid)
                .map(|other| &other.data),
        );
        for clone in clones {
            others.push(&clone.data);
            others.extend(clone.snaps.iter().map(|other| &other.data));
        }
        snap.data.without(&others).bytes()
    }

    /// What was written since the last snapshot.
    pub(super) fn since_snapshot(&self, ds: &Ds) -> u64 {
        let origin = self.origin(ds);
        let last = ds.snaps.last().map_or(&origin, |snap| &snap.data);
        ds.data.without(&[last]).bytes()
    }

    /// What was written between a snapshot and the one before it.
    pub(super) fn since_earlier(&self, ds: &Ds, snap: &Snap) -> u64 {
        let origin = self.origin(ds);
        let before = ds.snaps.iter().take_while(|other| other.guid != snap.guid);
        let before = before.last().map_or(&origin, |earlier| &earlier.data);
        snap.data.without(&[before]).bytes()
    }

    /// What each dataset takes up.
    pub(super) fn usage(&self) -> BTreeMap<&str, Usage> {
        let mut all: BTreeMap<&str, Usage> = BTreeMap::new();
        // Backwards, those below come before those above.
        for (name, ds) in self.all.iter().rev() {
            let origin = self.origin(ds);
            let snaps: Vec<&Extents> = ds.snaps.iter().map(|snap| &snap.data).collect();
            let usage = all.entry(name.as_str()).or_default();
            usage.data = ds.data.without(&[&origin]).bytes();
            usage.snapshots = together(&snaps, &[&origin, &ds.data]);
            usage.reservation = ds
                .number("refreservation")
                .saturating_sub(self.since_snapshot(ds));
            usage.set_aside = ds.number("reservation");
            let charged = usage.charged();
            if let Some(parent) = parent(name) {
                all.entry(parent).or_default().children += charged;
            }
        }
        all
    }

    /// What all datasets take up, with what was set aside.
    pub(super) fn used(&self) -> u64 {
        self.usage().get("").map(Usage::used).unwrap_or_default()
    }

    /// What is written.
    pub(super) fn written(&self) -> u64 {
        let usage = self.usage();
        usage.values().map(|usage| usage.data + usage.snapshots).sum()
    }

    /// What a dataset could still take up in a pool of this capacity.
    pub(super) fn available(&self, usage: &BTreeMap<&str, Usage>, name: &str, capacity: u64) -> u64 {
        let used = |name: &str| usage.get(name).map(Usage::used).unwrap_or_default();
        let mut left = capacity.saturating_sub(used(""));
        let mut above = Some(name);
        while let Some(each) = above {
            let quota = self
                .all
                .get(each)
                .map(|ds| ds.number("quota"))
                .unwrap_or_default();
            if quota > 0 {
                left = left.min(quota.saturating_sub(used(each)));
            }
            above = parent(each);
        }
        let own = usage.get(name).map(|usage| usage.reservation).unwrap_or_default();
        left.saturating_add(own)
    }

    /// Whether all has room.
    pub(super) fn check_room(&self, capacity: u64) -> Answer<()> {
        let usage = self.usage();
        let used = |name: &str| usage.get(name).map(Usage::used).unwrap_or_default();
        let over = |(name, ds): (&String, &Ds)| {
            let quota = ds.number("quota");
            quota > 0 && used(name) > quota
        };
        if used("") > capacity || self.all.iter().any(over) {
            return no("out of space");
        }
        Ok(())
    }
}
