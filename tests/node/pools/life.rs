//! A pool is made, survives, and goes.

use cstor_api::names::phase::PoolPhase;
use cstor_api::names::{condition, reason};
use cstor_harness::seed::Seed;
use serde_json::json;

use super::{Stage, data, is_in, named, pool_guid, pool_name, says, spec, states};

/// Every topology, one after the other on the same disks: what one pool gives back the next can use.
#[tokio::test]
async fn a_pool_of_every_topology_is_made_and_its_disks_are_given_back_blank() {
    let mut stage = Stage::new("topologies").await;
    let serials = ["A", "B", "C", "D", "E"].map(|letter| format!("topology-{letter}"));
    let serials: Vec<&str> = serials.iter().map(String::as_str).collect();
    let disks = stage.disks("256Mi", &serials).await;
    let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|index| disks[index].1.as_str());
    let mut draid = spec("draid", &[&[a, b, c, d, e]]);
    draid["poolConfig"]["draid"] = json!({ "parity": 1, "data": 2, "spares": 1 });
    let mut extras = spec("stripe", &[&[a]]);
    extras["poolConfig"]["writeCacheGroupType"] = json!("stripe");
    extras["poolConfig"]["specialGroupType"] = json!("stripe");
    extras["writeCacheRaidGroups"] = data(&[&[b]]);
    extras["specialRaidGroups"] = data(&[&[c]]);
    extras["readCacheBlockDevices"] = named(&[d]);
    extras["spareBlockDevices"] = named(&[e]);
    let mut all = vec![
        (
            "stripe",
            spec("stripe", &[&[a, b]]),
            vec!["topology-A", "topology-B"],
        ),
        (
            "mirror",
            spec("mirror", &[&[a, b], &[c, d]]),
            vec!["mirror-0", "mirror-1"],
        ),
        ("raidz", spec("raidz", &[&[a, b, c]]), vec!["raidz1-0"]),
        ("raidz2", spec("raidz2", &[&[a, b, c, d]]), vec!["raidz2-0"]),
        ("raidz3", spec("raidz3", &[&[a, b, c, d, e]]), vec!["raidz3-0"]),
        ("draid", draid, vec!["draid1:2d:5c:1s-0"]),
        ("extras", extras, vec!["logs", "special", "cache", "spares"]),
    ];
    if !std::env::var("CSTOR_FULL").is_ok_and(|full| full == "1") {
        // Each takes most of a minute: two by chance, and the last, which has every kind of device.
        let mut chance = usize::try_from(Seed::choose("node every_topology").value()).unwrap();
        while all.len() > 3 {
            let others = all.len() - 1;
            all.remove(chance % others);
            chance /= others;
        }
    }
    for (name, spec, words) in all {
        stage.create(name, spec).await;
        let pool = stage.online(name).await;
        let shown = stage
            .node()
            .sh(&format!("zpool status {}", pool_name(&pool)))
            .await
            .unwrap();
        for word in words {
            assert!(shown.contains(word), "{name}: {word} is missing in {shown}");
        }
        let states = states(&pool);
        assert!(states.len() >= 2, "{name}: {states:?}");
        stage.delete(name).await;
        for serial in &serials {
            stage.objects.blank(serial).await;
        }
    }
    assert_eq!(stage.node().sh("zpool list -H").await.unwrap(), "");
}

#[tokio::test]
async fn a_pool_is_found_again_after_a_power_cut_whatever_its_disks_are_called() {
    let mut stage = Stage::new("found-again").await;
    let disks = stage.disks("512Mi", &["again-A", "again-B"]).await;
    stage
        .create("kept", spec("mirror", &[&[&disks[0].1, &disks[1].1]]))
        .await;
    let pool = stage.online("kept").await;
    let sum = stage.fill(&pool, 64).await;
    let before = stage.node().sh("lsblk -no NAME,SERIAL | sort").await.unwrap();

    stage.node().power_cut().await.unwrap();
    stage.node().reverse_order().unwrap();
    stage.node().boot().await.unwrap();
    let installation = stage.installation.clone();
    installation.await_agent(stage.node()).await.unwrap();
    let guid = pool_guid(&pool);
    let script = format!("until zpool list -H -o guid | grep -q {guid}; do sleep 1; done");
    tokio::time::timeout(super::TOLD_WITHIN, stage.node().sh(&script))
        .await
        .unwrap()
        .unwrap();
    let after = stage.node().sh("lsblk -no NAME,SERIAL | sort").await.unwrap();
    assert_ne!(before, after, "the disks have other names now");
    let again = stage.online("kept").await;
    assert_eq!(pool_guid(&again), guid);
    assert_eq!(stage.checksum(&pool).await, sum);

    // It does not go while something is in it.
    stage.pools.delete("kept", &Default::default()).await.unwrap();
    let blocked = stage
        .until("kept", "blocked", |pool| {
            says(pool, condition::DELETION_BLOCKED, "True", reason::DATASETS_EXIST)
        })
        .await;
    assert!(super::message(&blocked, condition::DELETION_BLOCKED).contains("/data"));
    assert_eq!(stage.checksum(&pool).await, sum);
    let destroy = format!("zfs destroy {}/data", pool_name(&pool));
    stage.node().sh(&destroy).await.unwrap();
    let gone = kube::runtime::wait::await_condition(
        stage.pools.clone(),
        "kept",
        kube::runtime::wait::conditions::is_deleted(pool.metadata.uid.as_deref().unwrap()),
    );
    tokio::time::timeout(super::TOLD_WITHIN, gone)
        .await
        .unwrap()
        .unwrap();
    for serial in ["again-A", "again-B"] {
        stage.objects.blank(serial).await;
    }
}

#[tokio::test]
async fn a_pool_that_was_made_by_hand_is_adopted_as_it_is_and_a_lost_one_says_so() {
    let mut stage = Stage::new("adopted").await;
    let disks = stage.disks("512Mi", &["adopt-A"]).await;
    let (disk, name) = &disks[0];
    let script = format!(
        "zpool create -O compression=zstd -O canmount=off tank {} && zpool get -H -o value guid tank && zpool export tank",
        disk.link()
    );
    let guid = stage.node().sh(&script).await.unwrap().trim().to_owned();
    let mut object = super::instance("adopted", spec("stripe", &[&[name]]));
    stage.pools.create(&Default::default(), &object).await.unwrap();
    let refused = stage
        .until("adopted", "refused", |pool| {
            says(pool, condition::READY, "False", reason::FOREIGN_POOL)
        })
        .await;
    assert!(is_in(&refused, &PoolPhase::Pending));
    stage.delete("adopted").await;

    object.metadata.annotations = Some([("cstor.openebs.io/adopt-pool".to_owned(), guid.clone())].into());
    stage.pools.create(&Default::default(), &object).await.unwrap();
    let adopted = stage.online("adopted").await;
    assert_eq!(
        (pool_name(&adopted).as_str(), pool_guid(&adopted)),
        ("tank", guid.clone())
    );
    let compression = stage
        .node()
        .sh("zfs get -H -o value compression tank")
        .await
        .unwrap();
    assert_eq!(compression.trim(), "zstd");

    // Its disk is gone: so is the pool, and it is never made again.
    let (disk, installation) = (disk.clone(), stage.installation.clone());
    installation.stop_agent(stage.node()).await.unwrap();
    stage.node().sh("zpool export tank").await.unwrap();
    stage.node().pull(&disk).await.unwrap();
    stage.node().sh("systemctl start cstor-agent").await.unwrap();
    let lost = stage
        .until("adopted", "lost", |pool| {
            says(pool, condition::POOL_LOST, "True", reason::POOL_LOST)
        })
        .await;
    assert!(super::message(&lost, condition::POOL_LOST).contains(name.as_str()));
    stage.node().plug_again(disk).await.unwrap();
    let found = stage.online("adopted").await;
    assert!(says(&found, condition::POOL_LOST, "False", reason::POOL_FOUND));
}
