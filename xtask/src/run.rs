//! The commands that hand a person on to another program.

use std::process::ExitCode;

use anyhow::{Result, bail};
use cstor_exec::Program;
use cstor_harness::assets;
use cstor_harness::boxes;
use cstor_harness::cache::Cache;
use cstor_harness::prerequisites::Wanted;
use cstor_harness::progress::Progress;

use crate::interrupt::interruptible;
use crate::standing;

/// kubectl, as the administrator of the cluster in a box.
pub(crate) async fn kubectl(args: Vec<String>) -> Result<ExitCode> {
    let control_plane = standing::control_plane()?;
    let kubectl = Program::at(control_plane.binaries().kubectl.clone())?;
    let call = kubectl
        .call()
        .inherit_env()
        .env("KUBECONFIG", control_plane.kubeconfig())
        .env("KUBECACHEDIR", control_plane.kubectl_cache())
        .args(args);
    ended(call.run_attached().await?)
}

/// A command or a shell on a node.
pub(crate) async fn ssh(node: &str, command: &[String]) -> Result<ExitCode> {
    let node = standing::node(node)?;
    if !node.is_running() {
        bail!("{} is powered off: `cargo xtask up` boots it", node.name());
    }
    // `cargo xtask ssh node-1 -- zfs version` leaves the dashes in front.
    let command = command.strip_prefix(&["--".to_owned()]).unwrap_or(command);
    ended(node.ssh().interactive(command)?.run_attached().await?)
}

/// The node image and the snapshot.
pub(crate) async fn image() -> Result<()> {
    let (cache, progress) = (Cache::open()?, Progress::new());
    let clean_up = async || boxes::remove_abandoned(&cache).await;
    clean_up().await?;
    let work = assets::prepare(
        &cache,
        &progress,
        Wanted {
            nodes: 1,
            ..Wanted::default()
        },
    );
    interruptible(work, clean_up).await?;
    let nodes = assets::nodes(&cache, &progress).await?;
    println!(
        "image     {}\nsnapshot  {}\nguests    {:?}",
        nodes.image.disk, nodes.ready_disk, nodes.accelerator
    );
    Ok(())
}

/// Ends as the program did.
fn ended(status: std::process::ExitStatus) -> Result<ExitCode> {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
