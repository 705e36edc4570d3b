//! The pool that a new cluster begins with: a mirror of the first two disks of the first node.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cstor_api::ConditionStatus;
use cstor_api::names::condition;
use cstor_api::openebs::BlockDevice;
use cstor_harness::deploy::{Installation, NAMESPACE};
use serde::Deserialize;
use serde_json::json;

/// What it is called.
const NAME: &str = "pool-1";

/// How long the agent has to find the disks, and to make the pool of them. An emulated node needs seconds for both.
const WITHIN: Duration = Duration::from_secs(240);

/// What `kubectl get` prints.
#[derive(Debug, Deserialize)]
struct Listed {
    items: Vec<BlockDevice>,
}

/// Makes the pool, and returns how it is described.
pub(crate) async fn make(installation: &Installation, node: &str) -> Result<String> {
    let devices = blank_disks(installation, node).await?;
    let devices: Vec<_> = devices
        .into_iter()
        .map(|name| json!({ "blockDeviceName": name }))
        .collect();
    installation
        .apply(&json!({
            "apiVersion": "cstor.openebs.io/v1",
            "kind": "CStorPoolInstance",
            "metadata": { "name": NAME, "namespace": NAMESPACE },
            "spec": {
                "hostName": node,
                "nodeSelector": { "kubernetes.io/hostname": node },
                "poolConfig": { "dataRaidGroupType": "mirror" },
                "dataRaidGroups": [{ "blockDevices": devices }],
            },
        }))
        .await?;
    let (namespace, timeout) = (
        format!("--namespace={NAMESPACE}"),
        format!("--timeout={}s", WITHIN.as_secs()),
    );
    let wait = [
        "wait",
        "cspi",
        NAME,
        "--for=condition=Ready",
        &namespace,
        &timeout,
    ];
    if let Err(error) = installation.kubectl(wait).await {
        let described = describe(installation).await.unwrap_or_default();
        return Err(error.context(format!("the first pool did not become ready:\n{described}")));
    }
    describe(installation).await
}

/// How the pool is described, if there is one.
pub(crate) async fn describe(installation: &Installation) -> Result<String> {
    let namespace = format!("--namespace={NAMESPACE}");
    installation.kubectl(["describe", "cspi", NAME, &namespace]).await
}

/// The BlockDevices of the first two blank disks of a node, when there are two.
async fn blank_disks(installation: &Installation, node: &str) -> Result<[String; 2]> {
    let deadline = Instant::now() + WITHIN;
    let (namespace, label) = (
        format!("--namespace={NAMESPACE}"),
        format!("--selector=kubernetes.io/hostname={node}"),
    );
    loop {
        let listed = installation
            .kubectl(["get", "bd", &namespace, &label, "--output=json"])
            .await?;
        let listed: Listed = serde_json::from_str(&listed).context("read the BlockDevices")?;
        let blank = listed.items.into_iter().filter(is_blank);
        let mut blank: Vec<(String, String)> = blank
            .filter_map(|device| Some((device.spec.path, device.metadata.name?)))
            .collect();
        blank.sort_unstable();
        if let [(_, first), (_, second), ..] = blank.as_slice() {
            return Ok([first.clone(), second.clone()]);
        }
        if Instant::now() > deadline {
            bail!(
                "the agent of {node} has not found two blank disks: see `cargo xtask kubectl describe bd -n {NAMESPACE}`"
            );
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn is_blank(device: &BlockDevice) -> bool {
    let conditions = device
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|known| known.type_ == condition::BLANK && known.status == ConditionStatus::True)
}
