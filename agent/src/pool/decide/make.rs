//! The pool is not there: it is imported, made, or said to be lost.

use std::collections::BTreeSet;

use cstor_api::ConditionStatus;
use cstor_api::names::phase::PoolPhase;
use cstor_api::names::{self, annotation, condition, property, reason};
use cstor_zfs::{Guid, Import, NewPool};

use super::super::hands::is_used_elsewhere;
use super::super::{Left, PATIENCE, PoolStep, Target};
use super::devices::{Devices, Labelled, Unfit, link};
use super::shape;
use super::tell::Telling;
use super::{Decided, Observed, PoolsSeen, SOON};

/// The features of the oldest ZFS that we run on, by the name of the set that ZFS ships.
const COMPATIBILITY: &str = "openzfs-2.3-linux";

/// The state of a pool in a label, in ZFS's numbers.
const DESTROYED: u64 = 2;

pub(super) fn decide(
    seen: &Observed,
    devices: &Devices<'_>,
    pools: &PoolsSeen,
    telling: &mut Telling<'_>,
) -> Decided {
    let name = seen.uid.pool_name();
    if pools.all.iter().any(|pool| pool.name.as_str() == name) {
        let message = format!(
            "There is a pool {name} on the node that does not say that it is ours. Look at it, and export or destroy it by hand"
        );
        telling.not_ready(PoolPhase::Pending, reason::NAME_CLASH, message);
        return Decided::nothing();
    }
    let dormant = match dormant(seen, devices) {
        Ok(dormant) => dormant,
        Err(message) => {
            telling.not_ready(PoolPhase::Offline, reason::AMBIGUOUS, message);
            return Decided::nothing();
        }
    };
    match dormant {
        Some((guid, found)) => import(seen, devices, pools, guid, &found, telling),
        None if seen.adopted().is_some() && seen.recorded_guid().is_none() => {
            let guid = seen.adopted().map(|guid| guid.to_string()).unwrap_or_default();
            let message = format!(
                "No disk of the node has a label of the pool {guid}, which the annotation {} names",
                annotation::ADOPT_POOL
            );
            telling.not_ready(PoolPhase::Pending, reason::POOL_NOT_FOUND, message);
            Decided::nothing()
        }
        None if was_made(seen) => lost(seen, devices, telling),
        None => create(seen, devices, telling),
    }
}

/// Whether there ever was a pool of this instance.
fn was_made(seen: &Observed) -> bool {
    let phase = seen
        .object
        .status
        .as_ref()
        .and_then(|status| status.phase.clone());
    let may_be_new = phase.is_none_or(|phase| phase.allows_creation());
    seen.recorded_guid().is_some() || !may_be_new
}

/// The pool of this instance, by the labels on the node's disks.
pub(super) fn dormant<'a, 'd>(
    seen: &Observed,
    devices: &'a Devices<'d>,
) -> Result<Option<(Guid, Vec<&'a Labelled<'d>>)>, String> {
    let known = seen.recorded_guid().or_else(|| seen.adopted());
    let guid = match known {
        Some(guid) => guid,
        None => {
            let comment = seen.comment();
            let named = seen.annotation(annotation::EXISTING_POOL_NAME);
            let is_ours = |one: &&Labelled<'_>| {
                let pool = one.label.pool_name.as_deref();
                let made_for_us = one.label.comment.as_deref() == Some(&comment)
                    && pool == Some(seen.uid.pool_name().as_str());
                let asked_for = named.is_some() && pool == named && is_wished(seen, devices, one);
                // One that never was written to is the beginnings of a pool, not a pool.
                (made_for_us && one.label.txg > 0) || asked_for
            };
            let found: BTreeSet<u64> = devices
                .labelled()
                .iter()
                .filter(is_ours)
                .filter_map(|one| one.label.pool_guid)
                .collect();
            let mut found = found.into_iter();
            match (found.next(), found.next()) {
                (None, _) => return Ok(None),
                (Some(guid), None) => Guid(guid),
                (Some(one), Some(other)) => {
                    return Err(format!(
                        "Disks of the node have labels of two pools that could be this one: {one} and {other}. \
                         Name the right one by the annotation {}",
                        annotation::ADOPT_POOL
                    ));
                }
            }
        }
    };
    let found: Vec<_> = devices.of_pool(guid).collect();
    Ok((!found.is_empty()).then_some((guid, found)))
}

/// Whether a disk is one that the spec names.
fn is_wished(seen: &Observed, devices: &Devices<'_>, one: &Labelled<'_>) -> bool {
    let name = &one.disk.device().name;
    let mut wished = seen.object.spec.devices();
    wished.any(|(_, device)| {
        devices
            .disk(&device.block_device_name)
            .is_some_and(|disk| disk.device().name == *name)
    })
}

fn import(
    seen: &Observed,
    devices: &Devices<'_>,
    pools: &PoolsSeen,
    guid: Guid,
    found: &[&Labelled<'_>],
    telling: &mut Telling<'_>,
) -> Decided {
    let wait = |telling: &mut Telling<'_>, reason: &str, message: String| {
        telling.not_ready(PoolPhase::Offline, reason, message);
        Decided::nothing()
    };
    if found.iter().all(|one| one.label.state == DESTROYED) {
        let message = format!(
            "The labels of its disks say that the pool {guid} was destroyed, and not by us. If that was a mistake, \
             `zpool import -D {guid}` on the node may bring it back"
        );
        telling.say(
            condition::POOL_LOST,
            ConditionStatus::True,
            reason::POOL_LOST,
            message.clone(),
        );
        telling.not_ready(PoolPhase::Unavailable, reason::POOL_LOST, message);
        return Decided::nothing();
    }
    if let Some(twice) = first_twice(found.iter().map(|one| one.label.vdev_guid)) {
        let which: Vec<_> = found
            .iter()
            .filter(|one| one.label.vdev_guid == twice)
            .map(|one| one.disk.device().path.to_string())
            .collect();
        let message = format!(
            "{} both say that they are the device {twice} of the pool: one is a copy of the other. Pull the one that is not meant",
            which.join(" and ")
        );
        return wait(telling, reason::DUPLICATE_IDENTITY, message);
    }
    let elsewhere = found
        .iter()
        .find(|one| is_used_elsewhere(one.label, seen.host_id));
    let mut although_in_use = false;
    if let Some(one) = elsewhere {
        let host = one.label.hostname.as_deref().unwrap_or("another host");
        let approved = seen.annotation(annotation::IMPORT_IN_USE) == Some(guid.to_string().as_str());
        if host != seen.node && seen.other_nodes.contains(host) && !approved {
            let message = format!(
                "The node {host} has the pool, or had it when it lost power. It is imported here when {host} exports it, when the \
                 Node {host} is deleted, or when the annotation {}: \"{guid}\" says that {host} is off for certain",
                annotation::IMPORT_IN_USE
            );
            return wait(telling, reason::POOL_IN_USE, message).again(SOON);
        }
        although_in_use = true;
    }
    let missing = missing(seen, devices);
    let waited = seen.now.duration_since(seen.began);
    if !missing.is_empty() && waited.unsigned_abs() < PATIENCE {
        let message = format!("Waiting for devices of the pool: {}", missing.join(", "));
        return wait(telling, reason::WAITING_FOR_DISKS, message).again(SOON);
    }
    let label_name = found.iter().find_map(|one| one.label.pool_name.clone());
    let taken = |name: &str| pools.all.iter().any(|pool| pool.name.as_str() == name);
    let name = match label_name {
        Some(name) if taken(&name) => seen.new_name(),
        _ => None,
    };
    let mut paths: Vec<_> = found.iter().map(|one| link(one.carrier)).collect();
    paths.extend(shared(seen, devices).map(|one| link(one.carrier)));
    paths.sort();
    paths.dedup();
    let (reason, message) = match seen.told_failure() {
        Some(failure) if failure.during.label() == "import" => (
            failure.class.reason,
            format!(
                "The pool {guid} is here and cannot be imported: {}",
                failure.message
            ),
        ),
        _ => (
            reason::POOL_IMPORTING,
            format!("The pool {guid} is here and is being imported"),
        ),
    };
    telling.not_ready(PoolPhase::Offline, reason, message);
    Decided::nothing().step(PoolStep::Import(Box::new(Import {
        guid,
        name,
        devices: paths,
        // No file lists it: we find it again by its labels, and nobody imports it before us.
        properties: [("cachefile".to_owned(), "none".to_owned())].into(),
        although_in_use,
        without_log: false,
        read_only: false,
    })))
}

fn first_twice(guids: impl Iterator<Item = u64>) -> Option<u64> {
    let mut known = BTreeSet::new();
    guids.into_iter().find(|guid| !known.insert(*guid))
}

/// The devices that were recorded and are not here, but for those that the pool does not need.
fn missing(seen: &Observed, devices: &Devices<'_>) -> Vec<String> {
    let recorded = seen
        .object
        .status
        .as_ref()
        .and_then(|status| status.vdevs.as_ref());
    let leaves = recorded.into_iter().flatten().filter(|vdev| {
        let needed = !["cache", "spare"].contains(&vdev.class.as_str());
        needed && ["disk", "file"].contains(&vdev.type_.as_str())
    });
    let away = leaves.filter(|vdev| vdev.guid.parse().is_ok_and(|guid| !devices.is_here(Guid(guid))));
    away.map(|vdev| {
        vdev.block_device_name
            .clone()
            .unwrap_or_else(|| vdev.name.clone())
    })
    .collect()
}

/// Spares and cache devices of the pool: their labels do not say whose they are, but we recorded them.
pub(super) fn shared<'a, 'd>(
    seen: &'a Observed,
    devices: &'a Devices<'d>,
) -> impl Iterator<Item = &'a Labelled<'d>> {
    let recorded = seen
        .object
        .status
        .iter()
        .flat_map(|status| status.vdevs.iter().flatten());
    let recorded: BTreeSet<u64> = recorded.filter_map(|vdev| vdev.guid.parse().ok()).collect();
    devices
        .labelled()
        .iter()
        .filter(move |one| one.label.pool_guid.is_none() && recorded.contains(&one.label.vdev_guid))
}

fn lost(seen: &Observed, devices: &Devices<'_>, telling: &mut Telling<'_>) -> Decided {
    let missing = missing(seen, devices);
    let which = if missing.is_empty() {
        String::new()
    } else {
        format!(" Its devices were: {}.", missing.join(", "))
    };
    let message = match seen.recorded_guid() {
        Some(guid) => format!(
            "No disk of the node has a label of the pool {guid}.{which} Plug its disks back in. If they are gone for good, delete \
             this CStorPoolInstance with the annotation {}: \"{guid}\"",
            annotation::DELETE_LOST_POOL
        ),
        None => format!(
            "The instance says that its pool was made once, and no pool of the node says that it is the one.{which} Name the pool \
             by the annotation {}: \"<its GUID>\"",
            annotation::ADOPT_POOL
        ),
    };
    telling.say(
        condition::POOL_LOST,
        ConditionStatus::True,
        reason::POOL_LOST,
        message.clone(),
    );
    telling.not_ready(PoolPhase::Unavailable, reason::POOL_LOST, message);
    Decided::nothing()
}

fn create(seen: &Observed, devices: &Devices<'_>, telling: &mut Telling<'_>) -> Decided {
    let begun: BTreeSet<&str> = seen
        .object
        .status
        .iter()
        .filter_map(|status| status.creation.as_ref())
        .flat_map(|creation| &creation.devices)
        .map(String::as_str)
        .collect();
    let (mut disks, mut unfit, mut clear): (Vec<Target>, Vec<Unfit>, Vec<Target>) = Default::default();
    for (_, device) in seen.object.spec.devices() {
        match devices.blank(device) {
            Ok(target) => disks.push(target),
            Err(why) => match devices.beginnings(device, &seen.uid.pool_name()) {
                Some(target) if begun.contains(target.identity.as_str()) => clear.push(target),
                _ => unfit.push(why),
            },
        }
    }
    if let Some(first) = unfit.first() {
        let all: Vec<_> = unfit.iter().map(|unfit| unfit.message.as_str()).collect();
        let message = format!(
            "The pool is not made, and nothing was written to any disk: {}.",
            all.join("; ")
        );
        telling.not_ready(PoolPhase::Pending, first.reason, message);
        return Decided::nothing();
    }
    let plan = match plan(seen, devices, &disks) {
        Ok(plan) => plan,
        Err(_) if !clear.is_empty() => None,
        Err(unfit) => {
            telling.not_ready(PoolPhase::Pending, unfit.reason, unfit.message);
            return Decided::nothing();
        }
    };
    let (reason, message) = match seen.told_failure() {
        Some(failure) if failure.during.label() == "create" => (
            failure.class.reason,
            format!("The pool could not be made: {}", failure.message),
        ),
        _ => (
            reason::POOL_CREATING,
            format!("The pool is being made of {} devices", disks.len()),
        ),
    };
    telling.not_ready(PoolPhase::Pending, reason, message);
    if !clear.is_empty() {
        let clear = clear.into_iter().map(|disk| PoolStep::Clear {
            disk: Box::new(disk),
            left: Left::Beginnings,
        });
        return Decided::nothing().steps(clear);
    }
    let wanted: BTreeSet<&str> = disks.iter().map(|disk| disk.identity.as_str()).collect();
    if wanted != begun {
        // First it is recorded which disks were proved blank, then they are written to.
        telling.creating(wanted.into_iter().map(str::to_owned).collect());
        return Decided::nothing();
    }
    match plan {
        Some(new) => Decided::nothing().step(PoolStep::Create {
            new: Box::new(new),
            disks,
        }),
        None => Decided::nothing(),
    }
}

fn plan(seen: &Observed, devices: &Devices<'_>, disks: &[Target]) -> Result<Option<NewPool>, Unfit> {
    let spec = &seen.object.spec;
    let config = &spec.pool_config;
    let Some(name) = seen.new_name() else {
        return Ok(None);
    };
    let layout = shape::whole(spec, disks)?;
    let flag = |on: bool| if on { "on" } else { "off" };
    let mut properties: Vec<(&str, String)> = vec![
        ("cachefile", "none".into()),
        ("comment", seen.comment()),
        // So that every node that we run on can import it.
        ("compatibility", COMPATIBILITY.into()),
        (
            "failmode",
            config
                .failmode
                .as_ref()
                .map_or("wait", |mode| mode.as_str())
                .into(),
        ),
        ("autotrim", flag(config.autotrim.unwrap_or(false)).into()),
    ];
    if let Some(ashift) = config.ashift {
        properties.push(("ashift", ashift.to_string()));
    }
    if devices.are_attached(spec.devices().map(|(_, device)| device)) && seen.host_id.is_some() {
        properties.push(("multihost", "on".into()));
    }
    let root = [
        ("canmount", "off".to_owned()),
        ("mountpoint", "none".to_owned()),
        ("compression", compression(seen)),
        (property::POOL_INSTANCE_UID, seen.uid.to_string()),
        (property::POOL_INSTANCE_NAME, full_name(seen)),
    ];
    let owned = |(name, value): (&str, String)| (name.to_owned(), value);
    Ok(Some(NewPool {
        name,
        layout,
        properties: properties.into_iter().map(owned).collect(),
        root: root.into_iter().map(owned).collect(),
    }))
}

/// How data is compressed.
pub(super) fn compression(seen: &Observed) -> String {
    let wish = seen.object.spec.pool_config.compression.as_deref();
    let wish = wish.filter(|wish| !wish.is_empty());
    wish.unwrap_or(names::DEFAULT_COMPRESSION).to_owned()
}

/// Namespace and name of the instance.
pub(super) fn full_name(seen: &Observed) -> String {
    let meta = &seen.object.metadata;
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}/{}", text(&meta.namespace), text(&meta.name))
}
