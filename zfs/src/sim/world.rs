//! Everything there is: disks, hosts, and what passes between them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use camino::Utf8Path;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::Instant;

use super::calls::{Call, CallRecord};
use super::disk::{Behaviour, Content, Disk, DiskWrite, Stamp, Written};
use super::faults::{Dice, Script};
use super::pool::{self, Pool};
use super::vdev::{Health, Node};
use crate::{Guid, Label, PoolEvent, PoolName, State};

/// Why something is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum No {
    /// ZFS refuses, in these words.
    Said(String),
    /// It does not come to an end.
    Hang,
}

pub(super) type Answer<T> = Result<T, No>;

pub(super) fn no<T>(said: impl Into<String>) -> Answer<T> {
    Err(No::Said(said.into()))
}

/// Something that must never happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// A pool was imported by a host while another had it.
    DoubleImport {
        /// The pool.
        pool: Guid,
        /// Who had it.
        had: String,
        /// Who took it.
        took: String,
    },
    /// A disk was written that is open in a pool of some host, and not by that pool.
    WrittenUnder {
        /// The disk.
        serial: String,
        /// The pool it is open in.
        pool: Guid,
        /// Who wrote.
        by: String,
    },
}

/// Makes a change.
pub(super) type Change = Box<dyn Fn(&mut World) -> Answer<()> + Send>;

/// A change that hangs, or comes late.
pub(super) struct Later {
    pub(super) host: String,
    /// The handle it came from.
    pub(super) process: u64,
    pub(super) call: Call,
    pub(super) target: String,
    pub(super) since: Duration,
    /// When it is made; as soon as nothing hangs any more if absent.
    pub(super) due: Option<Duration>,
    pub(super) run: Change,
}

impl Later {
    pub(super) fn pool(&self) -> &str {
        self.call.pool(&self.target)
    }
}

/// A pool that a host has.
#[derive(Debug, Clone)]
pub(super) struct Imported {
    pub(super) pool: Arc<Pool>,
    pub(super) suspended: bool,
    pub(super) read_only: bool,
    /// The volumes that somebody has open, below the pool's name.
    pub(super) open: BTreeSet<String>,
}

impl Imported {
    /// The state of the pool as the host sees it.
    pub(super) fn state(&self) -> State {
        if self.suspended {
            State::Suspended
        } else {
            self.pool.state_of_vdevs()
        }
    }
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) hostid: u64,
    pub(super) running: bool,
    /// How often its power was cut.
    pub(super) cuts: u64,
    /// After how many more writes to disks its power will be cut.
    pub(super) cut_after: Option<u64>,
    /// Whether devices are switched on by themselves when they come back.
    pub(super) zed: bool,
    pub(super) pools: BTreeMap<String, Imported>,
    /// Pools of which no command comes to an end.
    pub(super) hanging: BTreeSet<String>,
    /// No command comes to an end.
    pub(super) all_hang: bool,
    pub(super) events: Vec<PoolEvent>,
    pub(super) script: Script,
}

pub(super) struct World {
    pub(super) disks: BTreeMap<String, Disk>,
    pub(super) hosts: BTreeMap<String, Host>,
    pub(super) log: Vec<DiskWrite>,
    pub(super) violations: Vec<Violation>,
    pub(super) later: Vec<Later>,
    pub(super) dice: Dice,
    pub(super) calls: Vec<CallRecord>,
    /// What is to be written to disks that leave a pool, once the pool has been written without them.
    leaving: Vec<(String, Written, Content)>,
    /// How fast is read through, in bytes per second.
    pub(super) rate: u64,
    /// How long a command may take.
    pub(super) deadline: Duration,
    numbers: SmallRng,
    given: BTreeSet<u64>,
    origin: Instant,
    skew: Duration,
}

/// When the world began: 2026-01-01.
pub(super) const BEGAN: i64 = 1_767_225_600;

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            disks: BTreeMap::new(),
            hosts: BTreeMap::new(),
            log: Vec::new(),
            violations: Vec::new(),
            later: Vec::new(),
            dice: Dice::new(seed),
            calls: Vec::new(),
            leaving: Vec::new(),
            rate: 128 << 20,
            deadline: Duration::from_secs(30),
            numbers: SmallRng::seed_from_u64(!seed),
            given: BTreeSet::new(),
            origin: Instant::now(),
            skew: Duration::ZERO,
        }
    }

    /// A number that nothing else has.
    pub(super) fn guid(&mut self) -> Guid {
        loop {
            let number = self.numbers.random_range(1..=u64::MAX);
            if self.given.insert(number) {
                return Guid(number);
            }
        }
    }

    /// The time since the world began.
    pub(super) fn now(&self) -> Duration {
        self.origin.elapsed() + self.skew
    }

    pub(super) fn skip(&mut self, time: Duration) {
        self.skew += time;
    }

    /// When `tokio` will say that this time has come.
    pub(super) fn instant(&self, time: Duration) -> Instant {
        let real = time.saturating_sub(self.skew);
        self.origin.checked_add(real).unwrap_or(self.origin)
    }

    pub(super) fn host(&self, host: &str) -> Answer<&Host> {
        let found = self.hosts.get(host).filter(|host| host.running);
        found.ok_or_else(|| No::Said("the host is not running".to_owned()))
    }

    pub(super) fn imported(&self, host: &str, pool: &str) -> Answer<&Imported> {
        let found = self.host(host)?.pools.get(pool);
        found.ok_or_else(|| No::Said(format!("cannot open '{pool}': no such pool")))
    }

    pub(super) fn imported_mut(&mut self, host: &str, pool: &str) -> Option<&mut Imported> {
        self.hosts.get_mut(host)?.pools.get_mut(pool)
    }

    /// Which disk a host finds at a path.
    pub(super) fn at(&self, host: &str, path: &Utf8Path) -> Option<&str> {
        let found = self
            .disks
            .iter()
            .find(|(_, disk)| disk.place(host, path).is_some());
        found.map(|(serial, _)| serial.as_str())
    }

    pub(super) fn behaviour(&self, serial: &str) -> Behaviour {
        let disk = self.disks.get(serial);
        disk.map_or(Behaviour::Failing, |disk| disk.behaviour)
    }

    /// The pools in which a disk is open: host and name.
    pub(super) fn open_in(&self, serial: &str) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for (host, state) in &self.hosts {
            for (name, imported) in &state.pools {
                if imported.pool.has_open(serial) {
                    found.push((host.clone(), name.clone()));
                }
            }
        }
        found
    }

    /// The pool of a host that has a disk open.
    pub(super) fn held_by(&self, host: &str, serial: &str) -> Option<String> {
        let mut open = self.open_in(serial).into_iter();
        open.find(|(by, _)| by == host).map(|(_, pool)| pool)
    }

    /// Whether no command on this pool comes to an end: it was made to hang, or a disk of it was.
    pub(super) fn hangs(&self, host: &str, pool: &str) -> bool {
        let Some(state) = self.hosts.get(host) else {
            return false;
        };
        let disks = |imported: &Imported| {
            let leaves = imported.pool.nodes().flat_map(Node::leaves);
            let mut serials = leaves.into_iter().filter_map(|(_, leaf)| leaf.disk.clone());
            serials.any(|serial| self.behaviour(&serial) == Behaviour::Hanging)
        };
        state.all_hang || state.hanging.contains(pool) || state.pools.get(pool).is_some_and(disks)
    }

    pub(super) fn events(&self, host: &str) -> &[PoolEvent] {
        self.hosts.get(host).map_or(&[], |host| &host.events)
    }

    pub(super) fn emit(&mut self, host: &str, class: &str, pool: &str, vdev: Option<Guid>) {
        if let Some(state) = self.hosts.get_mut(host).filter(|state| state.running) {
            state.events.push(PoolEvent {
                class: class.to_owned(),
                pool: PoolName::new(pool).ok(),
                vdev,
            });
        }
    }

    /// Cuts the power of a host. What it was about to do is lost, and all who ran there are gone.
    pub(super) fn cut_power(&mut self, host: &str) {
        self.later.retain(|late| late.host != host);
        if let Some(state) = self.hosts.get_mut(host) {
            state.running = false;
            state.cuts += 1;
            state.cut_after = None;
            state.pools.clear();
            state.hanging.clear();
            state.all_hang = false;
        }
    }

    /// Whether a host still has the power to write once more.
    fn can_write(&mut self, host: &str) -> bool {
        let Some(state) = self.hosts.get_mut(host).filter(|state| state.running) else {
            return false;
        };
        match &mut state.cut_after {
            Some(0) => {
                self.cut_power(host);
                false
            }
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        }
    }

    /// Writes to a disk, and to the log. Whether it was written: the power may go before.
    pub(super) fn write(
        &mut self,
        host: Option<&str>,
        serial: &str,
        written: Written,
        content: Content,
    ) -> bool {
        if !self.disks.contains_key(serial) || host.is_some_and(|host| !self.can_write(host)) {
            return false;
        }
        let ours = match &written {
            Written::Label { pool, .. } | Written::LeftLabel { pool, .. } => Some(*pool),
            _ => None,
        };
        for (holder, name) in self.open_in(serial) {
            let open = self
                .hosts
                .get(&holder)
                .and_then(|state| state.pools.get(&name))
                .map(|imported| imported.pool.guid);
            let labels_of_its_own = matches!(
                written,
                Written::SpareLabel { .. } | Written::CacheLabel { .. } | Written::LeftLabel { .. }
            ) && Some(holder.as_str()) == host;
            if let Some(pool) = open.filter(|open| Some(*open) != ours && !labels_of_its_own) {
                self.violations.push(Violation::WrittenUnder {
                    serial: serial.to_owned(),
                    pool,
                    by: host.unwrap_or_default().to_owned(),
                });
            }
        }
        let Some(disk) = self.disks.get_mut(serial) else {
            return false;
        };
        self.log.push(DiskWrite {
            serial: serial.to_owned(),
            host: host.map(ToOwned::to_owned),
            found: disk.found(),
            written,
        });
        disk.content = content;
        true
    }

    /// Says on a disk that it has left its pool. What is in the pool is still on it.
    pub(super) fn write_left(&mut self, host: &str, serial: &str, pool: &Pool, vdev: Guid) {
        let image = self.disks.get(serial).and_then(Disk::stamp);
        let image = image.and_then(|stamp| stamp.image.clone());
        let (written, content) = left(pool, vdev, image);
        self.write(Some(host), serial, written, content);
    }

    /// Has a disk say that it has left its pool, once the pool has been written without it.
    pub(super) fn leave_label(&mut self, serial: &str, pool: &Pool, vdev: Guid) {
        let (written, content) = left(pool, vdev, None);
        self.leaving.push((serial.to_owned(), written, content));
    }

    /// Has a disk say that it is a cache device, once it is nothing else any more.
    pub(super) fn leave_cache(&mut self, serial: &str, vdev: Guid) {
        let (written, content) = waiting(vdev, pool::L2CACHE);
        self.leaving.push((serial.to_owned(), written, content));
    }

    /// Says on a disk that it is a spare or a cache device.
    pub(super) fn write_waiting(&mut self, host: &str, serial: &str, vdev: Guid, state: u64) {
        let (written, content) = waiting(vdev, state);
        self.write(Some(host), serial, written, content);
    }

    /// Looks at every open device of a pool, as a write would: who is gone or fails is closed.
    pub(super) fn notice(&mut self, host: &str, name: &str) {
        let Ok(imported) = self.imported(host, name) else {
            return;
        };
        let mut pool = (*imported.pool).clone();
        let mut news = Vec::new();
        pool.each_device(|guid, leaf| {
            let Some(serial) = leaf.disk.clone().filter(|_| leaf.offline.is_none()) else {
                return;
            };
            let plugged = |disk: &Disk| disk.plugged.contains_key(host);
            if !self.disks.get(&serial).is_some_and(plugged) {
                leaf.close(Health::Removed);
                news.push(("resource.fs.zfs.removed", guid));
            } else if self.behaviour(&serial) == Behaviour::Failing {
                leaf.close(Health::Faulted);
                leaf.write_errors += 3;
                leaf.read_errors += 1;
                news.push(("ereport.fs.zfs.probe_failure", guid));
            }
        });
        if news.is_empty() {
            return;
        }
        for (class, guid) in news {
            self.emit(host, class, name, Some(guid));
            self.emit(host, "resource.fs.zfs.statechange", name, Some(guid));
        }
        let lost = !pool.is_writable();
        let mut suspended = false;
        if let Some(imported) = self.imported_mut(host, name) {
            suspended = lost && !imported.suspended && !imported.read_only;
            imported.suspended |= suspended;
            imported.pool = Arc::new(pool);
        }
        if suspended {
            self.progress(host, name, self.now());
            self.emit(host, "ereport.fs.zfs.io_failure", name, None);
        } else if !lost {
            // Which devices are gone is written to those that are left.
            let _ = self.change(host, name, |_, _| Ok(()));
        }
    }

    /// What must be so before a pool is changed.
    pub(super) fn begin(&mut self, host: &str, name: &str) -> Answer<()> {
        if self.hangs(host, name) {
            return Err(No::Hang);
        }
        self.notice(host, name);
        let imported = self.imported(host, name)?;
        if imported.read_only {
            return no(format!("cannot change '{name}': pool is read-only"));
        }
        if imported.suspended {
            let goes_on = imported.pool.property("failmode") == Some("continue");
            return if goes_on {
                no("pool I/O is currently suspended")
            } else {
                Err(No::Hang)
            };
        }
        Ok(())
    }

    /// Changes a pool, all or nothing, and writes what is new to its disks.
    pub(super) fn change<T>(
        &mut self,
        host: &str,
        name: &str,
        f: impl FnOnce(&mut Self, &mut Pool) -> Answer<T>,
    ) -> Answer<T> {
        self.begin(host, name)?;
        let mut pool = (*self.imported(host, name)?.pool).clone();
        let done = f(self, &mut pool).inspect_err(|_| self.leaving.clear())?;
        let pool = self.commit(host, pool);
        if let Some(imported) = self.imported_mut(host, name) {
            imported.pool = pool;
        }
        Ok(done)
    }

    /// Writes a pool to its disks. With the first of them the new state is there: it has been on all of them before their
    /// labels say so.
    pub(super) fn commit(&mut self, host: &str, mut pool: Pool) -> Arc<Pool> {
        pool.txg += 1;
        pool.each_leaf(|_, leaf| leaf.stale |= !leaf.is_open());
        let pool = Arc::new(pool);
        let mut is_there = false;
        for (vdev, leaf) in pool.leaves() {
            let Some(serial) = leaf.disk.as_ref().filter(|_| leaf.is_open()) else {
                continue;
            };
            let written = Written::Label {
                pool: pool.guid,
                vdev,
                txg: pool.txg,
            };
            let label = pool.label(vdev);
            let image = Some(pool.clone());
            let content = Content::Zfs(Stamp { label, image });
            if self.write(Some(host), serial, written, content) {
                is_there = true;
            } else if let Some(disk) = self.disks.get_mut(serial).filter(|_| is_there) {
                disk.keep_up(&pool, vdev);
            }
        }
        for (serial, written, content) in std::mem::take(&mut self.leaving) {
            self.write(Some(host), &serial, written, content);
        }
        pool
    }
}

/// The label of a device that has left its pool.
fn left(pool: &Pool, vdev: Guid, image: Option<Arc<Pool>>) -> (Written, Content) {
    let label = Label {
        txg: 0,
        ..pool.label(vdev)
    };
    let written = Written::LeftLabel {
        pool: pool.guid,
        vdev,
    };
    (written, Content::Zfs(Stamp { label, image }))
}

/// The label of a spare or a cache device.
fn waiting(vdev: Guid, state: u64) -> (Written, Content) {
    let label = Label {
        pool_name: None,
        pool_guid: None,
        vdev_guid: vdev.0,
        comment: None,
        state,
        txg: 0,
        hostname: None,
        hostid: None,
    };
    let written = if state == pool::SPARE {
        Written::SpareLabel { vdev }
    } else {
        Written::CacheLabel { vdev }
    };
    (written, Content::Zfs(Stamp { label, image: None }))
}
