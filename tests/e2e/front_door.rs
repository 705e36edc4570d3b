//! What a newcomer does.

use std::time::Duration;

use cstor_harness::boxes::Process;
use tokio::time::Instant;

use crate::door::Door;

const LEASE_WITHIN: Duration = Duration::from_secs(120);

#[tokio::test]
async fn up_gives_a_cluster_that_works_and_down_removes_it() {
    let door = Door::new("front");
    let up = ["up", "--nodes=2", "--disks=2"];
    let shown = door.run(&up).await.stdout;
    for expected in [
        "control plane",
        "node-1",
        "node-2",
        "node-1-disk-1",
        "node-2-disk-2",
        "cargo xtask kubectl get bd -n openebs",
    ] {
        assert!(shown.contains(expected), "{expected} is missing in:\n{shown}");
    }

    let crds = door
        .run(&["kubectl", "get", "crds", "--output=name"])
        .await
        .stdout;
    let expected = [
        "blockdeviceclaims.openebs.io",
        "blockdevices.openebs.io",
        "cstorbackups.cstor.openebs.io",
        "cstorclusterconfigs.dao.mayadata.io",
        "cstorclusterplans.dao.mayadata.io",
        "cstorclusterstoragesets.dao.mayadata.io",
        "cstorcompletedbackups.cstor.openebs.io",
        "cstorpoolclusters.cstor.openebs.io",
        "cstorpoolinstances.cstor.openebs.io",
        "cstorrestores.cstor.openebs.io",
        "cstorvolumeattachments.cstor.openebs.io",
        "cstorvolumeconfigs.cstor.openebs.io",
        "cstorvolumepolicies.cstor.openebs.io",
        "cstorvolumereplicas.cstor.openebs.io",
        "cstorvolumes.cstor.openebs.io",
        "storages.dao.mayadata.io",
    ];
    let prefix = "customresourcedefinition.apiextensions.k8s.io/";
    let listed: Vec<_> = crds
        .lines()
        .map(|line| line.strip_prefix(prefix).unwrap())
        .collect();
    assert_eq!(listed, expected);

    let version = door.run(&["ssh", "node-1", "--", "zfs", "version"]).await.stdout;
    let minor: Vec<u32> = version
        .trim_start_matches("zfs-")
        .split('.')
        .take(2)
        .map(|part| part.parse().unwrap())
        .collect();
    assert!(minor >= vec![2, 3], "{version}");
    let exit = door
        .call(&["ssh", "node-2", "--", "exit 7"])
        .run()
        .await
        .unwrap_err();
    assert!(exit.to_string().contains("exit status: 7"), "{exit}");

    for lease in ["cstor-agent-node-1", "cstor-agent-node-2", "cstor-controller"] {
        await_renewal(&door, lease).await;
    }

    // A shell that is open somewhere is in nobody's way.
    let mut shell = door.start(&["ssh", "node-1", "--", "sleep 600"]);
    let before = processes(&door);
    let again = door.run(&up).await;
    assert_eq!(processes(&door), before, "a second up must change nothing");
    assert!(!again.stderr.contains("starting"), "{}", again.stderr);
    assert_eq!(
        door.run(&["ssh", "node-1", "--", "echo hello"]).await.stdout,
        "hello\n"
    );
    assert!(shell.ended().unwrap().is_none(), "the shell must still be open");
    let error = door.refused(door.call(&["up", "--nodes=1"])).await;
    assert!(error.contains("end it by `cargo xtask down`"), "{error}");
    let error = door.refused(door.call(&["ssh", "node-9"])).await;
    assert!(error.contains("there is no node node-9"), "{error}");

    // What the machine does to us: the API server dies, a node loses its power.
    for name in ["control-plane/kube-apiserver", "node-1/qemu"] {
        let inner = door.place.inner(name);
        assert!(!inner.processes().is_empty(), "{name} must be running");
        inner.end_processes().await.unwrap();
    }
    let shown = door.run(&up).await.stdout;
    assert!(shown.contains("node-1-disk-2"), "{shown}");
    await_renewal(&door, "cstor-agent-node-1").await;
    // Its node lost its power.
    tokio::time::timeout(LEASE_WITHIN, shell.wait())
        .await
        .expect("the shell must end")
        .unwrap();

    door.run(&["down"]).await;
    assert_eq!(door.left(), [] as [&str; 0]);
    let error = door.refused(door.call(&["kubectl", "get", "nodes"])).await;
    assert!(error.contains("start one by `cargo xtask up`"), "{error}");
    door.run(&["down"]).await;
}

/// The processes that make the cluster. Connections to nodes come and go.
fn processes(door: &Door) -> Vec<Process> {
    let mut processes = door.place.processes();
    processes.retain(|process| process.program != "ssh");
    processes.sort_by_key(|process| process.pid);
    processes
}

/// Waits until the holder of a Lease has renewed it once more: it is alive, and its RBAC lets it.
async fn await_renewal(door: &Door, lease: &str) {
    let read = async || {
        let args = [
            "kubectl",
            "get",
            "lease",
            lease,
            "--namespace=openebs",
            "--output=jsonpath={.spec.renewTime}",
        ];
        door.call(&args)
            .run()
            .await
            .map(|output| output.stdout)
            .unwrap_or_default()
    };
    let (first, deadline) = (read().await, Instant::now() + LEASE_WITHIN);
    loop {
        let now = read().await;
        if !now.is_empty() && now != first {
            return;
        }
        assert!(Instant::now() < deadline, "{lease} was not renewed: {first:?}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
