//! Idle costs nothing.

use std::time::Duration;

use cstor_controller::{PROGRAM, claim, device, silence};
use cstor_reconcile::Services;
use kube::api::ListParams;
use serde_json::json;

use super::{Cluster, GI, size};
use crate::engine::{Running, until};

/// By the objects' versions, over many resyncs.
#[tokio::test]
async fn idle_is_no_writes() {
    let cluster = Cluster::new().await;
    cluster.beat(3600).await;
    for disk in ["a", "b"] {
        cluster.publish(disk, GI, "NothingFound").await;
    }
    let services = Services::new(cluster.account.clone(), PROGRAM, "process-1");
    let resync = Duration::from_millis(300);
    let (client, namespace) = (cluster.account.clone(), &cluster.namespace);
    let claims = Running::start(
        claim::engine(client.clone(), namespace).resync(resync),
        services.clone(),
    );
    let devices = Running::start(
        device::engine(client.clone(), namespace).resync(resync),
        services.clone(),
    );
    let silence = Running::start(silence::engine(client, namespace).resync(resync), services);
    cluster.claim("mine", json!({"blockDeviceName": "a"})).await;
    cluster.claim("waits", size("1Ti")).await;
    cluster.is("mine", "Bound", "DeviceBound").await;
    cluster.is("waits", "Pending", "NoDeviceFits").await;
    cluster.device_is("b", "claimState", "Unclaimed").await;
    let versions = async || {
        let list = ListParams::default();
        let claims = cluster
            .claims
            .list(&list)
            .await
            .unwrap()
            .items
            .into_iter()
            .map(|claim| claim.metadata);
        let devices = cluster
            .devices
            .list(&list)
            .await
            .unwrap()
            .items
            .into_iter()
            .map(|device| device.metadata);
        let all: Vec<_> = claims
            .chain(devices)
            .map(|metadata| (metadata.name, metadata.resource_version))
            .collect();
        all
    };
    let all = [&claims.metrics, &devices.metrics, &silence.metrics];
    let later = async |resyncs: u64| {
        let wanted: Vec<u64> = all.iter().map(|metrics| metrics.resyncs() + resyncs).collect();
        until("resyncs", async || {
            let enough = all
                .iter()
                .zip(&wanted)
                .all(|(metrics, wanted)| metrics.resyncs() >= *wanted);
            enough.then_some(())
        })
        .await;
    };
    later(3).await;
    let before = versions().await;
    later(10).await;
    assert_eq!(versions().await, before);
}
