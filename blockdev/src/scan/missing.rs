//! Devices that are there and were not described.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::{ANSWER_WITHIN, Inventory};
use crate::device::Device;

/// Why a device was not described.
pub(super) enum Undescribed {
    /// It has not answered yet.
    Silent,
    /// What it or the kernel said instead.
    Failed(String),
}

/// What is there and was not described.
#[derive(Default)]
pub(super) struct Missing {
    pub(super) undescribed: BTreeMap<String, String>,
    pub(super) awaited: BTreeMap<String, Instant>,
    /// What is told as it was before.
    pub(super) kept: BTreeMap<String, Device>,
}

impl Missing {
    pub(super) fn of(missing: BTreeMap<String, Undescribed>, before: &Inventory, now: Instant) -> Self {
        let mut all = Self::default();
        for (name, why) in missing {
            let since = before.awaited.get(&name).copied().unwrap_or(now);
            match why {
                Undescribed::Failed(why) => drop(all.undescribed.insert(name, why)),
                Undescribed::Silent => {
                    let known = before.found.get(&name);
                    if now - since >= ANSWER_WITHIN {
                        let why = "the device does not answer: the kernel waits for what it says of itself";
                        all.undescribed.insert(name.clone(), why.to_owned());
                    } else if let Some(known) = known {
                        all.kept.insert(name.clone(), known.device.clone());
                    }
                    all.awaited.insert(name, since);
                }
            }
        }
        all
    }
}
