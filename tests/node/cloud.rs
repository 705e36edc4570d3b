//! A test cloud: VolumeAttachments in a real API server, and disks that are plugged into real nodes with the names that
//! each driver's disks have. Which disk an attachment brought is read from the objects, as a person reads it.
//!
//! QEMU's disks say what the rows compare, with these exceptions: a World Wide Name of QEMU has 64 bits, so those of vSphere
//! and Cinder are half as long as real ones; and what udev makes known of GCE's NVMe disks, Azure's units and iSCSI targets
//! is made known by rules of our own, since the programs of those clouds are not here. NVMe disks with a model or an id are
//! namespaces of a target on the node itself, and so on a network. Not imitated are Xen's disks and RBD images, whose
//! rows prove nothing, and Azure's units on a machine with many SCSI hosts (`azure-scsi-lun`; here there is one host, and so
//! `azure-scsi-lun-link`): those the tests of the table show alone.

mod rows;
mod traps;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cstor_api::dao::Storage;
use cstor_api::names::phase::BlockDeviceState;
use cstor_api::names::{annotation, condition, reason};
use cstor_api::openebs::BlockDevice;
use cstor_api::{Condition, ConditionStatus};
use cstor_harness::disk::{Bus, Disk};
use cstor_harness::node::Node;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

const NAMESPACE: &str = "openebs";

/// How long a change may take to be told, on emulated nodes that share two processors.
const TOLD_WITHIN: Duration = Duration::from_secs(180);

/// A volume of the cloud.
#[derive(Clone)]
struct Volume {
    name: String,
    driver: String,
    handle: String,
    size: &'static str,
    mode: &'static str,
    attributes: BTreeMap<String, String>,
    /// What the driver says when it has attached it.
    metadata: BTreeMap<String, String>,
}

impl Volume {
    fn new(name: &str, driver: &str, handle: &str) -> Self {
        Self {
            name: name.to_owned(),
            driver: driver.to_owned(),
            handle: handle.to_owned(),
            size: "1Gi",
            mode: "Filesystem",
            attributes: BTreeMap::new(),
            metadata: BTreeMap::new(),
        }
    }

    fn metadata(mut self, key: &str, value: &str) -> Self {
        self.metadata.insert(key.to_owned(), value.to_owned());
        self
    }

    fn attribute(mut self, key: &str, value: &str) -> Self {
        self.attributes.insert(key.to_owned(), value.to_owned());
        self
    }

    fn block(mut self) -> Self {
        self.mode = "Block";
        self
    }

    fn size(mut self, size: &'static str) -> Self {
        self.size = size;
        self
    }
}

/// Where the volumes are.
struct Cloud {
    volumes: Api<PersistentVolume>,
    attachments: Api<VolumeAttachment>,
    devices: Api<BlockDevice>,
    storages: Api<Storage>,
    /// The BlockDevices that were blank at some time.
    offered: Arc<Mutex<BTreeSet<String>>>,
}

impl Cloud {
    fn new(client: &Client) -> Self {
        let cloud = Self {
            volumes: Api::all(client.clone()),
            attachments: Api::all(client.clone()),
            devices: Api::namespaced(client.clone(), NAMESPACE),
            storages: Api::namespaced(client.clone(), NAMESPACE),
            offered: Arc::default(),
        };
        let offered = Arc::clone(&cloud.offered);
        let mut objects = watcher(cloud.devices.clone(), watcher::Config::default())
            .applied_objects()
            .boxed();
        tokio::spawn(async move {
            while let Ok(Some(object)) = objects.try_next().await {
                if is_blank(&object) {
                    offered.lock().unwrap().insert(object.name_any());
                }
            }
        });
        cloud
    }

    fn was_offered(&self, device: &str) -> bool {
        self.offered.lock().unwrap().contains(device)
    }

    /// The PersistentVolume is made.
    async fn provision(&self, volume: &Volume) {
        let object = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": { "name": volume.name },
            "spec": {
                "capacity": { "storage": volume.size },
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "volumeMode": volume.mode,
                "csi": {
                    "driver": volume.driver,
                    "volumeHandle": volume.handle,
                    "volumeAttributes": volume.attributes,
                },
            },
        });
        create(&self.volumes, object).await;
    }

    /// The VolumeAttachment is made. The driver has done nothing yet.
    async fn order(&self, volume: &Volume, node: &str) -> String {
        let name = format!("{}-to-{node}", volume.name);
        let object = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttachment",
            "metadata": { "name": name },
            "spec": {
                "attacher": volume.driver,
                "nodeName": node,
                "source": { "persistentVolumeName": volume.name },
            },
        });
        create(&self.attachments, object).await;
        name
    }

    /// The driver says whether it has attached the volume.
    async fn report(&self, attachment: &str, volume: &Volume, attached: bool) {
        let status = json!({ "status": { "attached": attached, "attachmentMetadata": volume.metadata } });
        let patch = Patch::Merge(status);
        let params = PatchParams::default();
        let patched = self.attachments.patch_status(attachment, &params, &patch);
        Box::pin(patched).await.unwrap();
    }

    /// All of it.
    async fn attach(&self, volume: &Volume, node: &str) -> String {
        self.provision(volume).await;
        let name = self.order(volume, node).await;
        self.report(&name, volume, true).await;
        name
    }

    async fn detach(&self, attachment: &str) {
        self.attachments
            .delete(attachment, &Default::default())
            .await
            .unwrap();
        let gone = await_condition(
            self.attachments.clone(),
            attachment,
            |object: Option<&VolumeAttachment>| object.is_none(),
        );
        tokio::time::timeout(TOLD_WITHIN, Box::pin(gone))
            .await
            .unwrap()
            .unwrap();
    }

    /// A Storage says that the volume was attached for us.
    async fn make_ours(&self, volume: &Volume, node: &str) {
        let object = json!({
            "apiVersion": "dao.mayadata.io/v1alpha1",
            "kind": "Storage",
            "metadata": { "name": volume.name },
            "spec": { "capacity": volume.size, "nodeName": node },
        });
        create(&self.storages, object).await;
        let status = json!({ "status": { "persistentVolumeName": volume.name } });
        let patch = Patch::Merge(status);
        let params = PatchParams::default();
        let patched = self.storages.patch_status(&volume.name, &params, &patch);
        Box::pin(patched).await.unwrap();
    }

    /// Waits until the attachment has brought the device at `path` by a rule, and both ends say so. Returns the device's
    /// object.
    async fn matched(&self, attachment: &str, volume: &Volume, method: &str, path: &str) -> BlockDevice {
        let told = until(&self.attachments, attachment, "matched", |object| {
            correlated(object).is_some_and(|told| told.reason.as_deref() == Some(reason::MATCHED))
                && brought(object).is_some()
        })
        .await;
        let told_of = correlated(&told).unwrap();
        assert_eq!(told_of.status, ConditionStatus::True, "{attachment}: {told_of:?}");
        let device = brought(&told).unwrap();
        let object = until(&self.devices, device, "recorded", |object| {
            recorded(object).is_some_and(|found| found.volume_attachment_name == attachment)
                && says(
                    object,
                    condition::CORRELATED,
                    ConditionStatus::True,
                    reason::MATCHED,
                )
        })
        .await;
        let found = recorded(&object).unwrap();
        assert_eq!(found.method.as_deref(), Some(method), "{attachment}");
        assert_eq!(found.persistent_volume_name, volume.name);
        assert_eq!(found.driver, volume.driver);
        assert_eq!(found.volume_handle.as_deref(), Some(volume.handle.as_str()));
        assert_eq!(object.spec.path, path, "{attachment} is that disk and no other");
        object
    }

    /// Waits until the attachment is told why it has brought no device, and that it has none.
    async fn refused(&self, attachment: &str, why: &str, message: &str) {
        let what = format!("refused for {why}, with {message:?}");
        until(&self.attachments, attachment, &what, |object| {
            brought(object).is_none()
                && correlated(object).is_some_and(|told| {
                    told.status == ConditionStatus::False
                        && told.reason.as_deref() == Some(why)
                        && told.message.is_some_and(|said| said.contains(message))
                })
        })
        .await;
    }

    /// Waits until a device is neither recorded as a volume nor offered, with the reason why it was not taken for one.
    async fn doubted(&self, device: &str, why: &str) -> BlockDevice {
        until(&self.devices, device, &format!("doubted: {why}"), |object| {
            recorded(object).is_none()
                && says(object, condition::CORRELATED, ConditionStatus::False, why)
                && !is_blank(object)
        })
        .await
    }

    /// Waits until a device is nobody's.
    async fn free(&self, device: &str) -> BlockDevice {
        until(&self.devices, device, "free", |object| {
            recorded(object).is_none() && of(object, condition::CORRELATED).is_none() && is_blank(object)
        })
        .await
    }

    /// Waits until there is an object of the device at `path` of a node, and returns its name.
    async fn device(&self, node: &str, path: &str) -> String {
        let here = |object: &BlockDevice| {
            let on = object
                .spec
                .node_attributes
                .as_ref()
                .and_then(|node| node.node_name.as_deref());
            let there = object
                .status
                .as_ref()
                .and_then(|status| status.state.as_ref())
                .is_some_and(|state| *state != BlockDeviceState::Inactive);
            on == Some(node) && object.spec.path == path && there
        };
        let mut objects = watcher(self.devices.clone(), watcher::Config::default())
            .applied_objects()
            .boxed();
        let found = async {
            while let Some(object) = objects.try_next().await.unwrap() {
                if here(&object) {
                    return object.name_any();
                }
            }
            panic!("the watch ended");
        };
        let found = tokio::time::timeout(TOLD_WITHIN, Box::pin(found)).await;
        found.unwrap_or_else(|_| panic!("there never was an object of {path} of {node}"))
    }
}

async fn create<K>(api: &Api<K>, object: serde_json::Value)
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let object = serde_json::from_value(object).unwrap();
    Box::pin(api.create(&PostParams::default(), &object))
        .await
        .unwrap();
}

/// Waits until an object is as it should be.
async fn until<K>(api: &Api<K>, name: &str, what: &str, holds: impl Fn(&K) -> bool) -> K
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned + Send + 'static,
{
    let told = await_condition(api.clone(), name, |object: Option<&K>| object.is_some_and(&holds));
    match tokio::time::timeout(TOLD_WITHIN, Box::pin(told)).await {
        Ok(object) => object.unwrap().unwrap(),
        Err(_) => {
            let object = api.get_opt(name).await.unwrap();
            let object = serde_json::to_string_pretty(&object).unwrap();
            panic!("{name} never was {what}: {object}");
        }
    }
}

/// The condition in the annotation of an attachment.
fn correlated(object: &VolumeAttachment) -> Option<Condition> {
    let text = object.annotations().get(annotation::CORRELATED)?;
    Some(serde_json::from_str(text).unwrap())
}

fn brought(object: &VolumeAttachment) -> Option<&str> {
    object
        .annotations()
        .get(annotation::ATTACHED_BLOCK_DEVICE)
        .map(String::as_str)
}

fn recorded(object: &BlockDevice) -> Option<&cstor_api::openebs::Attachment> {
    object.status.as_ref()?.attachment.as_ref()
}

fn of<'a>(object: &'a BlockDevice, kind: &str) -> Option<&'a Condition> {
    let conditions = object.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

fn says(object: &BlockDevice, kind: &str, status: ConditionStatus, why: &str) -> bool {
    of(object, kind).is_some_and(|told| told.status == status && told.reason.as_deref() == Some(why))
}

fn is_blank(object: &BlockDevice) -> bool {
    of(object, condition::BLANK).is_some_and(|told| told.status == ConditionStatus::True)
}

/// Whether it is known to be a volume of somebody else.
fn is_foreign(object: &BlockDevice) -> bool {
    says(
        object,
        condition::BLANK,
        ConditionStatus::False,
        reason::FOREIGN_ATTACHMENT,
    )
}

/// The kernel's path of a disk.
async fn path(node: &Node, disk: &Disk) -> String {
    let link = node.path_of(disk).await.unwrap();
    node.sh(&format!("readlink -f {link}"))
        .await
        .unwrap()
        .trim()
        .to_owned()
}

/// Plugs in a disk of a gibibyte, and returns it and the kernel's path of it.
async fn plug(node: &mut Node, bus: Bus, serial: &str) -> (Disk, String) {
    let serial = match &bus {
        Bus::Scsi(disk) => disk.serial.clone().unwrap_or_default(),
        Bus::Virtio | Bus::Nvme => serial.to_owned(),
    };
    // Boxed, as all that is large: a test has two MiB of stack.
    let disk = Box::pin(node.plug_odd(bus, "1Gi", &serial)).await.unwrap();
    let at = Box::pin(path(node, &disk)).await;
    (disk, at)
}

/// Makes udev say of disks what the programs of a cloud have it say.
async fn add_udev_rules(node: &Node, rules: &str) {
    let file = "/etc/udev/rules.d/90-cloud.rules";
    node.write_file(file, "0644", rules.as_bytes().to_vec())
        .await
        .unwrap();
    node.sh("udevadm control --reload").await.unwrap();
}

/// Where the kubelet hands a volume to a pod.
fn publish_path(volume: &Volume) -> String {
    let directory = "/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/publish";
    format!("{directory}/{}/5f1ee2d8-0000-4000-8000-000000000001", volume.name)
}

/// Hands a device to a pod, as the kubelet does.
async fn publish(node: &Node, volume: &Volume, path: &str) {
    let at = publish_path(volume);
    node.sh(&format!(
        "mkdir -p $(dirname {at}); touch {at}; mount --bind {path} {at}"
    ))
    .await
    .unwrap();
}
