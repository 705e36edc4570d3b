//! Whether a device is what a claim asks for. Functions of the two objects, nothing else.
//!
//! "Unknown means not ours": a device of which the agent has said nothing yet, or nothing lately, fits no claim.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cstor_api::names::phase::BlockDeviceClaimState;
use cstor_api::names::{self, annotation, condition, label, reason};
use cstor_api::openebs::{BlockDevice, BlockDeviceClaimSpec, BlockVolumeMode, DeviceType};
use cstor_api::{Bytes, ConditionStatus};
use kube::ResourceExt as _;
use kube::core::{Expression, Selector, SelectorExt as _};

use crate::block_device::{
    claim_ref, claim_state, condition, is_active, is_left_alone, node_name, said, state,
};

/// How the device is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// By the person who wrote its name into the claim.
    Named,
    /// By us.
    Automatic,
}

/// Why a claim makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Nonsense {
    /// Of the size.
    Capacity(String),
    /// Of anything else.
    Other(String),
}

/// What a claim asks for.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    choice: Choice,
    least: Bytes,
    selector: Selector,
    /// The device tags that the selector names.
    tags: BTreeSet<String>,
    device_type: Option<String>,
    node: Option<String>,
    host: Option<String>,
    mode: BlockVolumeMode,
    format: Option<String>,
    partitions: bool,
}

/// A text that says something: Go programs write the empty one for "not set".
fn filled(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

impl Wish {
    /// Reads the wish of a claim.
    pub(crate) fn of(spec: &BlockDeviceClaimSpec) -> Result<Self, Nonsense> {
        let choice = match filled(spec.block_device_name.as_ref()) {
            Some(_) => Choice::Named,
            None => Choice::Automatic,
        };
        let requested = spec
            .resources
            .as_ref()
            .and_then(|resources| resources.requests.get("storage"));
        let least = requested.map_or(Ok(Bytes(0)), |least| least.bytes());
        let least =
            least.map_err(|error| Nonsense::Capacity(format!("spec.resources.requests.storage: {error}")))?;
        if choice == Choice::Automatic && least == Bytes(0) {
            return Err(Nonsense::Capacity(
                "A claim that names no device must say how large it should be: set spec.resources.requests.storage, such as \
                 100Gi, or spec.blockDeviceName"
                    .into(),
            ));
        }
        let selector: Selector = spec
            .selector
            .clone()
            .unwrap_or_default()
            .try_into()
            .map_err(|error| Nonsense::Other(format!("spec.selector: {error}")))?;
        let tags = selector.clone().into_iter().flat_map(named_tags).collect();
        let nodes = spec.block_device_node_attributes.as_ref();
        let details = spec.device_claim_details.as_ref();
        let mode = match details.and_then(|details| details.block_volume_mode.clone()) {
            None | Some(BlockVolumeMode::Block) => BlockVolumeMode::Block,
            Some(BlockVolumeMode::FileSystem) => BlockVolumeMode::FileSystem,
            Some(other) if other.as_str().is_empty() => BlockVolumeMode::Block,
            Some(other) => {
                return Err(Nonsense::Other(format!(
                    "spec.deviceClaimDetails.blockVolumeMode is {other}: write Block or FileSystem"
                )));
            }
        };
        Ok(Self {
            choice,
            least,
            selector,
            tags,
            device_type: filled(spec.device_type.as_ref()),
            node: filled(nodes.and_then(|nodes| nodes.node_name.as_ref())),
            host: filled(nodes.and_then(|nodes| nodes.host_name.as_ref()))
                .or_else(|| filled(spec.host_name.as_ref())),
            mode,
            format: filled(details.and_then(|details| details.format_type.as_ref())),
            partitions: details
                .and_then(|details| details.allow_partition)
                .unwrap_or(false),
        })
    }

    /// The device to take among `devices`: the smallest that fits, the first by name among equals; or why none does.
    pub(crate) fn choose<'a>(
        &self,
        devices: impl IntoIterator<Item = &'a BlockDevice>,
    ) -> Result<&'a BlockDevice, BTreeMap<String, Misfit>> {
        let (mut best, mut misfits): (Option<&BlockDevice>, _) = (None, BTreeMap::new());
        let rank = |device: &BlockDevice| (device.spec.capacity.storage, device.name_any());
        for device in devices {
            match self.fits(device) {
                Ok(()) => {
                    if best.is_none_or(|best| rank(device) < rank(best)) {
                        best = Some(device);
                    }
                }
                Err(misfit) => {
                    misfits.insert(device.name_any(), misfit);
                }
            }
        }
        best.ok_or(misfits)
    }

    /// Whether the device may be claimed. The reasons are asked in the order in which a person would want to know: whether it
    /// is what was asked for at all, whose it is, what state it is in, what is on it.
    pub(crate) fn fits(&self, device: &BlockDevice) -> Result<(), Misfit> {
        let no = |misfit: Misfit| Err(misfit);
        if is_left_alone(device) {
            return no(Misfit::LeftAlone);
        }
        if device.metadata.deletion_timestamp.is_some() {
            return no(Misfit::BeingDeleted);
        }
        self.is_asked_for(device)?;
        self.is_free(device)?;
        if !is_active(device) {
            return no(Misfit::NotActive(
                state(device)
                    .map_or("not known yet", |state| state.as_str())
                    .to_owned(),
            ));
        }
        if condition(device, condition::QUARANTINED)
            .is_some_and(|quarantined| quarantined.status != ConditionStatus::False)
        {
            return no(Misfit::Quarantined);
        }
        // An object of NDM's may be claimed by name before an agent has written an identity into it; a device of which the
        // agent says that it has none may not.
        let denied = condition(device, condition::IDENTIFIED)
            .is_some_and(|identified| identified.status == ConditionStatus::False);
        if denied || (self.choice == Choice::Automatic && device.spec.identity.is_none()) {
            return no(Misfit::NoIdentity);
        }
        if device.annotations().contains_key(annotation::WIPE) {
            return no(Misfit::BeingWiped);
        }
        self.contents_fit(device)
    }

    fn is_asked_for(&self, device: &BlockDevice) -> Result<(), Misfit> {
        let labels = device.labels();
        if let Some(node) = &self.node
            && node_name(device) != Some(node)
        {
            return Err(Misfit::OtherNode);
        }
        if let Some(host) = &self.host
            && labels.get(label::HOSTNAME) != Some(host)
        {
            return Err(Misfit::OtherNode);
        }
        if !self.selector.matches(labels) {
            return Err(Misfit::Labels);
        }
        match labels.get(label::BLOCK_DEVICE_TAG) {
            Some(tag) if tag.is_empty() => return Err(Misfit::EmptyTag),
            Some(tag) if !self.tags.contains(tag) => return Err(Misfit::Tagged(tag.clone())),
            _ => {}
        }
        let details = device.spec.details.as_ref();
        let kind = details.and_then(|details| details.device_type.as_ref());
        if self.choice == Choice::Automatic {
            let sparse = device.name_any().starts_with(names::SPARSE_NAME_PREFIX);
            if sparse || kind == Some(&DeviceType::Sparse) {
                return Err(Misfit::Sparse);
            }
            if kind == Some(&DeviceType::Partition) && !self.partitions {
                return Err(Misfit::Partition);
            }
        }
        if let Some(wanted) = &self.device_type {
            let drive = details.and_then(|details| details.drive_type.as_ref());
            let is = |found: Option<&str>| found.is_some_and(|found| found.eq_ignore_ascii_case(wanted));
            if !is(drive.map(|drive| drive.as_str())) && !is(kind.map(|kind| kind.as_str())) {
                return Err(Misfit::OtherType(wanted.clone()));
            }
        }
        let size = Bytes(device.spec.capacity.storage);
        // A device of no size is one that was read while it appeared or vanished.
        if size < self.least || size == Bytes(0) {
            return Err(Misfit::TooSmall {
                least: self.least,
                size,
            });
        }
        Ok(())
    }

    fn is_free(&self, device: &BlockDevice) -> Result<(), Misfit> {
        if let Some(owner) = claim_ref(device) {
            return Err(Misfit::Claimed(said(owner)));
        }
        match claim_state(device) {
            None | Some(BlockDeviceClaimState::Unclaimed) => Ok(()),
            // Naming a device that was released is a decision; what is on it is looked at below. We do not decide that.
            Some(BlockDeviceClaimState::Released)
                if self.choice == Choice::Named || crate::block_device::is_blank(device) =>
            {
                Ok(())
            }
            Some(BlockDeviceClaimState::Released) => Err(Misfit::NotCleared),
            Some(BlockDeviceClaimState::Other(text)) if text.is_empty() => Ok(()),
            // Its claim went a moment ago, and that has not been written down everywhere.
            Some(_) => Err(Misfit::BeingReleased),
        }
    }

    fn contents_fit(&self, device: &BlockDevice) -> Result<(), Misfit> {
        let Some(blank) = condition(device, condition::BLANK) else {
            return Err(Misfit::NotExamined);
        };
        let found = blank.reason.as_deref().unwrap_or_default();
        let contents = || Misfit::Contents {
            reason: found.to_owned(),
            message: blank.message.clone().unwrap_or_default(),
        };
        let filesystem = device.spec.filesystem.as_ref();
        let fs_type = filled(filesystem.and_then(|filesystem| filesystem.fs_type.as_ref()));
        if self.mode == BlockVolumeMode::FileSystem {
            let mounted = filled(filesystem.and_then(|filesystem| filesystem.mount_point.as_ref())).is_some();
            let expected = [reason::FILE_SYSTEM, reason::MOUNTED].contains(&found);
            // Who mounted it is not known, and that it may be given away is for a person to say.
            let chosen =
                self.choice == Choice::Named || device.labels().contains_key(label::BLOCK_DEVICE_TAG);
            return match fs_type {
                Some(fs_type) if mounted => match &self.format {
                    Some(wanted) if *wanted != fs_type => Err(Misfit::OtherFormat(fs_type)),
                    _ if blank.status != ConditionStatus::True && !expected => Err(contents()),
                    _ if chosen => Ok(()),
                    _ => Err(Misfit::NotChosen),
                },
                _ => Err(Misfit::NotMounted),
            };
        }
        // Claiming is not writing: a disk with a pool on it is claimed by its name, so that the pool can be imported.
        let pool = self.choice == Choice::Named
            && blank.status == ConditionStatus::False
            && [reason::IN_OUR_POOL, reason::FOREIGN_POOL].contains(&found);
        if blank.status != ConditionStatus::True && !pool {
            return Err(contents());
        }
        match fs_type {
            None => Ok(()),
            Some(fs_type) if fs_type == "zfs_member" && pool => Ok(()),
            Some(fs_type) => Err(Misfit::FileSystem(fs_type)),
        }
    }
}

/// The values of the tag label that an expression asks for.
fn named_tags(expression: Expression) -> Vec<String> {
    match expression {
        Expression::In(key, values) if key == label::BLOCK_DEVICE_TAG => values.into_iter().collect(),
        Expression::Equal(key, value) if key == label::BLOCK_DEVICE_TAG => vec![value],
        _ => Vec::new(),
    }
}

/// Why a device does not fit a claim. It reads as what the device is or has: "blockdevice-x …".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    LeftAlone,
    BeingDeleted,
    OtherNode,
    Labels,
    EmptyTag,
    Tagged(String),
    Sparse,
    Partition,
    OtherType(String),
    TooSmall { least: Bytes, size: Bytes },
    Claimed(String),
    NotCleared,
    BeingReleased,
    NotActive(String),
    Quarantined,
    NoIdentity,
    BeingWiped,
    NotExamined,
    NotMounted,
    NotChosen,
    OtherFormat(String),
    FileSystem(String),
    Contents { reason: String, message: String },
    Malformed,
}

impl Misfit {
    /// A few words, the same for all devices with this reason: they are listed together.
    pub(crate) fn group(&self) -> String {
        match self {
            Self::LeftAlone => "left alone as annotated or labelled".into(),
            Self::BeingDeleted => "being deleted".into(),
            Self::OtherNode => "on another node".into(),
            Self::Labels => "not selected by the labels".into(),
            Self::EmptyTag => "tagged for nobody".into(),
            Self::Tagged(tag) => format!("tagged {tag}, which the selector does not name"),
            Self::Sparse => "sparse files, claimed by name only".into(),
            Self::Partition => "partitions, which allowPartition does not allow".into(),
            Self::OtherType(wanted) => format!("not of type {wanted}"),
            Self::TooSmall { least, .. } => format!("smaller than {least}"),
            Self::Claimed(_) => "claimed".into(),
            Self::NotCleared => "released and not blank".into(),
            Self::BeingReleased => "being released".into(),
            Self::NotActive(state) => format!("not Active ({state})"),
            Self::Quarantined => "quarantined".into(),
            Self::NoIdentity => "without an identity".into(),
            Self::BeingWiped => "to be wiped".into(),
            Self::NotExamined => "not examined by an agent yet".into(),
            Self::NotMounted => "without a mounted file system".into(),
            Self::NotChosen => "mounted, and neither named nor tagged".into(),
            Self::OtherFormat(found) => format!("with file system {found}"),
            Self::FileSystem(found) => format!("not blank (file system {found})"),
            Self::Contents { reason, .. } if reason.is_empty() => "not blank".into(),
            Self::Contents { reason, .. } => format!("not blank ({reason})"),
            Self::Malformed => "malformed".into(),
        }
    }

    /// The reason of the condition, for a claim of this one device.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Claimed(_) | Self::BeingReleased => reason::CLAIMED,
            _ => reason::NO_DEVICE_FITS,
        }
    }
}

impl fmt::Display for Misfit {
    /// What is the case, and what to do if something can be done.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeftAlone => write!(
                f,
                "is to be left alone: remove the annotation {}=false or the label {}=false to use it",
                annotation::BLOCK_DEVICE_RECONCILE,
                label::BLOCK_DEVICE_MANAGED
            ),
            Self::BeingDeleted => f.write_str("is being deleted"),
            Self::OtherNode => f.write_str("is on another node than the claim asks for"),
            Self::Labels => f.write_str("does not have the labels that spec.selector asks for"),
            Self::EmptyTag => write!(f, "has an empty label {}: nobody may use it", label::BLOCK_DEVICE_TAG),
            Self::Tagged(tag) => write!(
                f,
                "has the label {}={tag}: only a claim whose selector names that tag may have it",
                label::BLOCK_DEVICE_TAG
            ),
            Self::Sparse => f.write_str("is a sparse file"),
            Self::Partition => f.write_str("is a partition"),
            Self::OtherType(wanted) => write!(f, "is not of type {wanted}"),
            Self::TooSmall { least, size } => write!(f, "has {size}, and {least} are asked for"),
            Self::Claimed(by) => write!(f, "is claimed by {by}"),
            Self::NotCleared => f.write_str("was released and is not blank: wipe it to use it again"),
            Self::BeingReleased => f.write_str("is being released by its last claim"),
            Self::NotActive(state) => write!(f, "is not Active but {state}"),
            Self::Quarantined => {
                f.write_str("is quarantined, because another device has the same identity: its condition Quarantined tells more")
            }
            Self::NoIdentity => f.write_str("has no identity that would tell it from other devices"),
            Self::BeingWiped => write!(
                f,
                "is to be wiped: wait until that is done, or remove its annotation {}",
                annotation::WIPE
            ),
            Self::NotExamined => f.write_str("has not been examined by the agent of its node yet"),
            Self::NotMounted => f.write_str("has no mounted file system, which blockVolumeMode FileSystem asks for"),
            Self::NotChosen => write!(
                f,
                "is mounted, by whom is not known: name it in spec.blockDeviceName, or tag it by the label {} and select the tag",
                label::BLOCK_DEVICE_TAG
            ),
            Self::OtherFormat(found) => write!(f, "has a file system of type {found}"),
            Self::FileSystem(found) => write!(f, "has a file system of type {found} on it"),
            Self::Contents { reason, message } => {
                let (reason, message) = (reason.as_str(), message.trim_end_matches('.'));
                match (reason, message) {
                    ("", "") => f.write_str("is not blank"),
                    (only, "") | ("", only) => write!(f, "is not blank: {only}"),
                    (reason, message) => write!(f, "is not blank: {reason}, {message}"),
                }
            }
            Self::Malformed => f.write_str("does not have the shape of a BlockDevice"),
        }
    }
}

/// How many devices are named for each reason.
const NAMED: usize = 10;
/// How many reasons are given.
const REASONS: usize = 25;

/// Why each device was rejected, one clause a reason.
pub(crate) fn why(misfits: &BTreeMap<String, Misfit>) -> String {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (device, misfit) in misfits {
        groups.entry(misfit.group()).or_default().push(device);
    }
    let beyond = groups.len().saturating_sub(REASONS);
    let mut clauses: Vec<String> = groups
        .into_iter()
        .take(REASONS)
        .map(|(reason, devices)| {
            let named = devices.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
            match devices.len().saturating_sub(NAMED) {
                0 => format!("{reason}: {named}"),
                more => format!("{reason}: {named} and {more} more"),
            }
        })
        .collect();
    if beyond > 0 {
        clauses.push(format!("and {beyond} other reasons"));
    }
    clauses.join("; ")
}
