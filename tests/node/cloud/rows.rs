//! Every row of the table, by a disk that says what the driver's disks say.

use cstor_api::names::reason;
use cstor_harness::cluster::Cluster;
use cstor_harness::disk::ScsiDisk;
use cstor_harness::nvme::{NvmeNamespace, NvmeTarget};

use super::*;

/// What is the volume.
enum Shows {
    /// A disk that is plugged in.
    Disk(Bus, &'static str),
    /// A namespace of the target of this model.
    Namespace(&'static str, u32),
}

struct Row {
    method: &'static str,
    volume: Volume,
    shows: Shows,
}

const GOOGLE_NVME: &str = "nvme_card-pd";
const AZURE_NVME: &str = "MSFT NVMe Accelerator v1.0";
const FABRIC: &str = "Any";
const NAMESPACE_UUID: &str = "7d2e4f60-1a3b-4c5d-8e6f-90a1b2c3d4e5";

/// What Google's google_nvme_id, Azure's rules and udev's own for iSCSI would make known.
const UDEV_RULES: &str = r#"
SUBSYSTEM!="block", GOTO="end"
ATTRS{model}=="nvme_card-pd*", ATTR{nsid}=="1", ENV{ID_SERIAL_SHORT}="pvc-nvme", SYMLINK+="disk/by-id/google-pvc-nvme"
ATTRS{model}=="nvme_card-pd*", ATTR{nsid}=="2", ENV{ID_SERIAL_SHORT}="pvc-nvme_regional", SYMLINK+="disk/by-id/google-pvc-nvme_regional"
KERNELS=="*:0:7:5", SYMLINK+="disk/azure/scsi1/lun5"
KERNELS=="*:0:10:5", SYMLINK+="disk/azure/resource disk/azure/data/by-lun/5"
KERNELS=="*:0:8:2", SYMLINK+="disk/by-path/ip-10.0.0.1:3260-iscsi-iqn.2003-01.org.example:disk-1-lun-2"
LABEL="end"
"#;

fn scsi(vendor: &str, product: &str, serial: Option<&str>, target: u8) -> ScsiDisk {
    ScsiDisk {
        vendor: Some(vendor.into()),
        product: Some(product.into()),
        serial: serial.map(Into::into),
        target,
        ..ScsiDisk::default()
    }
}

fn plugged(disk: ScsiDisk) -> Shows {
    Shows::Disk(Bus::Scsi(disk), "")
}

fn rows() -> Vec<Row> {
    let row = |method, volume, shows| Row {
        method,
        volume,
        shows,
    };
    let gce = "pd.csi.storage.gke.io";
    let azure = "disk.csi.azure.com";
    let cinder = "cinder.csi.openstack.org";
    let other = "any.csi.example.org";
    let azure_disks = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks";
    let do_name = "dobs.csi.digitalocean.com/volume-name";
    vec![
        row(
            "ebs-nvme-serial",
            Volume::new("ebs", "ebs.csi.aws.com", "vol-0a1b2c3d4e5f60718"),
            Shows::Disk(Bus::Nvme, "vol0a1b2c3d4e5f60718"),
        ),
        row(
            "gce-scsi-name",
            Volume::new("gce-scsi", gce, "projects/p/zones/europe-west1-b/disks/pvc-1234"),
            plugged(ScsiDisk {
                device_id: Some("pvc-1234".into()),
                ..scsi("Google", "PersistentDisk", None, 0)
            }),
        ),
        row(
            "gce-scsi-regional-name",
            Volume::new(
                "gce-regional",
                gce,
                "projects/p/regions/europe-west1/disks/pvc-1234",
            ),
            plugged(ScsiDisk {
                device_id: Some("pvc-1234_regional".into()),
                ..scsi("Google", "PersistentDisk", None, 1)
            }),
        ),
        row(
            "gce-nvme-name",
            Volume::new("gce-nvme", gce, "projects/p/zones/europe-west1-b/disks/pvc-nvme"),
            Shows::Namespace(GOOGLE_NVME, 1),
        ),
        row(
            "gce-nvme-regional-name",
            Volume::new(
                "gce-nvme-regional",
                gce,
                "projects/p/regions/europe-west1/disks/pvc-nvme",
            ),
            Shows::Namespace(GOOGLE_NVME, 2),
        ),
        row(
            "azure-scsi-lun",
            Volume::new("azure-scsi", azure, &format!("{azure_disks}/one")).metadata("LUN", "5"),
            plugged(ScsiDisk {
                lun: 5,
                ..scsi("Msft", "Virtual Disk", Some("6002248000aa"), 7)
            }),
        ),
        row(
            "azure-nvme-namespace",
            Volume::new("azure-nvme", azure, &format!("{azure_disks}/two")).metadata("LUN", "1"),
            Shows::Namespace(AZURE_NVME, 3),
        ),
        row(
            "vsphere-wwn",
            Volume::new(
                "vsphere",
                "csi.vsphere.vmware.com",
                "0d3a1c44-8c2a-4f58-a8ce-8f1b3f9a2b11",
            )
            .metadata("diskUUID", "6000C298-595b-f457"),
            plugged(ScsiDisk {
                wwn: Some(0x6000_c298_595b_f457),
                ..scsi("VMware", "Virtual disk", None, 2)
            }),
        ),
        row(
            "cinder-serial",
            Volume::new("cinder-scsi", cinder, "11ae8a52-94c1-4f0e-8f6b-2b7c1d0e9a11"),
            plugged(ScsiDisk {
                // QEMU has no room for all of it here, and libvirt writes the name of the drive.
                device_id: Some("drive-scsi0-0-3-0".into()),
                ..scsi(
                    "QEMU",
                    "QEMU HARDDISK",
                    Some("11ae8a52-94c1-4f0e-8f6b-2b7c1d0e9a11"),
                    3,
                )
            }),
        ),
        row(
            "cinder-serial-20",
            Volume::new("cinder-virtio", cinder, "22bf8a52-94c1-4f0e-8f6b-2b7c1d0e9a11"),
            Shows::Disk(Bus::Virtio, "22bf8a52-94c1-4f0e-8"),
        ),
        row(
            "cinder-wwn",
            Volume::new("cinder-wwn", cinder, "5000c500-15ea-7002"),
            plugged(ScsiDisk {
                wwn: Some(0x5000_c500_15ea_7002),
                ..scsi("QEMU", "QEMU HARDDISK", None, 9)
            }),
        ),
        row(
            "hetzner-serial",
            Volume::new("hetzner", "csi.hetzner.cloud", "1012345"),
            plugged(scsi("HC", "Volume", Some("1012345"), 4)),
        ),
        row(
            "digitalocean-name",
            Volume::new(
                "digitalocean",
                "dobs.csi.digitalocean.com",
                "33c0ffee-94c1-4f0e-8f6b-2b7c1d0e9a11",
            )
            .metadata(do_name, "pvc-77"),
            plugged(scsi("DO", "Volume", Some("pvc-77"), 5)),
        ),
        row(
            "linode-label",
            Volume::new("linode", "linodebs.csi.linode.com", "98765-pvc6a1f-2"),
            plugged(scsi("Linode", "Volume", Some("pvc6a1f-2"), 6)),
        ),
        row(
            "nvme-namespace-uuid",
            Volume::new("fabric", "nvmf.csi.example.org", "volume-1").attribute("deviceUUID", NAMESPACE_UUID),
            Shows::Namespace(FABRIC, 1),
        ),
        row(
            "iscsi-target-lun",
            Volume::new("iscsi", "iscsi.csi.example.org", "volume-2")
                .attribute("iqn", "iqn.2003-01.org.example:disk-1")
                .attribute("lun", "2"),
            plugged(ScsiDisk {
                lun: 2,
                ..scsi("LIO-ORG", "disk", Some("44d0c0de"), 8)
            }),
        ),
        row(
            "handle-serial",
            Volume::new("other", other, "cluster/pool/Volume-00017"),
            Shows::Disk(Bus::Virtio, "volume_00017"),
        ),
        row(
            "handle-serial-20",
            Volume::new("other-20", other, "55e18a52-94c1-4f0e-8f6b-2b7c1d0e9a11"),
            Shows::Disk(Bus::Virtio, "55e18a52-94c1-4f0e-8"),
        ),
        row(
            "handle-serial-20-dashless",
            Volume::new("other-dashless", other, "66f28a52-94c1-4f0e-8f6b-2b7c1d0e9a11"),
            Shows::Disk(Bus::Virtio, "66f28a5294c14f0e8f6b"),
        ),
    ]
}

fn targets() -> [NvmeTarget; 3] {
    let namespace = |nsid, uuid: Option<&str>| NvmeNamespace {
        nsid,
        size: "1Gi".into(),
        uuid: uuid.map(Into::into),
        ..NvmeNamespace::default()
    };
    let target = |name: &str, model: &str, namespaces| NvmeTarget {
        name: name.into(),
        model: model.into(),
        serial: format!("{name}-serial"),
        namespaces,
    };
    [
        target(
            "google",
            GOOGLE_NVME,
            vec![namespace(1, None), namespace(2, None)],
        ),
        target("azure", AZURE_NVME, vec![namespace(3, None)]),
        target("fabric", FABRIC, vec![namespace(1, Some(NAMESPACE_UUID))]),
    ]
}

#[tokio::test]
async fn every_driver_is_known_by_what_its_disks_say() {
    let mut cluster = Cluster::start("cloud-rows", 1).await.unwrap();
    let installation = Box::pin(cluster.install()).await.unwrap();
    let cloud = Cloud::new(&installation.client().await.unwrap());
    let node = cluster.node(0);
    add_udev_rules(node, UDEV_RULES).await;
    // Of another size than the volumes, so that nobody takes it for one of them.
    let local = Box::pin(node.plug_disk("3Gi", "local")).await.unwrap();
    let local = cloud.device("node-1", &path(node, &local).await).await;
    Box::pin(known_by_the_table(&cloud, node)).await;
    Box::pin(attached_for_us(&cloud, node)).await;
    Box::pin(handed_out_by_the_kubelet(&cloud, node)).await;
    cloud.free(&local).await;
}

async fn known_by_the_table(cloud: &Cloud, node: &mut Node) {
    // All disks but one are expected when they come.
    let mut expected = Vec::new();
    let (mut early, mut rows) = (true, rows());
    let first = rows.remove(0);
    if let Shows::Disk(bus, serial) = &first.shows {
        let (_, at) = plug(node, bus.clone(), serial).await;
        let device = cloud.device("node-1", &at).await;
        cloud.free(&device).await;
        let attachment = cloud.attach(&first.volume, "node-1").await;
        expected.push((first.method, attachment, first.volume, at));
    }
    let mut ordered = Vec::new();
    for row in rows {
        let attachment = cloud.attach(&row.volume, "node-1").await;
        ordered.push((row, attachment));
    }
    cloud
        .refused("hetzner-to-node-1", reason::NO_DEVICE, "1012345")
        .await;
    let mut namespaces = BTreeMap::new();
    for target in targets() {
        let names = node.connect_nvme(&target).await.unwrap();
        for (namespace, name) in target.namespaces.iter().zip(names) {
            namespaces.insert((target.model.clone(), namespace.nsid), format!("/dev/{name}"));
        }
    }
    // A disk of Azure's own in a unit of the same number as the volume's.
    let own = ScsiDisk {
        lun: 5,
        ..scsi("Msft", "Virtual Disk", Some("6002248000bb"), 10)
    };
    plug(node, Bus::Scsi(own), "").await;
    for (row, attachment) in ordered {
        let at = match row.shows {
            Shows::Disk(bus, serial) => plug(node, bus, serial).await.1,
            Shows::Namespace(model, nsid) => namespaces[&(model.to_owned(), nsid)].clone(),
        };
        let method = match row.method {
            // Which of the two it is depends on how many SCSI hosts the machine has.
            "azure-scsi-lun" if host(node, &at).await <= 3 => "azure-scsi-lun-link",
            method => method,
        };
        expected.push((method, attachment, row.volume, at));
    }
    for (method, attachment, volume, path) in &expected {
        let object = cloud.matched(attachment, volume, method, path).await;
        let name = object.name_any();
        let object = until(&cloud.devices, &name, "somebody else's", is_foreign).await;
        assert!(recorded(&object).unwrap().serial.is_some(), "{object:?}");
        assert_eq!(
            cloud.was_offered(&name),
            std::mem::take(&mut early),
            "{attachment}: only a disk that nobody expects is offered"
        );
    }
}

/// The number of the SCSI host that a disk is on.
async fn host(node: &Node, path: &str) -> u32 {
    let name = path.trim_start_matches("/dev/");
    let address = format!("basename $(readlink -f /sys/class/block/{name}/device)");
    let address = node.sh(&address).await.unwrap();
    address.split(':').next().unwrap().parse().unwrap()
}

/// A volume that was attached for us is ours, and stays blank.
async fn attached_for_us(cloud: &Cloud, node: &mut Node) {
    let volume = Volume::new("ours", "ebs.csi.aws.com", "vol-0fffffffffffffff1");
    cloud.make_ours(&volume, "node-1").await;
    let attachment = cloud.attach(&volume, "node-1").await;
    let (_, at) = plug(node, Bus::Nvme, "vol0fffffffffffffff1").await;
    let object = cloud.matched(&attachment, &volume, "ebs-nvme-serial", &at).await;
    until(&cloud.devices, &object.name_any(), "blank and ours", |object| {
        is_blank(object) && recorded(object).is_some()
    })
    .await;
}

/// A driver whose disks say nothing: the kubelet tells, while a pod uses the volume.
async fn handed_out_by_the_kubelet(cloud: &Cloud, node: &mut Node) {
    let volume = Volume::new("rbd", "rook-ceph.rbd.csi.ceph.com", "0001-0009-rook-ceph-1").block();
    let attachment = cloud.attach(&volume, "node-1").await;
    cloud
        .refused(&attachment, reason::NO_DEVICE, "volumeMode Block")
        .await;
    let (_, at) = plug(node, Bus::Virtio, "says-nothing-of-it").await;
    publish(node, &volume, &at).await;
    let object = cloud
        .matched(&attachment, &volume, "kubelet-publish-path", &at)
        .await;
    let device = object.name_any();
    until(&cloud.devices, &device, "somebody else's", is_foreign).await;
    node.sh(&format!("umount {0}; rm {0}", publish_path(&volume)))
        .await
        .unwrap();
    cloud
        .refused(&attachment, reason::NO_DEVICE, "volumeMode Block")
        .await;
    // It has the size of the volume, and so nobody else gets it.
    cloud.doubted(&device, reason::NO_DEVICE).await;
}
