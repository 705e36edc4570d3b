//! The disks of a node whose agent says nothing.

use cstor_api::names::lease::AGENT_PREFIX;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::{Cluster, GI};
use crate::engine::until;

#[tokio::test]
async fn nothing_is_known_of_the_disks_of_a_silent_node() {
    let cluster = Cluster::new().await;
    cluster.beat(3).await;
    cluster.publish("disk", GI, "NothingFound").await;
    cluster.publish("pulled", GI, "NothingFound").await;
    let inactive = Patch::Merge(json!({"status": {"state": "Inactive"}}));
    cluster
        .devices
        .patch_status("pulled", &PatchParams::default(), &inactive)
        .await
        .unwrap();
    let _running = cluster.run();
    let device = cluster.device_is("disk", "state", "Unknown").await;
    assert_eq!(
        device["status"]["conditions"][0]["reason"], "NothingFound",
        "the rest is the agent's"
    );
    assert_eq!(cluster.device("pulled").await["status"]["state"], "Inactive");
    until("it is told", async || {
        (!cluster.events("AgentSilent").await.is_empty()).then_some(())
    })
    .await;

    // The agent is back, with a Lease that does not run out during this test, and says what it sees.
    cluster.beat(3600).await;
    cluster.publish("disk", GI, "NothingFound").await;
    cluster.claim("mine", json!({"blockDeviceName": "disk"})).await;
    cluster.is("mine", "Bound", "DeviceBound").await;
    assert_eq!(cluster.device("disk").await["status"]["state"], "Active");

    // The node is gone, and its Lease with it.
    let leases: Api<Lease> = Api::namespaced(cluster.admin.clone(), &cluster.namespace);
    let lease = format!("{AGENT_PREFIX}{}", cluster.node);
    cluster
        .nodes()
        .delete(&cluster.node, &DeleteParams::default())
        .await
        .unwrap();
    leases.delete(&lease, &DeleteParams::default()).await.unwrap();
    // Nothing wakes the device before its Lease would have expired, but a change of its own.
    let touch = Patch::Merge(json!({"metadata": {"labels": {"touched": "yes"}}}));
    cluster
        .devices
        .patch("disk", &PatchParams::default(), &touch)
        .await
        .unwrap();
    cluster.device_is("disk", "state", "Unknown").await;
    cluster.is("mine", "Bound", "DeviceBound").await;
}
