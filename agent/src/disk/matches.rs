//! Which disks VolumeAttachments brought: what [`correlate`](super::correlate) found out, for
//! [`publish`](super::publish) to tell.

use std::collections::BTreeMap;

use cstor_api::openebs::Attachment;
use cstor_blockdev::{Device, DeviceNumber};

use super::notice::Notice;

/// Whether and how a disk is the volume of an attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// It is, for certain.
    Certain(Attachment),
    /// It looks so, and is looked at again before it counts.
    Settling(Attachment),
    /// It may be; nothing is certain. Reason and message of the condition.
    Doubtful {
        /// The reason.
        reason: &'static str,
        /// The message.
        message: String,
    },
}

/// One disk among all since the boot.
type Which = (DeviceNumber, Option<u64>);

fn which(device: &Device) -> Which {
    (device.number, device.sequence)
}

/// What was found out at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matched {
    /// The disks that were looked at, and what they are bound to.
    disks: BTreeMap<Which, Option<Bound>>,
}

impl Matched {
    /// Nothing is bound to `devices` yet.
    pub fn examined<'a>(devices: impl IntoIterator<Item = &'a Device>) -> Self {
        Self {
            disks: devices.into_iter().map(|device| (which(device), None)).collect(),
        }
    }

    /// Notes what a disk is bound to. A doubt stays, whatever others say of the disk.
    pub fn bind(&mut self, device: &Device, bound: Bound) {
        let known = self.disks.entry(which(device)).or_default();
        if !matches!(known, Some(Bound::Doubtful { .. })) {
            *known = Some(bound);
        }
    }

    /// What a disk is bound to; `None` if it was not looked at, and so nobody can tell.
    #[must_use]
    pub fn of(&self, device: &Device) -> Option<Option<&Bound>> {
        self.disks.get(&which(device)).map(Option::as_ref)
    }
}

/// The result for all disks, shared by the controllers of one agent.
pub type Matches = Notice<Matched>;

#[cfg(test)]
mod tests;
