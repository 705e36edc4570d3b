//! What makes a device somebody else's, in words.

use cstor_api::names::reason;
use cstor_zfs::Label;

use super::records::{Record, Refusal};
use super::{Examined, Finding, SMALLEST, Subject, is_offered};
use crate::contents::{Contents, Signature};
use crate::{Device, Kind};

/// Partitions of these types are for anybody's data. All other types are for something, also where nothing was written
/// yet: the room that ZFS, boot loaders and Windows keep carries no signature.
pub const DATA_PARTITIONS: [&str; 2] = ["0fc63daf-8483-4772-8e79-3d69d8477de4", "0x83"];
/// The types of the two partitions that ZFS makes on a whole disk.
const ZFS_PARTITIONS: [(u32, &str); 2] = [
    (1, "6a898cc3-1dd2-11b2-99a6-080020736631"),
    (9, "6a945a3b-1dd2-11b2-99a6-080020736631"),
];
/// What libblkid calls ZFS, and the partition tables that ZFS makes.
const ZFS: &str = "zfs_member";
const ZFS_TABLES: [&str; 2] = ["gpt", "PMBR"];
const TABLE: &str = "partition-table";
/// The UUID that LVM gives to a volume in the device mapper: this, and the UUIDs of group and volume. Parts of volumes
/// that LVM keeps to itself have more behind that.
const LVM_PREFIX: &str = "LVM-";
const LVM_UUID: usize = LVM_PREFIX.len() + 64;

fn finding(reason: &'static str, message: impl Into<String>) -> Finding {
    Finding {
        reason,
        message: message.into(),
    }
}

/// Who uses a device, or a part of it, at this moment, and what is never ours. That counts whatever is on it.
pub(super) fn of_use(subject: &Subject<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(attachment) = subject.foreign_attachment {
        found.push(finding(
            reason::FOREIGN_ATTACHMENT,
            format!("brought by {attachment}, which is not ours"),
        ));
    }
    let device = subject.examined.device;
    if !is_offered(device.kind) {
        found.push(finding(
            reason::UNSUITABLE,
            format!("{} is of a kind that pools are never put on", device.path),
        ));
    }
    users(device, &mut found);
    for partition in subject.partitions {
        users(partition.device, &mut found);
    }
    if let Some(parent) = &subject.parent {
        users(parent.device, &mut found);
    }
    if let Some(file) = device.backing.as_ref().map(|backing| backing.file.as_str()) {
        if file.starts_with("/var/lib/kubelet/") || file.contains("/volumeDevices/") {
            let message = format!(
                "{} stands for {file}, with which a kubelet holds a volume",
                device.path
            );
            found.push(finding(reason::FOREIGN_ATTACHMENT, message));
        } else if file.starts_with("/dev/") {
            let message = format!("{} stands for {file}, which is a device itself", device.path);
            found.push(finding(reason::UNSUITABLE, message));
        }
    }
    found
}

fn users(device: &Device, found: &mut Vec<Finding>) {
    let path = &device.path;
    for mount in &device.mounts {
        let message = match &mount.file_system {
            Some(kind) => format!("{path} is mounted at {} ({kind})", mount.point),
            None => format!("{path} is handed to somebody as a device at {}", mount.point),
        };
        found.push(finding(reason::MOUNTED, message));
    }
    if device.swap {
        found.push(finding(reason::SWAP, format!("{path} is swapped to")));
    }
    if !device.holders.is_empty() {
        let message = format!("{} built on {path}", are(&device.holders));
        found.push(finding(reason::HELD, message));
    }
    for export in &device.exports {
        found.push(finding(
            reason::EXPORTED,
            format!("{path} is handed to other machines by {export}"),
        ));
    }
    if device.udev("DM_MULTIPATH_DEVICE_PATH") == Some("1") {
        found.push(finding(
            reason::MEMBER,
            format!("{path} is one of several paths to a disk"),
        ));
    }
    let dm = device.device_mapper.as_ref().and_then(|dm| dm.uuid.as_deref());
    if dm.is_some_and(|uuid| uuid.starts_with(LVM_PREFIX) && uuid.len() > LVM_UUID) {
        found.push(finding(
            reason::MEMBER,
            format!("{path} is a part of a logical volume that LVM keeps to itself"),
        ));
    }
}

/// Why ZFS cannot have a device.
pub(super) fn of_kind(device: &Device) -> Vec<Finding> {
    let path = &device.path;
    let mut found = Vec::new();
    let mut unsuitable = |message: String| found.push(finding(reason::UNSUITABLE, message));
    if device.read_only {
        unsuitable(format!("{path} refuses writes"));
    }
    if device.removable {
        unsuitable(format!("{path} is a drive for removable media"));
    }
    if device.zoned {
        unsuitable(format!(
            "{path} has zones that must be written in order, which ZFS cannot"
        ));
    }
    if device.bytes < SMALLEST {
        unsuitable(format!(
            "{path} has {} bytes; ZFS takes {SMALLEST} or more",
            device.bytes
        ));
    }
    let is_built = !matches!(
        device.kind,
        Kind::Disk | Kind::Partition | Kind::Loop | Kind::Sparse
    );
    if !is_built && !device.slaves.is_empty() {
        unsuitable(format!("{path} is a disk, and {} under it", are(&device.slaves)));
    }
    found
}

/// How a device is divided, or a part of one.
pub(super) fn of_division(subject: &Subject<'_>, told: Option<&Label>) -> Vec<Finding> {
    let device = subject.examined.device;
    let mut found = Vec::new();
    if !device.partitions.is_empty() || !subject.partitions.is_empty() {
        let mut names = device.partitions.clone();
        names.extend(subject.partitions.iter().map(|part| part.device.name.clone()));
        names.sort();
        names.dedup();
        found.push(finding(
            reason::PARTITIONED,
            format!("{} is divided into {}", device.path, names.join(", ")),
        ));
    }
    for partition in subject.partitions {
        if let Some(contents) = partition.contents() {
            found.extend(of_signatures(partition.device, contents, |_| true));
            found.extend(of_labels(partition.device, contents, told));
        }
    }
    if device.kind == Kind::Partition || device.partition.is_some() || device.parent.is_some() {
        found.extend(of_partition(subject));
    }
    found
}

/// A partition is free only where its table says that it is for data, and the disk around it is used for nothing else.
fn of_partition(subject: &Subject<'_>) -> Vec<Finding> {
    let device = subject.examined.device;
    let path = &device.path;
    let mut found = Vec::new();
    let type_id = device
        .partition
        .as_ref()
        .and_then(|partition| partition.type_id.as_deref());
    match type_id.map(str::to_ascii_lowercase) {
        Some(id) if DATA_PARTITIONS.contains(&id.as_str()) => {}
        Some(id) => found.push(finding(
            reason::PARTITIONED,
            format!(
                "{path} is a partition of type {id}, which is kept for something; only Linux data is taken"
            ),
        )),
        None => found.push(finding(
            reason::PARTITIONED,
            format!("{path} is a partition of a type that is not known"),
        )),
    }
    let Some(parent) = subject.parent else {
        found.push(finding(
            reason::PARTITIONED,
            format!("{path} is a part of a disk that was not looked at"),
        ));
        return found;
    };
    match parent.contents() {
        Some(contents) => found.extend(of_table(parent.device, contents)),
        None => found.push(finding(
            reason::PARTITIONED,
            format!(
                "{path} is a part of {}, which could not be read",
                parent.device.path
            ),
        )),
    }
    if parent.device.read_only {
        found.push(finding(
            reason::UNSUITABLE,
            format!("{} refuses writes", parent.device.path),
        ));
    }
    found
}

/// What else than a partition table is on a disk that has partitions.
fn of_table(disk: &Device, contents: &Contents) -> Vec<Finding> {
    let mut found = of_signatures(disk, contents, |signature| {
        signature.usage.as_deref() != Some(TABLE)
    });
    found.extend(of_labels(disk, contents, None));
    found
}

/// All that is on a device, but for a label that was told of already.
pub(super) fn of_contents(device: &Device, contents: &Contents, told: Option<&Label>) -> Vec<Finding> {
    let mut found = of_signatures(device, contents, |_| true);
    found.extend(of_labels(device, contents, told));
    let path = &device.path;
    if contents.busy {
        found.push(finding(
            reason::HELD,
            format!("{path} is open, and the kernel refuses to open it for anybody else alone"),
        ));
    }
    if found.is_empty()
        && let Some(offset) = contents.data_at
    {
        let message = format!("{path} holds data at byte {offset} that nothing here knows the form of");
        found.push(finding(reason::UNRECOGNISED_DATA, message));
    }
    if found.is_empty() {
        found.extend(of_udev(device));
    }
    found
}

/// What udev found and reading did not: it is late, or knows more.
fn of_udev(device: &Device) -> Option<Finding> {
    let table = (device.kind != Kind::Partition).then_some("ID_PART_TABLE_TYPE");
    let said = ["ID_FS_TYPE"]
        .into_iter()
        .chain(table)
        .find_map(|key| device.udev(key))?;
    let message = format!(
        "udev says that {said} is on {}; if that is no longer so, `udevadm trigger {}` makes it look again",
        device.path, device.path
    );
    Some(finding(reason::SIGNATURE, message))
}

/// The ZFS labels on a device, but for one that was told of already.
fn of_labels(device: &Device, contents: &Contents, told: Option<&Label>) -> Vec<Finding> {
    let mut found = Vec::new();
    let path = &device.path;
    if contents.zfs_damaged {
        found.push(finding(
            reason::FOREIGN_POOL,
            format!("{path} has a ZFS label that cannot be understood"),
        ));
    }
    let labels = contents.zfs.iter().chain(&contents.zfs_others);
    let labels = labels.filter(|label| told != Some(*label));
    found.extend(labels.map(|label| finding(reason::FOREIGN_POOL, format!("{path} {}", of_pool(label)))));
    found
}

/// One finding for each kind of signature that is asked for: some are there many times. That of ZFS says less than its
/// label, where there is one.
fn of_signatures(device: &Device, contents: &Contents, asked: impl Fn(&Signature) -> bool) -> Vec<Finding> {
    let said = |signature: &&Signature| signature.kind == ZFS && contents.zfs.is_some();
    let mut kinds: Vec<(&Signature, usize)> = Vec::new();
    for signature in contents
        .signatures
        .iter()
        .filter(|signature| asked(signature) && !said(signature))
    {
        match kinds.iter_mut().find(|(first, _)| first.kind == signature.kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((signature, 1)),
        }
    }
    kinds
        .into_iter()
        .map(|(signature, count)| of_signature(device, signature, count))
        .collect()
}

fn of_signature(device: &Device, signature: &Signature, count: usize) -> Finding {
    let (kind, path) = (&signature.kind, &device.path);
    let reason = match (kind.as_str(), signature.usage.as_deref()) {
        (ZFS, _) => reason::FOREIGN_POOL,
        ("bcache", _) | (_, Some("raid")) => reason::MEMBER,
        (_, Some(TABLE)) => reason::PARTITIONED,
        (_, Some("filesystem")) => reason::FILE_SYSTEM,
        _ => reason::SIGNATURE,
    };
    let mut message = format!("{path} carries {kind} at byte {}", signature.offset);
    if count > 1 {
        message += &format!(" and at {} more", count - 1);
    }
    if let Some(label) = &signature.label {
        message += &format!(", labelled {label:?}");
    }
    if let Some(uuid) = &signature.uuid {
        message += &format!(", UUID {uuid}");
    }
    finding(reason, message)
}

/// The first partition, if these are the two that ZFS makes on a whole disk, and all there are.
pub(super) fn zfs_layout<'a>(disk: &Device, partitions: &[Examined<'a>]) -> Option<Examined<'a>> {
    let is = |examined: &Examined<'_>, (number, type_id): (u32, &str)| {
        examined.device.partition.as_ref().is_some_and(|partition| {
            let found = partition.type_id.as_deref();
            partition.number == number && found.is_none_or(|found| found.eq_ignore_ascii_case(type_id))
        })
    };
    let all = |one: &Examined<'a>, other: &Examined<'a>| {
        let given = [&one.device.name, &other.device.name];
        disk.partitions.len() == given.len() && disk.partitions.iter().all(|name| given.contains(&name))
    };
    let [first, last] = ZFS_PARTITIONS;
    match partitions {
        [one, other] | [other, one] if is(one, first) && is(other, last) && all(one, other) => Some(*one),
        _ => None,
    }
}

/// Whether nothing was found but a partition table of the kind that ZFS makes, and ZFS itself.
pub(super) fn is_zfs_table(contents: &Contents) -> bool {
    let known = |signature: &Signature| {
        let kind = signature.kind.as_str();
        kind == ZFS || ZFS_TABLES.contains(&kind)
    };
    let table = contents.signatures.iter().any(known);
    contents.signatures.iter().all(known) && (table || contents.data_at.is_none())
}

/// Whether nothing was found but ZFS.
pub(super) fn is_zfs_label(contents: &Contents) -> bool {
    let labelled = contents.zfs.is_some();
    contents.signatures.iter().all(|signature| signature.kind == ZFS)
        && (labelled || contents.data_at.is_none())
}

/// What must not be beside a label of ours: whoever wrote it may have done so later than we did.
pub(super) fn beside_our_label(subject: &Subject<'_>, at: Examined<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(contents) = at.contents() {
        found.extend(of_signatures(at.device, contents, |signature| {
            signature.kind != ZFS
        }));
        found.extend(contents.zfs_others.iter().map(|label| {
            finding(
                reason::FOREIGN_POOL,
                format!("{} also {}", at.device.path, of_pool(label)),
            )
        }));
    }
    let disk = subject.examined;
    if disk.device.name != at.device.name
        && let Some(contents) = disk.contents()
    {
        let foreign = |signature: &Signature| !ZFS_TABLES.contains(&signature.kind.as_str());
        found.extend(of_signatures(disk.device, contents, foreign));
        found.extend(of_labels(disk.device, contents, None));
    }
    found
}

/// A label of ours on a device that somebody else uses.
pub(super) fn our_label(at: Examined<'_>, label: &Label, record: &Record) -> Finding {
    let message = format!(
        "{} {}, of the CStorPoolInstance with the UID {}; it is not touched while the above is so",
        at.device.path,
        of_pool(label),
        record.instance
    );
    finding(reason::IN_OUR_POOL, message)
}

/// A label that is not ours, and why.
pub(super) fn foreign_label(at: Examined<'_>, label: &Label, refusal: &Refusal) -> Finding {
    let why = match refusal {
        Refusal::Unrecorded => "which no CStorPoolInstance records".to_owned(),
        Refusal::OtherPool(instance, guid) => {
            format!("but the CStorPoolInstance with the UID {instance} that it names has the pool {guid}")
        }
        Refusal::Ambiguous(one, other) => {
            format!("which the CStorPoolInstances with the UIDs {one} and {other} both record")
        }
    };
    finding(
        reason::FOREIGN_POOL,
        format!("{} {}, {why}", at.device.path, of_pool(label)),
    )
}

fn of_pool(label: &Label) -> String {
    let what = match label.state {
        1 => "is a device of the exported ZFS pool",
        2 => "was a device of the destroyed ZFS pool",
        3 => "is a spare of a ZFS pool",
        4 => "is a cache device of a ZFS pool",
        _ => "is a device of the ZFS pool",
    };
    let mut text = what.to_owned();
    if let Some(name) = &label.pool_name {
        text += &format!(" {name:?}");
    }
    if let Some(guid) = label.pool_guid {
        text += &format!(" (GUID {guid})");
    }
    text += &format!(", vdev GUID {}", label.vdev_guid);
    if let Some(host) = &label.hostname {
        text += &format!(", last used by the host {host:?}");
    }
    text
}

fn are(names: &[String]) -> String {
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", names.join(", "))
}
