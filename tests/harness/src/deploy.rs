//! Installs cstor-rs itself: CRDs, RBAC, the controller on the host, an agent on each node.
//!
//! Controller and agents run as the ServiceAccounts of `manifests/`, so the RBAC is tested by being used.
//!
//! # Expected flow
//!
//! [`Installation::apply_manifests`] first, then [`Installation::start_controller`] and [`Installation::start_agent`] in
//! any order and as often as a test likes. [`Installation::await_agent`] tells that an agent is at work.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use camino::{Utf8Path, Utf8PathBuf};
use cstor_exec::{Output, Program};
use k8s_openapi::api::coordination::v1::Lease;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::boxes::{BoxDir, last_lines};
use crate::control_plane::ControlPlane;
use crate::node::Node;
use crate::pki;

/// The agent's name: of its package, its program, its unit and its ServiceAccount.
pub const AGENT: &str = "cstor-agent";
/// The controller's name: of its package, its program and its ServiceAccount.
pub const CONTROLLER: &str = "cstor-controller";

/// Tells the suites where the built agent is.
pub const AGENT_VARIABLE: &str = "CSTOR_TEST_AGENT";
/// Tells the suites where the built controller is.
pub const CONTROLLER_VARIABLE: &str = "CSTOR_TEST_CONTROLLER";

/// The namespace of cstor-rs, as `manifests/` has it.
pub const NAMESPACE: &str = "openebs";

const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../manifests");

/// An agent that starts needs seconds under emulation, and renews its Lease every few.
const AT_WORK_WITHIN: Duration = Duration::from_secs(120);

/// An agent that ended this often while it was waited for will not do better another time.
const HOPELESS_STARTS: u32 = 5;

/// The programs of cstor-rs, built.
#[derive(Debug, Clone)]
pub struct Programs {
    /// cstor-agent.
    pub agent: Utf8PathBuf,
    /// cstor-controller.
    pub controller: Utf8PathBuf,
}

impl Programs {
    /// The programs in this directory.
    #[must_use]
    pub fn in_directory(directory: &Utf8Path) -> Self {
        Self {
            agent: directory.join(AGENT),
            controller: directory.join(CONTROLLER),
        }
    }

    /// The programs that `cargo xtask test` has built for this suite.
    pub fn of_this_suite() -> Result<Self> {
        let read = |name: &str| {
            std::env::var(name).map(Utf8PathBuf::from).with_context(|| {
                format!("{name} is not set: run this suite by `cargo xtask test`, which builds agent and controller")
            })
        };
        Ok(Self {
            agent: read(AGENT_VARIABLE)?,
            controller: read(CONTROLLER_VARIABLE)?,
        })
    }
}

/// How the agent of a node is to run.
#[derive(Debug, Clone, Default)]
pub struct AgentSetup {
    /// Arguments beside `run --node-name`.
    pub arguments: Vec<String>,
    /// Files that it reads: path on the node, and content.
    pub files: Vec<(String, String)>,
}

impl AgentSetup {
    /// The unit. It is enabled, so that the agent is there again after a power cut.
    fn unit(&self) -> String {
        let arguments: String = self.arguments.iter().map(|word| unit_word(word)).collect();
        format!(
            "\
[Unit]
Description=cstor-rs node agent
[Service]
ExecStart=/usr/local/bin/{AGENT} run --node-name=%H{arguments}
Environment=KUBECONFIG=/etc/cstor/kubeconfig
# The console is kept when a test fails; the journal is not.
StandardOutput=journal+console
StandardError=journal+console
Restart=always
RestartSec=2
[Install]
WantedBy=multi-user.target
"
        )
    }
}

/// A further word of a unit's command line, which means itself whatever is in it.
fn unit_word(word: &str) -> String {
    let mut quoted = String::from(" \"");
    for character in word.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '%' | '$' => quoted.extend([character, character]),
            '\n' => quoted.push_str("\\n"),
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// cstor-rs in one cluster.
#[derive(Debug, Clone)]
pub struct Installation {
    control_plane: ControlPlane,
    /// Where the controller runs.
    controller: BoxDir,
    programs: Programs,
}

impl Installation {
    /// cstor-rs on this control plane; nothing is done yet. The controller runs in a box inside `place`.
    #[must_use]
    pub fn new(control_plane: ControlPlane, place: &BoxDir, programs: Programs) -> Self {
        Self {
            control_plane,
            controller: place.inner(CONTROLLER),
            programs,
        }
    }

    /// The control plane it is on.
    #[must_use]
    pub fn control_plane(&self) -> &ControlPlane {
        &self.control_plane
    }

    /// A client, as cluster administrator.
    pub async fn client(&self) -> Result<Client> {
        let path = self.control_plane.kubeconfig();
        let kubeconfig = Kubeconfig::read_from(&path).with_context(|| format!("read {path}"))?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let config = config.with_context(|| format!("use {path}"))?;
        Client::try_from(config).context("make a client of the API server")
    }

    /// Runs kubectl as cluster administrator and returns what it wrote.
    pub async fn kubectl<S: Into<String>>(&self, args: impl IntoIterator<Item = S>) -> Result<String> {
        Ok(self.control_plane.kubectl(args).await?.stdout)
    }

    /// Applies an object, or several in a List.
    pub async fn apply(&self, object: &Value) -> Result<()> {
        let args = ["apply", "--server-side", "-f", "-"];
        let input = object.to_string();
        self.control_plane.kubectl_with_input(args, &input).await?;
        Ok(())
    }

    /// Applies everything of `manifests/`, and makes the nodes known to Kubernetes.
    pub async fn apply_manifests(&self, nodes: impl IntoIterator<Item = &Node>) -> Result<()> {
        install_crds(&self.control_plane).await?;
        let mut args = vec!["apply".to_owned(), "--server-side".to_owned()];
        for name in ["namespace.yaml", "agent-rbac.yaml", "controller-rbac.yaml"] {
            args.extend(["-f".to_owned(), format!("{MANIFESTS}/{name}")]);
        }
        self.control_plane.kubectl(args).await?;
        let objects: Vec<_> = nodes.into_iter().map(|node| node_object(node.name())).collect();
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects }).to_string();
        for subresource in [None, Some("--subresource=status")] {
            let args = [
                "apply",
                "--server-side",
                "--force-conflicts",
                "--field-manager=cluster-in-a-box",
                "-f",
                "-",
            ];
            self.control_plane
                .kubectl_with_input(args.into_iter().chain(subresource), &list)
                .await?;
        }
        Ok(())
    }

    /// Starts the agent on a node, or starts it anew if it runs, with this setup. It comes back after a power cut.
    pub async fn start_agent(&self, node: &Node, setup: &AgentSetup) -> Result<()> {
        let program = format!("/usr/local/bin/{AGENT}");
        // A node is made after the programs it runs, so what it has is what it would get.
        if node.sh(&format!("test -e {program}")).await.is_err() {
            let from = &self.programs.agent;
            let content = std::fs::read(from).with_context(|| format!("read {from}"))?;
            node.write_file(&program, "0755", content).await?;
            let server = self.control_plane.url_for_guests();
            let kubeconfig = self.kubeconfig(AGENT, &server).await?;
            node.write_file("/etc/cstor/kubeconfig", "0600", kubeconfig.into_bytes())
                .await?;
        }
        for (path, content) in &setup.files {
            node.write_file(path, "0644", content.clone().into_bytes())
                .await?;
        }
        let unit = format!("/etc/systemd/system/{AGENT}.service");
        node.write_file(&unit, "0644", setup.unit().into_bytes()).await?;
        node.sh(&format!(
            "systemctl daemon-reload; systemctl enable --quiet {AGENT}; systemctl restart {AGENT}; sync"
        ))
        .await?;
        Ok(())
    }

    /// Ends the agent of a node in good order. After a power cut it is there again.
    pub async fn stop_agent(&self, node: &Node) -> Result<()> {
        node.sh(&format!("systemctl stop {AGENT}")).await?;
        Ok(())
    }

    /// Waits until the agent of a node has renewed its Lease once more: it is alive, and reaches the API server.
    pub async fn await_agent(&self, node: &Node) -> Result<()> {
        let leases: Api<Lease> = Api::namespaced(self.client().await?, NAMESPACE);
        let name = format!("{AGENT}-{}", node.name());
        let renewed = async || {
            let lease = leases.get_opt(&name).await;
            let lease = lease.with_context(|| format!("read the Lease {name}"))?;
            Ok::<_, anyhow::Error>(lease.and_then(|lease| lease.spec?.renew_time))
        };
        let starts = async || {
            let shown = node
                .sh(&format!("systemctl show --property=NRestarts --value {AGENT}"))
                .await?;
            shown
                .trim()
                .parse::<u32>()
                .context("read how often the agent was started")
        };
        let (before, began) = (renewed().await?, starts().await?);
        let deadline = Instant::now() + AT_WORK_WITHIN;
        loop {
            let now = renewed().await?;
            if now.is_some() && now != before {
                return Ok(());
            }
            let again = starts().await?.saturating_sub(began);
            if again >= HOPELESS_STARTS || Instant::now() > deadline {
                bail!(
                    "the agent of {} does not renew its Lease {name} ({again} new starts); the node's console said: {}",
                    node.name(),
                    last_lines(&node.console())
                );
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Starts the controller on the host, unless it runs.
    pub async fn start_controller(&self) -> Result<()> {
        let home = &self.controller;
        if !home.processes().is_empty() {
            return Ok(());
        }
        home.create()?;
        let file = home.path().join("kubeconfig");
        if !file.exists() {
            let text = self.kubeconfig(CONTROLLER, &self.control_plane.url()).await?;
            pki::write_private(&file, &text)?;
        }
        let program = Program::at(self.programs.controller.clone())?;
        // Port 0: a free one, since nothing but a person who looks at the log asks for it.
        let call = program
            .call()
            .args(["--identity=cluster-in-a-box", "--listen=127.0.0.1:0"]);
        home.start(call.env("KUBECONFIG", file))?;
        Ok(())
    }

    /// Kills the controller, as a crash of its host would.
    pub async fn kill_controller(&self) -> Result<()> {
        self.controller.end_processes().await
    }

    /// A kubeconfig for a ServiceAccount of ours.
    async fn kubeconfig(&self, account: &str, server: &str) -> Result<String> {
        let args = [
            "create",
            "token",
            account,
            "--duration=87600h",
            "--namespace",
            NAMESPACE,
        ];
        let Output { stdout: token, .. } = self.control_plane.kubectl(args).await?;
        let certificate = self.control_plane.ca_certificate();
        let certificate = std::fs::read(&certificate).with_context(|| format!("read {certificate}"))?;
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "box",
            "clusters": [{"name": "box", "cluster": {
                "server": server, "certificate-authority-data": BASE64.encode(&certificate),
            }}],
            "users": [{"name": account, "user": { "token": token.trim() }}],
            "contexts": [{"name": "box", "context": {"cluster": "box", "user": account, "namespace": NAMESPACE}}],
        });
        Ok(kubeconfig.to_string())
    }
}

/// Applies the CRD manifests and waits until the API server serves them.
pub async fn install_crds(control_plane: &ControlPlane) -> Result<()> {
    let crds = format!("{MANIFESTS}/crds");
    let apply = ["apply", "--server-side", "-f", crds.as_str()];
    control_plane.kubectl(apply).await?;
    let wait = [
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        "-f",
        crds.as_str(),
    ];
    control_plane.kubectl(wait).await?;
    Ok(())
}

/// What a kubelet would say of the node. There is none yet, so we do.
fn node_object(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name, "kubernetes.io/os": "linux" } },
        "status": {
            "conditions": [{
                "type": "Ready",
                "status": "True",
                "reason": "ClusterInABox",
                "message": "the node is a virtual machine without a kubelet",
            }],
            "addresses": [{ "type": "Hostname", "address": name }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_the_agent_survive_systemd() {
        let setup = AgentSetup {
            arguments: vec!["--config=/etc/a b".into(), "100%".into(), r#"$HOME "\"#.into()],
            ..AgentSetup::default()
        };
        let unit = setup.unit();
        let line = unit.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
        assert_eq!(
            line,
            r#"ExecStart=/usr/local/bin/cstor-agent run --node-name=%H "--config=/etc/a b" "100%%" "$$HOME \"\\""#
        );
        let plain = AgentSetup::default().unit();
        assert!(plain.contains("--node-name=%H\n"), "{plain}");
    }
}
