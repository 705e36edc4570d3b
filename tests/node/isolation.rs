//! Every test gets nodes of its own, and nodes are told apart.

use std::collections::BTreeSet;

use cstor_harness::cluster::Cluster;

#[tokio::test]
async fn a_fresh_node_knows_nothing_of_the_one_before() {
    let mut first = Cluster::start("isolation", 1).await.unwrap();
    first
        .node(0)
        .sh("echo mine > /root/left-behind; sync")
        .await
        .unwrap();
    first.node(0).plug_disk("64Mi", "left-behind").await.unwrap();
    drop(first);
    let mut second = Cluster::start("isolation", 1).await.unwrap();
    let seen = second.node(0).sh("ls /root; ls /dev/disk/by-id").await.unwrap();
    assert!(!seen.contains("left-behind"), "{seen}");
}

#[tokio::test]
async fn nodes_differ_in_all_that_identifies_them_and_keep_it() {
    let mut cluster = Cluster::start("identity", 2).await.unwrap();
    let script = "hostname; cat /etc/machine-id; hostid; cat /sys/class/net/storage0/address";
    let one = cluster.node(0).sh(script).await.unwrap();
    let two = cluster.node(1).sh(script).await.unwrap();
    let pairs: Vec<_> = one.lines().zip(two.lines()).collect();
    assert_eq!(pairs.len(), 4, "{one}\n{two}");
    assert_eq!(pairs[0], ("node-1", "node-2"));
    for (one, two) in &pairs {
        assert_ne!(one, two);
    }
    let distinct: BTreeSet<_> = pairs.iter().map(|(one, _)| one).collect();
    assert_eq!(distinct.len(), 4, "{one}");

    let node = cluster.node(1);
    node.power_cut().await.unwrap();
    node.boot().await.unwrap();
    assert_eq!(node.sh(script).await.unwrap(), two);
}

/// ZFS draws the numbers by which it knows pools and disks from a generator that is seeded when its module is loaded.
/// Nodes share the memory they start from, and must not share that.
#[tokio::test]
async fn two_nodes_never_make_pools_of_one_guid() {
    let mut cluster = Cluster::start("guids", 2).await.unwrap();
    let mut guids = BTreeSet::new();
    for index in 0..2 {
        let node = cluster.node(index);
        let disk = node.plug_disk("1Gi", "disk").await.unwrap();
        node.sh(&format!("zpool create -o cachefile=none tank {}", disk.link()))
            .await
            .unwrap();
        // By GUID instead of by name: the pool, then its one disk.
        let script =
            "zpool get -H -p -o value guid tank; zpool status -g tank | awk '$1 ~ /^[0-9]+$/ {print $1}'";
        guids.extend(node.sh(script).await.unwrap().lines().map(str::to_owned));
    }
    assert_eq!(guids.len(), 4, "{guids:?}");
}

#[tokio::test]
async fn the_clock_of_a_fresh_node_is_right() {
    let mut cluster = Cluster::start("clock", 1).await.unwrap();
    let before = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let node: u64 = cluster
        .node(0)
        .sh("date +%s")
        .await
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    // A snapshot's clock stands days or months back; this is about that, and not about seconds.
    assert!(
        node.abs_diff(before) < 3600,
        "the node says {node}, the host {before}"
    );
}
