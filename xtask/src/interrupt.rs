//! Ctrl-C, SIGTERM and a closed terminal: what was begun is cleaned up before we end.

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

/// Runs `work`; if a person or the system interrupts it, drops it, runs `clean_up`, and fails.
pub(crate) async fn interruptible<T>(
    work: impl Future<Output = Result<T>>,
    clean_up: impl AsyncFnOnce() -> Result<()>,
) -> Result<T> {
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let mut hang_up = signal(SignalKind::hangup()).context("listen for SIGHUP")?;
    let interrupted = tokio::select! {
        result = work => return result,
        pressed = tokio::signal::ctrl_c() => pressed.context("listen for Ctrl-C"),
        _ = terminate.recv() => Ok(()),
        _ = hang_up.recv() => Ok(()),
    };
    interrupted?;
    clean_up().await?;
    bail!("interrupted; what was running has been ended")
}
