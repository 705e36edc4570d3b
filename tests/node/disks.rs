//! Disks come and go, and so does the power.

use anyhow::Result;
use cstor_harness::cluster::Cluster;
use cstor_harness::disk::{Bus, Disk, ScsiDisk};
use cstor_harness::node::Node;
use cstor_harness::nvme::{NvmeNamespace, NvmeTarget};

/// The serial numbers of the disks that the kernel of the node shows, its own root disk aside.
async fn serials(node: &Node) -> Result<Vec<String>> {
    let listing = node.sh("lsblk --nodeps --noheadings --output SERIAL").await?;
    let mut serials: Vec<_> = listing
        .lines()
        .map(str::trim)
        .filter(|serial| !matches!(*serial, "" | "root"))
        .map(str::to_owned)
        .collect();
    serials.sort();
    Ok(serials)
}

/// What is on the first block of a disk, found by its serial number.
async fn first_words(node: &Node, disk: &Disk) -> Result<String> {
    let text = node
        .sh(&format!("dd if={} bs=512 count=1 status=none", disk.link()))
        .await?;
    Ok(text.trim_end_matches('\0').to_owned())
}

async fn write_words(node: &Node, disk: &Disk, words: &str) -> Result<()> {
    let script = format!(
        "printf %s '{words}' | dd of={} conv=fsync,notrunc status=none",
        disk.link()
    );
    node.sh(&script).await.map(|_| ())
}

/// The kernel's name of what a link points to.
async fn name(node: &Node, link: &str) -> String {
    let target = node.sh(&format!("readlink -e {link}")).await.unwrap();
    target.trim().trim_start_matches("/dev/").to_owned()
}

/// What the kernel says of a device, in words between which there is one space.
async fn says(node: &Node, device: &str, attributes: &[&str]) -> String {
    let files: String = attributes
        .iter()
        .map(|attribute| format!(" /sys/block/{device}/{attribute}"))
        .collect();
    let said = node.sh(&format!("cat{files}")).await.unwrap();
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The size of a disk, in MiB.
async fn mebibytes(node: &Node, link: &str) -> u64 {
    let bytes = node.sh(&format!("blockdev --getsize64 {link}")).await.unwrap();
    bytes.trim().parse::<u64>().unwrap() >> 20
}

#[tokio::test]
async fn plugs_two_pulls_one_loses_power_and_finds_the_disks_by_serial() {
    let mut cluster = Cluster::start("disks", 1).await.unwrap();
    let node = cluster.node(0);
    assert_eq!(serials(node).await.unwrap(), [] as [&str; 0]);

    let virtio = node.plug_disk("10Gi", "V1-alpha").await.unwrap();
    let nvme = node.plug_nvme("4Gi", "N1-beta").await.unwrap();
    assert_eq!(serials(node).await.unwrap(), ["N1-beta", "V1-alpha"]);
    write_words(node, &virtio, "on the virtio disk").await.unwrap();
    write_words(node, &nvme, "on the nvme disk").await.unwrap();
    let bytes = node
        .sh(&format!("blockdev --getsize64 {}", virtio.link()))
        .await
        .unwrap();
    assert_eq!(bytes.trim(), (10_u64 << 30).to_string());

    node.pull(&virtio).await.unwrap();
    assert_eq!(serials(node).await.unwrap(), ["N1-beta"]);

    node.power_cut().await.unwrap();
    assert!(!node.is_running());
    node.boot().await.unwrap();
    assert_eq!(serials(node).await.unwrap(), ["N1-beta"]);
    assert_eq!(first_words(node, &nvme).await.unwrap(), "on the nvme disk");

    let virtio = node.plug_again(virtio).await.unwrap();
    assert_eq!(serials(node).await.unwrap(), ["N1-beta", "V1-alpha"]);
    assert_eq!(first_words(node, &virtio).await.unwrap(), "on the virtio disk");
}

#[tokio::test]
async fn a_real_pool_survives_a_power_cut_and_a_lost_disk() {
    let mut cluster = Cluster::start("pool", 1).await.unwrap();
    let node = cluster.node(0);
    let one = node.plug_disk("1Gi", "mirror-one").await.unwrap();
    let two = node.plug_disk("1Gi", "mirror-two").await.unwrap();
    let create = format!(
        "zpool create -o cachefile=none tank mirror {} {}",
        one.link(),
        two.link()
    );
    node.sh(&create).await.unwrap();
    node.sh("zfs create -V 64M tank/vol; udevadm wait --timeout=30 /dev/zvol/tank/vol")
        .await
        .unwrap();
    node.sh("dd if=/dev/urandom of=/dev/zvol/tank/vol bs=1M count=8 conv=fsync status=none")
        .await
        .unwrap();
    let sum = "dd if=/dev/zvol/tank/vol bs=1M count=8 status=none | sha256sum";
    let before = node.sh(sum).await.unwrap();
    node.sh("zpool sync tank").await.unwrap();

    node.power_cut().await.unwrap();
    node.boot().await.unwrap();
    let pools = node.sh("zpool list -H -o name").await.unwrap();
    assert_eq!(pools, "", "nothing may import pools at boot but the agent");

    // ZFS has partitioned the disks; its labels are on the first partition.
    node.sh(&format!(
        "zpool import -d {}-part1 -d {}-part1 tank",
        one.link(),
        two.link()
    ))
    .await
    .unwrap();
    node.sh("udevadm wait --timeout=30 /dev/zvol/tank/vol")
        .await
        .unwrap();
    assert_eq!(node.sh(sum).await.unwrap(), before);

    node.pull(&two).await.unwrap();
    node.sh("zpool scrub -w tank").await.unwrap();
    let health = node.sh("zpool list -H -o health tank").await.unwrap();
    assert_eq!(health.trim(), "DEGRADED");
    assert_eq!(node.sh(sum).await.unwrap(), before);
}

#[tokio::test]
async fn wrong_use_of_the_harness_is_told() {
    let mut cluster = Cluster::start("wrong-use", 1).await.unwrap();
    let node = cluster.node(0);
    let told = |result: Result<Disk>| result.unwrap_err().to_string();
    assert!(told(node.plug_disk("10G", "x").await).contains("as in 10Gi"));
    assert!(told(node.plug_disk("1Gi", "").await).contains("1 to 20 visible ASCII characters"));
    let disk = node.plug_disk("64Mi", "once").await.unwrap();
    node.pull(&disk).await.unwrap();
    assert!(
        node.pull(&disk)
            .await
            .unwrap_err()
            .to_string()
            .contains("is not in node-1")
    );
    assert!(
        node.boot()
            .await
            .unwrap_err()
            .to_string()
            .contains("cut its power before you boot it")
    );
    let error = format!("{:#}", node.sh("echo sorry >&2; exit 7").await.unwrap_err());
    assert!(
        error.contains("sorry") && error.contains("exit status: 7"),
        "{error}"
    );
}

#[tokio::test]
async fn scsi_disks_say_what_they_are_told_and_disks_grow_and_change_names() {
    let mut cluster = Cluster::start("scsi", 1).await.unwrap();
    let node = cluster.node(0);
    let full = ScsiDisk {
        vendor: Some("VMware".into()),
        product: Some("Virtual disk".into()),
        serial: Some("6000c29abc".into()),
        wwn: Some(0x5000_c500_15ea_7001),
        rotation_rate: Some(7200),
        sector_size: Some(4096),
        target: 3,
        lun: 2,
        ..ScsiDisk::default()
    };
    let full = node.plug_scsi("64Mi", full).await.unwrap();
    // The same target: another unit of it, which says nothing of itself.
    let silent = ScsiDisk {
        target: 3,
        ..ScsiDisk::default()
    };
    let silent = node.plug_scsi("64Mi", silent).await.unwrap();
    let named = ScsiDisk {
        serial: Some("S-1".into()),
        device_id: Some("device-1".into()),
        rotation_rate: Some(1),
        target: 200,
        ..ScsiDisk::default()
    };
    let named = node.plug_scsi("64Mi", named).await.unwrap();

    let sda = name(node, &full.link()).await;
    assert_eq!(name(node, &node.path_of(&full).await.unwrap()).await, sda);
    let facts = [
        "device/vendor",
        "device/model",
        "queue/rotational",
        "queue/logical_block_size",
    ];
    assert_eq!(says(node, &sda, &facts).await, "VMware Virtual disk 1 4096");
    let pages = node
        .sh(&format!(
            "tail -c +5 /sys/block/{sda}/device/vpd_pg80; echo; od -An -tx1 /sys/block/{sda}/device/vpd_pg83"
        ))
        .await
        .unwrap();
    assert!(pages.starts_with("6000c29abc\n"), "{pages}");
    let page = pages.split_whitespace().skip(1).collect::<String>();
    assert!(page.contains("5000c50015ea7001"), "{page}");
    let sdb = name(node, &node.path_of(&silent).await.unwrap()).await;
    assert_eq!(says(node, &sdb, &facts).await, "QEMU QEMU HARDDISK 1 512");
    assert!(
        node.sh(&format!("ls -l /dev/disk/by-id | grep -w {sdb}"))
            .await
            .is_err()
    );
    let sdc = name(node, &named.link()).await;
    assert_eq!(says(node, &sdc, &["queue/rotational"]).await, "0");

    let one = node.plug_disk("64Mi", "one").await.unwrap();
    let two = node.plug_disk("64Mi", "two").await.unwrap();
    let nvme = node.plug_nvme("64Mi", "three").await.unwrap();
    for disk in [&full, &one] {
        node.grow(disk, "96Mi").await.unwrap();
        assert_eq!(mebibytes(node, &disk.link()).await, 96);
        let error = node.grow(disk, "96Mi").await.unwrap_err().to_string();
        assert!(error.contains("disks only grow"), "{error}");
    }
    let error = node.grow(&nvme, "96Mi").await.unwrap_err().to_string();
    assert!(error.contains("cut the power of node-1 first"), "{error}");
    let error = node.reverse_order().unwrap_err().to_string();
    assert!(error.contains("cut its power before"), "{error}");
    write_words(node, &full, "on the scsi disk").await.unwrap();
    let before = (name(node, &one.link()).await, name(node, &two.link()).await);
    let path = node.path_of(&one).await.unwrap();

    node.power_cut().await.unwrap();
    node.grow(&nvme, "96Mi").await.unwrap();
    node.reverse_order().unwrap();
    node.boot().await.unwrap();
    let after = (name(node, &one.link()).await, name(node, &two.link()).await);
    assert_eq!(after, (before.1, before.0), "the disks must have swapped names");
    assert_ne!(node.path_of(&one).await.unwrap(), path);
    for (disk, size) in [(&one, 96), (&two, 64), (&nvme, 96), (&full, 96), (&named, 64)] {
        assert_eq!(mebibytes(node, &disk.link()).await, size, "{disk:?}");
        let by_path = node.path_of(disk).await.unwrap();
        assert_eq!(
            name(node, &by_path).await,
            name(node, &disk.link()).await,
            "{disk:?}"
        );
    }
    assert_eq!(first_words(node, &full).await.unwrap(), "on the scsi disk");
    assert!(
        node.path_of(&full).await.unwrap().ends_with("-scsi-0:0:200:0"),
        "it has the place of the last"
    );

    // What was known of the disk before the boot still names it.
    node.pull(&full).await.unwrap();
    assert!(node.sh(&format!("test -e {}", full.link())).await.is_err());
    node.pull(&one).await.unwrap();
    assert_eq!(serials(node).await.unwrap(), ["S-1", "three", "two"]);
}

#[tokio::test]
async fn disks_may_say_nothing_the_same_or_nonsense() {
    let mut cluster = Cluster::start("odd", 1).await.unwrap();
    let node = cluster.node(0);
    let silent = node.plug_odd(Bus::Virtio, "64Mi", "").await.unwrap();
    let device = name(node, &node.path_of(&silent).await.unwrap()).await;
    assert_eq!(says(node, &device, &["serial"]).await, "");

    let first = node.plug_disk("64Mi", "twin").await.unwrap();
    let second = node.plug_disk("64Mi", "twin").await.unwrap();
    let (one, two) = (
        name(node, &node.path_of(&first).await.unwrap()).await,
        name(node, &node.path_of(&second).await.unwrap()).await,
    );
    assert_ne!(one, two);
    for device in [&one, &two] {
        assert_eq!(says(node, device, &["serial"]).await, "twin");
    }
    node.pull(&first).await.unwrap();
    assert!(node.sh(&format!("test -e /sys/block/{one}")).await.is_err());
    assert_eq!(says(node, &two, &["serial"]).await, "twin", "the other must stay");

    let odd = "a \"b\\c' $(d) é";
    let virtio = node.plug_odd(Bus::Virtio, "64Mi", odd).await.unwrap();
    let device = name(node, &node.path_of(&virtio).await.unwrap()).await;
    assert_eq!(says(node, &device, &["serial"]).await, odd);
    let nvme = node.plug_odd(Bus::Nvme, "64Mi", "n 'o\"p").await.unwrap();
    let device = name(node, &node.path_of(&nvme).await.unwrap()).await;
    let serial = node
        .sh(&format!("cat /sys/block/{device}/device/nvme*/serial"))
        .await
        .unwrap();
    assert_eq!(serial.trim_end(), "n 'o\"p");

    // What QEMU refuses leaves nothing behind: neither a disk nor a taken slot.
    let plugged = node.disks().len();
    let error = node
        .plug_odd(Bus::Nvme, "64Mi", "")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("serial"), "{error}");
    assert_eq!(node.disks().len(), plugged);
    let next = node.plug_disk("64Mi", "next").await.unwrap();
    node.power_cut().await.unwrap();
    node.boot().await.unwrap();
    for (disk, serial) in [(&silent, ""), (&second, "twin"), (&virtio, odd), (&next, "next")] {
        let device = name(node, &node.path_of(disk).await.unwrap()).await;
        assert_eq!(says(node, &device, &["serial"]).await, serial);
    }
}

#[tokio::test]
async fn an_nvme_target_has_the_model_and_the_ids_that_a_cloud_gives() {
    let mut cluster = Cluster::start("target", 1).await.unwrap();
    let node = cluster.node(0);
    let uuid = "11111111-2222-4333-8444-555555555555";
    let nguid = "01234567-89ab-cdef-0123-456789abcdef";
    let namespaces = vec![
        NvmeNamespace {
            nsid: 1,
            size: "64Mi".into(),
            uuid: Some(uuid.into()),
            ..NvmeNamespace::default()
        },
        NvmeNamespace {
            nsid: 7,
            size: "96Mi".into(),
            nguid: Some(nguid.into()),
            ..NvmeNamespace::default()
        },
    ];
    let target = NvmeTarget {
        name: "ebs".into(),
        model: "Amazon Elastic Block Store".into(),
        serial: "vol0123456789abcdef0".into(),
        namespaces,
    };
    let other = NvmeTarget {
        name: "other".into(),
        model: "Other".into(),
        serial: "O".into(),
        namespaces: vec![NvmeNamespace {
            nsid: 1,
            size: "64Mi".into(),
            ..NvmeNamespace::default()
        }],
    };
    let disks = node.connect_nvme(&target).await.unwrap();
    assert_eq!(disks.len(), 2, "{disks:?}");
    assert_eq!(
        says(node, &disks[0], &["uuid", "nsid"]).await,
        format!("{uuid} 1")
    );
    assert_eq!(
        says(node, &disks[1], &["nguid", "nsid"]).await,
        format!("{nguid} 7")
    );
    let listing = node
        .sh(&format!("lsblk -dno SIZE,SERIAL,MODEL /dev/{}", disks[1]))
        .await
        .unwrap();
    let listing: Vec<_> = listing.split_whitespace().collect();
    assert_eq!(
        listing.join(" "),
        "96M vol0123456789abcdef0 Amazon Elastic Block Store"
    );
    let others = node.connect_nvme(&other).await.unwrap();
    node.sh(&format!(
        "printf %s kept | dd of=/dev/{} conv=fsync status=none",
        disks[1]
    ))
    .await
    .unwrap();

    node.disconnect_nvme(&target).await.unwrap();
    for disk in &disks {
        assert!(node.sh(&format!("test -e /sys/block/{disk}")).await.is_err());
    }
    node.sh(&format!("test -e /sys/block/{}", others[0]))
        .await
        .unwrap();
    let disks = node.connect_nvme(&target).await.unwrap();
    let kept = node.sh(&format!("head -c 4 /dev/{}", disks[1])).await.unwrap();
    assert_eq!(kept, "kept");
    let wrong = NvmeTarget {
        name: "No Name".into(),
        ..other
    };
    let error = node.connect_nvme(&wrong).await.unwrap_err().to_string();
    assert!(error.contains("lower case letters"), "{error}");
}

#[tokio::test]
async fn a_disk_moves_to_another_node_with_what_is_on_it() {
    let mut cluster = Cluster::start("moves", 2).await.unwrap();
    let node = cluster.node(0);
    let disk = node.plug_disk("64Mi", "traveller").await.unwrap();
    let wwn = ScsiDisk {
        wwn: Some(0x5000_c500_15ea_7002),
        ..ScsiDisk::default()
    };
    let scsi = node.plug_scsi("64Mi", wwn).await.unwrap();
    write_words(node, &disk, "from the first").await.unwrap();
    let error = node.plug_again(disk.clone()).await.unwrap_err().to_string();
    assert!(error.contains("is in node-1 already"), "{error}");
    let error = cluster
        .node(1)
        .plug_again(disk.clone())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("lock"), "{error}");

    for disk in [&disk, &scsi] {
        cluster.node(0).pull(disk).await.unwrap();
        cluster.node(1).plug_again(disk.clone()).await.unwrap();
    }
    assert_eq!(serials(cluster.node(0)).await.unwrap(), [] as [&str; 0]);
    let other = cluster.node(1);
    assert_eq!(first_words(other, &disk).await.unwrap(), "from the first");
    write_words(other, &disk, "from the second").await.unwrap();
    other.power_cut().await.unwrap();
    other.boot().await.unwrap();
    assert_eq!(first_words(other, &disk).await.unwrap(), "from the second");
    other.sh(&format!("test -b {}", scsi.link())).await.unwrap();

    other.pull(&disk).await.unwrap();
    let node = cluster.node(0);
    node.plug_again(disk.clone()).await.unwrap();
    assert_eq!(first_words(node, &disk).await.unwrap(), "from the second");
}
