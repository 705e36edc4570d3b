//! The status in the making: what a person reads.

use std::time::Duration;

use cstor_api::cstor::{
    CStorPoolInstanceStatus, DeviceClass, PoolCapacity, PoolCreation, ScanFunction, ScanState, ScanStatus,
    VdevStatus, ZfsCapacity,
};
use cstor_api::names::phase::PoolPhase;
use cstor_api::names::{condition, reason};
use cstor_api::{Bytes, Condition, ConditionStatus, Quantity, set_condition};
use cstor_zfs::{self as zfs, Scan, State, Vdev, VdevClass, VdevKind};
use jiff::Timestamp;

use super::devices::Devices;
use super::{Imported, Observed};

pub(super) struct Telling<'a> {
    seen: &'a Observed,
    status: CStorPoolInstanceStatus,
}

impl<'a> Telling<'a> {
    pub(super) fn new(seen: &'a Observed) -> Self {
        let mut status = seen.status();
        status.observed_generation = seen.object.metadata.generation;
        // cStor's users always find these.
        status.read_only.get_or_insert(false);
        status.provisioned_replicas.get_or_insert(0);
        status.healthy_replicas.get_or_insert(0);
        Self { seen, status }
    }

    pub(super) fn status(self) -> CStorPoolInstanceStatus {
        self.status
    }

    pub(super) fn say(
        &mut self,
        kind: &str,
        status: ConditionStatus,
        reason: &str,
        message: impl Into<String>,
    ) {
        let conditions = self.status.conditions.get_or_insert_default();
        set_condition(
            conditions,
            Condition::new(kind, status, reason, message),
            self.seen.now,
        );
    }

    /// Takes a condition back that was raised, and says nothing if it never was.
    pub(super) fn clear(&mut self, kind: &str, reason: &str, message: &str) {
        if self.is_raised(kind) {
            self.say(kind, ConditionStatus::False, reason, message);
        }
    }

    /// Whether a condition holds, by what was last written.
    pub(super) fn is_raised(&self, kind: &str) -> bool {
        let conditions = self.status.conditions.iter().flatten();
        let raised = |known: &&Condition| known.type_ == kind && known.status == ConditionStatus::True;
        conditions.clone().any(|known| raised(&known))
    }

    pub(super) fn ready(&mut self, reason: &str, message: impl Into<String>) {
        self.say(condition::READY, ConditionStatus::True, reason, message);
    }

    pub(super) fn not_ready(&mut self, phase: PoolPhase, reason: &str, message: impl Into<String>) {
        self.status.phase = Some(phase);
        self.say(condition::READY, ConditionStatus::False, reason, message);
    }

    /// What was last said stays, but nobody can tell whether it is still true.
    pub(super) fn unknown(&mut self, reason: &str, message: impl Into<String>) {
        self.say(condition::READY, ConditionStatus::Unknown, reason, message);
    }

    /// Before the first byte is written: which disks are to become the pool.
    pub(super) fn creating(&mut self, devices: Vec<String>) {
        self.status.creation = Some(PoolCreation {
            devices,
            started_at: self.seen.now.into(),
        });
    }

    /// Who this pool is, for ever.
    pub(super) fn record(&mut self, pool: &zfs::PoolStatus) {
        self.status.pool_guid = Some(pool.guid.to_string());
        self.status.pool_name = Some(pool.name.to_string());
        self.status.creation = None;
    }

    /// The pool as it is.
    pub(super) fn pool(&mut self, devices: &Devices<'_>, pool: &Imported) {
        self.record(&pool.status);
        self.status.phase = Some(phase(pool.status.state));
        self.status.vdevs = Some(tree(devices, &pool.status));
        self.status.scan = pool.status.scan.as_ref().map(|scan| self.scan(scan));
        if let Some(scan) = &pool.status.scan
            && (scan.function, scan.state) == (zfs::ScanFunction::Scrub, zfs::ScanState::Finished)
        {
            self.status.last_scrub_time = scan.ended.map(Into::into);
        }
        if let Some(root) = &pool.root {
            let number = |name: &str| root.number(name).unwrap_or_default();
            let (used, free) = (number("used"), number("available"));
            self.status.capacity = Some(PoolCapacity {
                used: bytes(used),
                free: bytes(free),
                total: bytes(used.saturating_add(free)),
                zfs: ZfsCapacity {
                    logical_used: bytes(number("logicalused")),
                },
            });
            let replicas = i32::try_from(pool.datasets.len()).unwrap_or(i32::MAX);
            self.status.provisioned_replicas = Some(replicas);
        }
        self.clear(condition::POOL_LOST, reason::POOL_FOUND, "The pool is here.");
    }

    pub(super) fn read_only(&mut self, read_only: bool) {
        self.status.read_only = Some(read_only);
    }

    /// How far a scan is. While it runs its counters change at every look, and so does the object.
    fn scan(&self, scan: &Scan) -> ScanStatus {
        let running = scan.state == zfs::ScanState::Scanning;
        let done = if scan.issued > 0 {
            scan.issued
        } else {
            scan.examined
        };
        let percent = match (running, scan.to_examine) {
            (false, _) => None,
            (true, 0) => Some(0),
            (true, all) => i32::try_from(u128::from(done.min(all)) * 100 / u128::from(all)).ok(),
        };
        ScanStatus {
            function: match scan.function {
                zfs::ScanFunction::Resilver => ScanFunction::Resilver,
                zfs::ScanFunction::Scrub | zfs::ScanFunction::ErrorScrub => ScanFunction::Scrub,
            },
            state: match scan.state {
                zfs::ScanState::Scanning => ScanState::Scanning,
                zfs::ScanState::Paused => ScanState::Paused,
                zfs::ScanState::Finished => ScanState::Finished,
                zfs::ScanState::Canceled => ScanState::Canceled,
            },
            start_time: scan.started.map(Into::into),
            end_time: scan.ended.map(Into::into),
            examined_bytes: Some(scan.examined),
            to_examine_bytes: Some(scan.to_examine),
            issued_bytes: Some(scan.issued),
            percent,
            estimated_end_time: running
                .then(|| estimate(scan.started?, self.seen.now, done, scan.to_examine))
                .flatten()
                .map(Into::into),
            errors: Some(scan.errors),
        }
    }
}

/// When it will be done if it goes on like this, to the minute: seconds would only jump about.
fn estimate(started: Timestamp, now: Timestamp, done: u64, all: u64) -> Option<Timestamp> {
    let elapsed = now.duration_since(started).as_secs();
    if done == 0 || elapsed <= 0 {
        return None;
    }
    let left = u128::from(all.saturating_sub(done)) * u128::from(elapsed.unsigned_abs()) / u128::from(done);
    let end = now
        .checked_add(Duration::from_secs(u64::try_from(left).ok()?))
        .ok()?;
    let second = end.as_second();
    Timestamp::from_second(second + (60 - second.rem_euclid(60)) % 60).ok()
}

fn bytes(number: u64) -> Quantity {
    Quantity::from(Bytes(number))
}

/// The word of a state that people know from `zpool status`.
pub(super) const fn word(state: State) -> &'static str {
    match state {
        State::Online => "ONLINE",
        State::Degraded => "DEGRADED",
        State::Faulted => "FAULTED",
        State::Offline => "OFFLINE",
        State::Removed => "REMOVED",
        State::Unavailable => "UNAVAIL",
        State::Suspended => "SUSPENDED",
        State::Available => "AVAIL",
        State::InUse => "INUSE",
        State::Split => "SPLIT",
        State::Closed => "CLOSED",
        State::Unknown => "UNKNOWN",
    }
}

fn phase(state: State) -> PoolPhase {
    match state {
        State::Unknown => PoolPhase::Unknown,
        state => PoolPhase::from(word(state)),
    }
}

fn kind(kind: &VdevKind) -> &str {
    match kind {
        VdevKind::Disk => "disk",
        VdevKind::File => "file",
        VdevKind::Mirror => "mirror",
        VdevKind::Raidz => "raidz",
        VdevKind::Draid => "draid",
        VdevKind::DraidSpare => "dspare",
        VdevKind::Replacing => "replacing",
        VdevKind::Spare => "spare",
        VdevKind::Hole => "hole",
        VdevKind::Indirect => "indirect",
        VdevKind::Missing => "missing",
        VdevKind::Other(word) => word,
    }
}

fn class(class: VdevClass) -> DeviceClass {
    match class {
        VdevClass::Data => DeviceClass::Data,
        VdevClass::Log => DeviceClass::Log,
        VdevClass::Special => DeviceClass::Special,
        VdevClass::Dedup => DeviceClass::from("dedup"),
        VdevClass::Cache => DeviceClass::Cache,
        VdevClass::Spare => DeviceClass::Spare,
    }
}

/// What a person calls a vdev: of a device the last part of its path, without the partition that ZFS made.
fn short(vdev: &Vdev) -> &str {
    let name = vdev.name.as_str();
    let Some(last) = name.strip_prefix('/').and_then(|path| path.rsplit('/').next()) else {
        return name;
    };
    last.strip_suffix("-part1").unwrap_or(last)
}

fn tree(devices: &Devices<'_>, pool: &zfs::PoolStatus) -> Vec<VdevStatus> {
    fn add(devices: &Devices<'_>, vdev: &Vdev, parent: Option<&Vdev>, told: &mut Vec<VdevStatus>) {
        let is_leaf = vdev.is_device();
        let counter = |number: u64| (is_leaf || number > 0).then_some(number);
        told.push(VdevStatus {
            name: short(vdev).to_owned(),
            type_: kind(&vdev.kind).to_owned(),
            class: class(vdev.class),
            guid: vdev.guid.to_string(),
            parent: parent.map(|parent| parent.guid.to_string()),
            path: vdev.path.as_ref().map(ToString::to_string),
            block_device_name: match is_leaf {
                true => devices.name_of(vdev.guid).map(str::to_owned),
                false => None,
            },
            state: word(vdev.state).to_owned(),
            read_errors: counter(vdev.read_errors),
            write_errors: counter(vdev.write_errors),
            checksum_errors: counter(vdev.checksum_errors),
        });
        for child in &vdev.children {
            add(devices, child, Some(vdev), told);
        }
    }
    let mut told = Vec::new();
    for vdev in &pool.vdevs {
        add(devices, vdev, None, &mut told);
    }
    told
}
