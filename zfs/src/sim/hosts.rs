//! What a test does to hosts, to calls and to time, and what it is told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::disk::{DiskWrite, Found, Written};
use super::faults::{Fault, Faults, Moment, Script};
use super::world::{Host, Violation, World};
use super::{Call, CallRecord, Inner, SimHosts, SimZfs};
use crate::{Guid, PoolEvent};

impl SimHosts {
    /// A world without anything in it. Its numbers and its faults, once there are any, follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let inner = Inner {
            world: Mutex::new(World::new(seed)),
            news: tokio::sync::Notify::new(),
            processes: AtomicU64::new(0),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Does something to the world as it is now, and tells who waits.
    pub(super) fn act<T>(&self, f: impl FnOnce(&mut World) -> T) -> T {
        let mut world = self.inner.world();
        world.tick();
        let done = f(&mut world);
        world.tick();
        drop(world);
        self.inner.news.notify_waiters();
        done
    }

    fn with_host<T: Default>(&self, host: &str, f: impl FnOnce(&mut Host) -> T) -> T {
        self.act(|world| world.hosts.get_mut(host).map(f).unwrap_or_default())
    }

    /// The ZFS of a host, for a new process. The host is made if there is none of that name.
    #[must_use]
    pub fn zfs(&self, host: &str) -> SimZfs {
        let cuts = self.act(|world| {
            let hostid = 0x0010_0000 + world.hosts.len() as u64 + 1;
            let new = || Host {
                hostid,
                running: true,
                cuts: 0,
                cut_after: None,
                zed: false,
                pools: BTreeMap::new(),
                hanging: std::collections::BTreeSet::new(),
                all_hang: false,
                events: Vec::new(),
                script: Script::default(),
            };
            world.hosts.entry(host.to_owned()).or_insert_with(new).cuts
        });
        SimZfs {
            inner: self.inner.clone(),
            host: host.into(),
            process: self.inner.processes.fetch_add(1, Ordering::Relaxed),
            cuts,
        }
    }

    /// Gives a host another id. Cloned machines have the same; zero is none.
    pub fn set_hostid(&self, host: &str, hostid: u64) {
        self.with_host(host, |host| host.hostid = hostid);
    }

    /// Whether a host switches devices on by itself when they come back, as `zed` does.
    pub fn set_zed(&self, host: &str, zed: bool) {
        self.with_host(host, |host| host.zed = zed);
    }

    /// Cuts the power of a host. Its pools stay in use by it, as their labels say, and no handle from before works again.
    pub fn power_off(&self, host: &str) {
        self.act(|world| world.cut_power(host));
    }

    /// Cuts the power of a host when it is about to write to a disk for the time after this many more: in the middle of
    /// whatever it is then doing.
    pub fn power_off_after(&self, host: &str, writes: u64) {
        self.with_host(host, |host| host.cut_after = Some(writes));
    }

    /// Switches a host on. It has no pools: they are imported by whoever wants them.
    pub fn power_on(&self, host: &str) {
        self.with_host(host, |host| host.running = true);
    }

    /// Cuts the power of a host and switches it on again.
    pub fn reboot(&self, host: &str) {
        self.power_off(host);
        self.power_on(host);
    }

    /// Every write to a disk so far, in order.
    #[must_use]
    pub fn log(&self) -> Vec<DiskWrite> {
        self.inner.world().log.clone()
    }

    /// The writes by hosts to disks that were neither blank, nor that device of that pool already, nor were `proven` by
    /// what was found on them.
    pub fn unproven(&self, proven: impl Fn(&Found) -> bool) -> Vec<DiskWrite> {
        let mut unproven = Vec::new();
        // For which device each disk was partitioned just before.
        let mut prepared: BTreeMap<String, Guid> = BTreeMap::new();
        for write in self.log() {
            let vdev = write.written.vdev();
            let is_own = match &write.found {
                Found::Nothing => true,
                Found::EmptyPartitions => vdev.is_some() && prepared.get(&write.serial) == vdev.as_ref(),
                Found::Zfs(label) => vdev == Some(Guid(label.vdev_guid)),
                Found::Other(_) => false,
            };
            match (&write.written, vdev) {
                (Written::Partitions { .. }, Some(vdev)) => prepared.insert(write.serial.clone(), vdev),
                _ => prepared.remove(&write.serial),
            };
            if write.host.is_some() && !is_own && !proven(&write.found) {
                unproven.push(write);
            }
        }
        unproven
    }

    /// What must never happen and did.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.inner.world().violations.clone()
    }

    /// Every call so far that had its effect or was refused, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<CallRecord> {
        self.inner.world().calls.clone()
    }

    /// Every event of a host so far, in order.
    #[must_use]
    pub fn past_events(&self, host: &str) -> Vec<PoolEvent> {
        self.inner.world().events(host).to_vec()
    }

    /// Lets time pass for the pools that tokio does not pass.
    pub fn advance(&self, time: Duration) {
        self.act(|world| world.skip(time));
    }

    /// How fast pools are read through by scrubs and the like, in bytes per second. Holds for what begins from now on.
    pub fn set_rate(&self, bytes_per_second: u64) {
        self.act(|world| world.rate = bytes_per_second);
    }

    /// How long a command may take before it is given up.
    pub fn set_deadline(&self, deadline: Duration) {
        self.act(|world| world.deadline = deadline);
    }

    /// Sets the faults. None: [`Faults::default`].
    pub fn set_faults(&self, faults: Faults) {
        self.act(|world| world.dice.faults = faults);
    }

    /// How often each fault was met so far.
    #[must_use]
    pub fn faults_met(&self) -> BTreeMap<Fault, u64> {
        self.inner.world().dice.met.clone()
    }

    /// Has the next call of this kind on a host meet a fault.
    pub fn fault(&self, host: &str, call: Call, fault: Fault) {
        self.with_host(host, |host| host.script.next.push_back((call, fault)));
    }

    /// How many changes were called for on a host so far.
    #[must_use]
    pub fn changes(&self, host: &str) -> u64 {
        self.with_host(host, |host| host.script.changes)
    }

    /// Stops the caller of the change of this number (counted from 0, see [`Self::changes`]) for ever, before or after its
    /// effect, and every later change that comes from the same handle.
    pub fn halt(&self, host: &str, number: u64, moment: Moment) {
        self.with_host(host, |host| host.script.halt = Some((number, moment)));
    }

    /// Has no command on a pool come to an end, or lets them go on.
    pub fn hang_pool(&self, host: &str, pool: &str, hangs: bool) {
        self.with_host(host, |host| {
            if hangs {
                host.hanging.insert(pool.to_owned());
            } else {
                host.hanging.remove(pool);
            }
        });
    }

    /// Has no command on a host come to an end, as when a lock of the kernel is stuck, or lets them go on.
    pub fn hang_host(&self, host: &str, hangs: bool) {
        self.with_host(host, |host| host.all_hang = hangs);
    }
}

impl SimZfs {
    /// Returns once this handle has been [stopped](SimHosts::halt), or its host has lost its power.
    pub async fn halted(&self) {
        loop {
            let news = self.inner.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let halted = {
                let world = self.inner.world();
                let host = world.hosts.get(self.host.as_ref());
                let is_halted =
                    |host: &Host| host.script.halted.contains(&self.process) || host.cuts != self.cuts;
                host.is_none_or(is_halted)
            };
            if halted {
                return;
            }
            news.await;
        }
    }
}
