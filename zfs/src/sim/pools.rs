//! Pools as wholes: made, taken up, let go, destroyed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

use super::disk::{Behaviour, Content, Stamp, Written};
use super::pool::{self, Pool};
use super::properties;
use super::tree::Tree;
use super::vdev::{Health, Leaf, Node, OPEN_FAILED};
use super::world::{Answer, Imported, No, Violation, World, no};
use crate::{Guid, Import, Layout, NewPool, Offline, VdevClass};

/// The transaction group that a new pool begins with.
pub(super) const FIRST: u64 = 3;

impl World {
    pub(super) fn create(&mut self, host: &str, new: &NewPool) -> Answer<()> {
        let hostid = self.host(host)?.hostid;
        let name = new.name.as_str();
        if self.host(host)?.pools.contains_key(name) {
            return no(format!("cannot create '{name}': pool already exists"));
        }
        for (property, value) in &new.properties {
            properties::check_pool(property, value, hostid)?;
        }
        if new.layout.data.is_empty() {
            return no("invalid vdev specification: at least one toplevel vdev must be specified");
        }
        let now = self.now();
        let datasets = Tree::new(self.guid(), FIRST, now, &new.root)?;
        let built = self.build(host, &new.layout, &[])?;
        let mut pool = Pool {
            name: name.to_owned(),
            guid: self.guid(),
            txg: FIRST,
            state: pool::ACTIVE,
            hostid,
            hostname: host.to_owned(),
            properties: new.properties.clone(),
            tops: Vec::new(),
            cache: Vec::new(),
            spares: Vec::new(),
            scan: None,
            expansion: None,
            removal: None,
            trim: None,
            initialize: None,
            data_errors: 0,
            datasets,
        };
        self.put(host, &mut pool, built);
        self.enter(host, pool, false);
        self.emit(host, "sysevent.fs.zfs.pool_create", name, None);
        Ok(())
    }

    /// Has a host have a pool.
    fn enter(&mut self, host: &str, pool: Pool, read_only: bool) {
        let name = pool.name.clone();
        let pool = if read_only {
            Arc::new(pool)
        } else {
            self.commit(host, pool)
        };
        let imported = Imported {
            pool,
            suspended: false,
            read_only,
            open: BTreeSet::new(),
        };
        let state = self.hosts.get_mut(host).filter(|state| state.running);
        if let Some(state) = state {
            state.pools.insert(name, imported);
        }
    }

    /// The devices that can be read, with their labels. One that hangs makes all hang.
    fn labels(&self, host: &str, devices: &[Utf8PathBuf]) -> Answer<Vec<(Utf8PathBuf, String, Stamp)>> {
        let mut found: Vec<(Utf8PathBuf, String, Stamp)> = Vec::new();
        for path in devices {
            let disk = self.at(host, path).and_then(|serial| {
                let disk = self.disks.get(serial)?;
                Some((serial.to_owned(), disk))
            });
            let Some((serial, disk)) = disk else {
                continue;
            };
            match disk.behaviour {
                Behaviour::Good => {}
                Behaviour::Failing => continue,
                Behaviour::Hanging => return Err(No::Hang),
            }
            let known = found.iter().any(|(_, other, _)| *other == serial);
            if let Some(stamp) = disk.stamp_at(host, path).filter(|_| !known) {
                found.push((path.clone(), serial, stamp.clone()));
            }
        }
        Ok(found)
    }

    pub(super) fn import(&mut self, host: &str, import: &Import) -> Answer<()> {
        let hostid = self.host(host)?.hostid;
        let guid = import.guid;
        let labels = self.labels(host, &import.devices)?;
        let ours = |stamp: &&Stamp| {
            let label = &stamp.label;
            label.pool_guid == Some(guid.0) && label.txg > 0 && label.state != pool::DESTROYED
        };
        let stamps = labels.iter().map(|(_, _, stamp)| stamp).filter(ours);
        // Of equals the first.
        let best = stamps.rev().max_by_key(|stamp| stamp.label.txg);
        let Some(image) = best.and_then(|stamp| stamp.image.clone()) else {
            return no(format!("cannot import '{guid}': no such pool available"));
        };
        let name = import
            .name
            .as_ref()
            .map_or(image.name.as_str(), |name| name.as_str());
        let name = name.to_owned();
        let pools = &self.host(host)?.pools;
        if pools.values().any(|imported| imported.pool.guid == guid) || pools.contains_key(&name) {
            return no(format!(
                "cannot import '{name}': a pool with that name already exists"
            ));
        }
        for (property, value) in &import.properties {
            properties::check_pool(property, value, hostid)?;
        }
        let elsewhere = image.state == pool::ACTIVE && image.hostid != hostid;
        let holder = self.holder(host, guid);
        if image.property("multihost") == Some("on") {
            if hostid == 0 {
                return no(format!(
                    "cannot import '{name}': pool requires a hostid, and this system has none"
                ));
            }
            if elsewhere && let Some(holder) = &holder {
                return no(format!("cannot import '{name}': pool is in use by {holder}"));
            }
        }
        if elsewhere && !import.although_in_use {
            return no(format!(
                "cannot import '{name}': pool was previously in use from another system: last accessed by {} (hostid={:x})",
                image.hostname, image.hostid
            ));
        }
        let mut pool = (*image).clone();
        open(&mut pool, &labels, &image);
        let lost = |top: &Node| top.class != VdevClass::Log && !top.is_readable();
        if pool.tops.iter().any(lost) {
            return no(format!(
                "cannot import '{name}': one or more devices is currently unavailable"
            ));
        }
        let log = |top: &Node| top.class == VdevClass::Log && !super::vdev::is_usable(top.state().0);
        if pool.tops.iter().any(log) && !import.without_log {
            return no(format!(
                "cannot import '{name}': one or more devices is currently unavailable: a log device is missing, use '-m' to import the pool anyway"
            ));
        }
        if let Some(had) = holder.filter(|_| !import.read_only) {
            self.violations.push(Violation::DoubleImport {
                pool: guid,
                had,
                took: host.to_owned(),
            });
        }
        let now = self.now();
        pool.each_job(|job| job.go_on(now));
        pool.properties.extend(import.properties.clone());
        pool.name.clone_from(&name);
        if !import.read_only {
            (pool.state, pool.hostid) = (pool::ACTIVE, hostid);
            host.clone_into(&mut pool.hostname);
        }
        let resilvers = !import.read_only && pool.resilver_if_needed(now, self.rate);
        self.enter(host, pool, import.read_only);
        self.emit(host, "sysevent.fs.zfs.pool_import", &name, None);
        if resilvers {
            self.emit(host, "sysevent.fs.zfs.resilver_start", &name, None);
        }
        Ok(())
    }

    /// Another host that runs and has the pool for writing.
    fn holder(&self, host: &str, guid: Guid) -> Option<String> {
        let mut others = self.hosts.iter().filter(|(name, state)| {
            let has = |imported: &Imported| imported.pool.guid == guid && !imported.read_only;
            name.as_str() != host && state.running && state.pools.values().any(has)
        });
        others.next().map(|(name, _)| name.clone())
    }

    /// Lets go of a pool, and says so on its disks.
    pub(super) fn leave(&mut self, host: &str, name: &str, state: u64) -> Answer<()> {
        let imported = self.imported(host, name)?;
        if let Some(volume) = imported.open.first() {
            return no(format!(
                "cannot unmount '{name}/{volume}': pool or dataset is busy"
            ));
        }
        if imported.read_only && state == pool::EXPORTED {
            if self.hangs(host, name) {
                return Err(No::Hang);
            }
        } else {
            let now = self.now();
            self.change(host, name, |_, pool| {
                pool.state = state;
                pool.each_job(|job| job.hold(now));
                Ok(())
            })?;
        }
        if let Some(host) = self.hosts.get_mut(host) {
            host.pools.remove(name);
        }
        let class = if state == pool::DESTROYED {
            "sysevent.fs.zfs.pool_destroy"
        } else {
            "sysevent.fs.zfs.pool_export"
        };
        self.emit(host, class, name, None);
        Ok(())
    }

    pub(super) fn add(&mut self, host: &str, name: &str, layout: &Layout) -> Answer<()> {
        self.change(host, name, |world, pool| {
            if layout.devices().next().is_none() {
                return no("invalid vdev specification: nothing to add");
            }
            let built = world.build(host, layout, &pool.tops)?;
            world.put(host, pool, built);
            Ok(())
        })?;
        self.emit(host, "sysevent.fs.zfs.vdev_add", name, None);
        Ok(())
    }

    pub(super) fn clear_labels(&mut self, host: &str, path: &Utf8Path, of: Guid) -> Answer<()> {
        self.host(host)?;
        let Some(serial) = self.at(host, path).map(ToOwned::to_owned) else {
            return no(format!("failed to open {path}: No such file or directory"));
        };
        match self.behaviour(&serial) {
            Behaviour::Good => {}
            Behaviour::Failing => return no(format!("failed to read label from {path}")),
            Behaviour::Hanging => return Err(No::Hang),
        }
        if let Some(pool) = self.held_by(host, &serial) {
            return no(format!("{path} is a member (ACTIVE) of pool \"{pool}\""));
        }
        let label = self.disks.get(&serial).and_then(|disk| disk.stamp_at(host, path));
        let Some(label) = label.map(|stamp| stamp.label.clone()) else {
            return no(format!("failed to check state for {path}: no label"));
        };
        if label.vdev_guid != of.0 {
            return no(format!("{path} is the device {}, not {of}", label.vdev_guid));
        }
        let pool = label.pool_name.as_deref().unwrap_or_default();
        if label.state == pool::ACTIVE && label.txg > 0 {
            return no(format!(
                "{path} is a member of potentially active pool \"{pool}\""
            ));
        }
        self.write(Some(host), &serial, Written::LabelsCleared, Content::Nothing);
        Ok(())
    }

    pub(super) fn set_property(&mut self, host: &str, name: &str, property: &str, value: &str) -> Answer<()> {
        let hostid = self.host(host)?.hostid;
        properties::check_pool(property, value, hostid)?;
        self.change(host, name, |_, pool| {
            if value.is_empty() {
                pool.properties.remove(property);
            } else {
                pool.properties.insert(property.to_owned(), value.to_owned());
            }
            Ok(())
        })
    }

    pub(super) fn pool_properties(&self, host: &str, name: &str) -> Answer<BTreeMap<String, String>> {
        let imported = self.imported(host, name)?;
        Ok(properties::of_pool(imported))
    }
}

/// Opens what is there of the devices of a pool. `image` is the pool as the best label has it.
fn open(pool: &mut Pool, labels: &[(Utf8PathBuf, String, Stamp)], image: &Arc<Pool>) {
    let guid = pool.guid.0;
    let in_use: BTreeSet<Guid> = pool.leaves().into_iter().map(|(vdev, _)| vdev).collect();
    pool.each_device(|vdev, leaf| {
        let waits = !in_use.contains(&vdev);
        let is_it = |stamp: &Stamp| {
            let label = &stamp.label;
            // One whose label was not written with the others when the power went has all the same what they have.
            let is_in = label.txg > 0 || stamp.image.is_some();
            let of_pool = label.pool_guid == Some(guid) && is_in;
            let waiting = label.pool_guid.is_none();
            label.vdev_guid == vdev.0 && if waits { waiting } else { of_pool }
        };
        let found = labels.iter().filter(|(_, _, stamp)| is_it(stamp));
        let found = found.rev().max_by_key(|(_, _, stamp)| stamp.label.txg);
        leaf.forget_errors();
        if leaf.offline == Some(Offline::UntilImport) {
            leaf.offline = None;
        }
        match found {
            Some((path, serial, stamp)) => {
                let current = |own: &Arc<Pool>| Arc::ptr_eq(own, image);
                leaf.stale |= !waits && !stamp.image.as_ref().is_some_and(current);
                reopen(leaf, path, serial);
            }
            None => {
                leaf.close(Health::Unopenable(OPEN_FAILED));
                leaf.not_present = true;
            }
        }
    });
}

/// Has a device open at the path where it was found.
pub(super) fn reopen(leaf: &mut Leaf, path: &Utf8Path, serial: &str) {
    path.clone_into(&mut leaf.path);
    leaf.not_present = false;
    leaf.health = Health::Open;
    leaf.disk = leaf.offline.is_none().then(|| serial.to_owned());
}
