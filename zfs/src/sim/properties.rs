//! Properties: which there are, and what they may be.

use std::collections::BTreeMap;

use super::world::{Answer, Imported, no};
use crate::{DatasetKind, State};

/// Pool properties that can be set, and what they are when they are not.
const POOL: [(&str, &str); 16] = [
    ("altroot", "-"),
    ("ashift", "0"),
    ("autoexpand", "off"),
    ("autoreplace", "off"),
    ("autotrim", "off"),
    ("bootfs", "-"),
    ("cachefile", "-"),
    ("comment", "-"),
    ("compatibility", "off"),
    ("dedup_table_quota", "auto"),
    ("delegation", "on"),
    ("failmode", "wait"),
    ("listsnapshots", "off"),
    ("multihost", "off"),
    ("readonly", "off"),
    ("version", "-"),
];

/// Some features, so that there is something to upgrade.
const FEATURES: [&str; 3] = [
    "feature@async_destroy",
    "feature@raidz_expansion",
    "feature@fast_dedup",
];

/// Where a dataset's property comes from when it is not set, and who has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// From the dataset above it, or this.
    Inherits(&'static str),
    /// This, for file systems and volumes alike.
    Own(&'static str),
    /// This, for volumes alone.
    OfVolume(&'static str),
    /// This, for file systems alone.
    OfFileSystem(&'static str),
    /// It is told, not set.
    Told,
}

/// The properties of datasets that the simulator knows.
pub(super) const DATASET: [(&str, Rule); 55] = [
    ("acltype", Rule::Inherits("off")),
    ("atime", Rule::Inherits("on")),
    ("available", Rule::Told),
    ("canmount", Rule::OfFileSystem("on")),
    ("checksum", Rule::Inherits("on")),
    ("clones", Rule::Told),
    ("compression", Rule::Inherits("on")),
    ("compressratio", Rule::Told),
    ("copies", Rule::Inherits("1")),
    ("createtxg", Rule::Told),
    ("creation", Rule::Told),
    ("dedup", Rule::Inherits("off")),
    ("defer_destroy", Rule::Told),
    ("devices", Rule::Inherits("on")),
    ("exec", Rule::Inherits("on")),
    ("guid", Rule::Told),
    ("logbias", Rule::Inherits("latency")),
    ("logicalreferenced", Rule::Told),
    ("logicalused", Rule::Told),
    ("mounted", Rule::Told),
    ("mountpoint", Rule::Inherits("none")),
    ("name", Rule::Told),
    ("origin", Rule::Told),
    ("prefetch", Rule::Inherits("all")),
    ("primarycache", Rule::Inherits("all")),
    ("quota", Rule::OfFileSystem("0")),
    ("readonly", Rule::Inherits("off")),
    ("receive_resume_token", Rule::Told),
    ("recordsize", Rule::Inherits("131072")),
    ("redundant_metadata", Rule::Inherits("all")),
    ("refcompressratio", Rule::Told),
    ("referenced", Rule::Told),
    ("refquota", Rule::OfFileSystem("0")),
    ("refreservation", Rule::Own("0")),
    ("relatime", Rule::Inherits("on")),
    ("reservation", Rule::Own("0")),
    ("secondarycache", Rule::Inherits("all")),
    ("setuid", Rule::Inherits("on")),
    ("snapdev", Rule::Inherits("hidden")),
    ("snapdir", Rule::Inherits("hidden")),
    ("special_small_blocks", Rule::Inherits("0")),
    ("sync", Rule::Inherits("standard")),
    ("type", Rule::Told),
    ("used", Rule::Told),
    ("usedbychildren", Rule::Told),
    ("usedbydataset", Rule::Told),
    ("usedbyrefreservation", Rule::Told),
    ("usedbysnapshots", Rule::Told),
    ("userrefs", Rule::Told),
    ("volblocksize", Rule::OfVolume("16384")),
    ("volmode", Rule::Inherits("default")),
    ("volsize", Rule::OfVolume("0")),
    ("volthreading", Rule::OfVolume("on")),
    ("written", Rule::Told),
    ("xattr", Rule::Inherits("sa")),
];

pub(super) fn rule(property: &str) -> Option<Rule> {
    let found = DATASET.iter().find(|(name, _)| *name == property);
    found.map(|(_, rule)| *rule)
}

/// Whether a property is one of those that anybody may make up.
pub(super) fn is_of_user(property: &str) -> bool {
    property.contains(':')
}

fn check_user(property: &str, value: &str) -> Answer<()> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.:".contains(c);
    if property.len() >= 256 || property.starts_with('-') || !property.chars().all(allowed) {
        return no(format!("invalid property '{property}'"));
    }
    if value.len() >= 8192 {
        return no(format!("property value of '{property}' is too long"));
    }
    Ok(())
}

pub(super) fn check_pool(property: &str, value: &str, hostid: u64) -> Answer<()> {
    if is_of_user(property) {
        return check_user(property, value);
    }
    let one_of = |words: &[&str]| {
        if words.contains(&value) {
            Ok(())
        } else {
            no(format!("'{property}' must be one of {}", words.join(", ")))
        }
    };
    match property {
        "multihost" if value == "on" && hostid == 0 => no("requires a non-zero system hostid"),
        "autoexpand" | "autoreplace" | "autotrim" | "delegation" | "listsnapshots" | "multihost"
        | "readonly" => one_of(&["on", "off"]),
        "failmode" => one_of(&["wait", "continue", "panic"]),
        "comment" if value.len() > 32 => no("comment must be 32 characters or less"),
        "ashift" => match value.parse::<u8>() {
            Ok(0 | 9..=16) => Ok(()),
            _ => no("'ashift' must be 0 or between 9 and 16"),
        },
        _ if property.starts_with("feature@") => one_of(&["enabled", "disabled"]),
        _ if POOL.iter().any(|(name, _)| *name == property) => Ok(()),
        _ => no(format!("property '{property}' is not a valid pool property")),
    }
}

/// All properties of a pool, as exact texts.
pub(super) fn of_pool(imported: &Imported) -> BTreeMap<String, String> {
    let pool = &imported.pool;
    let mut all: BTreeMap<String, String> = POOL
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    all.extend(FEATURES.map(|name| (name.to_owned(), "enabled".to_owned())));
    all.extend(pool.properties.clone());
    let (size, allocated) = (pool.raw(), pool.allocated());
    let health = match imported.state() {
        State::Online => "ONLINE",
        State::Degraded => "DEGRADED",
        State::Suspended => "SUSPENDED",
        _ => "UNAVAIL",
    };
    for (name, value) in [
        ("allocated", allocated),
        (
            "capacity",
            allocated
                .saturating_mul(100)
                .checked_div(size)
                .unwrap_or_default(),
        ),
        ("expandsize", 0),
        ("fragmentation", 0),
        ("free", size.saturating_sub(allocated)),
        ("freeing", 0),
        ("guid", pool.guid.0),
        ("leaked", 0),
        ("size", size),
    ] {
        all.insert(name.to_owned(), value.to_string());
    }
    all.insert("health".to_owned(), health.to_owned());
    all.insert("dedupratio".to_owned(), "1.00".to_owned());
    if imported.read_only {
        all.insert("readonly".to_owned(), "on".to_owned());
    }
    all
}

/// Whether a feature of this ZFS is not enabled on the pool.
pub(super) fn is_upgradable(imported: &Imported) -> bool {
    let is_disabled = |name| imported.pool.property(name) == Some("disabled");
    FEATURES.into_iter().any(is_disabled)
}

/// Whether a property of a dataset may be set to this.
pub(super) fn check_dataset(kind: DatasetKind, property: &str, value: &str) -> Answer<()> {
    if is_of_user(property) {
        return check_user(property, value);
    }
    let applies = match rule(property) {
        None => return no(format!("invalid property '{property}'")),
        Some(Rule::Told) => return no(format!("'{property}' is readonly")),
        Some(Rule::OfVolume(_)) => kind == DatasetKind::Volume,
        Some(Rule::OfFileSystem(_)) => kind == DatasetKind::FileSystem,
        Some(Rule::Inherits(_) | Rule::Own(_)) => kind != DatasetKind::Snapshot,
    };
    if !applies {
        return no(format!("'{property}' does not apply to datasets of this type"));
    }
    let number = matches!(
        property,
        "volsize" | "volblocksize" | "refreservation" | "reservation" | "quota" | "refquota" | "recordsize"
    );
    let none = matches!(value, "none" | "auto") && property != "volsize" && property != "volblocksize";
    if number && !none && value.parse::<u64>().is_err() {
        return no(format!("bad numeric value '{value}'"));
    }
    Ok(())
}
