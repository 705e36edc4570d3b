//! The controller's ServiceAccount, and what it may do.

use cstor_api::openebs::BlockDevice;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{Api, DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Cluster, GI};
use crate::support;

const MANIFEST: &str = include_str!("../../../manifests/controller-rbac.yaml");

/// Installs the controller's rules, for a namespace of the test instead of the real one.
pub(super) async fn allow(admin: &Client, namespace: &str) {
    let text = MANIFEST.replace("namespace: openebs", &format!("namespace: {namespace}"));
    for document in text.split("\n---\n") {
        let mut object: Value = serde_saphyr::from_str(document).unwrap();
        let kind = object["kind"].as_str().unwrap().to_owned();
        if kind.starts_with("Cluster") {
            // The names of these are the whole cluster's.
            let name = format!("cstor-controller-{namespace}");
            object["metadata"]["name"] = json!(name);
            if kind == "ClusterRoleBinding" {
                object["roleRef"]["name"] = json!(name);
            }
        }
        let (all, here) = (admin.clone(), admin.clone());
        match kind.as_str() {
            "ServiceAccount" => create::<ServiceAccount>(Api::namespaced(here, namespace), object).await,
            "Role" => create::<Role>(Api::namespaced(here, namespace), object).await,
            "RoleBinding" => create::<RoleBinding>(Api::namespaced(here, namespace), object).await,
            "ClusterRole" => create::<ClusterRole>(Api::all(all), object).await,
            "ClusterRoleBinding" => create::<ClusterRoleBinding>(Api::all(all), object).await,
            other => panic!("the manifest has a {other}, which this test does not know"),
        }
    }
}

async fn create<K: Clone + std::fmt::Debug + DeserializeOwned + Serialize>(api: Api<K>, object: Value) {
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// A client that has the rights of the controller's account, and no others.
pub(super) async fn account(namespace: &str) -> Client {
    let kubeconfig = Kubeconfig::read_from(std::env::var(support::KUBECONFIG).unwrap()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    config.auth_info.impersonate = Some(format!("system:serviceaccount:{namespace}:cstor-controller"));
    config.auth_info.impersonate_groups = Some(vec![
        "system:serviceaccounts".into(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".into(),
    ]);
    Client::try_from(config).unwrap()
}

#[tokio::test]
async fn the_account_may_do_what_is_listed_and_no_more() {
    let cluster = Cluster::new().await;
    cluster.publish("disk", GI, "NothingFound").await;
    let devices: Api<BlockDevice> = Api::namespaced(cluster.account.clone(), &cluster.namespace);
    let error = devices
        .delete("disk", &DeleteParams::default())
        .await
        .unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 403),
        "{error:?}"
    );
}
