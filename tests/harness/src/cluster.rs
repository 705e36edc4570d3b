//! Nodes for one test: made fresh, gone afterwards, their logs kept when the test fails.

use std::sync::OnceLock;

use anyhow::{Context, Result};
use camino::{Utf8Path, Utf8PathBuf};
use futures::future::try_join_all;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::assets;
use crate::boxes::{BOX_VARIABLE, BoxDir};
use crate::cache::{Cache, remove_tree};
use crate::control_plane::{ControlPlane, free_ports};
use crate::deploy::{AgentSetup, Installation, Programs};
use crate::node::Node;
use crate::progress::Progress;

/// How many nodes run at a time on this machine, all tests of one process together.
pub const NODES_AT_A_TIME: u8 = 3;

/// Where the logs of failed tests are kept.
pub const LOGS_VARIABLE: &str = "CSTOR_TEST_LOGS";

fn room() -> &'static Semaphore {
    static ROOM: OnceLock<Semaphore> = OnceLock::new();
    ROOM.get_or_init(|| Semaphore::new(usize::from(NODES_AT_A_TIME)))
}

/// The nodes of one test.
#[derive(Debug)]
pub struct Cluster {
    home: BoxDir,
    nodes: Vec<Node>,
    _room: SemaphorePermit<'static>,
}

impl Cluster {
    /// Fresh nodes for the test of this name, without disks.
    ///
    /// They end with this value. If the test fails, what they logged is kept and its place is told.
    pub async fn start(test: &str, nodes: u8) -> Result<Self> {
        let around = BoxDir::current().with_context(|| {
            format!("{BOX_VARIABLE} is not set: run this suite by `cargo xtask test node`, which cleans up after it")
        })?;
        let room = room().acquire_many(u32::from(nodes.min(NODES_AT_A_TIME))).await?;
        let cache = Cache::open()?;
        let assets = assets::nodes(&cache, &Progress::silent()).await?;
        let mut cluster = Self {
            home: around.inner(test),
            nodes: Vec::new(),
            _room: room,
        };
        cluster.home.remove().await?;
        let [storage_port] = free_ports()?;
        for index in 0..nodes {
            let home = cluster.home.inner(&format!("node-{}", u32::from(index) + 1));
            cluster
                .nodes
                .push(Node::create(home, &assets, index, storage_port).await?);
        }
        Ok(cluster)
    }

    /// A node, by its number from 0.
    ///
    /// # Panics
    ///
    /// If there is no such node: the test is wrong.
    #[must_use]
    pub fn node(&mut self, index: usize) -> &mut Node {
        let count = self.nodes.len();
        #[expect(
            clippy::panic,
            reason = "only tests call this, and a test that counts wrong must fail"
        )]
        self.nodes
            .get_mut(index)
            .unwrap_or_else(|| panic!("this cluster has {count} nodes; there is no node {index}"))
    }

    /// Starts a control plane for the nodes and installs cstor-rs: CRDs, RBAC, the controller, an agent on each node.
    /// Returns when every agent is at work.
    pub async fn install(&self) -> Result<Installation> {
        let installation = self.install_manifests().await?;
        installation.start_controller().await?;
        let (installation, setup) = (&installation, &AgentSetup::default());
        let start = async |node| {
            installation.start_agent(node, setup).await?;
            installation.await_agent(node).await
        };
        try_join_all(self.nodes.iter().map(start)).await?;
        Ok(installation.clone())
    }

    /// Starts a control plane for the nodes and installs CRDs and RBAC. Nothing of cstor-rs runs yet: agents and
    /// controller are started by the test, with setups of their own.
    pub async fn install_manifests(&self) -> Result<Installation> {
        let binaries = assets::binaries(&Cache::open()?, &Progress::silent()).await?;
        let programs = Programs::of_this_suite()?;
        let control_plane = ControlPlane::create(self.home.inner("control-plane"), &binaries, None)?;
        control_plane.ensure_running().await?;
        let installation = Installation::new(control_plane, &self.home, programs);
        installation.apply_manifests(&self.nodes).await?;
        Ok(installation)
    }

    fn keep_logs(&self) -> Result<Utf8PathBuf> {
        let name = self.home.path().file_name().unwrap_or("test");
        let place = std::env::var(LOGS_VARIABLE).with_context(|| format!("{LOGS_VARIABLE} is not set"))?;
        let place = Utf8Path::new(&place).join(name);
        self.home.keep_logs(&place)?;
        Ok(place)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.home.kill();
        if std::thread::panicking() {
            let kept = match self.keep_logs() {
                Ok(place) => format!("the nodes' logs are in {place}"),
                Err(error) => format!("the nodes' logs could not be kept: {error:#}"),
            };
            #[expect(
                clippy::print_stderr,
                reason = "the place of the logs belongs to the failed test's output"
            )]
            {
                eprintln!("{kept}");
            }
        }
        // QEMU may be making files until it is gone; whatever is left goes with the suite's box.
        let _ = remove_tree(self.home.path());
    }
}
