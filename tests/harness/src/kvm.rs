//! Whether guests run on the processor itself or are emulated.
//!
//! A `/dev/kvm` that opens proves nothing: where virtualisation is nested badly, the guest hangs instead of failing.
//! So a kernel is booted once, with a deadline, and the answer is remembered until the machine is booted again.

use std::time::Duration;

use anyhow::{Context, Result};
use cstor_exec::Program;
use serde::{Deserialize, Serialize};

use crate::cache::Cache;
use crate::image::Image;
use crate::progress::Progress;

/// A kernel without a root file system needs about a second to find that out on KVM.
const PROBE_WITHIN: Duration = Duration::from_secs(15);

/// How guests are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Accelerator {
    /// By the processor.
    Kvm,
    /// By QEMU's emulation.
    Tcg,
}

impl Accelerator {
    pub(crate) fn argument(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg,thread=multi",
        }
    }
}

/// The fastest way that works on this machine.
pub async fn accelerator(cache: &Cache, image: &Image, progress: &Progress) -> Result<Accelerator> {
    if std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/kvm")
        .is_err()
    {
        return Ok(Accelerator::Tcg);
    }
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").context("read the boot id")?;
    let memory = cache.root().join("kvm");
    let remembered = std::fs::read_to_string(&memory).unwrap_or_default();
    if let Some(answer) = remembered.strip_prefix(&boot) {
        return Ok(if answer == "works" {
            Accelerator::Kvm
        } else {
            Accelerator::Tcg
        });
    }
    let step = progress.step("trying KVM");
    let qemu = Program::find("qemu-system-x86_64").context("QEMU is not installed")?;
    let works = probe(&qemu, image.kernel.as_str(), PROBE_WITHIN).await;
    let answer = if works { "works" } else { "hangs" };
    std::fs::write(&memory, format!("{boot}{answer}")).with_context(|| format!("write {memory}"))?;
    step.done_with(if works {
        "it works"
    } else {
        "guests hang; they are emulated instead"
    });
    Ok(if works { Accelerator::Kvm } else { Accelerator::Tcg })
}

/// Boots the kernel without a root file system: it panics at once, and the machine ends.
async fn probe(qemu: &Program, kernel: &str, within: Duration) -> bool {
    let call = qemu
        .call()
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"])
        .args([
            "-machine", "q35", "-accel", "kvm", "-cpu", "max", "-smp", "2", "-m", "256",
        ])
        .args(["-kernel", kernel, "-append", "panic=-1 quiet"])
        .deadline(within);
    call.run().await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_guest_that_hangs_or_fails_is_not_taken_for_one_that_works() {
        let (generous, short) = (Duration::from_secs(60), Duration::from_millis(300));
        let stand_in = |name| Program::find(name).unwrap();
        assert!(probe(&stand_in("true"), "/kernel", generous).await);
        assert!(!probe(&stand_in("false"), "/kernel", generous).await);
        assert!(!probe(&stand_in("yes"), "/kernel", short).await, "it never ends");
    }
}
