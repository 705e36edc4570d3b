//! cstor-rs on nodes: an agent on each, the controller beside the API server.

use cstor_harness::cluster::Cluster;
use cstor_harness::deploy::AgentSetup;
use k8s_openapi::api::core::v1::Node;
use kube::Api;

#[tokio::test]
async fn agents_are_there_after_a_power_cut_a_stop_and_with_another_setup() {
    let mut cluster = Cluster::start("installed", 1).await.unwrap();
    let installation = cluster.install().await.unwrap();
    let nodes: Api<Node> = Api::all(installation.client().await.unwrap());
    assert_eq!(nodes.list(&Default::default()).await.unwrap().items.len(), 1);
    let leases = installation
        .kubectl(["get", "leases", "--namespace=openebs", "--output=name"])
        .await
        .unwrap();
    assert!(
        leases.contains("lease.coordination.k8s.io/cstor-agent-node-1"),
        "{leases}"
    );

    let node = cluster.node(0);
    node.power_cut().await.unwrap();
    node.boot().await.unwrap();
    installation.await_agent(node).await.unwrap();

    installation.stop_agent(node).await.unwrap();
    let state = "systemctl is-active cstor-agent || true";
    assert_eq!(node.sh(state).await.unwrap().trim(), "inactive");

    let setup = AgentSetup {
        arguments: vec!["--listen=127.0.0.1:9599".into()],
        files: vec![("/etc/cstor/a file".into(), "its content\n".into())],
    };
    installation.start_agent(node, &setup).await.unwrap();
    installation.await_agent(node).await.unwrap();
    assert_eq!(node.sh("cat '/etc/cstor/a file'").await.unwrap(), "its content\n");
    let listening = "timeout 10 bash -c 'exec 3<>/dev/tcp/127.0.0.1/9599'";
    node.sh(listening).await.unwrap();
}

#[tokio::test]
async fn an_agent_that_cannot_start_is_told_with_what_it_said() {
    let mut cluster = Cluster::start("unfit", 1).await.unwrap();
    let installation = cluster.install_manifests().await.unwrap();
    let setup = AgentSetup {
        arguments: vec!["--no-such-argument".into()],
        ..AgentSetup::default()
    };
    let node = cluster.node(0);
    installation.start_agent(node, &setup).await.unwrap();
    let error = format!("{:#}", installation.await_agent(node).await.unwrap_err());
    assert!(error.contains("cstor-agent-node-1"), "{error}");
    assert!(error.contains("--no-such-argument"), "{error}");
}
