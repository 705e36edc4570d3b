//! The programs that are installed into clusters: built from this checkout.

use std::time::Duration;

use anyhow::{Context, Result};
use camino::{Utf8Path, Utf8PathBuf};
use cstor_exec::Program;
use cstor_harness::boxes::{BOX_VARIABLE, BoxDir};
use cstor_harness::deploy::{AGENT, CONTROLLER, Programs};
use cstor_harness::progress::Progress;
use serde_json::Value;

use crate::workspace;

const BUILD_WITHIN: Duration = Duration::from_secs(30 * 60);

/// Where the programs of a cluster, or of the suites, are.
pub(crate) fn programs(place: &BoxDir) -> Programs {
    Programs::in_directory(&place.path().join("bin"))
}

/// Builds agent and controller and puts copies into `place`: a later build must not change what runs.
pub(crate) async fn build(progress: &Progress, place: &BoxDir) -> Result<Programs> {
    let step = progress.step("building agent and controller");
    // A linker that is killed leaves its temporary files; there, they are removed.
    let place_of_build = place.path().as_str();
    let cargo = workspace::cargo()?
        .env(BOX_VARIABLE, place_of_build)
        .env("TMPDIR", place_of_build);
    let call = cargo.args([
        "build",
        "--package",
        AGENT,
        "--package",
        CONTROLLER,
        "--message-format=json-render-diagnostics",
    ]);
    let output = call.deadline(BUILD_WITHIN).run_lines(|_, line| {
        if !line.starts_with('{') {
            step.note(line);
        }
    });
    let output = output.await.context("build agent and controller")?;
    let programs = programs(place);
    for (name, to) in [(AGENT, &programs.agent), (CONTROLLER, &programs.controller)] {
        let directory = to.parent().unwrap_or(to);
        std::fs::create_dir_all(directory).with_context(|| format!("make {directory}"))?;
        strip(&built(&output.stdout, name)?, to).await?;
    }
    step.done();
    Ok(programs)
}

/// Where cargo says that it put a program.
fn built(messages: &str, name: &str) -> Result<Utf8PathBuf> {
    let found = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|message| {
            let ours = message.get("target")?.get("name")? == name;
            let path = message.get("executable")?.as_str()?;
            ours.then(|| path.into())
        });
    found.with_context(|| format!("cargo built no {name}"))
}

/// Symbols make three quarters of a program's size, and it is sent to every node.
async fn strip(from: &Utf8Path, to: &Utf8Path) -> Result<()> {
    let strip =
        Program::find("strip").context("strip is needed, which comes with the linker: install binutils")?;
    strip
        .call()
        .args(["-o", to.as_str(), from.as_str()])
        .run()
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_tells_where_a_program_is() {
        let messages = concat!(
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"other\"},\"executable\":\"/t/other\"}\n",
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"cstor-agent\"},\"executable\":null}\n",
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"cstor-agent\"},\"executable\":\"/t/cstor-agent\"}\n",
            "{\"reason\":\"build-finished\",\"success\":true}\n",
        );
        assert_eq!(built(messages, "cstor-agent").unwrap(), "/t/cstor-agent");
        assert!(built(messages, "cstor-csi").is_err());
    }
}
