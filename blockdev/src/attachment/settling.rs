//! When a match is believed, and when it is given up.
//!
//! A device that has just appeared may be shown with what is left of the one before it, and an attachment may be about to go.
//! So a match is believed when it was the same, of the same disk, in two looks some seconds apart with nothing else in
//! between; and it is given up in the first look that does not confirm it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Attachment, Correlation, Match};
use crate::device::{Device, DeviceMapper, DeviceNumber, Nvme, Scsi};

/// How far apart the two looks are, at least.
pub const SETTLES_IN: Duration = Duration::from_secs(5);

/// The memory of the looks that were taken.
///
/// It begins empty with every start of the process. Until it has seen a match twice it says [`Verdict::Waiting`]; whoever has a
/// match on record from before keeps it if it is of the same device, and takes it back if not.
#[derive(Debug, Default)]
pub struct Settling {
    matches: BTreeMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    is: Fingerprint,
    /// When it was first seen so.
    since: Instant,
    accepted: bool,
}

/// Everything that makes a match another one when it changes. The size is not among it, since volumes grow; nor the method,
/// since pods that use the volume come and go.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fingerprint {
    device: DeviceNumber,
    name: String,
    sequence: Option<u64>,
    serial: Option<String>,
    wwid: Option<String>,
    nvme: Option<Nvme>,
    scsi: Option<Scsi>,
    mapping: Option<DeviceMapper>,
    driver: String,
    volume: Option<(String, String)>,
}

/// What to make of an attachment after a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The match has settled: record it.
    Accepted(Match),
    /// The match is new: look again after a while, and neither record it nor take back that it is so.
    Waiting {
        /// What was found.
        found: Match,
        /// When the next look can settle it.
        again: Duration,
    },
    /// There is no match: what is on record is wrong.
    Refused,
}

/// What a look has shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// For every attachment, by its name.
    pub verdicts: BTreeMap<String, Verdict>,
}

impl Look {
    /// When to look again, if something waits.
    #[must_use]
    pub fn again(&self) -> Option<Duration> {
        let waiting = self.verdicts.values().filter_map(|verdict| match verdict {
            Verdict::Waiting { again, .. } => Some(*again),
            Verdict::Accepted(_) | Verdict::Refused => None,
        });
        waiting.min()
    }
}

impl Settling {
    /// Takes in what [`super::correlate`] made of `attachments` and `devices` at `now`.
    ///
    /// `settled` says whether udev had nothing to do then. A look in between settles nothing, but gives up what
    /// it does not confirm.
    pub fn look<'a>(
        &mut self,
        now: Instant,
        settled: bool,
        results: impl IntoIterator<Item = (&'a Attachment, &'a Correlation)>,
        devices: &[Device],
    ) -> Look {
        let mut look = Look::default();
        // What is not seen in this look is forgotten: when it comes back, it begins anew.
        let mut before = std::mem::take(&mut self.matches);
        for (attachment, correlation) in results {
            let name = &attachment.name;
            let was = before.remove(name);
            let is = correlation
                .matched()
                .and_then(|found| fingerprint(attachment, found, devices));
            let (Correlation::Matched(found), Some(is)) = (correlation, is) else {
                look.verdicts.insert(name.clone(), Verdict::Refused);
                continue;
            };
            let seen = match was {
                Some(mut seen) if seen.is == is => {
                    seen.accepted |= settled && now.saturating_duration_since(seen.since) >= SETTLES_IN;
                    Some(seen)
                }
                _ => settled.then_some(Seen {
                    is,
                    since: now,
                    accepted: false,
                }),
            };
            let verdict = match &seen {
                Some(seen) if seen.accepted => Verdict::Accepted(found.clone()),
                _ => Verdict::Waiting {
                    found: found.clone(),
                    again: remaining(seen.as_ref(), now),
                },
            };
            look.verdicts.insert(name.clone(), verdict);
            if let Some(seen) = seen {
                self.matches.insert(name.clone(), seen);
            }
        }
        look
    }
}

/// How long until a look can settle it. Never at once: the one that was just taken could not.
fn remaining(seen: Option<&Seen>, now: Instant) -> Duration {
    let passed = seen.map_or(Duration::ZERO, |seen| now.saturating_duration_since(seen.since));
    SETTLES_IN.saturating_sub(passed).max(Duration::from_secs(1))
}

fn fingerprint(attachment: &Attachment, found: &Match, devices: &[Device]) -> Option<Fingerprint> {
    let device = devices.iter().find(|device| device.number == found.device)?;
    let volume = attachment.volume.as_ref();
    Some(Fingerprint {
        device: device.number,
        name: device.name.clone(),
        sequence: device.sequence,
        serial: device.serial.clone(),
        wwid: device.wwid.clone(),
        nvme: device.nvme.clone(),
        scsi: device.scsi.clone(),
        mapping: device.device_mapper.clone(),
        driver: attachment.driver.clone(),
        volume: volume.map(|volume| (volume.persistent_volume.clone(), volume.handle.clone())),
    })
}
