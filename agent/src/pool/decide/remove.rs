//! The instance is being deleted: the pool goes if nothing is in it, and its disks are given back blank.

use cstor_api::ConditionStatus;
use cstor_api::names::phase::PoolPhase;
use cstor_api::names::{annotation, condition, reason};

use super::super::{Left, PoolStep};
use super::devices::Devices;
use super::tell::Telling;
use super::{Decided, Observed, PoolsSeen, SOON, make};
use cstor_zfs::Guid;

/// The state of a pool in a label, in ZFS's numbers.
const DESTROYED: u64 = 2;

pub(super) fn decide(
    seen: &Observed,
    devices: &Devices<'_>,
    pools: &PoolsSeen,
    telling: &mut Telling<'_>,
) -> Decided {
    if !seen.replicas.is_empty() {
        let message = format!(
            "CStorVolumeReplicas are in the pool: {}. Delete their volumes first.",
            seen.replicas.join(", ")
        );
        return blocked(telling, reason::REPLICAS_EXIST, message);
    }
    if let Some(Ok(pool)) = &pools.ours {
        telling.pool(devices, pool);
        if pool.root.is_none() {
            let message = "The pool does not answer, so that nobody can tell whether it is empty.".to_owned();
            return blocked(telling, reason::POOL_SUSPENDED, message);
        }
        if !pool.datasets.is_empty() {
            let message = format!(
                "There are datasets in the pool: {}. Delete the volumes, or destroy what is not of cStor by hand on the node.",
                pool.datasets.join(", ")
            );
            return blocked(telling, reason::DATASETS_EXIST, message);
        }
        going(seen, telling);
        return Decided::nothing().step(PoolStep::Destroy {
            pool: pool.status.name.clone(),
            guid: pool.status.guid,
        });
    }
    // It may be on disks that are here: what was not destroyed is imported first, to see what is in it.
    let dormant = match make::dormant(seen, devices) {
        Ok(dormant) => dormant,
        Err(message) => return blocked(telling, reason::AMBIGUOUS, message),
    };
    let found = dormant.map(|(_, found)| found).unwrap_or_default();
    if found.iter().any(|one| one.label.state != DESTROYED) {
        return make::decide(seen, devices, pools, telling);
    }
    let phase = seen
        .object
        .status
        .as_ref()
        .and_then(|status| status.phase.clone());
    // It is destroyed: its disks say so, or one of them is here and was cleared, which is done after that alone. That no disk
    // is here says nothing: they may still be on their way after a boot.
    let recorded = seen
        .object
        .status
        .iter()
        .flat_map(|status| status.vdevs.iter().flatten());
    let mut recorded = recorded.filter_map(|vdev| vdev.block_device_name.as_deref());
    let cleared = phase == Some(PoolPhase::Deleting) && recorded.any(|name| devices.is_without_label(name));
    if !found.is_empty() || cleared {
        let left = found.into_iter().chain(make::shared(seen, devices));
        let clear = left.filter_map(|one| {
            let disk = devices.left_over(one)?;
            Some(PoolStep::Clear {
                disk: Box::new(disk),
                left: Left::Label(Guid(one.label.vdev_guid)),
            })
        });
        let clear: Vec<_> = clear.collect();
        if clear.is_empty() {
            // What has something else on it by now is not ours to clear.
            return Decided::nothing().release();
        }
        going(seen, telling);
        return Decided::nothing().steps(clear);
    }
    let Some(guid) = seen.recorded_guid() else {
        // There never was a pool, but maybe the beginnings of one.
        let begun: Vec<&str> = seen
            .object
            .status
            .iter()
            .filter_map(|status| status.creation.as_ref())
            .flat_map(|creation| &creation.devices)
            .map(String::as_str)
            .collect();
        let clear: Vec<_> = seen
            .object
            .spec
            .devices()
            .filter_map(|(_, device)| devices.beginnings(device, &seen.uid.pool_name()))
            .filter(|target| begun.contains(&target.identity.as_str()))
            .map(|disk| PoolStep::Clear {
                disk: Box::new(disk),
                left: Left::Beginnings,
            })
            .collect();
        return if clear.is_empty() {
            Decided::nothing().release()
        } else {
            Decided::nothing().steps(clear)
        };
    };
    if seen.annotation(annotation::DELETE_LOST_POOL) == Some(guid.to_string().as_str()) {
        return Decided::nothing().release();
    }
    let message = format!(
        "The pool {guid} is not on any disk of the node, so that it can be neither looked at nor destroyed. Plug its disks in, or \
         say that it is lost by the annotation {}: \"{guid}\"",
        annotation::DELETE_LOST_POOL
    );
    telling.say(
        condition::POOL_LOST,
        ConditionStatus::True,
        reason::POOL_LOST,
        message.clone(),
    );
    blocked(telling, reason::POOL_LOST, message)
}

fn going(seen: &Observed, telling: &mut Telling<'_>) {
    let message = match seen.told_failure() {
        Some(failure) => format!(
            "The pool is empty and is being destroyed. The last step failed: {}",
            failure.message
        ),
        None => "The pool is empty and is being destroyed.".to_owned(),
    };
    telling.clear(
        condition::DELETION_BLOCKED,
        reason::POOL_EMPTY,
        "Nothing is in the pool any more.",
    );
    telling.not_ready(PoolPhase::Deleting, reason::POOL_DESTROYING, message);
}

fn blocked(telling: &mut Telling<'_>, reason: &str, message: String) -> Decided {
    telling.say(
        condition::DELETION_BLOCKED,
        ConditionStatus::True,
        reason,
        message,
    );
    Decided::nothing().again(SOON * 6)
}
