//! CStorPoolCluster and CStorPoolInstance.

use serde_json::{Value, json};

use super::{Case, Edits};

pub fn cases() -> Vec<Case> {
    let mut cases = cluster_cases();
    cases.extend(instance_cases());
    cases
}

fn devices(names: &[&str]) -> Value {
    names
        .iter()
        .map(|name| json!({ "blockDeviceName": name }))
        .collect()
}

fn groups(groups: &[&[&str]]) -> Value {
    groups
        .iter()
        .map(|group| json!({ "blockDevices": devices(group) }))
        .collect()
}

fn pool(host: &str, raid_type: &str, data: &[&[&str]]) -> Value {
    json!({
        "nodeSelector": { "kubernetes.io/hostname": host },
        "poolConfig": { "dataRaidGroupType": raid_type },
        "dataRaidGroups": groups(data),
    })
}

fn cluster() -> Value {
    json!({
        "apiVersion": "cstor.openebs.io/v1",
        "kind": "CStorPoolCluster",
        "metadata": { "name": "cspc" },
        "spec": { "pools": [
            pool("a", "mirror", &[&["a1", "a2"], &["a3", "a4"]]),
            pool("b", "mirror", &[&["b1", "b2"]]),
        ] },
    })
}

fn instance() -> Value {
    let mut spec = pool("a", "mirror", &[&["a1", "a2"], &["a3", "a4"]]);
    spec["hostName"] = json!("a");
    json!({
        "apiVersion": "cstor.openebs.io/v1",
        "kind": "CStorPoolInstance",
        "metadata": { "name": "cspi" },
        "spec": spec,
    })
}

const CSPC: &str = "CStorPoolCluster";
const CSPI: &str = "CStorPoolInstance";

/// Rules that hold for each pool alike, in a cluster and on its own: `$p` is where the pool is in the object, `$at` where it is in the
/// schema.
macro_rules! pool_cases {
    ($kind:expr, $base:expr, $p:literal, $at:literal) => {{
        let typed = |name: &'static str| (concat!($p, "/poolConfig/dataRaidGroupType"), json!(name));
        let data = |data: &[&[&str]]| (concat!($p, "/dataRaidGroups"), groups(data));
        let log = |data: &[&[&str]]| (concat!($p, "/writeCacheRaidGroups"), groups(data));
        let log_typed = |name: &'static str| (concat!($p, "/poolConfig/writeCacheGroupType"), json!(name));
        let special = |data: &[&[&str]]| (concat!($p, "/specialRaidGroups"), groups(data));
        let special_typed = |name: &'static str| (concat!($p, "/poolConfig/specialGroupType"), json!(name));
        let draid = |draid: Value| (concat!($p, "/poolConfig/draid"), draid);
        let ashift = |ashift: Value| (concat!($p, "/poolConfig/ashift"), ashift);
        let compression = |name: &str| vec![(concat!($p, "/poolConfig/compression"), json!(name))];
        let schedule = |text: &str| vec![(concat!($p, "/poolConfig/scrub"), json!({ "schedule": text }))];
        let host = |host: &str| (concat!($p, "/nodeSelector"), json!({ "kubernetes.io/hostname": host }));
        // Rules about changes stand at the list of pools in a cluster, at the pool in an instance.
        let changes_at = "spec";
        let case = |at: &'static str, says: &'static str, before: Option<Edits>, accepted: Vec<Edits>, refused: Vec<Edits>| {
            Case { kind: $kind, at, says, base: $base, before, accepted, refused }
        };
        vec![
            case(concat!($at, ".nodeSelector"), "An empty nodeSelector", None,
                vec![vec![(concat!($p, "/nodeSelector"), json!({ "disktype": "ssd", "zone": "1" }))]],
                vec![vec![(concat!($p, "/nodeSelector"), json!({}))]]),
            case($at, "A data group has too few", None,
                vec![
                    vec![typed("stripe"), data(&[&["x"]])],
                    vec![typed("mirror"), data(&[&["x", "y"], &["u", "v", "w"]])],
                    vec![typed("raidz"), data(&[&["x", "y"]])],
                    vec![typed("raidz2"), data(&[&["x", "y", "z"]])],
                    vec![typed("raidz3"), data(&[&["x", "y", "z", "w"]])],
                ],
                vec![
                    vec![typed("mirror"), data(&[&["x"]])],
                    vec![typed("mirror"), data(&[&["x", "y"], &["z"]])],
                    vec![typed("raidz"), data(&[&["x"]])],
                    vec![typed("raidz2"), data(&[&["x", "y"]])],
                    vec![typed("raidz3"), data(&[&["x", "y", "z"]])],
                ]),
            case($at, "A draid group needs", None,
                vec![
                    vec![typed("draid"), data(&[&["x", "y"]])],
                    vec![typed("draid"), data(&[&["x", "y", "z"]]), draid(json!({ "spares": 1 }))],
                    vec![typed("draid"), data(&[&["1", "2", "3", "4", "5", "6"]]), draid(json!({ "data": 3, "parity": 2, "spares": 1 }))],
                ],
                vec![
                    vec![typed("draid"), data(&[&["x"]])],
                    vec![typed("draid"), data(&[&["x", "y"]]), draid(json!({ "spares": 1 }))],
                    vec![typed("draid"), data(&[&["1", "2", "3", "4", "5"]]), draid(json!({ "data": 3, "parity": 2, "spares": 1 }))],
                ]),
            case(concat!($at, ".poolConfig"), "The draid settings describe", None,
                vec![vec![typed("draid"), draid(json!({ "parity": 1 }))]],
                vec![vec![draid(json!({ "parity": 1 }))]]),
            case($at, "ZFS has write caches as", None,
                vec![
                    vec![log(&[&["l"]]), log_typed("stripe")],
                    vec![log(&[&["l", "m"]]), log_typed("mirror")],
                    vec![log(&[]), log_typed("raidz")],
                    vec![log_typed("")],
                ],
                vec![
                    vec![log(&[&["l"]])],
                    vec![log(&[&["l"]]), log_typed("")],
                    vec![log(&[&["l", "m", "n"]]), log_typed("raidz")],
                ]),
            case($at, "A mirrored write-cache group", None,
                vec![vec![log(&[&["l", "m"]]), log_typed("mirror")], vec![log(&[&["l"]]), log_typed("stripe")]],
                vec![vec![log(&[&["l", "m"], &["n"]]), log_typed("mirror")]]),
            case($at, "Special groups need a type", None,
                vec![vec![special(&[&["s", "t"]]), special_typed("mirror")]],
                vec![vec![special(&[&["s", "t"]])]]),
            case($at, "A special group has too few", None,
                vec![
                    vec![special(&[&["s", "t"]]), special_typed("raidz")],
                    vec![special(&[&["s", "t", "u"]]), special_typed("raidz2")],
                    vec![special(&[&["s", "t", "u", "v"]]), special_typed("raidz3")],
                    vec![typed("stripe"), special(&[&["s"]]), special_typed("stripe")],
                ],
                vec![
                    vec![special(&[&["s"]]), special_typed("mirror")],
                    vec![special(&[&["s"]]), special_typed("raidz")],
                    vec![special(&[&["s", "t"]]), special_typed("raidz2")],
                    vec![special(&[&["s", "t", "u"]]), special_typed("raidz3")],
                ]),
            case(concat!($at, ".poolConfig"), "Losing a special device", None,
                vec![vec![special_typed("mirror")], vec![typed("stripe"), special_typed("stripe")]],
                vec![vec![special_typed("stripe")]]),
            case(concat!($at, ".poolConfig.compression"), "Unknown compression", None,
                ["", "on", "off", "lz4", "lzjb", "zle", "gzip", "gzip-9", "zstd", "zstd-19", "zstd-fast", "zstd-fast-1000"]
                    .map(compression).to_vec(),
                ["lz5", "gzip-0", "gzip-10", "zstd-20", "zstd-fast-11", "LZ4", "lz4 "].map(compression).to_vec()),
            case(concat!($at, ".poolConfig.scrub.schedule"), "Write the schedule", None,
                [
                    "0 2 * * 0", "*/15 0-6 1,15 JAN-MAR SUN", "@hourly", "@weekly", "@monthly", "59 23 31 12 7",
                    "00 02 01 01 0", "0-30/10,45 * * dec mon-fri",
                ].map(schedule).to_vec(),
                [
                    "", "weekly", "0 2 * *", "0 2 * * 0 0", "@reboot", "once in a while, say", "99 99 99 99 99",
                    "- / * , *", "60 0 1 1 0", "0 24 1 1 0", "0 0 0 1 0", "0 0 32 1 0", "0 0 1 0 0", "0 0 1 13 0",
                    "0 0 1 1 8", "*/0 * * * *", "1, * * * *", "1- * * * *", "0 0 1 january 0",
                ].map(schedule).to_vec()),
            case(changes_at, "The raid type of a pool", Some(vec![]),
                vec![
                    vec![typed("mirror")],
                    vec![host("moved")],
                    vec![(concat!($p, "/poolConfig/compression"), json!("zstd"))],
                ],
                vec![vec![typed("raidz")], vec![typed("stripe")]]),
            case(changes_at, "The ashift of a pool", Some(vec![ashift(json!(12))]),
                vec![vec![ashift(json!(12))]],
                vec![vec![ashift(json!(13))], vec![ashift(Value::Null)]]),
            case(changes_at, "The shape of draid groups",
                Some(vec![typed("draid"), data(&[&["x", "y", "z", "w"]]), draid(json!({ "parity": 2 }))]),
                vec![vec![data(&[&["x", "y", "z", "w"], &["p", "q", "r", "s"]])]],
                vec![vec![draid(json!({ "parity": 1 }))], vec![draid(Value::Null)]]),
            case(changes_at, "The shape of draid groups",
                Some(vec![typed("draid"), data(&[&["x", "y", "z", "w"]])]),
                vec![vec![data(&[&["x", "y", "z", "w"], &["p", "q", "r", "s"]])]],
                vec![vec![draid(json!({ "parity": 2 }))]]),
            case(changes_at, "ZFS cannot add block devices to a draid group",
                Some(vec![typed("draid"), data(&[&["x", "y", "z"], &["u", "v", "w"]])]),
                vec![
                    // A disk is replaced, a group is added, larger than the others.
                    vec![data(&[&["x", "new", "z"], &["u", "v", "w"]])],
                    vec![data(&[&["x", "y", "z"], &["u", "v", "w"], &["p", "q", "r", "s"]])],
                ],
                vec![
                    vec![data(&[&["x", "y", "z", "new"], &["u", "v", "w"]])],
                    vec![data(&[&["x", "y", "z"], &["u", "v", "w", "new"]])],
                ]),
            case(
                changes_at,
                "Data cannot be taken out",
                Some(vec![data(&[&["a1", "a2", "a0"], &["a3", "a4"]])]),
                vec![
                    // A disk is replaced, one is attached, a group is added.
                    vec![data(&[&["a1", "new", "a0"], &["a3", "a4"]])],
                    vec![data(&[&["a1", "a2", "a0"], &["a3", "a4", "new"]])],
                    vec![data(&[&["a1", "a2", "a0"], &["a3", "a4"], &["new1", "new2"]])],
                ],
                vec![
                    // A group goes, another goes, a disk goes.
                    vec![data(&[&["a1", "a2", "a0"]])],
                    vec![data(&[&["a3", "a4"]])],
                    vec![data(&[&["a1", "a2"], &["a3", "a4"]])],
                ],
            ),
            case(changes_at, "The type of a write cache in use", Some(vec![log(&[&["l", "m"]]), log_typed("mirror")]),
                vec![
                    vec![log(&[&["l", "m"], &["n", "o"]])],
                    vec![(concat!($p, "/writeCacheRaidGroups"), Value::Null), log_typed("stripe")],
                    vec![log(&[]), log_typed("")],
                ],
                vec![vec![log_typed("stripe")]]),
        ]
    }};
}

fn cluster_cases() -> Vec<Case> {
    let case = |says, accepted: Vec<Edits>, refused: Vec<Edits>| Case {
        kind: CSPC,
        at: "spec",
        says,
        base: cluster(),
        before: None,
        accepted,
        refused,
    };
    let second = |name: &str| ("/spec/pools/1/dataRaidGroups", groups(&[&["b1", name]]));
    let mut cases = pool_cases!(CSPC, cluster(), "/spec/pools/0", "spec.pools[]");
    cases.push(case(
        "A block device can be named once in a pool cluster",
        vec![
            vec![second("b9")],
            vec![
                ("/spec/pools/0/spareBlockDevices", devices(&["s1"])),
                ("/spec/pools/1/spareBlockDevices", devices(&["s2"])),
            ],
        ],
        vec![
            // In one group, in two groups, in two pools, in each of the classes.
            vec![second("b1")],
            vec![(
                "/spec/pools/0/dataRaidGroups",
                groups(&[&["a1", "a2"], &["a3", "a1"]]),
            )],
            vec![second("a1")],
            vec![("/spec/pools/0/spareBlockDevices", devices(&["a1"]))],
            vec![("/spec/pools/0/readCacheBlockDevices", devices(&["b2"]))],
            vec![("/spec/pools/0/readCacheBlockDevices", devices(&["c", "c"]))],
            vec![
                ("/spec/pools/0/writeCacheRaidGroups", groups(&[&["a1"]])),
                ("/spec/pools/0/poolConfig/writeCacheGroupType", json!("stripe")),
            ],
            vec![
                ("/spec/pools/0/specialRaidGroups", groups(&[&["s", "a1"]])),
                ("/spec/pools/0/poolConfig/specialGroupType", json!("mirror")),
            ],
        ],
    ));
    cases.push(case(
        "Two pools select the same node",
        vec![vec![(
            "/spec/pools/1/nodeSelector",
            json!({ "kubernetes.io/hostname": "c" }),
        )]],
        vec![vec![(
            "/spec/pools/1/nodeSelector",
            json!({ "kubernetes.io/hostname": "a" }),
        )]],
    ));
    cases
}

fn instance_cases() -> Vec<Case> {
    let mut cases = pool_cases!(CSPI, instance(), "/spec", "spec");
    cases.push(Case {
        kind: CSPI,
        at: "spec",
        says: "A block device can be named once in a pool",
        base: instance(),
        before: None,
        accepted: vec![vec![("/spec/spareBlockDevices", devices(&["s"]))]],
        refused: vec![
            vec![("/spec/spareBlockDevices", devices(&["a1"]))],
            vec![("/spec/dataRaidGroups", groups(&[&["a1", "a1"]]))],
        ],
    });
    cases.push(Case {
        kind: CSPI,
        at: "",
        says: "The pool of this instance exists",
        base: instance(),
        before: Some(vec![("/status", json!({ "poolGuid": "17" }))]),
        accepted: vec![
            vec![("/status/phase", json!("ONLINE"))],
            vec![("/spec/hostName", json!("b"))],
        ],
        refused: vec![
            vec![("/status/poolGuid", json!("18"))],
            vec![("/status/poolGuid", Value::Null)],
            vec![("/status", Value::Null)],
        ],
    });
    cases
}
