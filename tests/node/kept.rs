//! What NDM left in a cluster: its objects stay the objects of their disks, with the claims on them.

use cstor_api::names::phase::{BlockDeviceClaimPhase, BlockDeviceState};
use cstor_api::names::{condition, reason};
use cstor_api::openebs::{BlockDevice, BlockDeviceClaim};
use cstor_harness::cluster::Cluster;
use cstor_harness::deploy::{AgentSetup, Installation};
use cstor_harness::disk::ScsiDisk;
use cstor_harness::node::Node;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::published::{Objects, is_told_whether_claimed, says, state};

const NAMESPACE: &str = "openebs";

/// What a shell on the node says.
async fn said(node: &Node, script: &str) -> String {
    node.sh(script).await.unwrap().trim().to_owned()
}

/// The MD5 of what NDM made a name of, by a program that is not ours.
async fn hashed(node: &Node, of: &str) -> String {
    format!(
        "blockdevice-{}",
        said(node, &format!("printf %s '{of}' | md5sum | cut -d' ' -f1")).await
    )
}

/// One property of a device, as udev has it.
async fn udev(node: &Node, device: &str, key: &str) -> String {
    let script = format!("udevadm info --query=property --property={key} --value {device}");
    said(node, &script).await
}

/// What NDM 2.1 knew of a device.
struct Known<'a> {
    name: &'a str,
    path: &'a str,
    bytes: u64,
    kind: &'a str,
    serial: &'a str,
    fs_type: &'a str,
    parent: &'a str,
}

/// An object as NDM writes it: empty texts and zeros for what it does not know, its own labels, state and claim in the
/// object itself.
async fn as_ndm_wrote(installation: &Installation, known: &Known<'_>, claim: Option<&BlockDeviceClaim>) {
    let mut object = json!({
        "apiVersion": "openebs.io/v1alpha1",
        "kind": "BlockDevice",
        "metadata": {
            "name": known.name,
            "namespace": NAMESPACE,
            "annotations": { "internal.openebs.io/uuid-scheme": "gpt" },
            "labels": {
                "kubernetes.io/hostname": "node-1",
                "ndm.io/blockdevice-type": "blockdevice",
                "ndm.io/managed": "true",
                "nodename": "node-1",
            },
        },
        "spec": {
            "aggregateDevice": "",
            "capacity": { "logicalSectorSize": 512, "physicalSectorSize": 512, "storage": known.bytes },
            "details": {
                "compliance": "",
                "deviceType": known.kind,
                "driveType": "HDD",
                "firmwareRevision": "",
                "hardwareSectorSize": 512,
                "logicalBlockSize": 512,
                "model": "",
                "physicalBlockSize": 512,
                "serial": known.serial,
                "vendor": "",
            },
            "devlinks": [{ "kind": "by-path", "links": ["/dev/disk/by-path/where-it-was"] }],
            "filesystem": {},
            "nodeAttributes": { "nodeName": "node-1" },
            "parentDevice": known.parent,
            "partitioned": "No",
            "path": known.path,
        },
    });
    if !known.fs_type.is_empty() {
        object["spec"]["filesystem"] = json!({ "fsType": known.fs_type });
    }
    if let Some(claim) = claim {
        object["metadata"]["finalizers"] = json!(["openebs.io/bd-protection"]);
        object["spec"]["claimRef"] = json!({
            "apiVersion": "openebs.io/v1alpha1",
            "kind": "BlockDeviceClaim",
            "name": claim.name_any(),
            "namespace": NAMESPACE,
            "resourceVersion": claim.resource_version(),
            "uid": claim.uid(),
        });
    }
    installation.apply(&object).await.unwrap();
    let claim_state = if claim.is_some() { "Claimed" } else { "Unclaimed" };
    say(
        installation,
        "bd",
        known.name,
        &json!({ "claimState": claim_state, "state": "Active" }),
    )
    .await;
}

/// NDM knows no status subresource; what it wrote into status is there all the same.
async fn say(installation: &Installation, kind: &str, name: &str, status: &Value) {
    let patch = json!({ "status": status }).to_string();
    let patch = [
        "patch",
        kind,
        name,
        "-n",
        NAMESPACE,
        "--subresource=status",
        "--type=merge",
        "-p",
        patch.as_str(),
    ];
    installation.kubectl(patch).await.unwrap();
}

/// Whether agent and controller have said all they have to say.
fn is_settled(object: &BlockDevice) -> bool {
    let looked_at = object
        .status
        .as_ref()
        .and_then(|status| status.observed_generation);
    says(object, condition::PRESENT, reason::FOUND)
        && object.spec.identity.is_some()
        && looked_at == object.metadata.generation
        && is_told_whether_claimed(object)
}

#[tokio::test]
async fn what_ndm_made_is_kept_with_its_claims_and_not_made_twice() {
    let mut cluster = Cluster::start("kept", 1).await.unwrap();
    let installation = cluster.install_manifests().await.unwrap();
    let client = installation.client().await.unwrap();
    let objects = Objects::new(&client);
    let claims: Api<BlockDeviceClaim> = Api::namespaced(client, NAMESPACE);
    let node = cluster.node(0);

    // A disk with a World Wide Name, one that NDM partitioned, and one that it knew by its file system.
    let lasting = ScsiDisk {
        serial: Some("S-1".into()),
        wwn: Some(0x5000_c500_15ea_7009),
        ..ScsiDisk::default()
    };
    let lasting = node.plug_scsi("1Gi", lasting).await.unwrap();
    let parted = node.plug_disk("1Gi", "parted").await.unwrap().link();
    let formatted = node.plug_disk("1Gi", "formatted").await.unwrap().link();
    let script = format!(
        "sgdisk --new=1:2048:0 --change-name=1:OpenEBS_NDM {parted} >/dev/null; mkfs.ext4 -q {formatted}
         udevadm trigger --settle {parted} {formatted}; udevadm settle"
    );
    node.sh(&script).await.unwrap();
    let lasting = said(node, &format!("readlink -f {}", lasting.link())).await;
    let part = said(node, &format!("readlink -f {parted}-part1")).await;
    let whole = said(node, &format!("readlink -f {parted}")).await;
    let formatted = said(node, &format!("readlink -f {formatted}")).await;
    let of = udev(node, &lasting, "ID_WWN").await + &udev(node, &lasting, "ID_SERIAL_SHORT").await;
    let by_wwn = hashed(node, &of).await;
    let by_part = hashed(node, &udev(node, &part, "ID_PART_ENTRY_UUID").await).await;
    let by_fs = hashed(node, &udev(node, &formatted, "ID_FS_UUID").await).await;
    let part_bytes = said(node, &format!("blockdev --getsize64 {part}")).await;

    let claim = json!({
        "apiVersion": "openebs.io/v1alpha1",
        "kind": "BlockDeviceClaim",
        "metadata": {
            "name": "bdc-old",
            "namespace": NAMESPACE,
            "finalizers": ["openebs.io/bdc-protection"],
        },
        "spec": {
            "blockDeviceName": by_wwn,
            "blockDeviceNodeAttributes": { "hostName": "node-1" },
            "deviceClaimDetails": {},
            "deviceType": "",
            "hostName": "",
            "resources": { "requests": { "storage": "1G" } },
        },
    });
    installation.apply(&claim).await.unwrap();
    say(&installation, "bdc", "bdc-old", &json!({ "phase": "Bound" })).await;
    let claim = claims.get("bdc-old").await.unwrap();
    let disk = Known {
        name: &by_wwn,
        // Where it was when NDM looked.
        path: "/dev/sdz",
        bytes: 1 << 30,
        kind: "disk",
        serial: "S-1",
        fs_type: "",
        parent: "",
    };
    as_ndm_wrote(&installation, &disk, Some(&claim)).await;
    let partition = Known {
        name: &by_part,
        path: &part,
        bytes: part_bytes.parse().unwrap(),
        kind: "partition",
        serial: "",
        parent: &whole,
        ..disk
    };
    as_ndm_wrote(&installation, &partition, None).await;
    let file_system = Known {
        name: &by_fs,
        path: &formatted,
        fs_type: "ext4",
        serial: "formatted",
        ..disk
    };
    as_ndm_wrote(&installation, &file_system, None).await;
    let mut before = Vec::new();
    for name in [&by_wwn, &by_part, &by_fs] {
        before.push(objects.devices.get(name).await.unwrap().uid());
    }

    // Now NDM goes, and we come.
    installation.start_controller().await.unwrap();
    installation
        .start_agent(node, &AgentSetup::default())
        .await
        .unwrap();
    let mut kept = Vec::new();
    for name in [&by_wwn, &by_part, &by_fs] {
        kept.push(objects.until(name, "taken over", is_settled).await);
    }
    let uids: Vec<_> = kept.iter().map(ResourceExt::uid).collect();
    assert_eq!(uids, before, "the same objects");
    assert!(
        kept.iter()
            .all(|object| state(object) == Some(BlockDeviceState::Active))
    );
    let identities: Vec<_> = kept
        .iter()
        .map(|object| object.spec.identity.clone().unwrap().scheme)
        .collect();
    assert_eq!(identities, ["scsi-naa/v1", "partition/v1", "virtio-serial/v1"]);
    let [disk, partition, file_system] = kept.as_slice() else {
        unreachable!("there are three");
    };
    assert_eq!(disk.spec.path, lasting, "where it is now");
    assert_eq!(
        disk.spec.claim_ref.as_ref().and_then(|claim| claim.uid.clone()),
        claim.uid()
    );
    assert!(disk.finalizers().contains(&"openebs.io/bd-protection".to_owned()));
    let claim = claims.get("bdc-old").await.unwrap();
    assert_eq!(
        claim.status.and_then(|status| status.phase),
        Some(BlockDeviceClaimPhase::Bound)
    );
    assert!(
        says(partition, condition::BLANK, reason::NOTHING_FOUND),
        "{partition:?}"
    );
    assert!(says(file_system, condition::BLANK, reason::FILE_SYSTEM));

    // A disk more: when that is told, everything that was to be told of the others has been.
    node.plug_disk("1Gi", "later").await.unwrap();
    objects.blank("later").await;
    for object in objects.devices.list(&ListParams::default()).await.unwrap() {
        objects.until(&object.name_any(), "settled", is_settled).await;
    }
    let all = objects.devices.list(&ListParams::default()).await.unwrap().items;
    let paths: Vec<_> = all.iter().map(|object| object.spec.path.as_str()).collect();
    for path in [&lasting, &part, &formatted] {
        let times = paths.iter().filter(|known| **known == path.as_str()).count();
        assert_eq!(times, 1, "{path} among {paths:?}");
    }

    // And an agent that starts anew finds nothing to write.
    let written = |all: &[BlockDevice]| -> Vec<_> {
        all.iter()
            .map(|object| (object.name_any(), object.resource_version()))
            .collect()
    };
    installation
        .start_agent(node, &AgentSetup::default())
        .await
        .unwrap();
    node.plug_disk("1Gi", "last").await.unwrap();
    let last = objects.blank("last").await;
    let mut now = objects.devices.list(&ListParams::default()).await.unwrap().items;
    now.retain(|object| object.name_any() != last);
    assert_eq!(written(&now), written(&all));
}
