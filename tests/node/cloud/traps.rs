//! What must not be taken for a volume, and what must not be offered either.

use cstor_api::names::{condition, reason};
use cstor_harness::cluster::Cluster;
use cstor_harness::deploy::AgentSetup;
use cstor_harness::disk::ScsiDisk;
use cstor_harness::nvme::{NvmeNamespace, NvmeTarget};

use super::*;

const EBS: &str = "ebs.csi.aws.com";
const ROW: &str = "ebs-nvme-serial";

fn hetzner(wwn: u64, target: u8) -> Bus {
    Bus::Scsi(ScsiDisk {
        vendor: Some("HC".into()),
        product: Some("Volume".into()),
        serial: Some("1020001".into()),
        wwn: Some(wwn),
        target,
        ..ScsiDisk::default()
    })
}

#[tokio::test]
async fn what_is_not_certain_is_neither_recorded_nor_offered() {
    let mut cluster = Cluster::start("cloud-traps", 1).await.unwrap();
    let installation = Box::pin(cluster.install()).await.unwrap();
    let cloud = Cloud::new(&installation.client().await.unwrap());
    let node = cluster.node(0);
    Box::pin(two_disks_say_it(&cloud, node)).await;
    Box::pin(a_disk_has_a_twin(&cloud, node)).await;
    Box::pin(only_the_size_is_right(&cloud, node)).await;
    Box::pin(the_size_is_wrong(&cloud, node)).await;
    Box::pin(somebody_has_mounted_it(&cloud, node)).await;
    Box::pin(the_kubelet_hands_out_another(&cloud, node)).await;
    Box::pin(a_link_was_left_behind(&cloud, node)).await;
}

/// Two disks that are told apart by their World Wide Names and say they are one volume.
async fn two_disks_say_it(cloud: &Cloud, node: &mut Node) {
    let volume = Volume::new("two", "csi.hetzner.cloud", "1020001");
    let attachment = cloud.attach(&volume, "node-1").await;
    let (_, first) = plug(node, hetzner(0x5000_c500_15ea_7101, 0), "").await;
    let (disk, second) = plug(node, hetzner(0x5000_c500_15ea_7102, 1), "").await;
    cloud
        .refused(&attachment, reason::AMBIGUOUS, "all are volume 1020001")
        .await;
    for path in [&first, &second] {
        let device = cloud.device("node-1", path).await;
        let object = cloud.doubted(&device, reason::AMBIGUOUS).await;
        assert!(is_foreign(&object), "{object:?}");
        assert!(!cloud.was_offered(&device));
    }
    // With one of them gone it is certain.
    Box::pin(node.pull(&disk)).await.unwrap();
    cloud
        .matched(&attachment, &volume, "hetzner-serial", &first)
        .await;
}

/// Two disks of one identity: what was certain is so no more.
async fn a_disk_has_a_twin(cloud: &Cloud, node: &mut Node) {
    let handle = "77a38a52-94c1-4f0e-8f6b-2b7c1d0e9a11";
    let (row, serial) = ("cinder-serial-20", &handle[..20]);
    let volume = Volume::new("twins", "cinder.csi.openstack.org", handle);
    let attachment = cloud.attach(&volume, "node-1").await;
    let (_, at) = plug(node, Bus::Virtio, serial).await;
    let device = cloud.matched(&attachment, &volume, row, &at).await.name_any();
    let (twin, _) = plug(node, Bus::Virtio, serial).await;
    cloud
        .refused(&attachment, reason::AMBIGUOUS, "cannot be told apart")
        .await;
    until(&cloud.devices, &device, "quarantined and withdrawn", |object| {
        let (kind, why) = (condition::QUARANTINED, reason::DUPLICATE_IDENTITY);
        says(object, kind, ConditionStatus::True, why)
            && says(
                object,
                condition::CORRELATED,
                ConditionStatus::False,
                reason::AMBIGUOUS,
            )
            && recorded(object).is_none()
            && !is_blank(object)
    })
    .await;
    Box::pin(node.pull(&twin)).await.unwrap();
    cloud.matched(&attachment, &volume, row, &at).await;
    assert!(!cloud.was_offered(&device));
}

/// Two disks as large as the volume, and that is all that speaks for them.
async fn only_the_size_is_right(cloud: &Cloud, node: &mut Node) {
    let volume = Volume::new("size", "any.csi.example.org", "volume-that-none-is");
    let attachment = cloud.attach(&volume, "node-1").await;
    let mut devices = Vec::new();
    for serial in ["same-size-1", "same-size-2"] {
        let (_, at) = plug(node, Bus::Virtio, serial).await;
        devices.push(cloud.device("node-1", &at).await);
    }
    cloud
        .refused(&attachment, reason::NO_DEVICE, "volume-that-none-is")
        .await;
    // Nothing speaks against them either, so they are kept from others until it is known which disk it is.
    for device in &devices {
        let object = cloud.doubted(device, reason::NO_DEVICE).await;
        assert!(is_foreign(&object), "{object:?}");
        assert!(!cloud.was_offered(device));
    }
    cloud.detach(&attachment).await;
    for device in &devices {
        cloud.free(device).await;
    }
}

/// Of another size, until the PersistentVolume is corrected.
async fn the_size_is_wrong(cloud: &Cloud, node: &mut Node) {
    let volume = Volume::new("large", EBS, "vol-00000000000000aaa").size("10Gi");
    let attachment = cloud.attach(&volume, "node-1").await;
    let (_, at) = plug(node, Bus::Nvme, "vol00000000000000aaa").await;
    let device = cloud.device("node-1", &at).await;
    cloud.refused(&attachment, reason::MISMATCH, "10737418240").await;
    cloud.doubted(&device, reason::MISMATCH).await;
    let capacity = Patch::Merge(json!({ "spec": { "capacity": { "storage": "1Gi" } } }));
    let params = PatchParams::default();
    let corrected = cloud.volumes.patch("large", &params, &capacity);
    Box::pin(corrected).await.unwrap();
    cloud.matched(&attachment, &volume, ROW, &at).await;
    assert!(!cloud.was_offered(&device));
}

/// Somebody has mounted it by hand.
async fn somebody_has_mounted_it(cloud: &Cloud, node: &mut Node) {
    let volume = Volume::new("mounted", EBS, "vol-00000000000000bbb");
    let (_, at) = plug(node, Bus::Nvme, "vol00000000000000bbb").await;
    let mount = format!("mkfs.ext4 -q {at}; mount {at} /mnt; udevadm trigger --settle {at}");
    node.sh(&mount).await.unwrap();
    let device = cloud.device("node-1", &at).await;
    until(&cloud.devices, &device, "mounted", |object| {
        says(object, condition::BLANK, ConditionStatus::False, reason::MOUNTED)
    })
    .await;
    let attachment = cloud.attach(&volume, "node-1").await;
    cloud.refused(&attachment, reason::MISMATCH, "/mnt").await;
    cloud.doubted(&device, reason::MISMATCH).await;
    node.sh("umount /mnt").await.unwrap();
}

/// The kubelet hands out a disk that says it is another volume.
async fn the_kubelet_hands_out_another(cloud: &Cloud, node: &mut Node) {
    let volume = Volume::new("handed", EBS, "vol-00000000000000ccc").block();
    let (_, at) = plug(node, Bus::Nvme, "vol00000000000000ddd").await;
    let device = cloud.device("node-1", &at).await;
    publish(node, &volume, &at).await;
    let attachment = cloud.attach(&volume, "node-1").await;
    cloud
        .refused(&attachment, reason::MISMATCH, "vol00000000000000ddd")
        .await;
    cloud.doubted(&device, reason::MISMATCH).await;
}

/// A link with the volume's name that udev does not know of.
async fn a_link_was_left_behind(cloud: &Cloud, node: &mut Node) {
    let name = "pvc-left-behind";
    let target = NvmeTarget {
        name: "google".into(),
        model: "nvme_card-pd".into(),
        serial: "nvme_card-pd".into(),
        namespaces: vec![NvmeNamespace {
            nsid: 1,
            size: "1Gi".into(),
            ..NvmeNamespace::default()
        }],
    };
    let disk = node.connect_nvme(&target).await.unwrap().remove(0);
    let link = format!("/dev/disk/by-id/google-{name}");
    node.sh(&format!(
        "ln -s ../../{disk} {link}; udevadm trigger --settle /dev/{disk}; test -L {link}"
    ))
    .await
    .unwrap();
    let handle = format!("projects/p/zones/europe-west1-b/disks/{name}");
    let volume = Volume::new("link", "pd.csi.storage.gke.io", &handle);
    let attachment = cloud.attach(&volume, "node-1").await;
    let device = cloud.device("node-1", &format!("/dev/{disk}")).await;
    cloud
        .refused(&attachment, reason::NO_DEVICE, "stale or not to be trusted")
        .await;
    cloud.doubted(&device, reason::NO_DEVICE).await;
}

#[tokio::test]
async fn an_attachment_comes_and_goes() {
    let mut cluster = Cluster::start("cloud-comes", 1).await.unwrap();
    let installation = Box::pin(cluster.install()).await.unwrap();
    let cloud = Cloud::new(&installation.client().await.unwrap());
    let node = cluster.node(0);

    // The disk is there before the driver says so: not recorded, and not offered either.
    let volume = Volume::new("data", EBS, "vol-0a1b2c3d4e5f60718");
    cloud.provision(&volume).await;
    let attachment = cloud.order(&volume, "node-1").await;
    let (disk, at) = plug(node, Bus::Nvme, "vol0a1b2c3d4e5f60718").await;
    let device = cloud.device("node-1", &at).await;
    cloud.refused(&attachment, reason::NOT_ATTACHED, EBS).await;
    let object = cloud.doubted(&device, reason::NOT_ATTACHED).await;
    assert!(is_foreign(&object), "{object:?}");
    cloud.report(&attachment, &volume, true).await;
    cloud.matched(&attachment, &volume, ROW, &at).await;

    // The agent starts anew, and keeps what it knew. (That it also writes nothing else is for machines to show that start it
    // within the time it gives itself and its Lease gives it.)
    let kept = |object: &BlockDevice| {
        (
            recorded(object).cloned(),
            of(object, condition::CORRELATED).cloned(),
        )
    };
    let before = cloud.devices.get(&device).await.unwrap();
    Box::pin(installation.start_agent(node, &AgentSetup::default()))
        .await
        .unwrap();
    let other = Volume::new("other", EBS, "vol-00000000000000eee");
    let afterwards = cloud.attach(&other, "node-1").await;
    let (_, other_at) = plug(node, Bus::Nvme, "vol00000000000000eee").await;
    cloud.matched(&afterwards, &other, ROW, &other_at).await;
    let now = cloud.devices.get(&device).await.unwrap();
    assert_eq!(kept(&now), kept(&before));

    // The driver takes it back, and gives it again.
    cloud.report(&attachment, &volume, false).await;
    cloud.refused(&attachment, reason::NOT_ATTACHED, EBS).await;
    cloud.doubted(&device, reason::NOT_ATTACHED).await;
    cloud.report(&attachment, &volume, true).await;
    cloud.matched(&attachment, &volume, ROW, &at).await;

    // The disk is pulled while it is attached, and comes back.
    Box::pin(node.pull(&disk)).await.unwrap();
    cloud
        .refused(&attachment, reason::NO_DEVICE, "vol0a1b2c3d4e5f60718")
        .await;
    until(&cloud.devices, &device, "gone and withdrawn", |object| {
        let state = object.status.as_ref().and_then(|status| status.state.clone());
        state == Some(BlockDeviceState::Inactive)
            && recorded(object).is_none()
            && of(object, condition::CORRELATED).is_none()
    })
    .await;
    let disk = Box::pin(node.plug_again(disk)).await.unwrap();
    let at = path(node, &disk).await;
    let again = cloud.matched(&attachment, &volume, ROW, &at).await;
    assert_eq!(again.name_any(), device);
    assert!(!cloud.was_offered(&device), "all the while");

    // Detached.
    cloud.detach(&attachment).await;
    cloud.free(&device).await;
}

#[tokio::test]
async fn a_volume_goes_from_node_to_node() {
    let mut cluster = Cluster::start("cloud-moves", 2).await.unwrap();
    let installation = Box::pin(cluster.install()).await.unwrap();
    let cloud = Cloud::new(&installation.client().await.unwrap());
    let volume = Volume::new("wanderer", EBS, "vol-0a1b2c3d4e5f60718");
    let here = cloud.attach(&volume, "node-1").await;
    let (disk, at) = plug(cluster.node(0), Bus::Nvme, "vol0a1b2c3d4e5f60718").await;
    let device = cloud.matched(&here, &volume, ROW, &at).await.name_any();

    // Both nodes have an attachment for a while, and one of them the disk.
    let there = cloud.order(&volume, "node-2").await;
    cloud.refused(&there, reason::NOT_ATTACHED, EBS).await;
    Box::pin(cluster.node(0).pull(&disk)).await.unwrap();
    cloud.refused(&here, reason::NO_DEVICE, "node-1").await;
    cloud.report(&there, &volume, true).await;
    cloud.refused(&there, reason::NO_DEVICE, "node-2").await;
    let disk = Box::pin(cluster.node(1).plug_again(disk)).await.unwrap();
    let at = path(cluster.node(1), &disk).await;
    let object = cloud.matched(&there, &volume, ROW, &at).await;
    assert_eq!(object.name_any(), device, "it is the same disk");
    let on = object.spec.node_attributes.unwrap().node_name;
    assert_eq!(on.as_deref(), Some("node-2"));
    cloud.refused(&here, reason::NO_DEVICE, "node-1").await;
    cloud.detach(&here).await;
    let object = cloud.matched(&there, &volume, ROW, &at).await;
    assert!(is_foreign(&object), "{object:?}");
    assert!(!cloud.was_offered(&device), "all the while");
}
