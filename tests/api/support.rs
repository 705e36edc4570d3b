//! What the tests of this suite share: a client, and a namespace of their own.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

/// The environment variable by which `cargo xtask test` tells where the control plane is.
pub const KUBECONFIG: &str = "CSTOR_TEST_KUBECONFIG";

/// A client of the suite's control plane, as cluster administrator.
pub async fn client() -> Client {
    let path = std::env::var(KUBECONFIG)
        .unwrap_or_else(|_| panic!("{KUBECONFIG} is not set: run this suite by `cargo xtask test api`"));
    let kubeconfig = Kubeconfig::read_from(path).expect("read the kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("a usable kubeconfig");
    Client::try_from(config).expect("a client")
}

/// A new namespace, so that no test sees another's objects.
pub async fn namespace(client: &Client) -> String {
    let namespace = Namespace {
        metadata: ObjectMeta {
            generate_name: Some("test-".into()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let api: Api<Namespace> = Api::all(client.clone());
    let made = api
        .create(&PostParams::default(), &namespace)
        .await
        .expect("create a namespace");
    made.metadata.name.expect("the namespace has a name")
}
