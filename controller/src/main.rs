//! The cluster controller: every decision of cstor-rs that needs the cluster. It never touches a node.
//!
//! # Expected flow
//!
//! 1. Serves metrics and health, and waits for its Lease: of several replicas, one leads.
//! 2. Runs the controllers of the cluster while it leads.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use clap::Parser;
use cstor_api::names;
use cstor_controller::{PROGRAM, claim, device, silence};
use cstor_reconcile::lease::ElectionConfig;
use cstor_reconcile::process::{App, Process};

#[derive(Debug, Parser)]
#[command(
    name = "cstor-controller",
    version,
    about = "The cluster controller of cstor-rs"
)]
struct Arguments {
    /// What tells this replica from the others, such as the name of its pod
    #[arg(long, env = "POD_NAME")]
    identity: String,
    /// The namespace of cstor-rs
    #[arg(long, env = "NAMESPACE", default_value = names::DEFAULT_NAMESPACE)]
    namespace: String,
    /// Where metrics and health are served
    #[arg(long, default_value = "0.0.0.0:9501")]
    listen: SocketAddr,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments {
        identity,
        namespace,
        listen,
    } = Arguments::parse();
    Process::builder(PROGRAM)
        .identity(identity.clone())
        .listen(listen)
        .lead(ElectionConfig::new(
            &namespace,
            names::lease::CONTROLLER,
            identity,
        ))
        .run(async |app: &mut App| {
            app.controller(claim::engine(app.client(), &namespace));
            app.controller(device::engine(app.client(), &namespace));
            app.controller(silence::engine(app.client(), &namespace));
            Ok::<_, std::io::Error>(())
        })
        .await
        .context("run the controller")
}
