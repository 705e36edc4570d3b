//! A pool as it is.

use serde::Deserialize;

use super::scan::{ExpansionRecord, ScanRecord, expansion, scan};
use super::{Members, Number, Parsed, json};
use crate::{Guid, PoolName, PoolStatus, State, Vdev, VdevClass, VdevKind};

#[derive(Deserialize)]
struct Document {
    pools: Members<PoolRecord>,
}

#[derive(Deserialize)]
struct PoolRecord {
    name: String,
    state: String,
    pool_guid: Number,
    status: Option<String>,
    action: Option<String>,
    msgid: Option<String>,
    scan_stats: Option<ScanRecord>,
    raidz_expand_stats: Option<ExpansionRecord>,
    /// The pool's own entry, with the data below it.
    vdevs: Members<VdevRecord>,
    #[serde(default)]
    special: Members<VdevRecord>,
    #[serde(default)]
    dedup: Members<VdevRecord>,
    #[serde(default)]
    logs: Members<VdevRecord>,
    #[serde(default)]
    l2cache: Members<VdevRecord>,
    #[serde(default)]
    spares: Members<VdevRecord>,
    error_count: Option<Number>,
}

#[derive(Deserialize)]
struct VdevRecord {
    name: String,
    vdev_type: Option<String>,
    guid: Number,
    path: Option<String>,
    was: Option<String>,
    state: Option<String>,
    aux: Option<String>,
    not_present: Option<Number>,
    #[serde(default)]
    read_errors: Number,
    #[serde(default)]
    write_errors: Number,
    #[serde(default)]
    checksum_errors: Number,
    #[serde(default)]
    slow_ios: Number,
    #[serde(default)]
    ex_dev_size: Number,
    #[serde(default)]
    total_space: Number,
    #[serde(default)]
    phys_space: Number,
    #[serde(default)]
    alloc_space: Number,
    #[serde(default)]
    vdevs: Members<VdevRecord>,
}

/// What `zpool status -j` printed of this pool.
pub(in crate::real) fn status(text: &str, pool: &PoolName) -> Parsed<PoolStatus> {
    let Document { pools } = json(text)?;
    let record = pools.only(pool.as_str())?;
    if record.name != pool.as_str() {
        return Err(format!("it is about {}", record.name));
    }
    let (_, root) = one(record.vdevs.0)?;
    let mut vdevs = below(root.vdevs, VdevClass::Data);
    if vdevs.is_empty() {
        return Err("there are no vdevs in it".to_owned());
    }
    for (members, class) in [
        (record.special, VdevClass::Special),
        (record.dedup, VdevClass::Dedup),
        (record.logs, VdevClass::Log),
        (record.l2cache, VdevClass::Cache),
        (record.spares, VdevClass::Spare),
    ] {
        vdevs.extend(below(members, class));
    }
    Ok(PoolStatus {
        name: pool.clone(),
        guid: Guid(record.pool_guid.0),
        state: pool_state(&record.state),
        status: record.status.map(words),
        action: record.action.map(words),
        message_id: record.msgid,
        scan: record.scan_stats.map(scan).transpose()?.flatten(),
        expansion: record.raidz_expand_stats.map(expansion).transpose()?.flatten(),
        vdevs,
        data_errors: record.error_count.unwrap_or_default().0,
    })
}

/// Pools and vdevs have a vocabulary each. These are the words of pools, and of vdevs as people see them.
pub(super) fn pool_state(word: &str) -> State {
    match word {
        "ONLINE" => State::Online,
        "DEGRADED" => State::Degraded,
        "FAULTED" => State::Faulted,
        "OFFLINE" => State::Offline,
        "REMOVED" => State::Removed,
        "UNAVAIL" => State::Unavailable,
        "SPLIT" => State::Split,
        "SUSPENDED" => State::Suspended,
        _ => State::Unknown,
    }
}

pub(super) fn vdev_state(word: &str) -> State {
    match word {
        "CANT_OPEN" => State::Unavailable,
        "CLOSED" => State::Closed,
        "AVAIL" => State::Available,
        "INUSE" => State::InUse,
        // A vdev is never of these; what ZFS would mean by it is not known.
        "SUSPENDED" => State::Unknown,
        word => pool_state(word),
    }
}

/// Some releases print a draid group without its type. Its name has it.
fn kind(record: &VdevRecord) -> VdevKind {
    let Some(word) = &record.vdev_type else {
        let is_draid = record.name.starts_with("draid") && record.name.contains(':');
        return if is_draid {
            VdevKind::Draid
        } else {
            VdevKind::Other(String::new())
        };
    };
    match word.as_str() {
        "disk" => VdevKind::Disk,
        "file" => VdevKind::File,
        "mirror" => VdevKind::Mirror,
        "raidz" => VdevKind::Raidz,
        "draid" => VdevKind::Draid,
        "dspare" => VdevKind::DraidSpare,
        "replacing" => VdevKind::Replacing,
        "spare" => VdevKind::Spare,
        "hole" => VdevKind::Hole,
        "indirect" => VdevKind::Indirect,
        "missing" => VdevKind::Missing,
        other => VdevKind::Other(other.to_owned()),
    }
}

fn below(members: Members<VdevRecord>, class: VdevClass) -> Vec<Vdev> {
    let vdev = |(_, record): (String, VdevRecord)| vdev(record, class);
    members.0.into_iter().map(vdev).collect()
}

fn vdev(record: VdevRecord, class: VdevClass) -> Vdev {
    let kind = kind(&record);
    let state = record.state.as_deref().map_or(State::Unknown, vdev_state);
    // A device has a size of its own; a group has the space that its devices give.
    let size = [record.phys_space, record.total_space];
    let size = size.into_iter().find(|size| size.0 > 0).unwrap_or_default();
    Vdev {
        kind,
        class,
        guid: Guid(record.guid.0),
        // Spare space of a draid group has a word there, which is no path.
        path: [record.path, record.was]
            .into_iter()
            .flatten()
            .find(|path| path.starts_with('/'))
            .map(Into::into),
        state,
        why: record.aux,
        not_present: record.not_present.is_some_and(|flag| flag.0 != 0),
        read_errors: record.read_errors.0,
        write_errors: record.write_errors.0,
        checksum_errors: record.checksum_errors.0,
        slow_ios: record.slow_ios.0,
        expandable: growth(record.ex_dev_size),
        size: size.0,
        allocated: record.alloc_space.0,
        name: record.name,
        children: below(record.vdevs, class),
    }
}

/// By how much a vdev could grow. Of a device that is not there ZFS subtracts its size from nothing, which wraps around.
fn growth(bytes: Number) -> u64 {
    if i64::try_from(bytes.0).is_ok() {
        bytes.0
    } else {
        0
    }
}

/// The words of a message, which ZFS breaks into lines for a terminal.
fn words(text: String) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn one<T>(mut members: Vec<T>) -> Parsed<T> {
    match (members.pop(), members.is_empty()) {
        (Some(member), true) => Ok(member),
        _ => Err("the vdevs are not below one pool".to_owned()),
    }
}
