//! A pool that loses disks says so, and is mended.

use cstor_api::names::phase::PoolPhase;
use cstor_api::names::{condition, reason};
use serde_json::json;

use super::{Stage, is_in, message, named, says, spec, states};

#[tokio::test]
async fn a_pulled_disk_is_told_and_resilvered_when_it_is_back() {
    let mut stage = Stage::new("pulled").await;
    let disks = stage.disks("512Mi", &["pulled-A", "pulled-B"]).await;
    stage
        .create("pulled", spec("mirror", &[&[&disks[0].1, &disks[1].1]]))
        .await;
    let pool = stage.online("pulled").await;
    let sum = stage.fill(&pool, 32).await;

    let (disk, name) = disks[1].clone();
    stage.node().pull(&disk).await.unwrap();
    let degraded = stage
        .until("pulled", "degraded", |pool| {
            is_in(pool, &PoolPhase::Degraded) && says(pool, condition::READY, "True", reason::POOL_DEGRADED)
        })
        .await;
    assert!(message(&degraded, condition::DISK_UNAVAILABLE).contains(&name));
    assert_ne!(states(&degraded)[&name], "ONLINE");
    // Something happens that the disk has not seen.
    let write = format!(
        "dd if=/dev/urandom of=/dev/zvol/{}/data bs=1M count=8 seek=8 oflag=direct conv=notrunc status=none",
        super::pool_name(&pool)
    );
    stage.node().sh(&write).await.unwrap();
    let changed = stage.checksum(&pool).await;
    assert_ne!(changed, sum);

    stage.node().plug_again(disk).await.unwrap();
    let mended = stage
        .until("pulled", "mended", |pool| {
            is_in(pool, &PoolPhase::Online)
                && says(
                    pool,
                    condition::DISK_UNAVAILABLE,
                    "False",
                    reason::DISKS_AVAILABLE,
                )
        })
        .await;
    assert_eq!(states(&mended)[&name], "ONLINE");
    assert_eq!(stage.checksum(&pool).await, changed);
}

#[tokio::test]
async fn a_disk_is_replaced_by_the_one_that_the_spec_names_and_a_spare_stands_in_for_a_failed_one() {
    let mut stage = Stage::new("replaced").await;
    let disks = stage
        .disks("512Mi", &["swap-A", "swap-B", "swap-C", "swap-S"])
        .await;
    let [a, b, c, s] = [0, 1, 2, 3].map(|index| disks[index].1.clone());
    let mut wish = spec("mirror", &[&[&a, &b]]);
    wish["spareBlockDevices"] = named(&[&s]);
    stage.create("swapped", wish).await;
    let pool = stage.online("swapped").await;
    let sum = stage.fill(&pool, 32).await;

    // A person puts another disk in the place of one that works.
    stage
        .patch(
            "swapped",
            json!({ "spec": { "dataRaidGroups": super::data(&[&[&a, &c]]) } }),
        )
        .await;
    let swapped = stage
        .until("swapped", "replaced", |pool| {
            let states = states(pool);
            is_in(pool, &PoolPhase::Online)
                && states.get(&c).map(String::as_str) == Some("ONLINE")
                && !states.contains_key(&b)
                && says(
                    pool,
                    condition::DISK_REPLACEMENT,
                    "False",
                    reason::REPLACEMENT_SUCCEEDED,
                )
        })
        .await;
    assert_eq!(states(&swapped)[&s], "AVAIL");
    assert_eq!(stage.checksum(&pool).await, sum);

    // One fails, and the spare takes over; when it is back, the spare waits again.
    let (disk, _) = disks[2].clone();
    stage.node().pull(&disk).await.unwrap();
    stage
        .until("swapped", "covered by the spare", |pool| {
            let vdevs = pool
                .status
                .iter()
                .flat_map(|status| status.vdevs.iter().flatten());
            let spare = vdevs.clone().any(|vdev| vdev.type_ == "spare");
            let scanned = pool.status.as_ref().and_then(|status| status.scan.as_ref());
            spare && scanned.is_some_and(|scan| scan.end_time.is_some())
        })
        .await;
    assert_eq!(stage.checksum(&pool).await, sum);
    stage.node().plug_again(disk).await.unwrap();
    stage
        .until("swapped", "relieved", |pool| {
            is_in(pool, &PoolPhase::Online) && states(pool).get(&s).map(String::as_str) == Some("AVAIL")
        })
        .await;
    assert_eq!(stage.checksum(&pool).await, sum);
}
