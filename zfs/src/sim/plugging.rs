//! What a test does to disks, and what a host sees of them.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};

use super::SimHosts;
use super::disk::{self, Behaviour, Content, Disk, Found, Place, Written};
use super::vdev::Health;
use super::world::World;
use crate::Labels;

/// Somebody has the disk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the disk at {path} was not wiped: it is not there, or is in use by the pool {pool:?}")]
pub struct Held {
    /// The disk.
    pub path: Utf8PathBuf,
    /// The pool.
    pub pool: Option<String>,
}

/// Why a disk cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// There is none.
    #[error("there is no such device")]
    Absent,
    /// It answers with errors.
    #[error("reading it fails")]
    Failing,
    /// It does not answer.
    #[error("it does not answer")]
    Hanging,
}

/// A disk as a host sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenDisk {
    /// How large it is.
    pub bytes: u64,
    /// The paths it has.
    pub paths: Vec<Utf8PathBuf>,
    /// The paths that the first of ZFS's partitions has, in the same order; none if ZFS has made no partitions. Beside it
    /// there is one with the number 9, on which there never is anything.
    pub first_partition: Vec<Utf8PathBuf>,
    /// What is on it, or on that partition.
    pub found: Result<Found, Unreadable>,
    /// The pool of this host that has it open, for itself alone.
    pub held_by: Option<String>,
}

impl SimHosts {
    /// A blank disk of that many bytes, which is nowhere yet.
    pub fn add_disk(&self, serial: &str, bytes: u64) {
        self.act(|world| world.disks.insert(serial.to_owned(), Disk::new(bytes)));
    }

    /// A disk with everything that is on another.
    pub fn clone_disk(&self, serial: &str, clone: &str) {
        self.act(|world| {
            if let Some(disk) = world.disks.get(serial) {
                let plugged = BTreeMap::new();
                let copy = Disk {
                    plugged,
                    ..disk.clone()
                };
                world.disks.insert(clone.to_owned(), copy);
            }
        });
    }

    /// Plugs a disk into a host, where it has these paths. It may be in several hosts. A disk that has one of the paths
    /// loses it.
    pub fn plug<P: AsRef<str>>(&self, host: &str, serial: &str, paths: &[P]) {
        let paths: Vec<Utf8PathBuf> = paths.iter().map(|path| path.as_ref().into()).collect();
        self.act(|world| {
            for disk in world.disks.values_mut() {
                if let Some(others) = disk.plugged.get_mut(host) {
                    others.retain(|other| !paths.contains(other));
                }
            }
            if let Some(disk) = world.disks.get_mut(serial) {
                disk.plugged.insert(host.to_owned(), paths);
            }
            world.came_back(host);
        });
    }

    /// Pulls a disk out of every host. Those who have it open notice at once.
    pub fn pull(&self, serial: &str) {
        self.pull_quietly(serial);
        self.act(|world| {
            for (host, pool) in world.open_in(serial) {
                world.notice(&host, &pool);
            }
        });
    }

    /// Pulls a disk out of every host. It is noticed when it is written the next time.
    pub fn pull_quietly(&self, serial: &str) {
        self.act(|world| {
            if let Some(disk) = world.disks.get_mut(serial) {
                disk.plugged.clear();
            }
        });
    }

    /// Pulls a disk and plugs it into a host.
    pub fn move_disk<P: AsRef<str>>(&self, serial: &str, host: &str, paths: &[P]) {
        self.pull(serial);
        self.plug(host, serial, paths);
    }

    /// Swaps two disks, as if each were pulled and plugged into the other's place.
    pub fn swap(&self, one: &str, other: &str) {
        let places = |serial: &str| {
            self.act(|world| world.disks.get(serial).map(|disk| disk.plugged.clone()))
                .unwrap_or_default()
        };
        let (first, second) = (places(one), places(other));
        self.pull(one);
        self.pull(other);
        for (serial, places) in [(one, second), (other, first)] {
            for (host, paths) in places {
                self.plug(&host, serial, &paths);
            }
        }
    }

    /// Has a disk behave. A failing one is noticed when it is used the next time.
    pub fn behave(&self, serial: &str, behaviour: Behaviour) {
        self.act(|world| {
            if let Some(disk) = world.disks.get_mut(serial) {
                disk.behaviour = behaviour;
            }
        });
    }

    /// Makes a disk larger.
    pub fn grow(&self, serial: &str, bytes: u64) {
        self.act(|world| {
            if let Some(disk) = world.disks.get_mut(serial) {
                disk.bytes = disk.bytes.max(bytes);
            }
            world.grown(serial);
        });
    }

    /// Puts something on a disk that is not ZFS's, such as `ext4`.
    pub fn put(&self, serial: &str, what: &str) {
        self.act(|world| {
            let written = Written::Other(what.to_owned());
            world.write(None, serial, written, Content::Other(what.to_owned()));
            if let Some(disk) = world.disks.get_mut(serial) {
                disk.partitioned = false;
            }
        });
    }

    /// Wipes the disk or partition at a path, as an agent of that host does, unless it is open in a pool there.
    pub fn wipe(&self, host: &str, path: &Utf8Path) -> Result<(), Held> {
        self.act(|world| {
            let held = |pool| Held {
                path: path.to_owned(),
                pool,
            };
            let serial = world.at(host, path).map(ToOwned::to_owned);
            let serial = serial.ok_or_else(|| held(None))?;
            if let Some(pool) = world.held_by(host, &serial) {
                return Err(held(Some(pool)));
            }
            let is_written = world.write(Some(host), &serial, Written::Wiped, Content::Nothing);
            if let Some(disk) = world.disks.get_mut(&serial).filter(|_| is_written) {
                disk.partitioned &= disk.place(host, path) == Some(Place::First);
            }
            Ok(())
        })
    }

    /// The ZFS labels at a path, as a host reads them without ZFS. On a disk that ZFS has partitioned they are in the
    /// first partition, and not found at the path of the disk itself.
    pub fn labels(&self, host: &str, path: &Utf8Path) -> Result<Labels, Unreadable> {
        self.act(|world| {
            let disk = world.at(host, path).and_then(|serial| world.disks.get(serial));
            let disk = disk.ok_or(Unreadable::Absent)?;
            disk.readable()?;
            Ok(Labels {
                best: disk.stamp_at(host, path).map(|stamp| stamp.label.clone()),
                ..Labels::default()
            })
        })
    }

    /// The disks of a host as it sees them now, by their serials.
    #[must_use]
    pub fn disks(&self, host: &str) -> BTreeMap<String, SeenDisk> {
        self.act(|world| {
            let mut seen = BTreeMap::new();
            for (serial, disk) in &world.disks {
                let Some(paths) = disk.plugged.get(host) else {
                    continue;
                };
                let first = paths.iter().filter(|_| disk.partitioned);
                let disk = SeenDisk {
                    bytes: disk.bytes,
                    paths: paths.clone(),
                    first_partition: first.map(|path| disk::used_path(path)).collect(),
                    found: disk.readable().map(|()| disk.found()),
                    held_by: world.held_by(host, serial),
                };
                seen.insert(serial.clone(), disk);
            }
            seen
        })
    }

    /// What is on a disk, wherever it is.
    #[must_use]
    pub fn found(&self, serial: &str) -> Option<Found> {
        self.act(|world| world.disks.get(serial).map(Disk::found))
    }
}

impl Disk {
    fn readable(&self) -> Result<(), Unreadable> {
        match self.behaviour {
            Behaviour::Good => Ok(()),
            Behaviour::Failing => Err(Unreadable::Failing),
            Behaviour::Hanging => Err(Unreadable::Hanging),
        }
    }
}

impl World {
    /// Switches on what has come back, if somebody does that.
    fn came_back(&mut self, host: &str) {
        let Some(state) = self.hosts.get(host).filter(|state| state.zed && state.running) else {
            return;
        };
        for pool in state.pools.keys().cloned().collect::<Vec<_>>() {
            let _ = self.reopening(host, &pool, |world, pool| {
                let guid = pool.guid;
                let mut hangs = Ok(());
                pool.each_device(|vdev, leaf| {
                    if leaf.health != Health::Faulted {
                        hangs = hangs.clone().and(world.try_open(host, guid, vdev, leaf));
                    }
                });
                hangs
            });
        }
    }

    /// Uses what has been added to a disk, in pools that are told to.
    fn grown(&mut self, serial: &str) {
        for (host, name) in self.open_in(serial) {
            let _ = self.change(&host, &name, |world, pool| {
                if pool.property("autoexpand") != Some("on") {
                    return Ok(());
                }
                let disk = world.disks.get(serial);
                pool.each_leaf(|_, leaf| {
                    if let Some(disk) = disk.filter(|_| leaf.disk.as_deref() == Some(serial)) {
                        leaf.bytes = leaf.bytes.max(disk.used_bytes(&host, &leaf.path));
                    }
                });
                Ok(())
            });
        }
    }
}
