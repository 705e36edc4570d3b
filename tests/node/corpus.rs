//! What others put on disks, made with their own tools: none of it may be taken for a blank disk.

use anyhow::{Context, Result};
use camino::Utf8PathBuf;
use cstor_exec::Program;
use cstor_harness::cluster::Cluster;
use cstor_harness::node::Node;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

const INSPECT: &str = "/var/tmp/inspect_image";
const CORPUS: &str = "/var/tmp/corpus";

/// An image of this many MiB: `mkfs.xfs` makes none on less than 300.
const MIB: u32 = 320;

/// An image: its name, the script that makes it of the zeroed file `$i`, and what must be said of it: a reason, and a part
/// of the message.
type Image = (&'static str, &'static str, &'static str, &'static str);

/// Zeros, at the beginning, in front of what is at the end alone.
const ZERO_FRONT: &str = "dd if=/dev/zero of=$i bs=1M count=64 conv=notrunc status=none";

const IMAGES: &[Image] = &[
    // File systems.
    ("ext2", "mkfs.ext2 -q $i", "FileSystem", "ext2 at byte 1080"),
    ("ext3", "mkfs.ext3 -q $i", "FileSystem", "ext3 at byte 1080"),
    (
        "ext4",
        "mkfs.ext4 -q -L somebody $i",
        "FileSystem",
        "labelled \"somebody\"",
    ),
    ("ext4-journal", "mke2fs -q -O journal_dev $i", "Signature", "jbd"),
    ("xfs", "mkfs.xfs -q $i", "FileSystem", "xfs at byte 0"),
    ("btrfs", "mkfs.btrfs -q $i", "FileSystem", "btrfs at byte 65600"),
    ("vfat", "mkfs.vfat $i", "FileSystem", "vfat"),
    ("exfat", "mkfs.exfat -q $i", "FileSystem", "exfat"),
    ("ntfs", "mkfs.ntfs -q -Q -F $i", "FileSystem", "ntfs"),
    ("f2fs", "mkfs.f2fs -q $i", "FileSystem", "f2fs"),
    ("nilfs2", "mkfs.nilfs2 -q $i", "FileSystem", "nilfs2"),
    ("jfs", "mkfs.jfs -q $i", "FileSystem", "jfs"),
    ("reiserfs", "mkfs.reiserfs -q -ff $i", "FileSystem", "reiserfs"),
    (
        "squashfs",
        "mksquashfs /etc/apt $i -quiet -no-progress -noappend; truncate -s 320M $i",
        "FileSystem",
        "squashfs",
    ),
    (
        "erofs",
        "mkfs.erofs --quiet $i /etc/apt; truncate -s 320M $i",
        "FileSystem",
        "erofs",
    ),
    (
        "iso9660",
        "genisoimage -quiet -o $i /etc/apt; truncate -s 320M $i",
        "FileSystem",
        "iso9660",
    ),
    // Swap, encryption, members of something.
    ("swap", "mkswap -q $i", "Signature", "swap"),
    (
        "luks1",
        "echo secret | cryptsetup luksFormat -q --type luks1 --iter-time 10 $i -",
        "Signature",
        "crypto_LUKS",
    ),
    (
        "luks2",
        "echo secret | cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 $i -",
        "Signature",
        "crypto_LUKS",
    ),
    ("bcache", "make-bcache -B $i", "Member", "bcache"),
    ("bcache-cache", "make-bcache -C $i", "Member", "bcache"),
    ("lvm", "on_loop pvcreate -qq -y", "Member", "LVM2_member"),
    (
        "lvm-first-sector-wiped",
        "on_loop pvcreate -qq -y; dd if=/dev/zero of=$i bs=512 count=1 conv=notrunc status=none",
        "Member",
        "LVM2_member",
    ),
    (
        "lvm-group-without-label",
        "on_loop vgcreate -qq -y $name; dd if=/dev/zero of=$i bs=512 count=4 conv=notrunc status=none",
        "UnrecognisedData",
        "data at byte",
    ),
    ("md-0.90", "on_loop md 0.90", "Member", "linux_raid_member"),
    ("md-1.0", "on_loop md 1.0", "Member", "linux_raid_member"),
    ("md-1.1", "on_loop md 1.1", "Member", "linux_raid_member"),
    ("md-1.2", "on_loop md 1.2", "Member", "linux_raid_member"),
    (
        "drbd",
        "drbdmeta --force 0 v08 $i internal create-md",
        "Member",
        "drbd",
    ),
    // Partition tables.
    ("gpt", "sgdisk -n 1:0:+64M $i", "Partitioned", "gpt"),
    ("gpt-empty", "sgdisk -o $i", "Partitioned", "gpt"),
    (
        "gpt-without-its-mbr",
        "sgdisk -o $i; dd if=/dev/zero of=$i bs=512 count=1 conv=notrunc status=none",
        "Partitioned",
        "gpt",
    ),
    ("dos", "echo ,64M | sfdisk -q $i", "Partitioned", "dos"),
    ("dos-empty", "echo label:dos | sfdisk -q $i", "Partitioned", "dos"),
    ("sun", "echo label:sun | sfdisk -q $i", "Partitioned", "sun"),
    ("sgi", "echo label:sgi | sfdisk -q $i", "Partitioned", "sgi"),
    // At the end alone.
    (
        "gpt-backup-only",
        "sgdisk -n 1:0:+64M $i; zero_front",
        "Partitioned",
        "gpt",
    ),
    (
        "md-0.90-end-only",
        "on_loop md 0.90; zero_front",
        "Member",
        "linux_raid_member",
    ),
    (
        "md-1.0-end-only",
        "on_loop md 1.0; zero_front",
        "Member",
        "linux_raid_member",
    ),
    (
        "nilfs2-end-only",
        "mkfs.nilfs2 -q $i; zero_front",
        "FileSystem",
        "nilfs2",
    ),
    (
        "drbd-end-only",
        "drbdmeta --force 0 v08 $i internal create-md; zero_front",
        "Member",
        "drbd",
    ),
    (
        "zfs-end-only",
        "pool; zero_front",
        "ForeignPool",
        "ZFS pool \"zfs-end-only\"",
    ),
    // ZFS, in all its states.
    (
        "zfs",
        "pool",
        "ForeignPool",
        "is a device of the exported ZFS pool \"zfs\"",
    ),
    (
        "zfs-imported",
        "pool_imported",
        "ForeignPool",
        "is a device of the ZFS pool \"zfs-imported\"",
    ),
    (
        "zfs-destroyed",
        "pool_imported; zpool destroy $name",
        "ForeignPool",
        "was a device of the destroyed ZFS pool",
    ),
    (
        "zfs-mirror",
        "pool_imported mirror $i $i.other; zpool export $name",
        "ForeignPool",
        "exported",
    ),
    (
        "zfs-spare",
        "pool_imported $i.other spare $i",
        "ForeignPool",
        "is a spare of a ZFS pool",
    ),
    (
        "zfs-log",
        "pool_imported $i.other log $i",
        "ForeignPool",
        "ZFS pool \"zfs-log\"",
    ),
    (
        "zfs-detached",
        "pool_imported mirror $i.other $i; zpool detach $name $i",
        "ForeignPool",
        "ZFS pool",
    ),
    (
        "zfs-without-lists",
        "pool; for at in 0 1 1278 1279; do dd if=/dev/urandom of=$i bs=1K seek=$((at * 256 + 16)) count=112 \
         conv=notrunc status=none; done",
        "ForeignPool",
        "ZFS label that cannot be understood",
    ),
    (
        "zfs-wiped-by-wipefs",
        "pool; wipefs -qa $i",
        "ForeignPool",
        "ZFS label that cannot be understood",
    ),
    // What nobody has a name for.
    (
        "noise",
        "dd if=/dev/urandom of=$i bs=1M count=8 conv=notrunc status=none",
        "",
        "",
    ),
    (
        "one-byte-in-front",
        "printf x | dd of=$i bs=1 seek=4194303 conv=notrunc status=none",
        "UnrecognisedData",
        "at byte 4194303",
    ),
    (
        "one-byte-at-the-end",
        "printf x | dd of=$i bs=1 seek=335544319 conv=notrunc status=none",
        "UnrecognisedData",
        "at byte 335544319",
    ),
    (
        "text",
        "echo 'the only copy' | dd of=$i conv=notrunc status=none",
        "UnrecognisedData",
        "at byte 0",
    ),
    (
        "ext4-wiped-by-wipefs",
        "mkfs.ext4 -q $i; wipefs -qa $i",
        "UnrecognisedData",
        "data at byte",
    ),
    (
        "xfs-wiped-by-wipefs",
        "mkfs.xfs -q $i; wipefs -qa $i",
        "UnrecognisedData",
        "data at byte",
    ),
    (
        "tar",
        "tar cf - -C / etc/apt | dd of=$i conv=notrunc status=none",
        "UnrecognisedData",
        "at byte 0",
    ),
];

/// What the scripts are made of.
const PRELUDE: &str = r#"
set -u
export LC_ALL=C.UTF-8
# on_loop COMMAND…: runs it on a device whose backing file is the image.
on_loop() {
  local loop
  loop=$(losetup --find --show $i)
  "$@" $loop
  udevadm settle
  losetup --detach $loop
}
md() {
  yes | mdadm --create /dev/md/corpus --quiet --run --metadata=$1 --level=1 --raid-devices=2 $2 missing
  mdadm --stop --quiet /dev/md/corpus
}
pool_imported() {
  truncate -s 320M $i.other
  zpool create -f -o cachefile=none -O mountpoint=none -O canmount=off $name ${@:-$i}
  zpool sync $name
}
pool() {
  pool_imported
  zpool export $name
}
"#;

#[derive(Debug, Deserialize)]
struct Answer {
    path: Utf8PathBuf,
    ownership: Ownership,
    probe: serde_json::Value,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
enum Ownership {
    Blank,
    Ours(Ours),
    Theirs(Vec<Finding>),
    Unknown { reason: String, message: String },
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct Ours {
    pool_name: String,
    pool_guid: Option<u64>,
    vdev_guid: u64,
    instance_uid: String,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Finding {
    reason: String,
    message: String,
}

/// Puts the program that inspects onto the node.
async fn install(node: &Node) -> Result<()> {
    let build = [
        "build",
        "--quiet",
        "--package=cstor-blockdev",
        "--example=inspect_image",
    ];
    Program::find_in_path("cargo")?
        .call()
        .inherit_env()
        .args(build)
        .deadline(Duration::from_secs(1800))
        .run()
        .await?;
    // Beside the directory that this test is in.
    let own = Utf8PathBuf::from_path_buf(std::env::current_exe()?)
        .ok()
        .context("the path is not UTF-8")?;
    let profile = own
        .ancestors()
        .nth(2)
        .context("the test is not in a target directory")?;
    let program = std::fs::read(profile.join("examples/inspect_image"))?;
    node.write_file(INSPECT, "0755", program).await
}

async fn inspect(node: &Node, arguments: &str) -> Result<Vec<Answer>> {
    let text = node.sh(&format!("{INSPECT} {arguments}")).await?;
    text.lines()
        .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
        .collect()
}

#[tokio::test]
async fn nothing_that_others_put_on_a_disk_is_taken_for_blank() {
    let mut cluster = Cluster::start("corpus", 1).await.unwrap();
    let node = cluster.node(0);
    install(node).await.unwrap();
    let mut script =
        format!("{PRELUDE}zero_front() {{ {ZERO_FRONT}; }}\nmodprobe -a loop raid1\nmkdir -p {CORPUS}\n");
    for (name, make, _, _) in IMAGES.iter().chain(&[("blank", ":", "", "")]) {
        script += &format!(
            "name={name}; i={CORPUS}/$name; truncate -s {MIB}M $i\n( set -e; {make} ) >$i.log 2>&1 </dev/null; [ $? = 0 ] || echo \"$name: $(cat $i.log)\"\n"
        );
    }
    assert_eq!(node.sh(&script).await.unwrap(), "", "an image could not be made");

    let names: Vec<_> = IMAGES
        .iter()
        .map(|(name, ..)| format!("{CORPUS}/{name}"))
        .collect();
    let answers = inspect(node, &format!("{CORPUS}/blank {}", names.join(" ")))
        .await
        .unwrap();
    let answers: BTreeMap<_, _> = answers
        .iter()
        .map(|answer| (answer.path.file_name().unwrap(), answer))
        .collect();
    let mut wrong = Vec::new();
    for (name, _, reason, message) in IMAGES {
        let answer = answers[name];
        let said = |finding: &Finding| {
            (reason.is_empty() || finding.reason == *reason) && finding.message.contains(message)
        };
        match &answer.ownership {
            Ownership::Theirs(findings) if findings.iter().any(said) => {}
            other => wrong.push(format!("{name}: {other:?} by {}", answer.probe)),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        IMAGES.len(),
        wrong.join("\n")
    );
    // So that this test can fail.
    assert_eq!(answers["blank"].ownership, Ownership::Blank);
    println!("{} images", IMAGES.len());
}

/// A pool on whole disks: in use, exported, destroyed; a stranger's, and ours.
#[tokio::test]
async fn a_disk_in_a_pool_is_ours_if_recorded_and_theirs_if_not() {
    let mut cluster = Cluster::start("corpus-disks", 1).await.unwrap();
    let node = cluster.node(0);
    install(node).await.unwrap();
    let data = node.plug_disk("1Gi", "data").await.unwrap().link();
    let cache = node.plug_disk("1Gi", "cache").await.unwrap().link();
    let answers = inspect(node, &format!("{data} {cache}")).await.unwrap();
    assert!(
        answers.iter().all(|answer| answer.ownership == Ownership::Blank),
        "{answers:?}"
    );

    let uid = "f2420c98-ce02-4bc8-b3c0-8266c0b62b69";
    let name = format!("cstor-{uid}");
    let comment = uid.replace('-', "");
    node.sh(&format!(
        "zpool create -o cachefile=none -o comment={comment} -O mountpoint=none {name} {data} cache {cache}; \
         zpool sync; udevadm settle"
    ))
    .await
    .unwrap();
    let of_a_label = |link: &str| format!("zdb -l {link}-part1 | sed -n 's/^    guid: //p' | head -n 1");
    let guids = node
        .sh(&format!(
            "zpool get -H -o value guid {name}; {}; {}",
            of_a_label(&data),
            of_a_label(&cache)
        ))
        .await
        .unwrap();
    let guids: Vec<u64> = guids.lines().map(|line| line.trim().parse().unwrap()).collect();
    let [pool, data_vdev, cache_vdev] = guids[..] else {
        panic!("{guids:?}")
    };
    let ours = |vdev_guid| {
        Ownership::Ours(Ours {
            pool_name: name.clone(),
            pool_guid: Some(pool),
            vdev_guid,
            instance_uid: uid.into(),
        })
    };
    let recorded = format!("record={uid}:{pool}:");
    for (state, command) in [
        ("imported", "true"),
        ("exported", "export"),
        ("destroyed", "destroy"),
    ] {
        let change = match command {
            "true" => String::new(),
            "destroy" => {
                format!("zpool import -d {data}-part1 -d {cache}-part1 {name}; zpool destroy {name}")
            }
            other => format!("zpool {other} {name}"),
        };
        node.sh(&change).await.unwrap();
        // Nobody's: no record, or that of another device.
        for records in ["", "record=another:1:2"] {
            let answers = inspect(node, &format!("{records} {data} {cache}")).await.unwrap();
            for answer in answers {
                let Ownership::Theirs(findings) = &answer.ownership else {
                    panic!("{state}: {answer:?}")
                };
                assert_eq!(findings[0].reason, "ForeignPool", "{state}: {answer:?}");
            }
        }
        let answers = inspect(node, &format!("{recorded}{data_vdev} {data}"))
            .await
            .unwrap();
        assert_eq!(answers[0].ownership, ours(data_vdev), "{state}");
        let answers = inspect(node, &format!("{recorded}{cache_vdev} {cache}"))
            .await
            .unwrap();
        assert_eq!(answers[0].ownership, ours(cache_vdev), "{state}");
        // Made by us and not recorded: the comment tells.
        let answers = inspect(node, &format!("{recorded}1 {data}")).await.unwrap();
        assert_eq!(answers[0].ownership, ours(data_vdev), "{state}");
        // Our comment on a pool that is not the one we recorded.
        let answers = inspect(node, &format!("record={uid}:1:{data_vdev} {data}"))
            .await
            .unwrap();
        assert!(
            matches!(&answers[0].ownership, Ownership::Theirs(_)),
            "{state}: {answers:?}"
        );
    }
}

/// However often a dead disk is looked at, it costs one process, and the others are looked at meanwhile.
#[tokio::test]
async fn a_dead_disk_costs_one_process_and_delays_nobody() {
    let mut cluster = Cluster::start("corpus-dead", 1).await.unwrap();
    let node = cluster.node(0);
    install(node).await.unwrap();
    let under = node.plug_disk("1Gi", "under").await.unwrap().link();
    let well = node.plug_disk("1Gi", "well").await.unwrap().link();
    node.sh(&format!(
        "echo \"0 2097152 linear {under} 0\" | dmsetup create dead; udevadm settle; dmsetup suspend --noflush dead"
    ))
    .await
    .unwrap();
    let dead = "/dev/mapper/dead";
    let stuck = "pgrep --exact wipefs | wc -l";
    let answers = inspect(node, &format!("deadline=60 times=10 {dead} {well}"))
        .await
        .unwrap();
    for pair in answers.chunks(2) {
        let [dead, well] = pair else { panic!("{pair:?}") };
        assert!(
            matches!(&dead.ownership, Ownership::Unknown { reason, .. } if reason == "NotResponding"),
            "{dead:?}"
        );
        assert_eq!(well.ownership, Ownership::Blank);
    }
    assert_eq!(node.sh(stuck).await.unwrap().trim(), "1");
    node.sh("dmsetup resume dead").await.unwrap();
    let answers = inspect(node, dead).await.unwrap();
    assert_eq!(answers[0].ownership, Ownership::Blank);
    assert_eq!(node.sh(stuck).await.unwrap().trim(), "0");

    // One that answers with errors is told with them, and never as blank: all of it, or its last bytes alone.
    node.sh("dmsetup create bad --table '0 2097152 error'; udevadm settle")
        .await
        .unwrap();
    let tail = format!("0 2097144 linear {under} 0\\n2097144 8 error");
    node.sh(&format!("printf '{tail}' | dmsetup create tail; udevadm settle"))
        .await
        .unwrap();
    for answer in inspect(node, "/dev/mapper/bad /dev/mapper/tail").await.unwrap() {
        let Ownership::Unknown { reason, message } = &answer.ownership else {
            panic!("{answer:?}")
        };
        assert_eq!(reason, "Unreadable");
        assert!(message.contains("Input/output error"), "{message}");
    }
    // Somebody has it for himself.
    node.sh("dmsetup resume dead; dmsetup create over --table \"0 2048 linear /dev/mapper/dead 0\"")
        .await
        .unwrap();
    let answers = inspect(node, dead).await.unwrap();
    assert!(
        matches!(&answers[0].ownership, Ownership::Theirs(found) if found[0].reason == "Held"),
        "{answers:?}"
    );
}
