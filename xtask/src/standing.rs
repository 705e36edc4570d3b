//! The cluster that `up` leaves standing: where it is, and how to open it again.

use anyhow::{Context, Result, bail};
use cstor_harness::boxes::BoxDir;
use cstor_harness::cache::{Cache, Key};
use cstor_harness::control_plane::ControlPlane;
use cstor_harness::node::{self, Node};
use serde::{Deserialize, Serialize};

use crate::workspace;

/// Names another place for the cluster: the tests of `up` use it, so that they leave a person's cluster alone.
pub(crate) const PLACE_VARIABLE: &str = "CSTOR_UP_BOX";

/// What was asked for. It is written down last, so its presence says that the cluster is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub(crate) nodes: u8,
    pub(crate) disks: u8,
}

/// The place of this checkout's cluster.
pub(crate) fn place(cache: &Cache) -> Result<BoxDir> {
    match std::env::var(PLACE_VARIABLE) {
        Ok(path) => BoxDir::at(&path),
        Err(_) => BoxDir::named(
            cache,
            &format!("up-{}", Key::new().with(workspace::root().as_str()).short()),
        ),
    }
}

/// What was asked for, if the cluster is complete.
pub(crate) fn shape(place: &BoxDir) -> Result<Option<Shape>> {
    let file = place.path().join("complete.json");
    match std::fs::read_to_string(&file) {
        Ok(text) => Ok(Some(
            serde_json::from_str(&text).with_context(|| format!("read {file}"))?,
        )),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("read {file}")),
    }
}

/// Writes down that the cluster is complete.
pub(crate) fn set_shape(place: &BoxDir, shape: &Shape) -> Result<()> {
    let file = place.path().join("complete.json");
    std::fs::write(&file, serde_json::to_string(shape)?).with_context(|| format!("write {file}"))
}

/// Where the control plane of the cluster is.
pub(crate) fn control_plane_box(place: &BoxDir) -> BoxDir {
    place.inner("control-plane")
}

/// Where a node of the cluster is.
pub(crate) fn node_box(place: &BoxDir, name: &str) -> BoxDir {
    place.inner(name)
}

/// The control plane of the standing cluster.
pub(crate) fn control_plane() -> Result<ControlPlane> {
    let place = standing(&Cache::open()?)?;
    ControlPlane::open(control_plane_box(&place))
}

/// A node of the standing cluster.
pub(crate) fn node(name: &str) -> Result<Node> {
    let home = node_box(&standing(&Cache::open()?)?, name);
    if !node::exists(home.path()) {
        bail!("there is no node {name}: `cargo xtask kubectl get nodes` lists them");
    }
    Node::open(home)
}

fn standing(cache: &Cache) -> Result<BoxDir> {
    let place = place(cache)?;
    if shape(&place)?.is_none() {
        bail!("no cluster is running: start one by `cargo xtask up`");
    }
    Ok(place)
}
