//! The Kubernetes programs of the cluster in a box, built from pinned Go modules (`tests/harness/go`).

use std::time::Duration;

use anyhow::{Context, Result};
use camino::{Utf8Path, Utf8PathBuf};
use cstor_exec::Program;
use serde::{Deserialize, Serialize};

use crate::boxes::{self, BOX_VARIABLE, Passing};
use crate::cache::{Cache, Key};
use crate::progress::Progress;

/// A cold build of the largest takes about five minutes on two cores; more than this is not slow but stuck.
const BUILD_DEADLINE: Duration = Duration::from_secs(60 * 60);

/// Where the pinned modules are.
const MODULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go");

/// Names a directory of ready-made programs, as the tests of other operators know it. What is in it is used as it is.
pub const ASSETS_VARIABLE: &str = "KUBEBUILDER_ASSETS";

/// One program to build.
struct Tool {
    name: &'static str,
    module: &'static str,
    package: &'static str,
    /// The module whose version the program reports as its own.
    versioned_by: Option<&'static str>,
}

const TOOLS: [Tool; 4] = [
    Tool {
        name: "etcd",
        module: "etcd",
        package: "go.etcd.io/etcd/server/v3",
        versioned_by: None,
    },
    kubernetes_tool("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    kubernetes_tool(
        "kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
    ),
    kubernetes_tool("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
];

const fn kubernetes_tool(name: &'static str, package: &'static str) -> Tool {
    Tool {
        name,
        module: "kubernetes",
        package,
        versioned_by: Some("k8s.io/kubernetes"),
    }
}

/// The Kubernetes programs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Binaries {
    /// etcd.
    pub etcd: Utf8PathBuf,
    /// The API server.
    pub apiserver: Utf8PathBuf,
    /// The controller manager: garbage collection, namespaces, volumes.
    pub controller_manager: Utf8PathBuf,
    /// kubectl.
    pub kubectl: Utf8PathBuf,
}

/// The Kubernetes programs, built if they have not been yet.
pub async fn binaries(cache: &Cache, progress: &Progress) -> Result<Binaries> {
    let mut paths = Vec::new();
    for tool in &TOOLS {
        paths.push(binary(cache, progress, tool).await?);
    }
    let [etcd, apiserver, controller_manager, kubectl] = <[_; 4]>::try_from(paths)
        .ok()
        .context("one path for each program")?;
    Ok(Binaries {
        etcd,
        apiserver,
        controller_manager,
        kubectl,
    })
}

/// Whether Go will be asked to build something, so that its absence can be told before any work.
pub fn needs_go(cache: &Cache) -> Result<bool> {
    for tool in &TOOLS {
        if given(tool).is_none() && cache.find(tool.name, &key(tool)?).is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn given(tool: &Tool) -> Option<Utf8PathBuf> {
    let directory = std::env::var(ASSETS_VARIABLE)
        .ok()
        .filter(|path| path.starts_with('/'))?;
    let path = Utf8PathBuf::from(directory).join(tool.name);
    path.is_file().then_some(path)
}

fn module(tool: &Tool) -> Utf8PathBuf {
    Utf8Path::new(MODULES).join(tool.module)
}

fn key(tool: &Tool) -> Result<Key> {
    let module = module(tool);
    let key = Key::new().with(tool.package).with("flags 1");
    key.with_file(&module.join("go.mod"))?
        .with_file(&module.join("go.sum"))
}

async fn binary(cache: &Cache, progress: &Progress, tool: &Tool) -> Result<Utf8PathBuf> {
    if let Some(path) = given(tool) {
        return Ok(path);
    }
    let key = key(tool)?;
    if let Some(entry) = cache.find(tool.name, &key) {
        return Ok(entry.join(tool.name));
    }
    let step = progress.step(format!("building {}", tool.name));
    let entry = cache
        .entry(tool.name, &key, &step, async |directory| {
            let building = boxes::own(cache, Passing::Build)?;
            building.create()?;
            let go = Program::find_in_path("go")
                .context("Go is needed to build Kubernetes: install Go 1.26 or newer")?;
            let call = go
                .call()
                .inherit_env()
                .env(BOX_VARIABLE, building.path().as_str())
                // A build that is killed leaves its temporary files; there, they are removed.
                .env("GOTMPDIR", building.path().as_str())
                .env("CGO_ENABLED", "0")
                // What is pinned is what is built: no download of another toolchain, no edit of go.mod.
                .env("GOTOOLCHAIN", "local")
                .env("GOFLAGS", "-mod=readonly")
                .args(["build", "-v", "-trimpath", "-ldflags", &linker_flags(tool)?, "-o"])
                .arg(directory.join(tool.name))
                .arg(tool.package)
                .directory(module(tool))
                .deadline(BUILD_DEADLINE);
            call.run_lines(|_, line| step.note(line))
                .await
                .with_context(|| format!("build {}", tool.name))?;
            Ok(())
        })
        .await?;
    step.done();
    Ok(entry.join(tool.name))
}

/// Without these, the programs call themselves v0.0.0 and clients take them for ancient.
fn linker_flags(tool: &Tool) -> Result<String> {
    let mut flags = "-s -w".to_owned();
    if let Some(versioned_by) = tool.versioned_by {
        let version = required_version(&module(tool).join("go.mod"), versioned_by)?;
        let mut parts = version.trim_start_matches('v').split('.');
        let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let variables = [
            ("gitVersion", version.as_str()),
            ("gitMajor", major),
            ("gitMinor", minor),
        ];
        for (name, value) in variables {
            flags.push_str(&format!(" -X k8s.io/component-base/version.{name}={value}"));
        }
    }
    Ok(flags)
}

fn required_version(go_mod: &Utf8Path, module: &str) -> Result<String> {
    let text = std::fs::read_to_string(go_mod).with_context(|| format!("read {go_mod}"))?;
    let version = text.lines().find_map(|line| {
        let mut words = line.trim_start_matches("require").split_whitespace();
        (words.next() == Some(module)).then(|| words.next())?
    });
    Ok(version
        .with_context(|| format!("{go_mod} does not require {module}"))?
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_is_told_its_own_version() {
        let flags = linker_flags(&TOOLS[1]).unwrap();
        assert!(flags.contains("version.gitVersion=v1."), "{flags}");
        assert!(flags.contains("version.gitMajor=1"), "{flags}");
        assert_eq!(linker_flags(&TOOLS[0]).unwrap(), "-s -w");
    }
}
