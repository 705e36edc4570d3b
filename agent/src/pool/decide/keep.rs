//! The pool is there: it is told about and kept in shape.

use std::time::Duration;

use cstor_api::ConditionStatus;
use cstor_api::names::phase::PoolPhase;
use cstor_api::names::{self, condition, event, property, reason};
use cstor_reconcile::Event;
use cstor_zfs::{
    Online, PoolStatus, ScanFunction, ScanState, ScrubCommand, Source, State, Vdev, VdevClass, VdevKind,
};

use super::super::PoolStep;
use super::super::schedule;
use super::devices::Devices;
use super::tell::{Telling, word};
use super::{Decided, Imported, Observed, SOON, make, shape};

/// How often space and error counters are looked at.
const EVERY: Duration = Duration::from_secs(60);

/// How late a scrub may be before somebody is told.
const SCRUB_GRACE: Duration = Duration::from_secs(7 * 24 * 3600);

pub(super) fn decide(
    seen: &Observed,
    devices: &Devices<'_>,
    pool: &Imported,
    telling: &mut Telling<'_>,
) -> Decided {
    let mut decided = Decided::nothing();
    let was_made = seen
        .object
        .status
        .as_ref()
        .is_some_and(|status| status.creation.is_some());
    if seen.recorded_guid().is_none() && !was_made {
        let note = format!("The pool {} was adopted as it is.", pool.status.name);
        decided = decided.event(Event::normal(event::POOL_IMPORTED, note));
    }
    telling.pool(devices, pool);
    let unavailable = unavailable(devices, &pool.status);
    for message in unavailable.iter().map(|(_, message)| message.clone()) {
        decided = decided.event(Event::warning(event::DEVICE_STATE, message));
    }
    tell_devices(telling, &unavailable);
    tell_state(seen, telling, pool, &unavailable);
    let usable = matches!(pool.status.state, State::Online | State::Degraded);
    if !usable {
        return match resume(devices, pool) {
            Some(step) => decided.step(step).again(SOON),
            None => decided.again(SOON),
        };
    }
    let read_only = threshold(seen, telling, pool);
    let change = shape::change(seen, devices, &pool.status, is_made_by_us(seen, pool));
    tell_change(telling, pool, &change);
    for unfit in &change.refused {
        decided = decided.event(Event::warning(event::VALIDATION_FAILED, unfit.message.clone()));
    }
    let due = scrub(seen, telling, pool);
    let mut steps = properties(seen, devices, pool, read_only);
    let next = mend(devices, &pool.status)
        .or(change.step)
        .or_else(|| grow(devices, &pool.status))
        .or(due);
    let failed = seen.failure.as_ref().map(|failure| failure.during.label());
    match next {
        // A step that fails keeps the others from being run: a full pool that takes no property must still grow.
        Some(step) if failed.is_some_and(|step| step.starts_with("set_")) => steps.insert(0, step),
        Some(step) => steps.push(step),
        None => {}
    }
    let moving = is_moving(&pool.status);
    decided.steps(steps).again(if moving { SOON } else { EVERY })
}

/// Whether something goes on that people watch.
fn is_moving(pool: &PoolStatus) -> bool {
    let scanning = pool
        .scan
        .as_ref()
        .is_some_and(|scan| scan.state == ScanState::Scanning);
    scanning || pool.expansion.as_ref().is_some_and(|expansion| expansion.running)
}

/// What is wrong with devices: their names, and sentences.
fn unavailable(devices: &Devices<'_>, pool: &PoolStatus) -> Vec<(String, String)> {
    let well = [State::Online, State::Available, State::InUse];
    let broken = pool.devices().filter(|device| !well.contains(&device.state));
    broken
        .map(|device| {
            let name = devices.name_of(device.guid).map(str::to_owned);
            let name = name.unwrap_or_else(|| device.name.clone());
            let why = device
                .why
                .as_ref()
                .map(|why| format!(" ({why})"))
                .unwrap_or_default();
            let path = device
                .path
                .as_ref()
                .map(|path| format!(", last known as {path},"))
                .unwrap_or_default();
            let sentence = format!("{name}{path} is {}{why}", word(device.state));
            (name, sentence)
        })
        .collect()
}

fn tell_devices(telling: &mut Telling<'_>, unavailable: &[(String, String)]) {
    if unavailable.is_empty() {
        telling.clear(
            condition::DISK_UNAVAILABLE,
            reason::DISKS_AVAILABLE,
            "All devices of the pool are there.",
        );
        return;
    }
    let all: Vec<_> = unavailable
        .iter()
        .map(|(_, sentence)| sentence.as_str())
        .collect();
    let message = format!(
        "{}. Plug the disk back in, or put another BlockDevice in its place in the spec.",
        all.join("; ")
    );
    telling.say(
        condition::DISK_UNAVAILABLE,
        ConditionStatus::True,
        reason::DISKS_UNAVAILABLE,
        message,
    );
}

fn tell_state(seen: &Observed, telling: &mut Telling<'_>, pool: &Imported, unavailable: &[(String, String)]) {
    let status = &pool.status;
    let names: Vec<_> = unavailable.iter().map(|(name, _)| name.as_str()).collect();
    let mut message = match status.state {
        State::Online => "The pool is online.".to_owned(),
        State::Degraded if names.is_empty() => {
            format!(
                "The pool works with less redundancy than it should have: {}",
                zfs_says(status)
            )
        }
        State::Degraded => format!(
            "The pool works with less redundancy than it should have: {} not usable.",
            are(&names)
        ),
        State::Suspended => format!(
            "All I/O to the pool waits for its disks: {}. Plug them back in; it goes on by itself. {}",
            if names.is_empty() {
                "too many failed at once".to_owned()
            } else {
                are(&names) + " not usable"
            },
            zfs_says(status)
        ),
        state => format!("The pool is {}. {}", word(state), zfs_says(status)),
    };
    if status.data_errors > 0 {
        message.push_str(&format!(
            " {} blocks are damaged for good: `zpool status -v {}` on the node names them; restore these volumes from a backup.",
            status.data_errors, status.name
        ));
    }
    if let Some(failure) = seen.told_failure() {
        message.push_str(&format!(
            " The last step ({}) failed: {}",
            failure.during.label(),
            failure.message
        ));
    }
    match status.state {
        State::Online => telling.ready(reason::POOL_ONLINE, message),
        State::Degraded => telling.ready(reason::POOL_DEGRADED, message),
        State::Suspended => telling.not_ready(PoolPhase::Suspended, reason::POOL_SUSPENDED, message),
        state => telling.not_ready(PoolPhase::from(word(state)), reason::POOL_UNAVAILABLE, message),
    }
}

fn zfs_says(pool: &PoolStatus) -> String {
    let parts = [pool.status.as_deref(), pool.action.as_deref()];
    let said: Vec<_> = parts.into_iter().flatten().collect();
    if said.is_empty() {
        return String::new();
    }
    format!("ZFS says: {}", said.join(" "))
}

fn are(names: &[&str]) -> String {
    match names {
        [one] => format!("{one} is"),
        many => format!("{} are", many.join(", ")),
    }
}

/// A suspended pool goes on when its devices are back.
fn resume(devices: &Devices<'_>, pool: &Imported) -> Option<PoolStep> {
    if pool.status.state != State::Suspended {
        return None;
    }
    let data = pool
        .status
        .devices()
        .filter(|device| device.class == VdevClass::Data);
    let back = data
        .filter(|device| device.kind == VdevKind::Disk)
        .all(|device| devices.is_here(device.guid));
    back.then(|| PoolStep::Resume {
        pool: pool.status.name.clone(),
    })
}

/// How full the pool is, and whether it takes no new volumes for that.
fn threshold(seen: &Observed, telling: &mut Telling<'_>, pool: &Imported) -> Option<bool> {
    let root = pool.root.as_ref()?;
    let (used, free) = (root.number("used")?, root.number("available")?);
    let limit = seen.object.spec.pool_config.ro_threshold_limit;
    let limit = limit.unwrap_or(names::DEFAULT_RO_THRESHOLD_LIMIT);
    let all = u128::from(used) + u128::from(free);
    let percent = (u128::from(used) * 100).checked_div(all).unwrap_or(100);
    let full = limit < 100 && percent >= u128::try_from(limit).unwrap_or(100);
    telling.read_only(full);
    if full {
        let message = format!(
            "{limit} % or more of the pool is in use, which is its roThresholdLimit: no volume is made, grown or snapshotted in it. \
             Volumes that are there go on. Add a raid group to the spec, delete volumes or snapshots, or raise the limit."
        );
        telling.say(
            condition::READ_ONLY,
            ConditionStatus::True,
            reason::READ_ONLY_THRESHOLD,
            message,
        );
    } else {
        telling.clear(
            condition::READ_ONLY,
            reason::WRITABLE,
            "There is room in the pool again.",
        );
    }
    Some(full)
}

fn tell_change(telling: &mut Telling<'_>, pool: &Imported, change: &shape::Change) {
    let refused: Vec<_> = change
        .refused
        .iter()
        .map(|unfit| unfit.message.as_str())
        .collect();
    let but = if refused.is_empty() {
        String::new()
    } else {
        format!(" Not done: {}.", refused.join("; "))
    };
    if change.replacing.is_empty() {
        telling.clear(
            condition::DISK_REPLACEMENT,
            reason::REPLACEMENT_SUCCEEDED,
            "The replacement is done.",
        );
    } else {
        let pairs = change.replacing.iter();
        let pairs: Vec<_> = pairs.map(|(old, new)| format!("{old} by {new}")).collect();
        telling.say(
            condition::DISK_REPLACEMENT,
            ConditionStatus::True,
            reason::REPLACEMENT_IN_PROGRESS,
            format!("Being replaced: {}.{but}", pairs.join(", ")),
        );
    }
    let expanding = pool
        .status
        .expansion
        .as_ref()
        .is_some_and(|expansion| expansion.running);
    if change.growing.is_empty() && !expanding {
        telling.clear(
            condition::POOL_EXPANSION,
            reason::POOL_EXPANSION_SUCCESSFUL,
            "The pool has all devices of the spec.",
        );
    } else {
        let what = if change.growing.is_empty() {
            "A raidz group is being widened; the space comes when that is done.".to_owned()
        } else {
            format!("Being added: {}.{but}", change.growing.join(", "))
        };
        telling.say(
            condition::POOL_EXPANSION,
            ConditionStatus::True,
            reason::POOL_EXPANSION_IN_PROGRESS,
            what,
        );
    }
}

/// Properties that are not as they should be.
fn properties(
    seen: &Observed,
    devices: &Devices<'_>,
    pool: &Imported,
    read_only: Option<bool>,
) -> Vec<PoolStep> {
    let Some(root) = &pool.root else {
        return Vec::new();
    };
    let config = &seen.object.spec.pool_config;
    let name = &pool.status.name;
    // One that was adopted is left as it is, but for what the spec says.
    let made_by_us = is_made_by_us(seen, pool);
    let flag = |on: bool| if on { "on" } else { "off" };
    let mut wished: Vec<(&str, &str)> = Vec::new();
    if let Some(autotrim) = config.autotrim {
        wished.push(("autotrim", flag(autotrim)));
    }
    if let Some(mode) = &config.failmode {
        wished.push(("failmode", mode.as_str()));
    }
    let attached = devices.are_attached(seen.object.spec.devices().map(|(_, device)| device));
    if made_by_us && attached && seen.host_id.is_some() {
        wished.push(("multihost", "on"));
    }
    let mut steps: Vec<PoolStep> = wished
        .into_iter()
        .filter(|(property, value)| pool.properties.get(*property).is_some_and(|now| now != value))
        .map(|(property, value)| set(name, property, value))
        .collect();
    if let Some(read_only) = read_only {
        let now = pool
            .properties
            .get(property::READ_ONLY)
            .map_or("off", String::as_str);
        if now != flag(read_only) {
            steps.push(set(name, property::READ_ONLY, flag(read_only)));
        }
    }
    let chosen = config.compression.as_deref().is_some_and(|wish| !wish.is_empty());
    let mut of_root: Vec<(&str, String)> = Vec::new();
    if made_by_us || chosen {
        of_root.push(("compression", make::compression(seen)));
    }
    if made_by_us {
        of_root.push((property::POOL_INSTANCE_UID, seen.uid.to_string()));
        of_root.push((property::POOL_INSTANCE_NAME, make::full_name(seen)));
        if root.number("refreservation").unwrap_or_default() == 0 {
            of_root.push(("refreservation", reserve(pool).to_string()));
        }
    }
    let differs = |(property, wish): &(&str, String)| {
        let now = root.properties.get(*property);
        now.is_none_or(|now| now.text != *wish || (*property == "compression" && now.source != Source::Local))
    };
    let of_root: Vec<_> = of_root.into_iter().filter(differs).collect();
    if !of_root.is_empty() {
        let properties = of_root.into_iter().map(|(name, value)| (name.to_owned(), value));
        steps.push(PoolStep::SetRoot {
            pool: name.clone(),
            properties: properties.collect(),
        });
    }
    steps
}

/// Whether the pool was made for this instance, rather than adopted.
fn is_made_by_us(seen: &Observed, pool: &Imported) -> bool {
    pool.properties.get("comment") == Some(&seen.comment())
}

/// What no volume gets of the pool, so that it never fills up entirely: a full pool cannot even delete well.
fn reserve(pool: &Imported) -> u64 {
    const LEAST: u64 = 16 << 20;
    const MOST: u64 = 16 << 30;
    let size: u64 = pool
        .properties
        .get("size")
        .and_then(|size| size.parse().ok())
        .unwrap_or_default();
    (size / 100).clamp(LEAST, MOST)
}

fn set(pool: &cstor_zfs::PoolName, property: &str, value: &str) -> PoolStep {
    PoolStep::SetPool {
        pool: pool.clone(),
        property: property.to_owned(),
        value: value.to_owned(),
    }
}

/// What brings redundancy back without anybody's wish.
fn mend(devices: &Devices<'_>, pool: &PoolStatus) -> Option<PoolStep> {
    let name = || pool.name.clone();
    let gone = [State::Removed, State::Unavailable, State::Faulted];
    // A device that came back.
    let back = pool.devices().find(|device| {
        let may_be_needed = !matches!(device.class, VdevClass::Spare);
        may_be_needed
            && matches!(device.state, State::Removed | State::Unavailable)
            && devices.is_here(device.guid)
    });
    if let Some(device) = back {
        return Some(PoolStep::Online {
            pool: name(),
            device: device.guid,
            how: Online::AsIs,
        });
    }
    // One that was pulled while nobody wrote to the pool.
    let pulled = pool.devices().find(|device| {
        let believed = matches!(device.state, State::Online | State::Available);
        believed && device.kind == VdevKind::Disk && devices.is_gone(device.guid)
    });
    if let Some(device) = pulled {
        return Some(PoolStep::Reopen {
            pool: name(),
            gone: device.guid,
        });
    }
    // A spare that stood in for a device that is well again.
    let relieved = pool.all().find(|vdev| {
        let well = |device: &Vdev| device.state == State::Online;
        vdev.kind == VdevKind::Spare && !pool.is_resilvering() && vdev.children.iter().all(well)
    });
    if let Some(spare) = relieved.and_then(|vdev| vdev.children.last()) {
        return Some(PoolStep::Detach {
            pool: name(),
            device: spare.guid,
        });
    }
    // A spare for a device that failed, unless something takes its place already.
    let spare = pool
        .vdevs
        .iter()
        .find(|vdev| vdev.class == VdevClass::Spare && vdev.state == State::Available)?;
    let covered = |device: &Vdev| {
        pool.all().any(|vdev| {
            let stands_in = matches!(vdev.kind, VdevKind::Spare | VdevKind::Replacing);
            stands_in && vdev.all().any(|inner| inner.guid == device.guid)
        })
    };
    let failed = pool.devices().find(|device| {
        let redundant = matches!(device.class, VdevClass::Data | VdevClass::Special);
        redundant && gone.contains(&device.state) && !covered(device) && in_group(pool, device)
    })?;
    Some(PoolStep::UseSpare {
        pool: name(),
        failed: failed.guid,
        spare: spare.path.clone()?,
    })
}

/// Whether a device has others of whose data it can be filled.
fn in_group(pool: &PoolStatus, device: &Vdev) -> bool {
    !pool.vdevs.iter().any(|top| top.guid == device.guid)
}

/// A device that has grown. ZFS itself notices only when it opens the device anew, so the disk is asked, too.
fn grow(devices: &Devices<'_>, pool: &PoolStatus) -> Option<PoolStep> {
    let grown = pool.devices().find(|device| {
        let has_room = device.expandable > 0 || devices.has_grown(device);
        has_room && device.state == State::Online
    })?;
    Some(PoolStep::Online {
        pool: pool.name.clone(),
        device: grown.guid,
        how: Online::Expand,
    })
}

/// The scrub that is due.
fn scrub(seen: &Observed, telling: &mut Telling<'_>, pool: &Imported) -> Option<PoolStep> {
    let config = seen.object.spec.pool_config.scrub.clone().unwrap_or_default();
    let status = seen.status();
    let last = status
        .last_scrub_time
        .as_ref()
        .and_then(cstor_api::Timestamp::instant);
    let made = seen
        .object
        .metadata
        .creation_timestamp
        .as_ref()
        .map(|time| time.0);
    let due = schedule::next(config.schedule.as_deref(), last.or(made)?, pool.status.guid.0);
    let due = match due {
        Ok(due) => due,
        Err(error) => {
            let message = format!("The scrub schedule is not understood: {error}.");
            telling.say(
                condition::SCRUB_OVERDUE,
                ConditionStatus::Unknown,
                reason::INVALID_REQUEST,
                message,
            );
            return None;
        }
    };
    let scan = pool.status.scan.as_ref();
    let scanning = scan.is_some_and(|scan| scan.state == ScanState::Scanning);
    let scrubbing = scan.is_some_and(|scan| {
        scan.function == ScanFunction::Scrub && matches!(scan.state, ScanState::Scanning | ScanState::Paused)
    });
    let overdue = due.checked_add(SCRUB_GRACE).is_ok_and(|latest| seen.now > latest);
    if overdue && !scrubbing {
        let suspended = if config.suspend == Some(true) {
            " poolConfig.scrub.suspend holds it back."
        } else {
            ""
        };
        let message = format!("The pool should have been scrubbed by {due}.{suspended}");
        telling.say(
            condition::SCRUB_OVERDUE,
            ConditionStatus::True,
            reason::SCRUB_MISSED,
            message,
        );
    } else {
        telling.clear(
            condition::SCRUB_OVERDUE,
            reason::SCRUB_ON_TIME,
            "Scrubs are on time.",
        );
    }
    let may_begin = config.suspend != Some(true) && !scanning && !scrubbing;
    (may_begin && seen.now >= due).then(|| PoolStep::Scrub {
        pool: pool.status.name.clone(),
        what: ScrubCommand::Start,
    })
}
