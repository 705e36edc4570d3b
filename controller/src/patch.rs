//! One write on a block device or a claim.
//!
//! Each carries the version of the object it was decided on, so the API server itself checks what was decided: if the
//! object has changed in any way since, nothing is written, and the object is looked at again.
//!
//! # How a write can die
//!
//! | what dies | what follows |
//! |---|---|
//! | the version it was decided on | 409: look again, not counted as a failure |
//! | the object | 404: look again, and see that it is gone |
//! | the request or its answer | a failure with back-off; the next look reads what is there, and finds it done or not |
//! | the API server, silently | the same, after [`DEADLINE`]; should the request arrive later, its version is old |

use std::time::Duration;

use cstor_api::names::finalizer;
use cstor_api::openebs::BlockDevice;
use cstor_reconcile::{Class, Classify, Object, Retry, reason};
use kube::api::{Api, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt as _};
use serde_json::{Value, json};

use crate::PROGRAM;

/// How long the API server may take to answer.
const DEADLINE: Duration = Duration::from_secs(20);

/// Why a write came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// The API server refused, or could not be reached.
    #[error("{doing} {name}")]
    Api {
        /// What we were doing.
        doing: &'static str,
        /// The object.
        name: String,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server did not answer in time. Whether it wrote is not known.
    #[error("{doing} {name}: no answer within {} s", DEADLINE.as_secs())]
    Deadline {
        /// What we were doing.
        doing: &'static str,
        /// The object.
        name: String,
    },
}

impl Classify for PatchError {
    fn classify(&self) -> Class {
        match self {
            Self::Api { source, .. } => match &**source {
                kube::Error::Api(status) if status.is_not_found() => {
                    Class::new("api_gone", reason::API_ERROR).retry(Retry::LookAgain)
                }
                other => other.classify(),
            },
            Self::Deadline { .. } => Class::new("api_deadline", reason::API_UNREACHABLE),
        }
    }
}

/// An object as it was when something was decided about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Its name.
    pub(crate) name: String,
    /// Its version then.
    pub(crate) version: String,
    /// Its finalizers then.
    pub(crate) finalizers: Vec<String>,
}

impl Target {
    /// `object` as it is now.
    pub(crate) fn of<K: Resource>(object: &K) -> Self {
        Self {
            name: object.name_any(),
            // An empty version would mean any; no object has this one.
            version: object.resource_version().unwrap_or_else(|| "0".to_owned()),
            finalizers: object.finalizers().to_vec(),
        }
    }

    /// The metadata of a patch that applies to this version alone.
    fn guard(&self) -> Value {
        json!({ "resourceVersion": self.version })
    }

    /// The same, with our protection on the device or without.
    fn guard_protected(&self, protected: bool) -> Value {
        let mut finalizers = self.finalizers.clone();
        finalizers.retain(|known| known != finalizer::BLOCK_DEVICE);
        if protected {
            finalizers.push(finalizer::BLOCK_DEVICE.to_owned());
        }
        json!({ "resourceVersion": self.version, "finalizers": finalizers })
    }
}

/// Writes the few fields that are ours, as one field manager.
#[derive(Clone)]
pub(crate) struct Writer {
    client: Client,
    namespace: String,
    params: PatchParams,
}

impl Writer {
    /// A writer for the controller called `controller`.
    pub(crate) fn new(client: Client, namespace: &str, controller: &str) -> Self {
        let params = PatchParams {
            field_manager: Some(format!("{PROGRAM}/{controller}")),
            ..PatchParams::default()
        };
        Self {
            client,
            namespace: namespace.to_owned(),
            params,
        }
    }

    /// Writes into the device that the claim `claim_ref` has it, and protects it.
    pub(crate) async fn claim(&self, device: &Target, claim_ref: &Value) -> Result<(), PatchError> {
        let patch = json!({
            "metadata": device.guard_protected(true),
            "spec": { "claimRef": claim_ref },
        });
        self.patch::<BlockDevice>("claim", &device.name, &patch, false)
            .await
    }

    /// Takes the claim and the protection off the device. What is on the disk stays.
    pub(crate) async fn unclaim(&self, device: &Target) -> Result<(), PatchError> {
        let patch = json!({
            "metadata": device.guard_protected(false),
            "spec": { "claimRef": null },
        });
        self.patch::<BlockDevice>("release", &device.name, &patch, false)
            .await
    }

    /// Writes fields of the spec.
    pub(crate) async fn spec<K>(
        &self,
        doing: &'static str,
        target: &Target,
        spec: &Value,
    ) -> Result<(), PatchError>
    where
        K: Object + Resource<Scope = NamespaceResourceScope>,
    {
        let patch = json!({ "metadata": target.guard(), "spec": spec });
        self.patch::<K>(doing, &target.name, &patch, false).await
    }

    /// Writes fields of the status.
    pub(crate) async fn status<K>(
        &self,
        doing: &'static str,
        target: &Target,
        status: &Value,
    ) -> Result<(), PatchError>
    where
        K: Object + Resource<Scope = NamespaceResourceScope>,
    {
        let patch = json!({ "metadata": target.guard(), "status": status });
        self.patch::<K>(doing, &target.name, &patch, true).await
    }

    async fn patch<K>(
        &self,
        doing: &'static str,
        name: &str,
        patch: &Value,
        status: bool,
    ) -> Result<(), PatchError>
    where
        K: Object + Resource<Scope = NamespaceResourceScope>,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        let patch = Patch::Merge(patch);
        let request = async {
            if status {
                api.patch_status(name, &self.params, &patch).await
            } else {
                api.patch(name, &self.params, &patch).await
            }
        };
        match tokio::time::timeout(DEADLINE, request).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(source)) => Err(PatchError::Api {
                doing,
                name: name.to_owned(),
                source: Box::new(source),
            }),
            Err(_elapsed) => Err(PatchError::Deadline {
                doing,
                name: name.to_owned(),
            }),
        }
    }
}
