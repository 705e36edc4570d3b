mod keeping;
mod making;
mod properties;
mod removing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cstor_api::cstor::{CStorPoolInstance, CStorPoolInstanceStatus, PoolCreation, VdevStatus};
use cstor_api::names::phase::PoolPhase;
use cstor_api::names::property;
use cstor_blockdev::contents::{Contents, Probe};
use cstor_blockdev::ownership::Records;
use cstor_zfs::{
    Dataset, DatasetKind, Guid, Label, PoolName, PoolStatus, PoolSummary, Source, State, Value, Vdev,
    VdevClass, VdevKind,
};
use serde_json::json;

use super::*;
use crate::disk::fixtures::{blank, found, holds, now, object, view, virtio};
use crate::disk::matches::Matched;
use crate::disk::whose::records;

const UID: &str = "590ae35f-0273-42e7-bffa-564b9e722a96";
const COMMENT: &str = "590ae35f027342e7bffa564b9e722a96";
const POOL: u64 = 7_009_408_199_316_575_597;

/// What is on a disk.
#[derive(Debug, Clone)]
enum On {
    Nothing,
    FileSystem,
    Silence,
    Label(Label),
}

/// A node with disks, an instance, and what ZFS says.
#[derive(Debug, Clone)]
struct Case {
    disks: Vec<(String, On)>,
    kind: &'static str,
    groups: Vec<Vec<String>>,
    spares: Vec<String>,
    status: CStorPoolInstanceStatus,
    annotations: BTreeMap<String, String>,
    deleted: bool,
    pools: Vec<PoolSummary>,
    ours: Option<Imported>,
    other_nodes: BTreeSet<String>,
    replicas: Vec<String>,
    /// Seconds since the agent began.
    age: i64,
}

/// The serial number of a disk: one that is long enough to be believed.
fn hardware(serial: &str) -> String {
    format!("serial-{serial}")
}

fn bd(serial: &str) -> String {
    let view = view([found(virtio("vdz", &hardware(serial)), blank())]);
    crate::disk::fixtures::only(&view).object_name.clone()
}

/// The label of a device of our pool.
fn label(vdev_guid: u64) -> Label {
    Label {
        pool_name: Some(format!("cstor-{UID}")),
        pool_guid: Some(POOL),
        vdev_guid,
        comment: Some(COMMENT.into()),
        state: 0,
        txg: 42,
        hostname: Some("node-1".into()),
        hostid: Some(7),
    }
}

impl Case {
    /// Blank disks, and a mirror of the first two of them.
    fn new(serials: &[&str]) -> Self {
        let first: Vec<String> = serials
            .iter()
            .take(2)
            .map(|serial| (*serial).to_owned())
            .collect();
        Self {
            disks: serials
                .iter()
                .map(|serial| ((*serial).to_owned(), On::Nothing))
                .collect(),
            kind: "mirror",
            groups: vec![first],
            spares: Vec::new(),
            status: CStorPoolInstanceStatus::default(),
            annotations: BTreeMap::new(),
            deleted: false,
            pools: Vec::new(),
            ours: None,
            other_nodes: BTreeSet::new(),
            replicas: Vec::new(),
            age: 3600,
        }
    }

    /// The same with its pool made and imported: the devices of the groups have the GUIDs 11, 12 and so on.
    fn online(serials: &[&str]) -> Self {
        let mut case = Self::new(serials);
        case.status.pool_guid = Some(POOL.to_string());
        case.status.phase = Some(PoolPhase::Online);
        case.put(0, On::Label(label(11)));
        case.put(1, On::Label(label(12)));
        let children = vec![device(11, State::Online), device(12, State::Online)];
        case.import(vec![group(VdevKind::Mirror, 10, children)]);
        case.status.vdevs = Some(vec![recorded(11, serials[0]), recorded(12, serials[1])]);
        case
    }

    fn put(&mut self, disk: usize, on: On) {
        self.disks[disk].1 = on;
    }

    fn import(&mut self, vdevs: Vec<Vdev>) {
        let name = PoolName::new(format!("cstor-{UID}")).unwrap();
        let devices = || vdevs.iter().flat_map(Vdev::all).filter(|vdev| vdev.is_device());
        let well = [State::Online, State::Available, State::InUse];
        let state = match devices().all(|device| well.contains(&device.state)) {
            true => State::Online,
            false => State::Degraded,
        };
        self.pools = vec![PoolSummary {
            name: name.clone(),
            guid: Guid(POOL),
            state,
        }];
        let root = [
            ("used", "100", Source::None),
            ("available", "900", Source::None),
            ("logicalused", "90", Source::None),
            ("refreservation", "10", Source::Local),
            ("compression", "lz4", Source::Local),
            (property::POOL_INSTANCE_UID, UID, Source::Local),
            (property::POOL_INSTANCE_NAME, "openebs/pool", Source::Local),
        ];
        let root = root.map(|(name, text, source)| {
            let text = text.to_owned();
            (name.to_owned(), Value { text, source })
        });
        self.ours = Some(Imported {
            status: PoolStatus {
                name: name.clone(),
                guid: Guid(POOL),
                state,
                status: None,
                action: None,
                message_id: None,
                scan: None,
                expansion: None,
                vdevs,
                data_errors: 0,
            },
            properties: [
                ("comment".to_owned(), COMMENT.to_owned()),
                ("size".to_owned(), "1000".to_owned()),
            ]
            .into(),
            root: Some(Dataset {
                name: name.to_string(),
                kind: DatasetKind::FileSystem,
                properties: root.into(),
            }),
            datasets: Vec::new(),
        });
    }

    fn pool(&mut self) -> &mut Imported {
        self.ours.as_mut().unwrap()
    }

    fn instance(&self) -> CStorPoolInstance {
        let named = |serials: &[String]| -> serde_json::Value {
            serials
                .iter()
                .map(|serial| json!({ "blockDeviceName": bd(serial) }))
                .collect()
        };
        let groups: serde_json::Value = self
            .groups
            .iter()
            .map(|group| json!({ "blockDevices": named(group) }))
            .collect();
        let mut instance: CStorPoolInstance = serde_json::from_value(json!({
            "apiVersion": "cstor.openebs.io/v1",
            "kind": "CStorPoolInstance",
            "metadata": {
                "name": "pool", "namespace": "openebs", "uid": UID, "generation": 3,
                "creationTimestamp": now().to_string(),
                "annotations": self.annotations,
            },
            "spec": {
                "hostName": "node-1",
                "nodeSelector": { "kubernetes.io/hostname": "node-1" },
                "poolConfig": { "dataRaidGroupType": self.kind },
                "dataRaidGroups": groups,
                "spareBlockDevices": named(&self.spares),
            },
        }))
        .unwrap();
        instance.status = Some(self.status.clone());
        if self.deleted {
            instance.metadata.deletion_timestamp =
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
        }
        instance
    }

    fn observed(&self) -> Observed {
        let names = ('b'..='z').map(|letter| format!("vd{letter}"));
        let disks: Vec<_> = self
            .disks
            .iter()
            .zip(names)
            .map(|((serial, on), name)| {
                let probe = match on {
                    On::Nothing => blank(),
                    On::FileSystem => holds("ext4"),
                    On::Silence => Probe::NotResponding,
                    On::Label(label) => Probe::Read(Contents {
                        zfs: Some(label.clone()),
                        zfs_written: label.txg > 0,
                        ..holds_zfs()
                    }),
                };
                found(virtio(&name, &hardware(serial)), probe)
            })
            .collect();
        let devices: Vec<_> = disks.iter().map(|found| found.device.clone()).collect();
        let view = view(disks);
        let objects = view
            .disks
            .values()
            .map(|disk| (disk.object_name.clone(), Arc::new(object(disk))));
        let instance = self.instance();
        Observed {
            uid: UID.parse().unwrap(),
            node: "node-1".into(),
            host_id: Some(7),
            devices: objects.collect(),
            claims: BTreeMap::new(),
            records: records(&[Arc::new(instance.clone())]),
            object: instance,
            matched: Arc::new(Matched::examined(&devices)),
            view: Some(view),
            our_volumes: BTreeSet::new(),
            zfs: Ok(PoolsSeen {
                all: self.pools.clone(),
                ours: self.ours.clone().map(Ok),
            }),
            other_nodes: self.other_nodes.clone(),
            replicas: self.replicas.clone(),
            failure: None,
            began: Timestamp::from_second(now().as_second() - self.age).unwrap(),
            now: now(),
        }
    }

    fn decide(&self) -> Decided {
        decide(&self.observed())
    }

    fn steps(&self) -> Vec<PoolStep> {
        self.decide().steps
    }

    /// The one step that is decided.
    fn step(&self) -> PoolStep {
        let mut steps = self.steps();
        assert_eq!(steps.len(), 1, "{steps:?}");
        steps.remove(0)
    }

    /// Status and reason of a condition, and its message.
    fn says(&self, kind: &str) -> (String, String, String) {
        let status = self.decide().report.status.unwrap();
        let conditions = status.conditions.unwrap_or_default();
        let found = conditions.into_iter().find(|condition| condition.type_ == kind);
        let found = found.unwrap_or_else(|| panic!("nothing is said of {kind}"));
        (
            found.status.to_string(),
            found.reason.unwrap_or_default(),
            found.message.unwrap_or_default(),
        )
    }

    /// What was decided is done to the status.
    fn recorded(mut self) -> Self {
        self.status = self.decide().report.status.unwrap();
        self
    }
}

fn holds_zfs() -> Contents {
    match holds("zfs_member") {
        Probe::Read(contents) => contents,
        _ => Contents::default(),
    }
}

fn device(guid: u64, state: State) -> Vdev {
    vdev(VdevKind::Disk, guid, state, Vec::new())
}

fn group(kind: VdevKind, guid: u64, children: Vec<Vdev>) -> Vdev {
    vdev(kind, guid, State::Online, children)
}

fn vdev(kind: VdevKind, guid: u64, state: State, children: Vec<Vdev>) -> Vdev {
    Vdev {
        name: format!("vdev-{guid}"),
        kind,
        class: VdevClass::Data,
        guid: Guid(guid),
        path: Some(format!("/dev/disk/by-id/{guid}").into()),
        state,
        why: None,
        not_present: false,
        read_errors: 0,
        write_errors: 0,
        checksum_errors: 0,
        slow_ios: 0,
        expandable: 0,
        size: 0,
        allocated: 0,
        children,
    }
}

fn recorded(guid: u64, serial: &str) -> VdevStatus {
    serde_json::from_value(json!({
        "name": serial, "type": "disk", "class": "data", "guid": guid.to_string(),
        "blockDeviceName": bd(serial), "state": "ONLINE",
    }))
    .unwrap()
}

fn creation(serials: &[&str]) -> PoolCreation {
    PoolCreation {
        devices: serials.iter().map(|serial| hardware(serial)).collect(),
        started_at: now().into(),
    }
}

#[test]
fn one_that_is_not_to_be_touched_is_not() {
    let mut case = Case::new(&["a", "b"]);
    case.annotations
        .insert(annotation::RECONCILE_DISABLED.to_owned(), "true".to_owned());
    assert_eq!(case.decide(), Decided::nothing());
    let mut seen = Case::new(&["a", "b"]).observed();
    seen.view = None;
    assert_eq!(decide(&seen), Decided::nothing());
}

#[test]
fn what_zfs_does_not_tell_is_unknown_and_nothing_follows() {
    let hang = cstor_zfs::Error::TimedOut {
        doing: "look at the pool".into(),
        after: Duration::from_secs(20),
    };
    for deleted in [false, true] {
        let mut case = Case::online(&["a", "b"]);
        case.deleted = deleted;
        let mut seen = case.observed();
        seen.zfs = Err(hang.clone());
        let whole = decide(&seen);
        seen.zfs = Ok(PoolsSeen {
            all: case.pools.clone(),
            ours: Some(Err(hang.clone())),
        });
        for decided in [whole, decide(&seen)] {
            assert_eq!(decided.steps, []);
            assert_eq!(decided.hold, cstor_reconcile::Hold::Keep);
            let status = decided.report.status.unwrap();
            assert_eq!(status.phase, Some(PoolPhase::Online));
            let ready = &status.conditions.unwrap()[0];
            assert_eq!(ready.status.as_str(), "Unknown");
            assert_eq!(ready.reason.as_deref(), Some(reason::POOL_HANGS));
        }
    }
}

#[test]
fn records_are_what_the_instance_says() {
    // The fixtures are only worth something if ownership sees the disks of the pool as ours.
    let case = Case::online(&["a", "b"]);
    let seen = case.observed();
    assert_ne!(seen.records, Records::default());
}
