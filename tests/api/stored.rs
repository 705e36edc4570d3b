//! Objects that were stored before our rules came can still be worked on.
//!
//! When our definitions replace those of cStor, what is stored stays stored, nonsense included. The API server then lets an update
//! pass as long as it leaves the nonsense as it is (Kubernetes calls it ratcheting). That holds for fields, and for rules
//! of objects that do not change; it does not reach into lists that are replaced as a whole.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::fixtures;
use crate::kind::{Kind, name};
use crate::support::{client, namespace};

/// The kind under another group, so that this test can change its definition without disturbing others.
fn elsewhere(kind: &Kind, group: &str) -> Kind {
    let mut crd = kind.crd.clone();
    crd.metadata.name = Some(format!("{}.{group}", crd.spec.names.plural));
    crd.spec.group = group.to_owned();
    crd.spec.names.short_names = None;
    Kind { crd }
}

async fn eventually<F: Future<Output = bool>>(what: &str, check: impl Fn() -> F) {
    for _ in 0..120 {
        if check().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    panic!("{what} did not come to pass");
}

#[tokio::test]
async fn stored_nonsense_does_not_stop_work() {
    let client = client().await;
    let namespace = namespace(&client).await;
    let group = format!("{namespace}.example.com");
    let kind = elsewhere(&Kind::named("CStorPoolInstance"), &group);
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());

    let mut lax = kind.crd.clone();
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    lax.spec.versions[0].schema = serde_json::from_value(json!({ "openAPIV3Schema": schema })).unwrap();
    lax.spec.versions[0].selectable_fields = None;
    crds.create(&PostParams::default(), &lax).await.unwrap();

    let mut object = fixtures::old("CStorPoolInstance").remove(0);
    object["apiVersion"] = json!(format!("{group}/v1"));
    object["spec"]["poolConfig"]["roThresholdLimit"] = json!(0);
    object["spec"]["poolConfig"]["compression"] = json!("lz5");
    eventually("the lax definition", || async {
        kind.create(&client, &namespace, &object, true).await.is_ok()
    })
    .await;
    kind.create(&client, &namespace, &object, false).await.unwrap();

    let versions = json!({ "spec": { "versions": kind.crd.spec.versions } });
    let name_of_crd = kind.crd.metadata.name.as_deref().unwrap();
    crds.patch(name_of_crd, &PatchParams::default(), &Patch::Merge(versions))
        .await
        .unwrap();
    let mut another = object.clone();
    another["metadata"]["name"] = json!("another");
    let refused = || async { kind.create(&client, &namespace, &another, true).await.is_err() };
    eventually("the strict definition", refused).await;
    let refusal = kind
        .create(&client, &namespace, &another, true)
        .await
        .unwrap_err();
    assert!(
        refusal.contains("roThresholdLimit") && refusal.contains("Unknown compression"),
        "{refusal}"
    );

    let change = async |pointer: &str, value: Value| {
        let mut read = kind.get(&client, &namespace, name(&object)).await;
        crate::schema::put(&mut read, pointer, value);
        match pointer.starts_with("/status") {
            true => kind.update_status(&client, &namespace, &read, false).await,
            false => kind.update(&client, &namespace, &read, false).await,
        }
    };
    change("/metadata/labels/touched", json!("yes")).await.unwrap();
    change("/status", json!({ "phase": "ONLINE" })).await.unwrap();
    change("/spec/hostName", json!("worker-node-9")).await.unwrap();
    change("/spec/poolConfig/thickProvision", json!(false))
        .await
        .unwrap();
    // Putting it right is possible too, other nonsense is not.
    change("/spec/poolConfig/roThresholdLimit", json!(85))
        .await
        .unwrap();
    assert!(
        change("/spec/poolConfig/compression", json!("lz6"))
            .await
            .unwrap_err()
            .contains("Unknown compression")
    );
    crds.delete(name_of_crd, &Default::default()).await.unwrap();
}
