//! The control plane on the host: etcd, kube-apiserver, kube-controller-manager.
//!
//! # Expected flow
//!
//! [`ControlPlane::create`] writes keys, ports and kubeconfigs into its box; [`ControlPlane::open`] reads them back.
//! [`ControlPlane::ensure_running`] starts what is not running, in order, and waits until the API server is ready.
//!
//! # Caveats
//!
//! etcd does not wait for the disk (`--unsafe-no-fsync`): a power cut of the *host* may lose the cluster in a box.

use std::net::TcpListener;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use camino::Utf8PathBuf;
use cstor_exec::{Daemon, Output, Program};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::boxes::{BoxDir, last_lines};
use crate::kubernetes::Binaries;
use crate::pki::{Authority, Identity};

/// The host, as a guest's user-mode network shows it.
pub const HOST_SEEN_FROM_GUESTS: &str = "10.0.3.2";

const READY_WITHIN: Duration = Duration::from_secs(180);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Ports {
    etcd_client: u16,
    etcd_peer: u16,
    api: u16,
}

/// What has to be remembered of a control plane. It goes on with the programs it was started with, whatever a newer
/// checkout would build.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    ports: Ports,
    binaries: Binaries,
}

const RECORD: &str = "control-plane.json";

/// A control plane and its box.
#[derive(Debug, Clone)]
pub struct ControlPlane {
    home: BoxDir,
    record: Record,
}

impl ControlPlane {
    /// Makes the files of a new control plane in `home`. The API server takes `api_port`, or a free one.
    pub fn create(home: BoxDir, binaries: &Binaries, api_port: Option<u16>) -> Result<Self> {
        home.create()?;
        let [etcd_client, etcd_peer, free] = free_ports()?;
        let ports = Ports {
            etcd_client,
            etcd_peer,
            api: api_port.unwrap_or(free),
        };
        let record = Record {
            ports,
            binaries: binaries.clone(),
        };
        let plane = Self { home, record };
        plane.write_identities()?;
        let text = serde_json::to_string(&plane.record).context("write the control plane down")?;
        std::fs::write(plane.file(RECORD), text).context("write the control plane down")?;
        Ok(plane)
    }

    /// The control plane that was made in `home`.
    pub fn open(home: BoxDir) -> Result<Self> {
        let file = home.path().join(RECORD);
        let text = std::fs::read_to_string(&file).with_context(|| format!("read {file}"))?;
        let record = serde_json::from_str(&text).with_context(|| format!("read {file}"))?;
        Ok(Self { home, record })
    }

    /// The programs it runs on.
    #[must_use]
    pub fn binaries(&self) -> &Binaries {
        &self.record.binaries
    }

    /// Where kubectl keeps what it has learnt of the API server.
    #[must_use]
    pub fn kubectl_cache(&self) -> Utf8PathBuf {
        self.file("kubectl-cache")
    }

    /// The kubeconfig of the cluster administrator, on the host.
    #[must_use]
    pub fn kubeconfig(&self) -> Utf8PathBuf {
        self.file("admin.kubeconfig")
    }

    /// The certificate of the authority that signed the API server's.
    #[must_use]
    pub fn ca_certificate(&self) -> Utf8PathBuf {
        self.file("pki/ca.crt")
    }

    /// The API server, from the host.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.record.ports.api)
    }

    /// The API server, from a guest.
    #[must_use]
    pub fn url_for_guests(&self) -> String {
        format!("https://{HOST_SEEN_FROM_GUESTS}:{}", self.record.ports.api)
    }

    /// Runs kubectl as the cluster administrator.
    pub async fn kubectl<S: Into<String>>(&self, args: impl IntoIterator<Item = S>) -> Result<Output> {
        self.kubectl_with_input(args, "").await
    }

    /// Runs kubectl as the cluster administrator, with something to read.
    pub async fn kubectl_with_input<S: Into<String>>(
        &self,
        args: impl IntoIterator<Item = S>,
        input: &str,
    ) -> Result<Output> {
        let kubectl = Program::at(self.record.binaries.kubectl.clone())?;
        let call = kubectl
            .call()
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(args)
            .stdin(input);
        // kubectl keeps a discovery cache in the home directory unless told otherwise: ours belongs to the box.
        Ok(call.env("KUBECACHEDIR", self.kubectl_cache()).run().await?)
    }

    /// Starts what is not running and waits until the API server is ready.
    ///
    /// The controller manager comes last: it gives up if the API server does not let it in within ten seconds, which on
    /// a busy machine is sooner than the API server has made the roles that would.
    pub async fn ensure_running(&self) -> Result<()> {
        let (first, last) = self.services();
        let mut started = Vec::new();
        for service in first {
            started.extend(service.ensure()?);
        }
        self.wait_until_ready(started).await?;
        last.ensure()?;
        Ok(())
    }

    /// Whether all its processes run.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let (first, last) = self.services();
        first.iter().chain([&last]).all(Service::is_running)
    }

    async fn wait_until_ready(&self, mut started: Vec<(BoxDir, Daemon)>) -> Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            for (service, daemon) in &mut started {
                if let Some(status) = daemon.ended()? {
                    let name = service.path().file_name().unwrap_or_default().to_owned();
                    bail!(
                        "{name} ended ({status}); its log is {}:\n{}",
                        service.log(),
                        last_lines(&service.log())
                    );
                }
            }
            let ready = self.kubectl(["get", "--raw=/readyz"]).await;
            // The default namespace is made by the API server itself, a moment after it calls itself ready.
            let usable = self.kubectl(["get", "namespace", "default"]).await;
            match ready.and(usable) {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    return Err(error.context("the API server did not become ready"));
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(250)).await,
            }
        }
    }

    fn file(&self, name: &str) -> Utf8PathBuf {
        self.home.path().join(name)
    }

    fn write_identities(&self) -> Result<()> {
        let authority = Authority::create(&self.file("pki"))?;
        let names = [
            "127.0.0.1",
            "localhost",
            HOST_SEEN_FROM_GUESTS,
            "10.96.0.1",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
        ];
        authority.server("apiserver", &names)?;
        authority.signing_keys("service-accounts")?;
        let admin = authority.client("admin", "admin", Some("system:masters"))?;
        self.write_kubeconfig("admin.kubeconfig", &admin)?;
        let manager = authority.client("controller-manager", "system:kube-controller-manager", None)?;
        self.write_kubeconfig("controller-manager.kubeconfig", &manager)
    }

    fn write_kubeconfig(&self, file: &str, identity: &Identity) -> Result<()> {
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "box",
            "clusters": [{"name": "box", "cluster": {
                "server": self.url(), "certificate-authority": self.ca_certificate(),
            }}],
            "users": [{"name": "user", "user": {
                "client-certificate": identity.certificate, "client-key": identity.key,
            }}],
            "contexts": [{"name": "box", "context": {"cluster": "box", "user": "user"}}],
        });
        let path = self.file(file);
        std::fs::write(&path, kubeconfig.to_string()).with_context(|| format!("write {path}"))
    }

    /// The programs: those that serve the API, in the order in which they are started, and the controller manager.
    fn services(&self) -> ([Service; 2], Service) {
        let Ports {
            etcd_client,
            etcd_peer,
            api,
        } = self.record.ports;
        let (client, peer) = (
            format!("http://127.0.0.1:{etcd_client}"),
            format!("http://127.0.0.1:{etcd_peer}"),
        );
        let pki = |name: &str| self.file(&format!("pki/{name}")).into_string();
        let etcd = vec![
            format!("--data-dir={}", self.file("etcd/data")),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--unsafe-no-fsync=true".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        let apiserver = vec![
            format!("--etcd-servers={client}"),
            format!("--secure-port={api}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            format!("--client-ca-file={}", pki("ca.crt")),
            format!("--tls-cert-file={}", pki("apiserver.crt")),
            format!("--tls-private-key-file={}", pki("apiserver.key")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", pki("service-accounts.pub")),
            format!(
                "--service-account-signing-key-file={}",
                pki("service-accounts.key")
            ),
            "--allow-privileged=true".to_owned(),
            "--event-ttl=24h".to_owned(),
        ];
        let kubeconfig = self.file("controller-manager.kubeconfig");
        let controller_manager = vec![
            format!("--kubeconfig={kubeconfig}"),
            format!(
                "--service-account-private-key-file={}",
                pki("service-accounts.key")
            ),
            format!("--root-ca-file={}", pki("ca.crt")),
            "--use-service-account-credentials=true".to_owned(),
            "--leader-elect=false".to_owned(),
            // No kubelet reports for the nodes, and a node without reports would be tainted and emptied.
            // Nor for their volumes: an attachment that a test made would be taken for a forgotten one and detached.
            "--controllers=*,-node-lifecycle-controller,-persistentvolume-attach-detach-controller"
                .to_owned(),
            "--secure-port=0".to_owned(),
        ];
        let binaries = &self.record.binaries;
        let service = |name: &str, program: &Utf8PathBuf, args| Service {
            home: self.home.inner(name),
            program: program.clone(),
            args,
        };
        (
            [
                service("etcd", &binaries.etcd, etcd),
                service("kube-apiserver", &binaries.apiserver, apiserver),
            ],
            service(
                "kube-controller-manager",
                &binaries.controller_manager,
                controller_manager,
            ),
        )
    }
}

/// A program of the control plane.
struct Service {
    home: BoxDir,
    program: Utf8PathBuf,
    args: Vec<String>,
}

impl Service {
    fn is_running(&self) -> bool {
        !self.home.processes().is_empty()
    }

    /// Starts it, unless it runs.
    fn ensure(self) -> Result<Option<(BoxDir, Daemon)>> {
        if self.is_running() {
            return Ok(None);
        }
        let daemon = self
            .home
            .start(Program::at(self.program)?.call().args(self.args))?;
        Ok(Some((self.home, daemon)))
    }
}

/// Ports that nobody listens on. They are held together while chosen, so that they differ.
pub fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut held = Vec::new();
    for _ in 0..N {
        held.push(TcpListener::bind(("127.0.0.1", 0)).context("find a free port")?);
    }
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&held) {
        *port = listener.local_addr().context("find a free port")?.port();
    }
    Ok(ports)
}
