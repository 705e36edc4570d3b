//! The rules for pools that go beyond types and ranges: pairs of an expression and what to say if it does not hold.
//!
//! The API server estimates the cost of each rule from the bounds of the lists it walks, and refuses a definition
//! whose rule could cost more than 10 million. The dearest rule here visits each device of each pool of a cluster at
//! some 35 a device, so pools × groups × devices must stay below 280,000: 64 × 60 × 60, plus the small classes.
//!
//! Expressions use nothing newer than Kubernetes 1.32 (two-variable comprehensions), because a server checks new
//! rules against its previous release and we support 1.33. `lists.distinct` and `flatten` came with 1.34.

use crate::schema::Rule;

/// The devices of the pool `$p` as keys of one map.
///
/// Inserting a key twice is an error, which the API server reports together with the message of the rule, naming the
/// key: just what the user needs to know, at linear cost. Comparing all with all would be quadratic, and would
/// exceed the run-time budget at about 300 devices.
macro_rules! devices {
    ($p:literal) => {
        concat!(
            "[",
            groups!($p, "dataRaidGroups"),
            ", has(",
            $p,
            ".writeCacheRaidGroups) ? ",
            groups!($p, "writeCacheRaidGroups"),
            " : {}",
            ", has(",
            $p,
            ".readCacheBlockDevices) ? ",
            list!($p, ".readCacheBlockDevices"),
            " : {}",
            ", has(",
            $p,
            ".specialRaidGroups) ? ",
            groups!($p, "specialRaidGroups"),
            " : {}",
            ", has(",
            $p,
            ".spareBlockDevices) ? ",
            list!($p, ".spareBlockDevices"),
            " : {}",
            "].transformMapEntry(c, devices, devices)"
        )
    };
}

macro_rules! groups {
    ($p:literal, $field:literal) => {
        concat!(
            $p,
            ".",
            $field,
            ".transformMapEntry(i, g, ",
            list!("g", ".blockDevices"),
            ")"
        )
    };
}

macro_rules! list {
    ($p:literal, $field:literal) => {
        concat!($p, $field, ".transformMapEntry(k, d, {d.blockDeviceName: k})")
    };
}

/// A rule about what pool `p` of the cluster may become, given the pool `o` it was.
///
/// Pools are matched by node. A pool that moves to another node at the same time escapes; the same rule on its
/// CStorPoolInstance does not let it through.
macro_rules! same_pool {
    ($condition:expr) => {
        concat!(
            "oldSelf.pools.all(o, self.pools.all(p, p.nodeSelector != o.nodeSelector || (",
            $condition,
            ")))"
        )
    };
}

macro_rules! raid_type_kept {
    ($p:literal, $o:literal) => {
        concat!(
            $p,
            ".poolConfig.dataRaidGroupType == ",
            $o,
            ".poolConfig.dataRaidGroupType"
        )
    };
}

macro_rules! ashift_kept {
    ($p:literal, $o:literal) => {
        concat!(
            "!has(",
            $o,
            ".poolConfig.ashift) || (has(",
            $p,
            ".poolConfig.ashift) && ",
            $p,
            ".poolConfig.ashift == ",
            $o,
            ".poolConfig.ashift)"
        )
    };
}

macro_rules! draid_kept {
    ($p:literal, $o:literal) => {
        concat!(
            "has(",
            $p,
            ".poolConfig.draid) == has(",
            $o,
            ".poolConfig.draid) && (!has(",
            $o,
            ".poolConfig.draid) || ",
            $p,
            ".poolConfig.draid == ",
            $o,
            ".poolConfig.draid)"
        )
    };
}

macro_rules! draid_groups_kept {
    ($p:literal, $o:literal) => {
        concat!(
            $o,
            ".poolConfig.dataRaidGroupType != 'draid' || ",
            $o,
            ".dataRaidGroups.all(i, g, i >= ",
            $p,
            ".dataRaidGroups.size() || ",
            $p,
            ".dataRaidGroups[i].blockDevices.size() <= g.blockDevices.size())"
        )
    };
}

macro_rules! groups_kept {
    ($p:literal, $o:literal) => {
        concat!(
            $o,
            ".dataRaidGroups.all(i, g, i < ",
            $p,
            ".dataRaidGroups.size() && ",
            $p,
            ".dataRaidGroups[i].blockDevices.size() >= g.blockDevices.size())"
        )
    };
}

macro_rules! write_cache_type_kept {
    ($p:literal, $o:literal) => {
        concat!(
            "!has(",
            $o,
            ".writeCacheRaidGroups) || ",
            $o,
            ".writeCacheRaidGroups.size() == 0 || ",
            "!has(",
            $p,
            ".writeCacheRaidGroups) || ",
            $p,
            ".writeCacheRaidGroups.size() == 0 || ",
            "!has(",
            $o,
            ".poolConfig.writeCacheGroupType) || ",
            $o,
            ".poolConfig.writeCacheGroupType == '' || ",
            "(has(",
            $p,
            ".poolConfig.writeCacheGroupType) && ",
            $p,
            ".poolConfig.writeCacheGroupType == ",
            $o,
            ".poolConfig.writeCacheGroupType)"
        )
    };
}

/// A field of a cron line, given what a value of it looks like: values, ranges and `*`, the latter two with a step if need be.
macro_rules! cron_field {
    ($value:literal) => {
        concat!(cron_item!($value), "(,", cron_item!($value), ")*")
    };
}

macro_rules! cron_item {
    ($value:literal) => {
        concat!("([*](/[1-9][0-9]?)?|", $value, "(-", $value, "(/[1-9][0-9]?)?)?)")
    };
}

// Of a cluster.

pub(super) const CLUSTER_DEVICES_ONCE: Rule = (
    concat!(
        "self.pools.transformMapEntry(n, p, ",
        devices!("p"),
        ").size() >= 0"
    ),
    "A block device can be named once in a pool cluster, whatever the pool and the group: remove it from one of them.",
);
pub(super) const ONE_POOL_A_NODE: Rule = (
    "self.pools.all(p, self.pools.exists_one(q, q.nodeSelector == p.nodeSelector))",
    "Two pools select the same node: give each pool a nodeSelector of its own, or merge their raid groups into one pool.",
);
pub(super) const CLUSTER_RAID_TYPE_KEPT: Rule = (same_pool!(raid_type_kept!("p", "o")), RAID_TYPE_KEPT.1);
pub(super) const CLUSTER_ASHIFT_KEPT: Rule = (same_pool!(ashift_kept!("p", "o")), ASHIFT_KEPT.1);
pub(super) const CLUSTER_DRAID_KEPT: Rule = (same_pool!(draid_kept!("p", "o")), DRAID_KEPT.1);
pub(super) const CLUSTER_DRAID_GROUPS_KEPT: Rule =
    (same_pool!(draid_groups_kept!("p", "o")), DRAID_GROUPS_KEPT.1);
pub(super) const CLUSTER_GROUPS_KEPT: Rule = (same_pool!(groups_kept!("p", "o")), GROUPS_KEPT.1);
pub(super) const CLUSTER_WRITE_CACHE_TYPE_KEPT: Rule = (
    same_pool!(write_cache_type_kept!("p", "o")),
    WRITE_CACHE_TYPE_KEPT.1,
);

// Of a pool.

pub(super) const DEVICES_ONCE: Rule = (
    concat!("[self].all(p, ", devices!("p"), ".size() >= 0)"),
    "A block device can be named once in a pool, whatever the group: remove it from one of them.",
);
pub(super) const NODE_SELECTED: Rule = (
    "self.size() > 0",
    "An empty nodeSelector selects every node: name a label that only one node has, such as kubernetes.io/hostname.",
);
pub(super) const DATA_GROUP_SIZE: Rule = (
    "self.dataRaidGroups.all(g, g.blockDevices.size() >= (self.poolConfig.dataRaidGroupType == 'raidz3' ? 4 : \
     self.poolConfig.dataRaidGroupType == 'raidz2' ? 3 : \
     self.poolConfig.dataRaidGroupType in ['mirror', 'raidz'] ? 2 : 1))",
    "A data group has too few block devices: mirror and raidz need at least 2, raidz2 needs 3, raidz3 needs 4. \
     Add devices to the group, or choose another dataRaidGroupType.",
);
pub(super) const DRAID_GROUP_SIZE: Rule = (
    "self.poolConfig.dataRaidGroupType != 'draid' || self.dataRaidGroups.all(g, g.blockDevices.size() >= \
     (has(self.poolConfig.draid) && has(self.poolConfig.draid.data) ? self.poolConfig.draid.data : 1) + \
     (has(self.poolConfig.draid) && has(self.poolConfig.draid.parity) ? self.poolConfig.draid.parity : 1) + \
     (has(self.poolConfig.draid) && has(self.poolConfig.draid.spares) ? self.poolConfig.draid.spares : 0))",
    "A draid group needs at least as many block devices as data, parity and spares together (1, 1 and 0 where not set): \
     add devices to the group, or lower the numbers in poolConfig.draid.",
);
pub(super) const WRITE_CACHE_TYPE: Rule = (
    "!has(self.writeCacheRaidGroups) || self.writeCacheRaidGroups.size() == 0 || \
     (has(self.poolConfig.writeCacheGroupType) && self.poolConfig.writeCacheGroupType in ['stripe', 'mirror'])",
    "ZFS has write caches as stripe and as mirror only: set poolConfig.writeCacheGroupType to one of them.",
);
pub(super) const WRITE_CACHE_GROUP_SIZE: Rule = (
    "!has(self.writeCacheRaidGroups) || !has(self.poolConfig.writeCacheGroupType) || \
     self.poolConfig.writeCacheGroupType != 'mirror' || \
     self.writeCacheRaidGroups.all(g, g.blockDevices.size() >= 2)",
    "A mirrored write-cache group needs at least 2 block devices: add one, or set writeCacheGroupType to stripe.",
);
pub(super) const SPECIAL_TYPE: Rule = (
    "!has(self.specialRaidGroups) || self.specialRaidGroups.size() == 0 || has(self.poolConfig.specialGroupType)",
    "Special groups need a type: set poolConfig.specialGroupType, to mirror if in doubt.",
);
pub(super) const SPECIAL_GROUP_SIZE: Rule = (
    "!has(self.specialRaidGroups) || !has(self.poolConfig.specialGroupType) || \
     self.specialRaidGroups.all(g, g.blockDevices.size() >= (self.poolConfig.specialGroupType == 'raidz3' ? 4 : \
     self.poolConfig.specialGroupType == 'raidz2' ? 3 : \
     self.poolConfig.specialGroupType in ['mirror', 'raidz'] ? 2 : 1))",
    "A special group has too few block devices: mirror and raidz need at least 2, raidz2 needs 3, raidz3 needs 4. \
     Add devices to the group, or choose another specialGroupType.",
);
pub(super) const RAID_TYPE_KEPT: Rule = (
    raid_type_kept!("self", "oldSelf"),
    "The raid type of a pool cannot be changed: put dataRaidGroupType back. For another type make another pool, \
     move the volumes over and remove this one.",
);
pub(super) const ASHIFT_KEPT: Rule = (
    ashift_kept!("self", "oldSelf"),
    "The ashift of a pool cannot be changed or removed once set, because its devices are laid out by it: put ashift back.",
);
pub(super) const DRAID_KEPT: Rule = (
    draid_kept!("self", "oldSelf"),
    "The shape of draid groups cannot be set, changed or removed once the pool is made, because the data is laid out by it: \
     put draid back as it was. For another shape make another pool, move the volumes over and remove this one.",
);
pub(super) const DRAID_GROUPS_KEPT: Rule = (
    draid_groups_kept!("self", "oldSelf"),
    "ZFS cannot add block devices to a draid group: put the group back as it was, and add the new devices as a group of their \
     own at the end.",
);
pub(super) const GROUPS_KEPT: Rule = (
    groups_kept!("self", "oldSelf"),
    "Data cannot be taken out of a pool group by group or device by device: keep the data groups in their order, \
     put a new block device in the place of one that is to go, and add new groups at the end.",
);
pub(super) const WRITE_CACHE_TYPE_KEPT: Rule = (
    write_cache_type_kept!("self", "oldSelf"),
    "The type of a write cache in use cannot be changed: remove writeCacheRaidGroups first, and add them again with the new type.",
);

// Of its settings.

pub(super) const DRAID_ONLY_FOR_DRAID: Rule = (
    "!has(self.draid) || self.dataRaidGroupType == 'draid'",
    "The draid settings describe draid groups: set dataRaidGroupType to draid, or remove draid.",
);
pub(super) const SPECIAL_AS_SAFE_AS_DATA: Rule = (
    "!has(self.specialGroupType) || self.specialGroupType != 'stripe' || self.dataRaidGroupType == 'stripe'",
    "Losing a special device loses the pool, so it must not be less safe than the data: set specialGroupType to mirror.",
);
pub(super) const COMPRESSION: Rule = (
    "self.matches('^(|on|off|lz4|lzjb|zle|gzip|gzip-[1-9]|zstd|zstd-([1-9]|1[0-9])|zstd-fast|\
     zstd-fast-([1-9]|10|20|30|40|50|60|70|80|90|100|500|1000))$')",
    "Unknown compression: use lz4 (the default), zstd, zstd-1 to zstd-19, zstd-fast, gzip, gzip-1 to gzip-9, zle, lzjb, on or off.",
);
pub(super) const SCRUB_SCHEDULE: Rule = (
    concat!(
        "self.matches('^(@(hourly|daily|weekly|monthly|yearly)|",
        cron_field!("[0-5]?[0-9]"),
        " +",
        cron_field!("([01]?[0-9]|2[0-3])"),
        " +",
        cron_field!("(0?[1-9]|[12][0-9]|3[01])"),
        " +",
        cron_field!("(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))"),
        " +",
        cron_field!("([0-7]|(?i:sun|mon|tue|wed|thu|fri|sat))"),
        ")$')"
    ),
    "Write the schedule as five cron fields (minute 0-59, hour 0-23, day of month 1-31, month 1-12, day of week 0-7) \
     such as '0 2 * * 0', or as @hourly, @daily, @weekly, @monthly or @yearly.",
);
