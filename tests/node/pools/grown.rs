//! A pool grows.

use cstor_api::names::phase::PoolPhase;
use cstor_api::names::{condition, reason};
use serde_json::json;

use super::{Stage, is_in, says, spec, total};

#[tokio::test]
async fn a_full_pool_says_so_and_grows_by_a_group_and_by_larger_disks() {
    let mut stage = Stage::new("grown").await;
    let disks = stage.disks("512Mi", &["grow-A", "grow-B"]).await;
    let [a, b] = [0, 1].map(|index| disks[index].1.clone());
    stage.create("grown", spec("stripe", &[&[&a]])).await;
    let pool = stage.online("grown").await;
    let first = total(&pool);
    let name = super::pool_name(&pool);
    // As full as ZFS lets it become.
    let script = format!(
        "zfs create -V 900M -s {name}/data; udevadm settle; \
         dd if=/dev/urandom of=/dev/zvol/{name}/data bs=1M count=900 oflag=direct status=none 2>/dev/null || true; zpool sync {name}; \
         zfs list -Hp -o available {name}/data"
    );
    let free: u64 = stage.node().sh(&script).await.unwrap().trim().parse().unwrap();
    assert!(free < first / 20, "{free} of {first} are free");
    stage
        .until("grown", "full", |pool| {
            says(pool, condition::READ_ONLY, "True", reason::READ_ONLY_THRESHOLD)
                && pool.status.as_ref().unwrap().read_only == Some(true)
        })
        .await;
    stage
        .patch(
            "grown",
            json!({ "spec": { "dataRaidGroups": super::data(&[&[&a], &[&b]]) } }),
        )
        .await;
    let grown = stage
        .until("grown", "larger", |pool| {
            pool.status.as_ref().unwrap().read_only == Some(false)
                && says(pool, condition::READ_ONLY, "False", reason::WRITABLE)
                && total(pool) > first * 3 / 2
        })
        .await;
    assert!(is_in(&grown, &PoolPhase::Online));

    // A disk grows, and the pool with it.
    let before = total(&grown);
    let disk = disks[0].0.clone();
    stage.node().grow(&disk, "1Gi").await.unwrap();
    stage
        .until("grown", "larger still", |pool| total(pool) > before + (256 << 20))
        .await;
}

#[tokio::test]
async fn a_raidz_group_is_widened_by_a_disk_and_a_mirror_by_a_copy() {
    let mut stage = Stage::new("widened").await;
    let disks = stage
        .disks(
            "256Mi",
            &[
                "wide-A", "wide-B", "wide-C", "wide-D", "wide-E", "wide-F", "wide-G",
            ],
        )
        .await;
    let [a, b, c, d, e, f, g] = [0, 1, 2, 3, 4, 5, 6].map(|index| disks[index].1.clone());
    stage.create("raidz", spec("raidz", &[&[&a, &b, &c]])).await;
    let pool = stage.online("raidz").await;
    let sum = stage.fill(&pool, 48).await;
    stage
        .patch(
            "raidz",
            json!({ "spec": { "dataRaidGroups": super::data(&[&[&a, &b, &c, &d]]) } }),
        )
        .await;
    stage
        .until("raidz", "widened", |pool| {
            says(
                pool,
                condition::POOL_EXPANSION,
                "False",
                reason::POOL_EXPANSION_SUCCESSFUL,
            ) && super::states(pool).contains_key(&d)
        })
        .await;
    assert_eq!(stage.checksum(&pool).await, sum);

    stage.create("mirror", spec("mirror", &[&[&e, &f]])).await;
    stage.online("mirror").await;
    stage
        .patch(
            "mirror",
            json!({ "spec": { "dataRaidGroups": super::data(&[&[&e, &f, &g]]) } }),
        )
        .await;
    stage
        .until("mirror", "a mirror of three", |pool| {
            is_in(pool, &PoolPhase::Online)
                && super::states(pool).get(&g).map(String::as_str) == Some("ONLINE")
        })
        .await;
}
