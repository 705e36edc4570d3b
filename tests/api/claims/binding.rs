//! Which claim gets which disk, and how it gives it back.

use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{Cluster, GI, bound, size};
use crate::engine::until;

#[tokio::test]
async fn a_claim_gets_the_disk_it_names_and_gives_it_back() {
    let cluster = Cluster::new().await;
    let _running = cluster.run();
    cluster.publish("disk", 10 * GI, "NothingFound").await;
    cluster.device_is("disk", "claimState", "Unclaimed").await;
    cluster.claim("mine", json!({"blockDeviceName": "disk"})).await;
    let claim = cluster.is("mine", "Bound", "DeviceBound").await;
    assert_eq!(
        claim["metadata"]["finalizers"],
        json!(["openebs.io/bdc-protection"])
    );
    let device = cluster.device("disk").await;
    assert_eq!(
        device["spec"]["claimRef"],
        json!({
            "apiVersion": "openebs.io/v1alpha1", "kind": "BlockDeviceClaim", "name": "mine",
            "namespace": cluster.namespace, "uid": claim["metadata"]["uid"],
        })
    );
    assert_eq!(device["status"]["claimState"], "Claimed");
    assert_eq!(
        device["metadata"]["finalizers"],
        json!(["openebs.io/bd-protection"])
    );

    // The agent goes on saying what it sees, and takes nothing away.
    cluster.publish("disk", 11 * GI, "InOurPool").await;
    let device = cluster.device("disk").await;
    assert_eq!(device["spec"]["capacity"]["storage"], 11 * GI);
    assert_eq!(device["spec"]["claimRef"]["name"], "mine");
    assert_eq!(device["status"]["claimState"], "Claimed");
    assert_eq!(
        device["metadata"]["finalizers"],
        json!(["openebs.io/bd-protection"])
    );

    // While a pool is on it, the claim stays.
    cluster.delete("mine").await;
    until("the claim says why it stays", async || {
        let claim = json!(cluster.claims.get("mine").await.unwrap());
        let mut conditions = claim["status"]["conditions"].as_array().unwrap().iter();
        conditions
            .any(|condition| condition["type"] == "DeletionBlocked" && condition["reason"] == "InUse")
            .then_some(())
    })
    .await;
    assert_eq!(cluster.device("disk").await["spec"]["claimRef"]["name"], "mine");
    cluster.publish("disk", 11 * GI, "UnrecognisedData").await;
    cluster.gone("mine").await;
    let device = cluster.device_is("disk", "claimState", "Released").await;
    assert_eq!(
        (&device["spec"]["claimRef"], &device["metadata"]["finalizers"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(device["status"]["state"], "Active");
    // Cleared by somebody, it is to be had again.
    cluster.publish("disk", 11 * GI, "NothingFound").await;
    cluster.device_is("disk", "claimState", "Unclaimed").await;
    for reason in ["BlockDeviceClaimed", "BlockDeviceReleased", "InUse"] {
        assert_eq!(cluster.events(reason).await.len(), 1, "{reason}");
    }
}

#[tokio::test]
async fn a_claim_by_size_gets_the_smallest_that_fits_and_says_why_not() {
    let cluster = Cluster::new().await;
    let running = cluster.run();
    cluster.claim("mine", size("10Gi")).await;
    let claim = cluster.is("mine", "Pending", "NoDeviceFits").await;
    assert!(
        bound(&claim)["message"]
            .as_str()
            .unwrap()
            .starts_with("There is no BlockDevice"),
        "{claim}"
    );
    cluster.publish("small", 5 * GI, "NothingFound").await;
    cluster.publish("formatted", 20 * GI, "FileSystem").await;
    until("every device has its reason", async || {
        let claim = json!(cluster.claims.get("mine").await.unwrap());
        let expected = "No BlockDevice fits. not blank (FileSystem): formatted; smaller than 10Gi: small";
        (bound(&claim)["message"] == expected).then_some(())
    })
    .await;
    // Disks that come while nobody looks are there all at once for the next process.
    drop(running);
    for (name, size) in [("large", 40), ("twin", 20), ("middle", 20)] {
        cluster.publish(name, size * GI, "NothingFound").await;
    }
    let _running = cluster.run();
    let claim = cluster.is("mine", "Bound", "DeviceBound").await;
    assert_eq!(claim["spec"]["blockDeviceName"], "middle");
    assert_eq!(
        claim["status"]["observedGeneration"],
        claim["metadata"]["generation"]
    );
    cluster.claim("nonsense", size("0")).await;
    cluster
        .is("nonsense", "Invalid Capacity Request", "InvalidRequest")
        .await;
}

#[tokio::test]
async fn of_many_claims_each_disk_has_one() {
    let cluster = Cluster::new().await;
    let _running = cluster.run();
    let disks = ["a", "b", "c"];
    for disk in disks {
        cluster.publish(disk, 10 * GI, "NothingFound").await;
    }
    let claims: Vec<String> = (0..6).map(|number| format!("claim-{number}")).collect();
    for (number, claim) in claims.iter().enumerate() {
        let spec = if number % 2 == 0 {
            size("1Gi")
        } else {
            json!({"blockDeviceName": "b"})
        };
        cluster.claim(claim, spec).await;
    }
    let settled = async || {
        let list = cluster.claims.list(&ListParams::default()).await.unwrap().items;
        let phases: Vec<Value> = list
            .iter()
            .map(|claim| json!(claim)["status"]["phase"].clone())
            .collect();
        let count = |phase: &str| phases.iter().filter(|known| **known == phase).count();
        (count("Bound") == 3 && count("Pending") == 3).then_some(list)
    };
    let list = until("three have a disk and three have not", settled).await;
    let mut owners = Vec::new();
    for disk in disks {
        owners.push(
            cluster.device(disk).await["spec"]["claimRef"]["name"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    for claim in list.iter().map(|claim| json!(claim)) {
        let name = claim["metadata"]["name"].as_str().unwrap();
        let has = owners.iter().filter(|owner| *owner == name).count();
        assert_eq!(has == 1, claim["status"]["phase"] == "Bound", "{claim}");
        let number: usize = name.trim_start_matches("claim-").parse().unwrap();
        if has == 0 && number % 2 == 1 {
            let message = format!(
                "b is claimed by BlockDeviceClaim {}/{}",
                cluster.namespace, owners[1]
            );
            assert_eq!(bound(&claim)["message"], message.as_str());
        }
    }
}

#[tokio::test]
async fn what_is_to_be_left_alone_is() {
    let cluster = Cluster::new().await;
    let _running = cluster.run();
    cluster.publish("disk", GI, "NothingFound").await;
    cluster.publish("untouched", GI, "NothingFound").await;
    let alone = json!({"annotations": {"openebs.io/reconcile": "false"}});
    let patch = Patch::Merge(json!({"metadata": alone.clone()}));
    cluster
        .devices
        .patch("untouched", &PatchParams::default(), &patch)
        .await
        .unwrap();
    cluster
        .claim_with("alone", json!({"blockDeviceName": "disk"}), alone)
        .await;
    cluster.claim("other", json!({"blockDeviceName": "disk"})).await;
    cluster.is("other", "Bound", "DeviceBound").await;
    let claim = json!(cluster.claims.get("alone").await.unwrap());
    assert_eq!(
        (&claim["status"], &claim["metadata"]["finalizers"]),
        (&Value::Null, &Value::Null)
    );
    cluster
        .claim("wants-it", json!({"blockDeviceName": "untouched"}))
        .await;
    cluster.is("wants-it", "Pending", "NoDeviceFits").await;
    assert_eq!(cluster.device("untouched").await["spec"]["claimRef"], Value::Null);
    cluster.delete("alone").await;
    cluster.gone("alone").await;
}

#[tokio::test]
async fn a_claim_removed_by_force_leaves_no_disk_behind() {
    let cluster = Cluster::new().await;
    let _running = cluster.run();
    cluster.publish("disk", GI, "ForeignPool").await;
    let kept = json!({"finalizers": ["test.cstor.io/keep"]});
    cluster
        .claim_with("forced", json!({"blockDeviceName": "disk"}), kept)
        .await;
    cluster.is("forced", "Bound", "DeviceBound").await;
    // A person deletes the BlockDevice, too. It stays while it is claimed.
    cluster
        .devices
        .delete("disk", &DeleteParams::default())
        .await
        .unwrap();
    until("it says why it stays", async || {
        (!cluster.events("BlockDeviceHeld").await.is_empty()).then_some(())
    })
    .await;
    cluster.delete("forced").await;
    let force = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    cluster
        .claims
        .patch("forced", &PatchParams::default(), &force)
        .await
        .unwrap();
    until("the device is let go", async || {
        cluster
            .devices
            .get_opt("disk")
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
    // Once more, with a disk that stays.
    cluster.publish("disk", GI, "ForeignPool").await;
    let kept = json!({"finalizers": ["test.cstor.io/keep"]});
    cluster
        .claim_with("forced", json!({"blockDeviceName": "disk"}), kept)
        .await;
    cluster.is("forced", "Bound", "DeviceBound").await;
    cluster.delete("forced").await;
    cluster
        .claims
        .patch("forced", &PatchParams::default(), &force)
        .await
        .unwrap();
    let device = cluster.device_is("disk", "claimState", "Released").await;
    assert_eq!(
        (&device["spec"]["claimRef"], &device["metadata"]["finalizers"]),
        (&Value::Null, &Value::Null)
    );
    // Its successor of the same name has it.
    cluster.claim("forced", json!({"blockDeviceName": "disk"})).await;
    cluster.is("forced", "Bound", "DeviceBound").await;
}
