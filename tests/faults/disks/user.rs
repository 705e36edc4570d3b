//! What people, clouds and hardware do during a run.

use std::sync::Arc;
use std::time::Duration;

use cstor_api::openebs::BlockDevice;
use cstor_reconcile::memory_api::MemoryApi;
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::host::{GIB, Holds, Host, NAMESPACE};
use super::oracle::Oracle;
use super::world::Meddler;

/// The driver's name of the volume, and what the disk shows of it.
const HANDLE: &str = "e3a1c2d4-0b5f-4a6e-9c7d-112233445566";
const VOLUME: &str = "e3a1c2d4-0b5f-4a6e-9";

/// The disks, volumes and attachments that are there from the start.
pub async fn prepare(api: &MemoryApi, [one, two]: &[Arc<Host>; 2]) {
    one.plug("vdx1", "alpha", 10 * GIB, Holds::Nothing);
    one.plug("vdx2", "beta", 10 * GIB, Holds::FileSystem);
    one.plug("vdx3", "gamma", 10 * GIB, Holds::Nothing);
    one.plug("vdx4", "twins", 10 * GIB, Holds::Nothing);
    one.plug("vdx5", "twins", 10 * GIB, Holds::Nothing);
    one.plug("vdx6", "", 10 * GIB, Holds::Nothing);
    one.plug("vdx7", VOLUME, 10 * GIB, Holds::Nothing);
    two.plug("vdx1", "mobile", 10 * GIB, Holds::Nothing);
    two.plug("vdx2", "delta", 10 * GIB, Holds::Nothing);
    attach(api, "cinder", HANDLE, "10Gi").await;
    // No disk has its size, or all that do would be in doubt.
    attach(api, "lost", "99999999-0b5f-4a6e-9c7d-112233445566", "77Gi").await;
}

async fn attach(api: &MemoryApi, volume: &str, handle: &str, size: &str) {
    let volumes: Api<PersistentVolume> = Api::all(api.admin());
    let attachments: Api<VolumeAttachment> = Api::all(api.admin());
    let made = json!({
        "metadata": { "name": format!("pv-{volume}") },
        "spec": {
            "capacity": { "storage": size },
            "csi": { "driver": "cinder.csi.openstack.org", "volumeHandle": handle },
        },
    });
    let params = PostParams::default();
    volumes
        .create(&params, &serde_json::from_value(made).unwrap())
        .await
        .unwrap();
    let made = json!({
        "metadata": { "name": format!("csi-{volume}") },
        "spec": {
            "attacher": "cinder.csi.openstack.org",
            "nodeName": "node-1",
            "source": { "persistentVolumeName": format!("pv-{volume}") },
        },
    });
    attachments
        .create(&params, &serde_json::from_value(made).unwrap())
        .await
        .unwrap();
    let attached = Patch::Merge(json!({ "status": { "attached": true } }));
    let name = format!("csi-{volume}");
    attachments
        .patch_status(&name, &PatchParams::default(), &attached)
        .await
        .unwrap();
}

/// The one object of the disk with this serial number.
fn device(api: &MemoryApi, serial: &str) -> Value {
    let all = api.peek_all::<BlockDevice>().into_iter();
    all.into_iter()
        .find(|object| object["spec"]["identity"]["value"] == serial)
        .unwrap_or_default()
}

fn is(api: &MemoryApi, serial: &str, state: &str) -> bool {
    device(api, serial)["status"]["state"] == state
}

/// Whether a condition is so, and is said for this reason.
fn says(api: &MemoryApi, serial: &str, kind: &str, status: &str, reason: &str) -> bool {
    let device = device(api, serial);
    let conditions = device["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        condition["type"] == kind && condition["status"] == status && condition["reason"] == reason
    })
}

fn nameless(api: &MemoryApi) -> Option<Value> {
    let mut all = api.peek_all::<BlockDevice>().into_iter();
    all.find(|object| object["spec"]["identity"].is_null())
}

async fn until(what: &str, api: &MemoryApi, reached: impl Fn() -> bool) {
    for _ in 0..1200 {
        if reached() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("never {what}: {:#?}", api.peek_all::<BlockDevice>());
}

/// Writes what the meddler wants, as one write.
async fn meddle(api: &MemoryApi, Meddler { serial, wrong }: Meddler) {
    let devices: Api<BlockDevice> = Api::namespaced(api.admin(), NAMESPACE);
    let mut object = device(api, serial);
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let status = object["status"].clone();
    wrong(&mut object);
    if object.is_null() {
        devices.delete(&name, &DeleteParams::default()).await.unwrap();
        return;
    }
    let (params, is_status) = (PatchParams::default(), object["status"] != status);
    object["metadata"] = json!({});
    let patch = Patch::Merge(object);
    let written = match is_status {
        true => devices.patch_status(&name, &params, &patch).await,
        false => devices.patch(&name, &params, &patch).await,
    };
    written.unwrap();
}

pub async fn use_it(api: &MemoryApi, [one, two]: &[Arc<Host>; 2], oracle: &Oracle, meddler: Option<Meddler>) {
    let taken = ["beta", "twins", VOLUME].map(str::to_owned);
    *oracle.taken.lock().unwrap() = taken.into();

    until("published", api, || {
        ["alpha", "gamma", "mobile", "delta"]
            .iter()
            .all(|serial| says(api, serial, "Blank", "True", "NothingFound"))
            && says(api, "beta", "Blank", "False", "FileSystem")
            && says(api, "twins", "Quarantined", "True", "DuplicateIdentity")
            && says(api, VOLUME, "Correlated", "True", "Matched")
            && nameless(api).is_some_and(|object| object["status"]["state"] == "Active")
            && api.peek_all::<VolumeAttachment>().iter().all(|attachment| {
                attachment["metadata"]["annotations"]["cstor.openebs.io/correlated"].is_string()
            })
    })
    .await;

    if let Some(meddler) = meddler {
        // What becomes of it is not the question.
        return meddle(api, meddler).await;
    }

    one.resize("vdx1", 12 * GIB);
    one.unplug("vdx3");
    one.unplug("vdx6");
    two.put("vdx2", Holds::FileSystem);
    two.unplug("vdx1");
    one.plug("vdx8", "mobile", 10 * GIB, Holds::Nothing);
    until("changed", api, || {
        device(api, "alpha")["spec"]["capacity"]["storage"] == 12 * GIB
            && is(api, "gamma", "Inactive")
            && nameless(api).is_none()
            && says(api, "delta", "Blank", "False", "FileSystem")
            && device(api, "mobile")["spec"]["nodeAttributes"]["nodeName"] == "node-1"
            && says(api, "mobile", "Blank", "True", "NothingFound")
    })
    .await;

    // A clone of a disk appears on the other node.
    two.plug("vdx9", "beta", 10 * GIB, Holds::Nothing);
    until("quarantined", api, || {
        says(api, "beta", "Quarantined", "True", "DuplicateIdentity")
    })
    .await;
    two.unplug("vdx9");
    until("free of quarantine", api, || {
        let labels = device(api, "beta")["metadata"]["labels"].to_string();
        says(api, "beta", "Quarantined", "False", "UniqueIdentity") && !labels.contains("also-on")
    })
    .await;

    let devices: Api<BlockDevice> = Api::namespaced(api.admin(), NAMESPACE);
    let wipe = json!({ "metadata": { "annotations": { "cstor.openebs.io/wipe": "alpha" } } });
    let alpha = device(api, "alpha")["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let params = PatchParams::default();
    devices.patch(&alpha, &params, &Patch::Merge(wipe)).await.unwrap();
    until("wiped", api, || {
        let annotations = device(api, "alpha")["metadata"]["annotations"].to_string();
        says(api, "alpha", "Wiped", "True", "WipeDone") && !annotations.contains("wipe")
    })
    .await;

    // It comes back in another slot, and the volume is detached but for the disk.
    one.plug("vdx9", "gamma", 10 * GIB, Holds::Nothing);
    oracle.taken.lock().unwrap().remove(VOLUME);
    let attachments: Api<VolumeAttachment> = Api::all(api.admin());
    attachments
        .delete("csi-cinder", &DeleteParams::default())
        .await
        .unwrap();
    until("back and detached", api, || {
        is(api, "gamma", "Active")
            && device(api, "gamma")["spec"]["path"] == "/dev/vdx9"
            && says(api, VOLUME, "Blank", "True", "NothingFound")
            && device(api, VOLUME)["status"]["attachment"].is_null()
    })
    .await;
}
