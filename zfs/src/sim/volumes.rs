//! Datasets as they are made, changed and destroyed.

use std::collections::{BTreeMap, BTreeSet};

use super::extents::Extent;
use super::pool::Pool;
use super::properties::{self, Rule};
use super::tree::{Ds, Snap, Tree, is_below, seconds};
use super::users::Piece;
use super::world::{Answer, World, no};
use crate::{DatasetKind, NewVolume};

type Properties = BTreeMap<String, String>;

/// A name taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named<'a> {
    pub(super) pool: &'a str,
    /// The dataset below the pool; empty for the one at its top.
    pub(super) dataset: &'a str,
    pub(super) snapshot: Option<&'a str>,
}

impl<'a> Named<'a> {
    pub(super) fn new(name: &'a str) -> Self {
        let (dataset, snapshot) = match name.split_once('@') {
            Some((dataset, snapshot)) => (dataset, Some(snapshot)),
            None => (name, None),
        };
        let (pool, dataset) = dataset.split_once('/').unwrap_or((dataset, ""));
        Self {
            pool,
            dataset,
            snapshot,
        }
    }
}

/// The whole name of a dataset.
pub(super) fn whole_name(pool: &str, dataset: &str) -> String {
    if dataset.is_empty() {
        pool.to_owned()
    } else {
        format!("{pool}/{dataset}")
    }
}

/// What is stored for a value that was given.
fn stored(volsize: u64, property: &str, value: &str) -> String {
    match (property, value) {
        ("refreservation" | "reservation" | "quota" | "refquota", "none") => "0".to_owned(),
        ("refreservation", "auto") => volsize.to_string(),
        _ => value.to_owned(),
    }
}

fn put_all(ds: &mut Ds, properties: &Properties) -> Answer<()> {
    for (property, value) in properties {
        properties::check_dataset(ds.kind, property, value)?;
        ds.put(property, stored(ds.number("volsize"), property, value));
    }
    Ok(())
}

fn check_block(block: u64) -> Answer<()> {
    if block.is_power_of_two() && (512..=(16 << 20)).contains(&block) {
        Ok(())
    } else {
        no("'volblocksize' must be power of 2 from 512B to 16M")
    }
}

/// The next snapshot name in a dataset cannot be one that is there.
fn check_new_snapshot(ds: &Ds, dataset: &str, name: &str) -> Answer<()> {
    if ds.snap(name).is_some() {
        return no(format!(
            "cannot create snapshot '{dataset}@{name}': dataset already exists"
        ));
    }
    Ok(())
}

impl World {
    /// Makes a dataset in a pool.
    fn put_dataset(&mut self, pool: &mut Pool, name: &str, kind: DatasetKind) -> Answer<Ds> {
        pool.datasets.check_new(name)?;
        Ok(Ds::new(kind, self.guid(), pool.txg + 1, self.now()))
    }

    pub(super) fn create_volume(&mut self, host: &str, new: &NewVolume) -> Answer<()> {
        let name = Named::new(new.name.as_str());
        self.change(host, name.pool, |world, pool| {
            let mut ds = world.put_dataset(pool, name.dataset, DatasetKind::Volume)?;
            if let Some(block) = new.properties.get("volblocksize") {
                properties::check_dataset(DatasetKind::Volume, "volblocksize", block)?;
                ds.put("volblocksize", block);
                check_block(ds.number("volblocksize"))?;
            }
            let bytes = new.bytes.checked_next_multiple_of(ds.block());
            let Some(bytes) = bytes.filter(|bytes| *bytes > 0) else {
                return no(format!("cannot create '{}': bad volume size", new.name));
            };
            ds.put("volsize", bytes.to_string());
            if !new.thin {
                ds.put("refreservation", bytes.to_string());
            }
            put_all(&mut ds, &new.properties)?;
            pool.datasets.all.insert(name.dataset.to_owned(), ds);
            pool.datasets.check_room(pool.capacity())
        })
    }

    pub(super) fn create_file_system(&mut self, host: &str, name: &str, set: &Properties) -> Answer<()> {
        let name = Named::new(name);
        self.change(host, name.pool, |world, pool| {
            let mut ds = world.put_dataset(pool, name.dataset, DatasetKind::FileSystem)?;
            put_all(&mut ds, set)?;
            pool.datasets.all.insert(name.dataset.to_owned(), ds);
            pool.datasets.check_room(pool.capacity())
        })
    }

    pub(super) fn set_dataset(&mut self, host: &str, name: &str, set: &Properties) -> Answer<()> {
        let name = Named::new(name);
        if set.is_empty() {
            return no("no property is named");
        }
        self.change(host, name.pool, |_, pool| {
            let ds = pool.datasets.get_mut(name.dataset)?;
            if set.contains_key("volblocksize") {
                return no("'volblocksize' is readonly");
            }
            if let Some(bytes) = set.get("volsize").and_then(|text| text.parse().ok()) {
                resize(ds, bytes)?;
            }
            put_all(ds, set)?;
            pool.datasets.check_room(pool.capacity())
        })
    }

    pub(super) fn inherit(&mut self, host: &str, name: &str, property: &str) -> Answer<()> {
        let name = Named::new(name);
        let inherits = matches!(properties::rule(property), Some(Rule::Inherits(_)));
        if !inherits && !properties::is_of_user(property) {
            return no(format!("'{property}' property cannot be inherited"));
        }
        self.change(host, name.pool, |_, pool| {
            pool.datasets.get_mut(name.dataset)?.set.remove(property);
            Ok(())
        })
    }

    pub(super) fn grow_volume(&mut self, host: &str, name: &str, bytes: u64) -> Answer<()> {
        let name = Named::new(name);
        let ds = self.imported(host, name.pool)?.pool.datasets.get(name.dataset)?;
        let now = ds.number("volsize");
        if ds.kind != DatasetKind::Volume {
            return no("it is no volume");
        }
        match bytes.cmp(&now) {
            std::cmp::Ordering::Less => no(format!("it has {now} bytes already")),
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => self.change(host, name.pool, |_, pool| {
                resize(pool.datasets.get_mut(name.dataset)?, bytes)?;
                pool.datasets.check_room(pool.capacity())
            }),
        }
    }

    pub(super) fn destroy_dataset(&mut self, host: &str, name: &str) -> Answer<()> {
        let named = Named::new(name);
        if self.imported(host, named.pool)?.open.contains(named.dataset) && named.snapshot.is_none() {
            return no(format!("cannot destroy '{name}': dataset is busy"));
        }
        self.change(host, named.pool, |_, pool| match named.snapshot {
            Some(snapshot) => destroy_snapshot(&mut pool.datasets, named.dataset, snapshot),
            None => destroy_whole(&mut pool.datasets, named.dataset),
        })
    }

    pub(super) fn take_snapshots(&mut self, host: &str, names: &[String], set: &Properties) -> Answer<()> {
        let names: Vec<Named<'_>> = names.iter().map(|name| Named::new(name)).collect();
        let Some(first) = names.first() else {
            return no("none is named");
        };
        if names.iter().any(|name| name.pool != first.pool) {
            return no("they are not in one pool");
        }
        if let Some(native) = set.keys().find(|property| !properties::is_of_user(property)) {
            return no(format!(
                "cannot set property '{native}': this property can not be modified for snapshots"
            ));
        }
        self.change(host, first.pool, |world, pool| {
            for name in &names {
                let (guid, creation) = (world.guid(), seconds(world.now()));
                let ds = pool.datasets.get_mut(name.dataset)?;
                let own = name.snapshot.unwrap_or_default();
                check_new_snapshot(ds, name.dataset, own)?;
                for (property, value) in set {
                    properties::check_dataset(DatasetKind::Snapshot, property, value)?;
                }
                ds.snaps.push(Snap {
                    name: own.to_owned(),
                    guid,
                    createtxg: pool.txg + 1,
                    creation,
                    set: set.clone(),
                    volsize: ds.number("volsize"),
                    data: ds.data.clone(),
                    holds: BTreeSet::new(),
                });
            }
            pool.datasets.check_room(pool.capacity())
        })
    }

    pub(super) fn clone_snapshot(&mut self, host: &str, of: &str, to: &str, set: &Properties) -> Answer<()> {
        let (of, to) = (Named::new(of), Named::new(to));
        if of.pool != to.pool {
            return no("cannot create: source and target pools differ");
        }
        self.change(host, of.pool, |world, pool| {
            let source = pool.datasets.get(of.dataset)?.clone();
            let Some(snap) = source.snap(of.snapshot.unwrap_or_default()) else {
                return no(format!("cannot open '{}': dataset does not exist", of.dataset));
            };
            let mut ds = world.put_dataset(pool, to.dataset, source.kind)?;
            ds.origin = Some(snap.guid);
            ds.data = snap.data.clone();
            if source.kind == DatasetKind::Volume {
                ds.put("volsize", snap.volsize.to_string());
                ds.put("volblocksize", source.block().to_string());
            }
            put_all(&mut ds, set)?;
            pool.datasets.all.insert(to.dataset.to_owned(), ds);
            pool.datasets.check_room(pool.capacity())
        })
    }

    pub(super) fn promote(&mut self, host: &str, name: &str) -> Answer<()> {
        let named = Named::new(name);
        self.change(host, named.pool, |_, pool| {
            let tree = &mut pool.datasets;
            let Some(origin) = tree.get(named.dataset)?.origin else {
                return no(format!("cannot promote '{name}': not a cloned filesystem"));
            };
            let Some((parent, _)) = tree.snapshot(origin) else {
                return no(format!("cannot promote '{name}': its origin is gone"));
            };
            let parent = parent.to_owned();
            let parent = tree.get_mut(&parent)?;
            let until = parent.snaps.iter().position(|snap| snap.guid == origin);
            let rest = parent.snaps.split_off(until.map_or(0, |at| at + 1));
            let moved = std::mem::replace(&mut parent.snaps, rest);
            let above = parent.origin.replace(origin);
            let clone = tree.get_mut(named.dataset)?;
            if let Some(twice) = moved.iter().find(|snap| clone.snap(&snap.name).is_some()) {
                let twice = &twice.name;
                return no(format!(
                    "cannot promote '{name}': snapshot name '{twice}' conflicts"
                ));
            }
            clone.snaps.splice(0..0, moved);
            clone.origin = above;
            Ok(())
        })
    }

    pub(super) fn rename_dataset(&mut self, host: &str, from: &str, to: &str) -> Answer<()> {
        let (old, new) = (Named::new(from), Named::new(to));
        if old.pool != new.pool || old.snapshot.is_some() != new.snapshot.is_some() {
            return no(format!(
                "cannot rename to '{to}': only within a pool, and like to like"
            ));
        }
        self.change(host, old.pool, |_, pool| {
            let tree = &mut pool.datasets;
            match (old.snapshot, new.snapshot) {
                (Some(own), Some(name)) => rename_snapshot(tree, (old.dataset, own), (new.dataset, name)),
                _ => rename_whole(tree, old.dataset, new.dataset),
            }
        })?;
        if old.snapshot.is_none()
            && let Some(imported) = self.imported_mut(host, old.pool)
        {
            let open = std::mem::take(&mut imported.open);
            let renamed = |name: String| moved(&name, old.dataset, new.dataset).unwrap_or(name);
            imported.open = open.into_iter().map(renamed).collect();
        }
        Ok(())
    }

    /// Does something to a snapshot.
    pub(super) fn with_snapshot<T>(
        &mut self,
        host: &str,
        name: &str,
        f: impl FnOnce(&mut Snap) -> Answer<T>,
    ) -> Answer<T> {
        let named = Named::new(name);
        self.change(host, named.pool, |_, pool| {
            let ds = pool.datasets.get_mut(named.dataset)?;
            match ds.snap_mut(named.snapshot.unwrap_or_default()) {
                Some(snap) => f(snap),
                None => no(format!("cannot open '{name}': dataset does not exist")),
            }
        })
    }

    pub(super) fn holds(&self, host: &str, name: &str) -> Answer<Vec<String>> {
        let named = Named::new(name);
        let ds = self
            .imported(host, named.pool)?
            .pool
            .datasets
            .get(named.dataset)?;
        match ds.snap(named.snapshot.unwrap_or_default()) {
            Some(snap) => Ok(snap.holds.iter().cloned().collect()),
            None => no(format!("cannot open '{name}': dataset does not exist")),
        }
    }

    /// Writes to a volume, as its user does.
    pub(super) fn write_volume(&mut self, host: &str, name: &str, piece: Piece) -> Answer<()> {
        let Piece { at, bytes, value } = piece;
        let name = Named::new(name);
        self.change(host, name.pool, |_, pool| {
            let stamp = pool.datasets.stamp();
            let ds = pool.datasets.get_mut(name.dataset)?;
            if ds.kind != DatasetKind::Volume || at.saturating_add(bytes) > ds.number("volsize") {
                return no("there is no such place");
            }
            ds.data.write(at, Extent { bytes, stamp, value });
            pool.datasets.check_room(pool.capacity())
        })
    }
}

/// Gives a volume another size. What was set aside for all of it is then set aside for all of it again.
fn resize(ds: &mut Ds, bytes: u64) -> Answer<()> {
    if bytes == 0 || !bytes.is_multiple_of(ds.block()) {
        return no("'volsize' must be a multiple of volume block size");
    }
    let old = ds.number("volsize");
    if ds.number("refreservation") == old {
        ds.put("refreservation", bytes.to_string());
    }
    ds.data.cut(bytes, old.saturating_sub(bytes));
    ds.put("volsize", bytes.to_string());
    Ok(())
}

fn destroy_snapshot(tree: &mut Tree, dataset: &str, name: &str) -> Answer<()> {
    let Some(snap) = tree.get(dataset)?.snap(name) else {
        return no(format!(
            "could not find any snapshots to destroy: '{dataset}@{name}'"
        ));
    };
    let guid = snap.guid;
    if !snap.holds.is_empty() {
        return no(format!(
            "cannot destroy snapshot '{dataset}@{name}': dataset is busy"
        ));
    }
    if let Some(clone) = tree.clones(guid).next() {
        return no(format!(
            "cannot destroy '{dataset}@{name}': snapshot has dependent clones: {clone}"
        ));
    }
    tree.get_mut(dataset)?.snaps.retain(|snap| snap.guid != guid);
    Ok(())
}

fn destroy_whole(tree: &mut Tree, name: &str) -> Answer<()> {
    if name.is_empty() {
        return no("operation does not apply to pools: use 'zpool destroy'");
    }
    let has_snapshots = !tree.get(name)?.snaps.is_empty();
    if has_snapshots || tree.children(name).next().is_some() {
        return no(format!("cannot destroy '{name}': filesystem has children"));
    }
    tree.all.remove(name);
    Ok(())
}

fn rename_snapshot(tree: &mut Tree, from: (&str, &str), to: (&str, &str)) -> Answer<()> {
    if from.0 != to.0 {
        return no("cannot rename: snapshots must be part of same dataset");
    }
    let ds = tree.get_mut(from.0)?;
    check_new_snapshot(ds, to.0, to.1)?;
    match ds.snap_mut(from.1) {
        Some(snap) => {
            to.1.clone_into(&mut snap.name);
            Ok(())
        }
        None => no(format!(
            "cannot open '{}@{}': dataset does not exist",
            from.0, from.1
        )),
    }
}

/// The name that a dataset has after one above it, or itself, was renamed.
fn moved(name: &str, from: &str, to: &str) -> Option<String> {
    if name == from {
        return Some(to.to_owned());
    }
    let rest = is_below(name, from).then(|| name.strip_prefix(from))??;
    Some(format!("{to}{rest}"))
}

fn rename_whole(tree: &mut Tree, from: &str, to: &str) -> Answer<()> {
    tree.get(from)?;
    if from.is_empty() || is_below(to, from) {
        return no(format!("cannot rename '{from}': not below itself, and no pool"));
    }
    tree.check_new(to)?;
    for (name, ds) in std::mem::take(&mut tree.all) {
        let name = moved(&name, from, to).unwrap_or(name);
        tree.all.insert(name, ds);
    }
    Ok(())
}
