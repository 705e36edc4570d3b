//! The node agent: everything of cstor-rs that needs the node.
//!
//! # Expected flow
//!
//! 1. Refuses to start on an OpenZFS below the floor, or with a configuration that makes no sense.
//! 2. Keeps the node's heartbeat Lease fresh, and serves metrics and health.
//! 3. Runs the controllers of this node.
//!
//! `cstor-agent inspect` prints what the agent sees of its node, and changes nothing.

mod inspect;

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use camino::Utf8PathBuf;
use clap::{Args, Parser, Subcommand};
use cstor_agent::disk::{self, Settings, service};
use cstor_agent::pool;
use cstor_api::names;
use cstor_blockdev::filter::Filters;
use cstor_blockdev::scan::Places;
use cstor_reconcile::lease::HeartbeatConfig;
use cstor_reconcile::process::{App, Process};

#[derive(Debug, Parser)]
#[command(name = "cstor-agent", version, about = "The node agent of cstor-rs")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the agent of this node
    Run(RunArguments),
    /// Print what the agent sees of this node, as JSON
    Inspect(DiskArguments),
}

#[derive(Debug, Args)]
struct RunArguments {
    /// The namespace of cstor-rs
    #[arg(long, env = "NAMESPACE", default_value = names::DEFAULT_NAMESPACE)]
    namespace: String,
    /// Where metrics and health are served
    #[arg(long, default_value = "0.0.0.0:9500")]
    listen: SocketAddr,
    /// How often all disks are read anew, whatever the events of the kernel have told, in seconds
    #[arg(long, default_value_t = service::EVERYTHING_EVERY.as_secs())]
    rescan_seconds: u64,
    #[command(flatten)]
    disks: DiskArguments,
}

#[derive(Debug, Args)]
struct DiskArguments {
    /// The name of this node in Kubernetes
    #[arg(long, env = "NODE_NAME", default_value_t = host_name())]
    node_name: String,
    /// Which disks are left out and how they are tagged, in the form of NDM's configuration
    #[arg(long, env = "CSTOR_DISK_CONFIG")]
    disk_config: Option<Utf8PathBuf>,
    /// Where the host's procfs is
    #[arg(long, default_value = "/proc")]
    host_proc: Utf8PathBuf,
    /// Where the kubelet keeps its things
    #[arg(long, default_value = "/var/lib/kubelet")]
    kubelet: Utf8PathBuf,
    /// A directory with files that stand in for disks
    #[arg(long, env = "SPARSE_FILE_DIR")]
    sparse_files: Option<Utf8PathBuf>,
}

/// A node is called after its host, unless somebody says otherwise.
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

impl DiskArguments {
    fn settings(self, namespace: String, rescan_seconds: u64) -> Result<Settings> {
        let filters = match &self.disk_config {
            Some(file) => {
                let text = std::fs::read_to_string(file)
                    .with_context(|| format!("read the configuration of disks {file}"))?;
                let (filters, warnings) = Filters::parse(&text)
                    .with_context(|| format!("understand the configuration of disks {file}"))?;
                for warning in warnings {
                    tracing::warn!(%file, "{warning}");
                }
                filters
            }
            None => Filters::default(),
        };
        Ok(Settings {
            host: self.node_name.clone(),
            node: self.node_name,
            namespace,
            places: Places {
                proc: self.host_proc,
                sparse_files: self.sparse_files,
                ..Places::default()
            },
            kubelet: self.kubelet,
            filters,
            every: std::time::Duration::from_secs(rescan_seconds.max(1)),
        })
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Run(arguments) => run(arguments).await,
        Command::Inspect(arguments) => {
            let settings = arguments.settings(String::new(), service::EVERYTHING_EVERY.as_secs())?;
            inspect::print(&settings).await
        }
    }
}

async fn run(arguments: RunArguments) -> Result<()> {
    let versions = inspect::zfs_versions().await?;
    cstor_zfs::Floor::check(versions).context("cannot drive the ZFS of this node")?;
    let RunArguments {
        namespace,
        listen,
        rescan_seconds,
        disks,
    } = arguments;
    let settings = disks.settings(namespace, rescan_seconds)?;
    let lease = format!("{}{}", names::lease::AGENT_PREFIX, settings.node);
    let heartbeat = HeartbeatConfig::new(settings.namespace.clone(), lease, settings.node.clone())
        .label(names::lease::COMPONENT_LABEL, names::lease::AGENT_COMPONENT);
    Process::builder("cstor-agent")
        .identity(settings.node.clone())
        .listen(listen)
        .heartbeat(heartbeat)
        .run(async |app: &mut App| {
            let node = settings.node.clone();
            let settings = settings.with_host(&app.client()).await.with_context(|| {
                format!("read the Node {node}: is --node-name right, and the API server there?")
            })?;
            let seen = disk::install(app, &settings);
            pool::install(app, &settings, &seen).context("drive the ZFS of this node")
        })
        .await
        .context("run the agent")
}
