//! `up` and `down`.
//!
//! # Expected flow
//!
//! `up` checks the host, installs and builds what is missing (kept in the cache), starts the control plane and the
//! nodes, plugs in disks, installs the product, has it make a pool, and writes down that the cluster is complete.
//!
//! # Guarantees
//!
//! - A second `up` changes nothing; one after a crash of the host or of a process starts what is not running.
//! - An `up` that was interrupted or killed leaves no complete cluster; the next one begins anew with what the cache has.
//! - `down` works at any time: what belongs to the cluster is found by looking at the processes themselves.

use std::fs::File;
use std::io::IsTerminal as _;

use anyhow::{Context, Result, bail};
use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use cstor_harness::assets;
use cstor_harness::boxes::{self, BoxDir};
use cstor_harness::cache::Cache;
use cstor_harness::control_plane::{ControlPlane, free_ports};
use cstor_harness::deploy::{AgentSetup, Installation};
use cstor_harness::kubernetes::Binaries;
use cstor_harness::node::{Node, NodeAssets};
use cstor_harness::prerequisites::Wanted;
use cstor_harness::progress::Progress;
use futures::future::try_join_all;
use serde::Deserialize;

use crate::interrupt::interruptible;
use crate::standing::{self, Shape};
use crate::{first_pool, programs, workspace};

/// The size of the disks that `up` plugs in. They are sparse files.
const DISK_SIZE: &str = "10Gi";

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Storage nodes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    nodes: u8,
    /// Disks a node
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=16))]
    disks: u8,
    /// The port of the API server; a free one if left out
    #[arg(long)]
    api_port: Option<u16>,
}

/// Starts a cluster in a box, or what is missing of it.
pub(crate) async fn up(args: &UpArgs) -> Result<()> {
    let (cache, progress) = (Cache::open()?, Progress::new());
    let place = standing::place(&cache)?;
    // Held to the end, cleaning up included: what another `up` is making is not ours to judge or to remove.
    let _lock = turn(&cache, &progress, &place).await?;
    let wanted = Shape {
        nodes: args.nodes,
        disks: args.disks,
    };
    match standing::shape(&place)? {
        Some(existing) if existing != wanted => bail!(
            "a cluster of {} nodes with {} disks each is there already: ask for the same, or end it by `cargo xtask down`",
            existing.nodes,
            existing.disks,
        ),
        Some(_) => interruptible(restore(&progress, &place, &wanted), async || Ok(())).await,
        None => create_or_nothing(&cache, &progress, &place, args, &wanted).await,
    }
}

/// Waits until no other `up` or `down` is at work on this cluster.
async fn turn(cache: &Cache, progress: &Progress, place: &BoxDir) -> Result<File> {
    let name = place.path().file_name().unwrap_or("up");
    interruptible(cache.lock(progress, name), async || Ok(())).await
}

/// Makes a cluster, or leaves nothing but the logs of why there is none.
async fn create_or_nothing(
    cache: &Cache,
    progress: &Progress,
    place: &BoxDir,
    args: &UpArgs,
    wanted: &Shape,
) -> Result<()> {
    let clean_up = async || {
        place.remove().await?;
        boxes::remove_abandoned(cache).await
    };
    let result = interruptible(create(cache, progress, place, args, wanted), clean_up).await;
    let Err(error) = result else { return Ok(()) };
    if !place.path().exists() {
        return Err(error);
    }
    let logs = workspace::up_logs();
    place.keep_logs(&logs)?;
    place.remove().await?;
    Err(error.context(format!(
        "the cluster could not be started (its logs are in {logs})"
    )))
}

async fn create(
    cache: &Cache,
    progress: &Progress,
    place: &BoxDir,
    args: &UpArgs,
    wanted: &Shape,
) -> Result<()> {
    boxes::remove_abandoned(cache).await?;
    // What an `up` that was killed may have left.
    place.remove().await?;
    let needed = Wanted {
        building: true,
        nodes: args.nodes,
        control_plane: true,
        api_port: args.api_port,
    };
    assets::prepare(cache, progress, needed).await?;
    let silent = Progress::silent();
    let binaries = assets::binaries(cache, &silent).await?;
    let node_assets = assets::nodes(cache, &silent).await?;

    place.create()?;
    let programs = programs::build(progress, place).await?;
    let (control_plane, nodes) = tokio::try_join!(
        create_control_plane(progress, place, &binaries, args.api_port),
        create_nodes(progress, place, &node_assets, wanted),
    )?;
    let installation = Installation::new(control_plane.clone(), place, programs);
    install(progress, &installation, &nodes).await?;
    let pool = match nodes.first() {
        Some(node) if wanted.disks >= 2 => {
            let step = progress.step(format!("making a pool on {}", node.name()));
            let pool = first_pool::make(&installation, node.name()).await?;
            step.done();
            Some(pool)
        }
        _ => None,
    };
    standing::set_shape(place, wanted)?;
    show(&control_plane, &nodes).await?;
    if let Some(pool) = pool {
        println!("\nThe first pool, by `cargo xtask kubectl describe cspi -n openebs`:\n\n{pool}");
    }
    Ok(())
}

async fn create_control_plane(
    progress: &Progress,
    place: &BoxDir,
    binaries: &Binaries,
    api_port: Option<u16>,
) -> Result<ControlPlane> {
    let step = progress.step("starting the control plane");
    let control_plane = ControlPlane::create(standing::control_plane_box(place), binaries, api_port)?;
    control_plane.ensure_running().await?;
    step.done();
    Ok(control_plane)
}

async fn create_nodes(
    progress: &Progress,
    place: &BoxDir,
    assets: &NodeAssets,
    wanted: &Shape,
) -> Result<Vec<Node>> {
    let [storage_port] = free_ports()?;
    let create = async |index: u8| {
        let name = node_name(index);
        let step = progress.step(format!("starting {name}"));
        let mut node = Node::create(standing::node_box(place, &name), assets, index, storage_port).await?;
        for disk in 1..=wanted.disks {
            node.plug_disk(DISK_SIZE, &format!("{name}-disk-{disk}")).await?;
        }
        step.done();
        Ok(node)
    };
    try_join_all((0..wanted.nodes).map(create)).await
}

fn node_name(index: u8) -> String {
    format!("node-{}", index + 1)
}

/// Starts what is not running of a cluster that was complete: after a crash, or a boot of the host.
async fn restore(progress: &Progress, place: &BoxDir, wanted: &Shape) -> Result<()> {
    let control_plane = ControlPlane::open(standing::control_plane_box(place))?;
    if !control_plane.is_running() {
        let step = progress.step("starting the control plane");
        control_plane.ensure_running().await?;
        step.done();
    }
    Installation::new(control_plane.clone(), place, programs::programs(place))
        .start_controller()
        .await?;
    let restore = async |index: u8| {
        let mut node = Node::open(standing::node_box(place, &node_name(index)))?;
        if !node.is_running() {
            let step = progress.step(format!("booting {}", node.name()));
            node.boot().await?;
            step.done();
        }
        Ok::<_, anyhow::Error>(node)
    };
    let nodes = try_join_all((0..wanted.nodes).map(restore)).await?;
    show(&control_plane, &nodes).await
}

/// Installs cstor-rs.
async fn install(progress: &Progress, installation: &Installation, nodes: &[Node]) -> Result<()> {
    let step = progress.step("installing CRDs, RBAC, controller and agents");
    installation.apply_manifests(nodes).await?;
    installation.start_controller().await?;
    let setup = AgentSetup::default();
    let start = async |node| {
        installation.start_agent(node, &setup).await?;
        installation.await_agent(node).await
    };
    try_join_all(nodes.iter().map(start)).await?;
    step.done();
    Ok(())
}

/// What `cstor-agent inspect` prints.
#[derive(Debug, Deserialize)]
struct Report {
    zfs: ReportedZfs,
    disks: Vec<ReportedDisk>,
}

#[derive(Debug, Deserialize)]
struct ReportedZfs {
    kernel: String,
}

#[derive(Debug, Deserialize)]
struct ReportedDisk {
    name: String,
    serial: Option<String>,
}

/// What runs where, how to reach it, what to try next.
async fn show(control_plane: &ControlPlane, nodes: &[Node]) -> Result<()> {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic);
    if !std::io::stdout().is_terminal() {
        table.set_width(140);
    }
    table.set_header(["what", "where", "ZFS", "disks"]);
    table.add_row([
        "control plane".to_owned(),
        control_plane.url(),
        String::new(),
        String::new(),
    ]);
    for node in nodes {
        let report: Report = serde_json::from_str(&node.sh("cstor-agent inspect").await?)
            .with_context(|| format!("read what the agent of {} sees", node.name()))?;
        let disks = report
            .disks
            .iter()
            .filter_map(|disk| Some(format!("{} ({})", disk.serial.as_ref()?, disk.name)));
        let disks: Vec<_> = disks.filter(|disk| !disk.starts_with("root ")).collect();
        let place = format!("ssh port {}", node.ssh_port());
        table.add_row([node.name().to_owned(), place, report.zfs.kernel, disks.join("\n")]);
    }
    println!("{table}\n");
    println!("kubeconfig: {}", control_plane.kubeconfig());
    println!("Try next:");
    println!("  cargo xtask kubectl get bd -n openebs");
    println!("  cargo xtask kubectl describe bd -n openebs");
    println!("  cargo xtask kubectl get cspi -n openebs");
    println!("  cargo xtask ssh node-1 -- zpool status");
    println!("  cargo xtask test");
    println!("  cargo xtask down");
    Ok(())
}

/// Ends the cluster and removes everything of it.
pub(crate) async fn down() -> Result<()> {
    let (cache, progress) = (Cache::open()?, Progress::new());
    let place = standing::place(&cache)?;
    let _lock = turn(&cache, &progress, &place).await?;
    let there = place.path().exists() || !place.processes().is_empty();
    let step = progress.step("ending the cluster");
    place.remove().await?;
    boxes::remove_abandoned(&cache).await?;
    step.done_with(if there { "done" } else { "there was none" });
    Ok(())
}
