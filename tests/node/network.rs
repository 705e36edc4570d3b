//! The networks of a node, and their cut.

use cstor_harness::cluster::Cluster;

#[tokio::test]
async fn a_cut_network_cuts_off_the_api_server_and_the_others_and_not_ssh() {
    let mut cluster = Cluster::start("network", 2).await.unwrap();
    // What a node reaches at this address is the host, where the API server listens.
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let host = format!("timeout 10 bash -c 'exec 3<>/dev/tcp/10.0.3.2/{port}'");
    let other = "busybox ping -c 1 -W 5 10.77.0.2".to_owned();
    let node = cluster.node(0);
    for reach in [&host, &other] {
        node.sh(reach).await.unwrap();
    }

    node.cut_network().await.unwrap();
    for reach in [&host, &other] {
        let error = format!("{:#}", node.sh(reach).await.unwrap_err());
        assert!(error.contains("on the node (exit status"), "{error}");
    }

    node.restore_network().await.unwrap();
    for reach in [&host, &other] {
        // What was learnt of the neighbours while the link was down has to be forgotten first.
        let script = format!("for try in 1 2 3 4 5 6; do {reach} && exit 0; done; exit 1");
        node.sh(&script).await.unwrap();
    }
}
