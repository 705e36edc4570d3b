//! The commands of this workspace: `cargo xtask …`.
#![expect(
    clippy::print_stdout,
    reason = "what a command has to say goes to standard output"
)]

mod crds;
mod first_pool;
mod interrupt;
mod programs;
mod run;
mod standing;
mod test;
mod up;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// cstor-rs: a cluster in a box, its tests, and what is generated.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a cluster in a box: a Kubernetes control plane and storage nodes with real ZFS
    Up(up::UpArgs),
    /// End the cluster in a box and remove everything of it
    Down,
    /// Run kubectl on the cluster in a box
    Kubectl {
        /// What kubectl is to do
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run a command, or a shell, on a node of the cluster in a box
    Ssh {
        /// The node, such as node-1
        node: String,
        /// The command; without one, a shell
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Run the tests
    Test(test::TestArgs),
    /// Run the benchmarks
    Bench {
        /// Which one; all if left out
        name: Option<String>,
    },
    /// Build the node image and the snapshot that nodes start from
    Image,
    /// Write the CRD manifests
    Crds {
        /// Only say whether they are up to date
        #[arg(long)]
        check: bool,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse().command).await {
        Ok(code) => code,
        Err(error) => {
            let text = format!("error: {error:#}");
            #[expect(clippy::print_stderr, reason = "this is where a command says why it failed")]
            {
                eprintln!("{text}");
            }
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<ExitCode> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        Command::Up(args) => up::up(&args).await.map(done),
        Command::Down => up::down().await.map(done),
        Command::Kubectl { args } => run::kubectl(args).await,
        Command::Ssh { node, command } => run::ssh(&node, &command).await,
        Command::Test(args) => test::test(args).await,
        Command::Bench { name } => test::bench(name).await,
        Command::Image => run::image().await.map(done),
        Command::Crds { check } => crds::crds(check).map(done),
    }
}
