//! Which device a VolumeAttachment brought.
//!
//! A cloud says "volume vol-0abc is attached to this node" and the kernel says "there is a new disk". Whoever takes the wrong one
//! for the other loses data, so [`correlate`] believes only what the device says of itself, and only if no other device says
//! the same and no other attachment claims it.
//!
//! | file | what it has |
//! |---|---|
//! | [`rules`] | the table: one row for each way a driver's volume can be told. A driver is added here, and nowhere else |
//! | [`rule`] | what a row is made of |
//! | `matching` | how the rows are applied to the disks |
//! | `claims` | [`correlate`]: what is made of the answers, and the checks that every match has to pass |
//! | [`published`] | what the kubelet hands to pods; the only part that looks at files |
//! | [`settling`] | that a match is believed when it was the same for a while, and given up at once |
//!
//! Never used: the size alone, the order of attaching, names under /dev, the path that an attachment's metadata promises.
//! A link under /dev/disk counts only together with what the kernel says of the device (udev may be late, and was).

mod claims;
mod matching;
pub mod published;
pub mod rule;
pub mod rules;
pub mod settling;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8Path;
use cstor_api::names::reason;
use serde::Serialize;

pub use claims::correlate;
pub use published::Published;
pub use settling::{Settling, Verdict};

use crate::device::{Device, DeviceNumber};

/// The method of a match by the path at which the kubelet hands the device to a pod.
pub const PUBLISH_PATH: &str = "kubelet-publish-path";

/// How much larger than the volume a device may be, besides 1 %: clouds round up to their own units.
const ROUNDING: u64 = 1 << 30;

/// A VolumeAttachment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attachment {
    /// Its name.
    pub name: String,
    /// The CSI driver, `spec.attacher`.
    pub driver: String,
    /// The node, `spec.nodeName`.
    pub node: String,
    /// `status.attached`.
    pub attached: bool,
    /// `status.attachmentMetadata`.
    pub metadata: BTreeMap<String, String>,
    /// What is attached; `None` if there is no such PersistentVolume.
    pub volume: Option<Volume>,
}

/// The PersistentVolume of an attachment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Volume {
    /// Its name.
    pub persistent_volume: String,
    /// The driver's name for it, `spec.csi.volumeHandle`.
    pub handle: String,
    /// Its capacity.
    pub bytes: Option<u64>,
    /// `spec.csi.volumeAttributes`.
    pub attributes: BTreeMap<String, String>,
    /// Whether `spec.volumeMode` is `Block`.
    pub block_mode: bool,
}

/// What is known of the node, at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Host<'a> {
    /// Its name.
    pub node: &'a str,
    /// All its block devices, partitions and mappings too.
    pub devices: &'a [Device],
    /// What its kubelet hands to pods.
    pub published: &'a Published,
    /// Where its kubelet keeps its things, as mount points show it. A volume that is mounted there is being used as a volume.
    pub kubelet: &'a Utf8Path,
    /// The devices on which something of ours is built, so that holders say nothing against them.
    pub ours: &'a BTreeSet<DeviceNumber>,
}

/// A device that is the volume of an attachment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Match {
    /// The device.
    pub device: DeviceNumber,
    /// The kernel's name for it.
    pub name: String,
    /// The rule that told: [`rule::Rule::method`] or [`PUBLISH_PATH`].
    pub method: &'static str,
    /// What the device said that the rule looked at.
    pub serial: Option<String>,
}

/// What came of looking for the device of an attachment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Correlation {
    /// This is the one.
    Matched(Match),
    /// No device of the node is the volume.
    NoDevice {
        /// What was looked for, and what to do.
        message: String,
    },
    /// Several devices could be the volume, or several attachments claim the device.
    Ambiguous {
        /// The devices.
        candidates: Vec<DeviceNumber>,
        /// What they have in common, and what to do.
        message: String,
    },
    /// A device says it is the volume and cannot be.
    Mismatch {
        /// Why not, and what to do.
        message: String,
        /// The device.
        device: DeviceNumber,
    },
    /// The volume is not attached to this node (yet).
    NotAttached {
        /// What is waited for.
        message: String,
    },
}

impl Correlation {
    /// The reason for the condition `Correlated`.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Matched(_) => reason::MATCHED,
            Self::NoDevice { .. } => reason::NO_DEVICE,
            Self::Ambiguous { .. } => reason::AMBIGUOUS,
            Self::Mismatch { .. } => reason::MISMATCH,
            Self::NotAttached { .. } => reason::NOT_ATTACHED,
        }
    }

    /// The message for the condition `Correlated`.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::Matched(found) => {
                let said = found
                    .serial
                    .as_deref()
                    .map(|serial| format!(", which says {serial:?}"));
                format!(
                    "the volume is {}{} ({})",
                    found.name,
                    said.unwrap_or_default(),
                    found.method
                )
            }
            Self::NoDevice { message }
            | Self::Ambiguous { message, .. }
            | Self::Mismatch { message, .. }
            | Self::NotAttached { message } => message.clone(),
        }
    }

    /// The match, if there is one.
    #[must_use]
    pub fn matched(&self) -> Option<&Match> {
        match self {
            Self::Matched(found) => Some(found),
            _ => None,
        }
    }

    /// The devices that are or may be the volume. Whoever asks whose a device is takes each of them for the attachment's,
    /// also where nothing is certain: a doubt about a device is no reason to offer it.
    #[must_use]
    pub fn devices(&self) -> &[DeviceNumber] {
        match self {
            Self::Matched(found) => std::slice::from_ref(&found.device),
            Self::Ambiguous { candidates, .. } => candidates,
            Self::Mismatch { device, .. } => std::slice::from_ref(device),
            Self::NoDevice { .. } | Self::NotAttached { .. } => &[],
        }
    }
}

/// Whether a device of `device` bytes can be a volume of `volume` bytes.
#[must_use]
pub fn size_fits(device: u64, volume: u64) -> bool {
    let largest = volume.saturating_add(ROUNDING).saturating_add(volume / 100);
    volume > 0 && (volume..=largest).contains(&device)
}
