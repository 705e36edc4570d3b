//! The agent's disks as a person sees them: BlockDevice objects of real disks that come, go, change and misbehave.

use std::time::Duration;

use cstor_api::names::phase::{BlockDeviceClaimState, BlockDeviceState};
use cstor_api::names::{annotation, condition, label, reason};
use cstor_api::openebs::{BlockDevice, BlockDeviceClaim};
use cstor_harness::cluster::Cluster;
use cstor_harness::deploy::AgentSetup;
use cstor_harness::disk::Bus;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Client, ResourceExt as _};
use serde_json::json;

const NAMESPACE: &str = "openebs";

/// How long a change may take to be told, on an emulated node that shares two processors with two others. What a person
/// is promised is seconds.
const TOLD_WITHIN: Duration = Duration::from_secs(120);

pub(crate) struct Objects {
    pub(crate) devices: Api<BlockDevice>,
    claims: Api<BlockDeviceClaim>,
}

impl Objects {
    pub(crate) fn new(client: &Client) -> Self {
        Self {
            devices: Api::namespaced(client.clone(), NAMESPACE),
            claims: Api::namespaced(client.clone(), NAMESPACE),
        }
    }

    /// Waits until the object says something.
    pub(crate) async fn until(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&BlockDevice) -> bool,
    ) -> BlockDevice {
        let told = await_condition(self.devices.clone(), name, |object: Option<&BlockDevice>| {
            object.is_some_and(&holds)
        });
        match tokio::time::timeout(TOLD_WITHIN, told).await {
            Ok(object) => object.unwrap().unwrap(),
            Err(_) => {
                let object = self.devices.get_opt(name).await.unwrap();
                panic!(
                    "{name} never was {what}: {}",
                    serde_json::to_string_pretty(&object).unwrap()
                );
            }
        }
    }

    /// Waits until there is an object of a disk with this serial number and a blank face, and returns its name.
    pub(crate) async fn blank(&self, serial: &str) -> String {
        let name = self
            .named(|object| serial_of(object) == Some(serial), serial)
            .await;
        // With the last write done, the agent's and the controller's: what is said is about what is there.
        self.until(&name, "blank", |object| {
            let looked_at = object
                .status
                .as_ref()
                .and_then(|status| status.observed_generation);
            says(object, condition::BLANK, reason::NOTHING_FOUND)
                && looked_at == object.metadata.generation
                && is_told_whether_claimed(object)
        })
        .await;
        name
    }

    /// Waits until there is an object like this, and returns its name.
    pub(crate) async fn named(&self, fits: impl Fn(&BlockDevice) -> bool, what: &str) -> String {
        use futures::{StreamExt as _, TryStreamExt as _};
        let events = kube::runtime::watcher(self.devices.clone(), kube::runtime::watcher::Config::default());
        let mut events = kube::runtime::WatchStreamExt::applied_objects(events).boxed();
        let found = async {
            while let Some(object) = events.try_next().await.unwrap() {
                if fits(&object) {
                    return object.name_any();
                }
            }
            panic!("the watch ended");
        };
        let found = tokio::time::timeout(TOLD_WITHIN, found).await;
        found.unwrap_or_else(|_| panic!("there never was an object of {what}"))
    }

    async fn all(&self) -> Vec<BlockDevice> {
        self.devices.list(&ListParams::default()).await.unwrap().items
    }

    async fn annotate(&self, name: &str, key: &str, value: &str) {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.devices
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    async fn claim(&self, name: &str, size: &str) {
        let claim = json!({
            "apiVersion": "openebs.io/v1alpha1",
            "kind": "BlockDeviceClaim",
            "metadata": { "name": name },
            "spec": { "resources": { "requests": { "storage": size } }, "deviceType": "", "hostName": "" },
        });
        let claim = serde_json::from_value(claim).unwrap();
        self.claims.create(&PostParams::default(), &claim).await.unwrap();
    }
}

pub(crate) fn serial_of(object: &BlockDevice) -> Option<&str> {
    object.spec.details.as_ref()?.serial.as_deref()
}

pub(crate) fn says(object: &BlockDevice, kind: &str, why: &str) -> bool {
    let conditions = object
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == kind && condition.reason.as_deref() == Some(why))
}

/// Whether the request to wipe was answered so, and is gone.
fn refused(why: &'static str) -> impl Fn(&BlockDevice) -> bool {
    move |object| says(object, condition::WIPED, why) && !object.annotations().contains_key(annotation::WIPE)
}

/// Whether the controller has said if the disk is claimed. It does so on its own, some time after the agent's last word.
pub(crate) fn is_told_whether_claimed(object: &BlockDevice) -> bool {
    let status = object.status.as_ref();
    status.is_some_and(|status| status.claim_state.is_some())
}

pub(crate) fn state(object: &BlockDevice) -> Option<BlockDeviceState> {
    object.status.as_ref()?.state.clone()
}

fn is(wanted: BlockDeviceState) -> impl Fn(&BlockDevice) -> bool {
    move |object| state(object) == Some(wanted.clone())
}

fn version(object: &BlockDevice) -> String {
    object.resource_version().unwrap()
}

#[tokio::test]
async fn a_disk_appears_is_used_grows_goes_and_comes_back() {
    let mut cluster = Cluster::start("published", 1).await.unwrap();
    let installation = cluster.install().await.unwrap();
    let objects = Objects::new(&installation.client().await.unwrap());
    let node = cluster.node(0);

    // Appears, of both kinds; the disk of the system does not.
    let disk = node.plug_disk("1Gi", "first").await.unwrap();
    node.plug_nvme("1Gi", "bystander").await.unwrap();
    let name = objects.blank("first").await;
    let bystander = objects.blank("bystander").await;
    let object = objects.devices.get(&name).await.unwrap();
    assert_eq!(object.spec.capacity.storage, 1 << 30);
    assert_eq!(object.spec.identity.as_ref().unwrap().value, "first");
    assert_eq!(state(&object), Some(BlockDeviceState::Active));
    assert_eq!(object.labels()[label::HOSTNAME], "node-1");
    let links = serde_json::to_string(&object.spec.devlinks).unwrap();
    assert!(links.contains(&disk.link()), "{links}");
    assert_eq!(
        objects.all().await.len(),
        2,
        "the disk of the system is nobody's business"
    );
    let untouched = version(&objects.devices.get(&bystander).await.unwrap());

    // A file system, mounted and not, keeps it from being wiped or not; a wipe must name the disk.
    node.sh(&format!("mkfs.ext4 -q {0}; mount {0} /mnt", disk.link()))
        .await
        .unwrap();
    let mounted = |object: &BlockDevice| {
        says(object, condition::BLANK, reason::MOUNTED)
            && object
                .spec
                .filesystem
                .as_ref()
                .and_then(|found| found.mount_point.as_deref())
                == Some("/mnt")
    };
    objects.until(&name, "mounted", mounted).await;
    objects.annotate(&name, annotation::WIPE, "first").await;
    objects
        .until(&name, "refused for being mounted", refused(reason::MOUNTED))
        .await;
    objects.annotate(&name, annotation::WIPE, "another").await;
    objects
        .until(&name, "refused", refused(reason::WRONG_IDENTITY))
        .await;
    node.sh("umount /mnt").await.unwrap();
    let with_file_system = objects
        .until(&name, "with a file system", |object| {
            says(object, condition::BLANK, reason::FILE_SYSTEM)
        })
        .await;
    assert_eq!(
        with_file_system.spec.filesystem.unwrap().fs_type.as_deref(),
        Some("ext4")
    );
    objects.annotate(&name, annotation::WIPE, "first").await;
    let wiped = |object: &BlockDevice| {
        says(object, condition::WIPED, reason::WIPE_DONE)
            && says(object, condition::BLANK, reason::NOTHING_FOUND)
            && !object.annotations().contains_key(annotation::WIPE)
    };
    objects.until(&name, "wiped", wiped).await;

    // Somebody's pool: held while it is imported, foreign afterwards, and never wiped by itself.
    node.sh(&format!("zpool create -o cachefile=none tank {}", disk.link()))
        .await
        .unwrap();
    objects
        .until(&name, "in a foreign pool", |object| {
            says(object, condition::BLANK, reason::FOREIGN_POOL)
        })
        .await;
    objects.annotate(&name, annotation::WIPE, "first").await;
    objects
        .until(&name, "held by a pool", refused(reason::HELD))
        .await;
    node.sh("zpool export tank").await.unwrap();
    objects.annotate(&name, annotation::WIPE, "first").await;
    objects.until(&name, "wiped after the pool let go", wiped).await;
    let left = node
        .sh(&format!("lsblk --noheadings {}", disk.link()))
        .await
        .unwrap();
    assert_eq!(left.lines().count(), 1, "no partition is left: {left}");

    // Grows.
    node.grow(&disk, "2Gi").await.unwrap();
    objects
        .until(&name, "larger", |object| object.spec.capacity.storage == 2 << 30)
        .await;

    // Goes and comes back.
    node.pull(&disk).await.unwrap();
    objects.until(&name, "gone", is(BlockDeviceState::Inactive)).await;
    let disk = node.plug_again(disk).await.unwrap();
    objects.until(&name, "back", is(BlockDeviceState::Active)).await;

    // Another disk says it is the same.
    let twin = node.plug_odd(Bus::Virtio, "1Gi", "first").await.unwrap();
    objects
        .until(&name, "quarantined", |object| {
            says(object, condition::QUARANTINED, reason::DUPLICATE_IDENTITY)
                && state(object) == Some(BlockDeviceState::Unknown)
        })
        .await;
    node.pull(&twin).await.unwrap();
    objects
        .until(&name, "free again", |object| {
            says(object, condition::QUARANTINED, reason::UNIQUE_IDENTITY)
                && state(object) == Some(BlockDeviceState::Active)
        })
        .await;

    // One that says nothing is listed with the reason, and goes with the disk.
    let nameless = node.plug_odd(Bus::Virtio, "1Gi", "").await.unwrap();
    let unidentified = |object: &BlockDevice| object.labels().contains_key(label::BLOCK_DEVICE_UNIDENTIFIED);
    let listed = objects.named(unidentified, "a disk without identity").await;
    objects
        .until(&listed, "told why", |object| {
            says(object, condition::IDENTIFIED, reason::NO_IDENTITY)
        })
        .await;
    node.pull(&nameless).await.unwrap();
    let gone = await_condition(
        objects.devices.clone(),
        &listed,
        |object: Option<&BlockDevice>| object.is_none(),
    );
    tokio::time::timeout(TOLD_WITHIN, gone).await.unwrap().unwrap();

    assert_eq!(
        version(&objects.devices.get(&bystander).await.unwrap()),
        untouched,
        "the other disk was never written"
    );
    drop(disk);
}

#[tokio::test]
async fn identities_stay_over_a_reboot_in_another_order() {
    let mut cluster = Cluster::start("reordered", 1).await.unwrap();
    let installation = cluster.install().await.unwrap();
    let objects = Objects::new(&installation.client().await.unwrap());
    let node = cluster.node(0);
    node.plug_disk("1Gi", "one").await.unwrap();
    let marked = node.plug_disk("1Gi", "two").await.unwrap();
    node.plug_nvme("1Gi", "three").await.unwrap();
    node.plug_nvme("1Gi", "four").await.unwrap();
    let mut before = Vec::new();
    for serial in ["one", "two", "three", "four"] {
        let name = objects.blank(serial).await;
        before.push(objects.devices.get(&name).await.unwrap());
    }
    // What is on a disk is no part of who it is, either.
    node.sh(&format!("mkfs.ext4 -q {}; sync", marked.link()))
        .await
        .unwrap();

    node.power_cut().await.unwrap();
    node.reverse_order().unwrap();
    node.boot().await.unwrap();
    installation.await_agent(node).await.unwrap();
    let mut moved = 0;
    for old in &before {
        let serial = serial_of(old).unwrap();
        let kernel = node
            .sh(&format!("readlink -f /dev/disk/by-id/*{serial}* | sort -u"))
            .await
            .unwrap();
        let paths: Vec<_> = kernel.lines().collect();
        let now = objects
            .until(&old.name_any(), "at its new path", |object| {
                paths.contains(&object.spec.path.as_str()) && state(object) == Some(BlockDeviceState::Active)
            })
            .await;
        assert_eq!(
            (now.uid(), now.spec.identity.clone()),
            (old.uid(), old.spec.identity.clone())
        );
        assert_eq!(serial_of(&now), Some(serial));
        moved += usize::from(now.spec.path != old.spec.path);
    }
    assert!(moved >= 2, "the order has changed");
    assert_eq!(objects.all().await.len(), 4, "no disk has two objects");
}

#[tokio::test]
async fn a_disk_that_hangs_delays_nobody() {
    let mut cluster = Cluster::start("hangs", 1).await.unwrap();
    let installation = cluster.install_manifests().await.unwrap();
    let objects = Objects::new(&installation.client().await.unwrap());
    let node = cluster.node(0);
    // A disk that stops answering is made by the device mapper, which the default configuration leaves out.
    let config = "filterconfigs:\n  - key: path-filter\n    state: true\n    exclude: /dev/loop,/dev/zd\n";
    let setup = AgentSetup {
        arguments: vec![
            "--disk-config=/etc/cstor/disks.yaml".into(),
            "--rescan-seconds=10".into(),
        ],
        files: vec![("/etc/cstor/disks.yaml".into(), config.into())],
    };
    let under = node.plug_disk("1Gi", "under").await.unwrap();
    node.plug_disk("1Gi", "beside").await.unwrap();
    let sectors = (1_u64 << 30) / 512;
    node.sh(&format!(
        "dmsetup create hangs --uuid LVM-hangs --table '0 {sectors} linear {} 0'",
        under.link()
    ))
    .await
    .unwrap();
    // The root file system cannot be written, as in a container.
    node.write_file(
        "/etc/systemd/system/cstor-agent.service.d/read-only.conf",
        "0644",
        b"[Service]\nReadOnlyPaths=/\n".to_vec(),
    )
    .await
    .unwrap();
    installation.start_controller().await.unwrap();
    installation.start_agent(node, &setup).await.unwrap();
    installation.await_agent(node).await.unwrap();
    let beside = objects.blank("beside").await;
    let mapped = |object: &BlockDevice| {
        object
            .spec
            .identity
            .as_ref()
            .is_some_and(|id| id.value == "LVM-hangs")
    };
    let name = objects.named(mapped, "the mapped disk").await;
    objects.until(&name, "there", is(BlockDeviceState::Active)).await;
    let held = objects
        .named(|object| serial_of(object) == Some("under"), "the disk under it")
        .await;
    objects
        .until(&held, "held", |object| {
            says(object, condition::BLANK, reason::HELD)
        })
        .await;

    node.sh("dmsetup suspend --nolockfs --noflush hangs; sync; echo 1 > /proc/sys/vm/drop_caches")
        .await
        .unwrap();
    objects
        .until(&name, "silent", |object| {
            says(object, condition::PRESENT, reason::NOT_RESPONDING)
                && state(object) == Some(BlockDeviceState::Unknown)
        })
        .await;
    // Others come and are told meanwhile, and without udevd too.
    node.sh("systemctl stop systemd-udevd.service systemd-udevd-kernel.socket systemd-udevd-control.socket")
        .await
        .unwrap();
    node.plug_unawaited(Bus::Virtio, "1Gi", "newcomer").await.unwrap();
    let newcomer = objects.blank("newcomer").await;
    node.sh("systemctl start systemd-udevd.service; udevadm trigger --action=add --subsystem-match=block; udevadm settle || true")
        .await
        .unwrap();
    assert_eq!(
        objects.blank("newcomer").await,
        newcomer,
        "with udev it is the same disk"
    );
    let stuck = node
        .sh("pgrep --exact --list-full wipefs | grep --count --word-regexp \"$(readlink -f /dev/mapper/hangs)\" || true")
        .await
        .unwrap();
    assert!(
        stuck.trim().parse::<u32>().unwrap() <= 1,
        "one process waits for it at most: {stuck}"
    );
    assert_eq!(
        state(&objects.devices.get(&beside).await.unwrap()),
        Some(BlockDeviceState::Active)
    );

    node.sh("dmsetup resume hangs").await.unwrap();
    objects.until(&name, "back", is(BlockDeviceState::Active)).await;
}

#[tokio::test]
async fn a_claimed_disk_stays_one_disk() {
    let mut cluster = Cluster::start("claimed", 1).await.unwrap();
    let installation = cluster.install().await.unwrap();
    let objects = Objects::new(&installation.client().await.unwrap());
    let node = cluster.node(0);
    let disk = node.plug_disk("1Gi", "small").await.unwrap();
    node.plug_disk("2Gi", "large").await.unwrap();
    let small = objects.blank("small").await;
    let large = objects.blank("large").await;

    objects.claim("data", "512Mi").await;
    let claimed = |object: &BlockDevice| {
        let status = object
            .status
            .as_ref()
            .and_then(|status| status.claim_state.clone());
        object.spec.claim_ref.is_some() && status == Some(BlockDeviceClaimState::Claimed)
    };
    objects
        .until(&small, "claimed, being the smallest that fits", claimed)
        .await;

    // Partitions on it are part of it. On a disk that is nobody's they are disks of their own.
    node.sh(&format!(
        "echo ,256M,L | sfdisk -q {}; udevadm settle",
        disk.link()
    ))
    .await
    .unwrap();
    objects
        .until(&small, "partitioned", |object| {
            says(object, condition::BLANK, reason::PARTITIONED)
        })
        .await;
    node.sh("echo ,256M,L | sfdisk -q /dev/disk/by-id/virtio-large; udevadm settle")
        .await
        .unwrap();
    let part = objects
        .named(
            |object| object.spec.parent_device.is_some(),
            "a partition of the large disk",
        )
        .await;
    let object = objects.devices.get(&part).await.unwrap();
    assert!(object.spec.identity.unwrap().value.contains("large"));
    assert_eq!(objects.all().await.len(), 3);

    // A wipe is refused while it is claimed, and releasing wipes nothing.
    objects.annotate(&small, annotation::WIPE, "small").await;
    objects
        .until(&small, "refused for the claim", refused(reason::CLAIMED))
        .await;
    objects.claims.delete("data", &Default::default()).await.unwrap();
    let released = |object: &BlockDevice| {
        let status = object
            .status
            .as_ref()
            .and_then(|status| status.claim_state.clone());
        object.spec.claim_ref.is_none() && status == Some(BlockDeviceClaimState::Released)
    };
    let object = objects.until(&small, "released", released).await;
    assert!(
        says(&object, condition::BLANK, reason::PARTITIONED),
        "and not wiped"
    );
    objects.annotate(&small, annotation::WIPE, "small").await;
    objects
        .until(&small, "blank and nobody's", |object| {
            let status = object
                .status
                .as_ref()
                .and_then(|status| status.claim_state.clone());
            says(object, condition::BLANK, reason::NOTHING_FOUND)
                && status == Some(BlockDeviceClaimState::Unclaimed)
        })
        .await;
    drop(large);
}

#[tokio::test]
async fn a_disk_moves_from_node_to_node_and_never_is_on_two() {
    let mut cluster = Cluster::start("moved", 2).await.unwrap();
    let installation = cluster.install().await.unwrap();
    let objects = Objects::new(&installation.client().await.unwrap());
    let disk = cluster.node(0).plug_disk("1Gi", "wanderer").await.unwrap();
    let name = objects.blank("wanderer").await;
    let uid = objects.devices.get(&name).await.unwrap().uid();

    cluster.node(0).pull(&disk).await.unwrap();
    let disk = cluster.node(1).plug_again(disk).await.unwrap();
    let on = |node: &'static str| {
        move |object: &BlockDevice| {
            let named = object
                .spec
                .node_attributes
                .as_ref()
                .and_then(|node| node.node_name.as_deref());
            named == Some(node) && state(object) == Some(BlockDeviceState::Active)
        }
    };
    let object = objects.until(&name, "on the other node", on("node-2")).await;
    assert_eq!(object.uid(), uid, "it is the same object");
    assert_eq!(object.labels()[label::HOSTNAME], "node-2");

    // A second disk of that serial number, on the first node: neither is offered.
    let twin = cluster
        .node(0)
        .plug_odd(Bus::Virtio, "1Gi", "wanderer")
        .await
        .unwrap();
    objects
        .until(&name, "quarantined", |object| {
            says(object, condition::QUARANTINED, reason::DUPLICATE_IDENTITY)
        })
        .await;
    cluster.node(0).pull(&twin).await.unwrap();
    objects
        .until(&name, "free again", |object| {
            says(object, condition::QUARANTINED, reason::UNIQUE_IDENTITY) && on("node-2")(object)
        })
        .await;

    // Its node falls silent: nobody can tell, and nobody says it is gone.
    cluster.node(1).power_cut().await.unwrap();
    objects
        .until(&name, "not known", |object| {
            says(object, condition::PRESENT, reason::AGENT_SILENT)
                && state(object) == Some(BlockDeviceState::Unknown)
        })
        .await;
    cluster.node(1).boot().await.unwrap();
    objects.until(&name, "back", on("node-2")).await;

    // Its node dies, and the disk is carried to the other before anybody knows.
    cluster.node(1).power_cut().await.unwrap();
    cluster.node(1).pull(&disk).await.unwrap();
    let disk = cluster.node(0).plug_again(disk).await.unwrap();
    let object = objects
        .until(&name, "taken over from the dead node", on("node-1"))
        .await;
    assert_eq!(object.uid(), uid, "it is the same object");
    objects
        .until(&name, "without marks", |object| {
            let mut labels = object.labels().keys();
            !labels.any(|key| key.starts_with(label::ALSO_ON_PREFIX)) && on("node-1")(object)
        })
        .await;
    assert_eq!(objects.all().await.len(), 1, "and has no twin");
    drop(disk);
}
