//! The engine on the real API server: what the in-memory one may have got wrong.
//!
//! Waits are for events, with generous deadlines; nothing is concluded from how long something took.
#![allow(
    dead_code,
    reason = "the sample controllers are the faults suite's, which uses more of them"
)]

#[path = "../../faults/host.rs"]
mod host;
mod idle;
mod leases;
mod lives;
#[path = "../../faults/probe.rs"]
mod probe;
#[path = "../../faults/volumes/mod.rs"]
mod volumes;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use cstor_reconcile::metrics::ControllerMetrics;
use cstor_reconcile::{Backoff, Engine, Metrics, Related, Services, Trigger, Watch};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::CustomResourceExt as _;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::RwLock;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use self::host::Host;
use self::volumes::{Breakage, Profile, VolumeSet, Volumes};
use crate::support;

/// Held to read by every test of the sample's kind, and to write by the one that counts what the server is asked about it.
static ALONE: RwLock<()> = RwLock::const_new(());

const PATIENCE: Duration = Duration::from_secs(120);

/// A namespace, the sample's CRDs, and a client whose writes are counted.
pub struct Cluster {
    pub admin: Client,
    pub client: Client,
    pub namespace: String,
    pub writes: Arc<AtomicUsize>,
}

impl Cluster {
    pub async fn new() -> Self {
        let admin = support::client().await;
        install(&admin).await;
        let namespace = support::namespace(&admin).await;
        let writes = Arc::new(AtomicUsize::new(0));
        let client = counting_client(writes.clone()).await;
        Self {
            admin,
            client,
            namespace,
            writes,
        }
    }

    pub fn sets(&self) -> Api<VolumeSet> {
        Api::namespaced(self.admin.clone(), &self.namespace)
    }

    pub fn services(&self) -> Services {
        Services {
            metrics: Metrics::new(),
            ..Services::new(self.client.clone(), "engine-test", "process-1")
        }
    }

    pub fn volumes(&self, host: &Host) -> Engine<Volumes> {
        let profiles = Related::new(Watch::namespaced(self.client.clone(), &self.namespace));
        let (host, profiles_too) = (host.clone(), profiles.clone());
        let volumes = Volumes {
            host,
            profiles: profiles_too,
            breakage: Breakage::None,
            remembered: std::sync::Mutex::default(),
        };
        Engine::new(volumes, Watch::namespaced(self.client.clone(), &self.namespace))
            .related(profiles, |_| vec![Trigger::All])
            .backoff(Backoff {
                base: Duration::from_millis(100),
                ..Backoff::default()
            })
    }
}

/// A running engine; dropped, it dies as a process does.
pub struct Running {
    pub metrics: ControllerMetrics,
    stop: CancellationToken,
    task: AbortOnDropHandle<Result<(), cstor_reconcile::engine::EngineError>>,
}

impl Running {
    pub fn start<C: cstor_reconcile::Controller>(engine: Engine<C>, services: Services) -> Self {
        let (stop, metrics) = (CancellationToken::new(), services.metrics.of(C::NAME));
        let task = AbortOnDropHandle::new(tokio::spawn(engine.run(services, stop.clone())));
        Self { metrics, stop, task }
    }

    pub async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task)
            .await
            .expect("it stops")
            .unwrap()
            .unwrap();
    }
}

/// Waits until it is so.
pub async fn until<T>(what: &str, so: impl AsyncFn() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(value) = so().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait)
        .await
        .unwrap_or_else(|_| panic!("never happened: {what}"))
}

async fn install(client: &Client) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("engine-test").force();
    for mut crd in [json!(VolumeSet::crd()), json!(Profile::crd())] {
        // Looser than the types, so that malformed objects can be made at all.
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let name = crd["metadata"]["name"].as_str().unwrap().to_owned();
        crds.patch(&name, &params, &Patch::Apply(&crd))
            .await
            .expect("install the sample's CRD");
        let established = await_condition(crds.clone(), &name, conditions::is_crd_established());
        tokio::time::timeout(PATIENCE, established)
            .await
            .expect("established")
            .unwrap();
    }
}

async fn counting_client(writes: Arc<AtomicUsize>) -> Client {
    let kubeconfig = Kubeconfig::read_from(std::env::var(support::KUBECONFIG).unwrap()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    ClientBuilder::try_from(config)
        .unwrap()
        .with_layer(&CountWrites(writes))
        .build()
}

struct CountWrites(Arc<AtomicUsize>);

#[derive(Clone)]
struct Counted<S>(S, Arc<AtomicUsize>);

impl<S> tower::Layer<S> for CountWrites {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted(inner, self.0.clone())
    }
}

impl<S: tower::Service<http::Request<Body>>> tower::Service<http::Request<Body>> for Counted<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> S::Future {
        if request.method() != http::Method::GET {
            self.1.fetch_add(1, Ordering::SeqCst);
        }
        self.0.call(request)
    }
}

/// Writes of the sample's kinds that the server has been asked for, by its own count.
pub async fn writes_by_the_servers_count(client: &Client) -> Vec<String> {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let text = client.request_text(request).await.expect("the server's metrics");
    let ours = |line: &&str| {
        line.starts_with("apiserver_request_total{")
            && line.contains(r#"group="faults.cstor.io""#)
            && ["POST", "PUT", "PATCH", "APPLY", "DELETE"]
                .iter()
                .any(|verb| line.contains(&format!("verb=\"{verb}\"")))
    };
    let mut lines: Vec<String> = text.lines().filter(ours).map(str::to_owned).collect();
    lines.sort();
    lines
}

/// What the server has of the object, all of it.
pub async fn raw(sets: &Api<VolumeSet>, name: &str) -> Value {
    serde_json::to_value(sets.get(name).await.unwrap()).unwrap()
}
