//! What is wrong is refused, and nothing is written to any disk.

use cstor_api::names::phase::PoolPhase;
use cstor_api::names::{condition, reason};
use serde_json::json;

use super::{Stage, is_in, message, says, spec};

/// The checksums of disks, read past all caches.
async fn sums(stage: &mut Stage, disks: &[&str]) -> String {
    let script: String = disks
        .iter()
        .map(|link| format!("dd if={link} bs=1M iflag=direct status=none | md5sum;"))
        .collect();
    stage.node().sh(&script).await.unwrap()
}

#[tokio::test]
async fn wrong_devices_are_refused_with_the_reason_and_nothing_is_written() {
    let mut stage = Stage::new("wrong-devices").await;
    let disks = stage
        .disks("128Mi", &["wrong-A", "wrong-B", "wrong-C", "wrong-D"])
        .await;
    let small = stage.node().plug_disk("32Mi", "wrong-S").await.unwrap();
    let small_name = stage
        .objects
        .named(
            |object| crate::published::serial_of(object) == Some("wrong-S"),
            "wrong-S",
        )
        .await;
    let [a, b, c, d] = [0, 1, 2, 3].map(|index| disks[index].1.clone());
    let links: Vec<String> = disks.iter().map(|(disk, _)| disk.link()).collect();
    let script = format!(
        "mkfs.ext4 -q {}; zpool create -f foreign {} && zpool export foreign; udevadm settle",
        links[1], links[2]
    );
    stage.node().sh(&script).await.unwrap();
    let claim = json!({
        "apiVersion": "openebs.io/v1alpha1", "kind": "BlockDeviceClaim",
        "metadata": { "name": "somebody", "namespace": "openebs" },
        "spec": { "blockDeviceName": d, "resources": { "requests": { "storage": "1Mi" } } },
    });
    stage.installation.apply(&claim).await.unwrap();
    stage
        .objects
        .until(&d, "claimed", |object| object.spec.claim_ref.is_some())
        .await;
    let small_link = small.link();
    let mut all: Vec<&str> = links.iter().map(String::as_str).collect();
    all.push(&small_link);
    let before = sums(&mut stage, &all).await;
    for (name, wrong, why) in [
        ("file-system", b.as_str(), reason::FILE_SYSTEM),
        ("foreign-pool", c.as_str(), reason::FOREIGN_POOL),
        ("claimed", d.as_str(), reason::CLAIMED),
        ("too-small", small_name.as_str(), reason::UNSUITABLE),
        (
            "absent",
            "blockdevice-that-is-not-there",
            reason::DEVICE_NOT_FOUND,
        ),
    ] {
        stage.create(name, spec("mirror", &[&[&a, wrong]])).await;
        let refused = stage
            .until(name, "refused", |pool| says(pool, condition::READY, "False", why))
            .await;
        assert!(is_in(&refused, &PoolPhase::Pending));
        let said = message(&refused, condition::READY);
        assert!(
            said.contains(wrong) && said.contains("nothing was written"),
            "{name}: {said}"
        );
        // A wish that is taken back leaves nothing behind.
        stage.delete(name).await;
    }
    for (name, wrong) in [
        ("twice", spec("mirror", &[&[&a, &a]])),
        ("mirror-of-one", spec("mirror", &[&[&a]])),
    ] {
        let object = super::instance(name, wrong);
        let refused = stage
            .pools
            .create(&Default::default(), &object)
            .await
            .unwrap_err();
        assert!(refused.to_string().contains("block device"), "{name}: {refused}");
    }
    assert_eq!(sums(&mut stage, &all).await, before);
    assert_eq!(stage.node().sh("zpool list -H").await.unwrap(), "");

    // A bad wish that is mended becomes a pool.
    stage.create("mended", spec("stripe", &[&[&b]])).await;
    stage
        .until("mended", "refused", |pool| {
            says(pool, condition::READY, "False", reason::FILE_SYSTEM)
        })
        .await;
    stage
        .patch(
            "mended",
            json!({ "spec": { "dataRaidGroups": super::data(&[&[&a]]) } }),
        )
        .await;
    stage.online("mended").await;
}
