//! A kind of ours, and the API server's answers about objects of it.

use std::sync::LazyLock;

use cstor_api::{cstor, dao, openebs};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{GetParams, PostParams};
use kube::core::Request;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// One of our kinds.
#[derive(Clone)]
pub struct Kind {
    pub crd: CustomResourceDefinition,
}

/// What the API server made of a request: the object, or the message of the refusal.
pub type Answer = Result<Value, String>;

impl Kind {
    /// All kinds, as the types define them.
    pub fn all() -> Vec<Self> {
        static KINDS: LazyLock<Vec<Kind>> =
            LazyLock::new(|| cstor_api::crds().into_iter().map(|crd| Kind { crd }).collect());
        KINDS.clone()
    }

    pub fn named(name: &str) -> Self {
        let kind = Self::all().into_iter().find(|kind| kind.name() == name);
        kind.unwrap_or_else(|| panic!("there is no kind {name}"))
    }

    pub fn name(&self) -> &str {
        &self.crd.spec.names.kind
    }

    pub fn has_status(&self) -> bool {
        self.crd.spec.versions[0].subresources.is_some()
    }

    /// The schema, as JSON.
    pub fn schema(&self) -> Value {
        let schema = self.crd.spec.versions[0]
            .schema
            .as_ref()
            .unwrap()
            .open_api_v3_schema
            .as_ref()
            .unwrap();
        serde_json::to_value(schema).unwrap()
    }

    fn request(&self, namespace: &str) -> Request {
        let spec = &self.crd.spec;
        let (group, version, plural) = (&spec.group, &spec.versions[0].name, &spec.names.plural);
        Request::new(format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}"))
    }

    /// Creates the object; its status is dropped, as that of every object with a status subresource.
    pub async fn create(&self, client: &Client, namespace: &str, object: &Value, dry_run: bool) -> Answer {
        let request = self
            .request(namespace)
            .create(&params(dry_run), bytes(object))
            .unwrap();
        send(client, request, "fieldValidation=Strict").await
    }

    /// Replaces the object.
    pub async fn update(&self, client: &Client, namespace: &str, object: &Value, dry_run: bool) -> Answer {
        let request = self
            .request(namespace)
            .replace(name(object), &params(dry_run), bytes(object))
            .unwrap();
        send(client, request, "fieldValidation=Strict").await
    }

    /// Replaces the status of the object.
    pub async fn update_status(
        &self,
        client: &Client,
        namespace: &str,
        object: &Value,
        dry_run: bool,
    ) -> Answer {
        let request = self
            .request(namespace)
            .replace_subresource("status", name(object), &params(dry_run), bytes(object))
            .unwrap();
        send(client, request, "fieldValidation=Strict").await
    }

    /// Creates the object with all it has, its status in a second request where that is how it goes.
    pub async fn create_whole(&self, client: &Client, namespace: &str, object: &Value) -> Answer {
        let mut made = self.create(client, namespace, object, false).await?;
        if self.has_status() && !object["status"].is_null() {
            made["status"] = object["status"].clone();
            made = self.update_status(client, namespace, &made, false).await?;
        }
        Ok(made)
    }

    /// Reads the object back, as the server has it.
    pub async fn get(&self, client: &Client, namespace: &str, name: &str) -> Value {
        let request = self.request(namespace).get(name, &GetParams::default()).unwrap();
        send(client, request, "").await.unwrap()
    }

    /// What `kubectl get` shows: the names of the columns with their priority, and the cells of each row.
    pub async fn table(&self, client: &Client, namespace: &str) -> (Vec<(String, i64)>, Vec<Vec<Value>>) {
        let mut request = self.request(namespace).list(&Default::default()).unwrap();
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        request.headers_mut().insert("accept", table.parse().unwrap());
        let table = send(client, request, "").await.unwrap();
        let column = |column: &Value| {
            (
                column["name"].as_str().unwrap().to_owned(),
                column["priority"].as_i64().unwrap(),
            )
        };
        let columns = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(column)
            .collect();
        let rows = table["rows"].as_array().unwrap().iter();
        (
            columns,
            rows.map(|row| row["cells"].as_array().unwrap().clone()).collect(),
        )
    }

    /// The object after a passage through its Rust type.
    pub fn through_rust(&self, object: &Value) -> Value {
        fn pass<T: DeserializeOwned + Serialize>(object: &Value) -> Value {
            let typed: T = serde_json::from_value(object.clone()).unwrap();
            serde_json::to_value(typed).unwrap()
        }
        match self.name() {
            "CStorPoolCluster" => pass::<cstor::CStorPoolCluster>(object),
            "CStorPoolInstance" => pass::<cstor::CStorPoolInstance>(object),
            "CStorVolumeReplica" => pass::<cstor::CStorVolumeReplica>(object),
            "CStorVolume" => pass::<cstor::CStorVolume>(object),
            "CStorVolumeConfig" => pass::<cstor::CStorVolumeConfig>(object),
            "CStorVolumePolicy" => pass::<cstor::CStorVolumePolicy>(object),
            "CStorVolumeAttachment" => pass::<cstor::CStorVolumeAttachment>(object),
            "CStorBackup" => pass::<cstor::CStorBackup>(object),
            "CStorCompletedBackup" => pass::<cstor::CStorCompletedBackup>(object),
            "CStorRestore" => pass::<cstor::CStorRestore>(object),
            "BlockDevice" => pass::<openebs::BlockDevice>(object),
            "BlockDeviceClaim" => pass::<openebs::BlockDeviceClaim>(object),
            "CStorClusterConfig" => pass::<dao::CStorClusterConfig>(object),
            "CStorClusterPlan" => pass::<dao::CStorClusterPlan>(object),
            "CStorClusterStorageSet" => pass::<dao::CStorClusterStorageSet>(object),
            "Storage" => pass::<dao::Storage>(object),
            other => panic!("{other} has no Rust type here"),
        }
    }
}

fn params(dry_run: bool) -> PostParams {
    PostParams {
        dry_run,
        field_manager: Some("api-suite".to_owned()),
    }
}

fn bytes(object: &Value) -> Vec<u8> {
    serde_json::to_vec(object).unwrap()
}

/// The name of an object.
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// Sends a request, with more parameters than kube's own types have.
async fn send(client: &Client, mut request: http::Request<Vec<u8>>, query: &str) -> Answer {
    if !query.is_empty() {
        let uri = request.uri().to_string();
        let separator = if uri.contains('?') { "&" } else { "?" };
        *request.uri_mut() = format!("{uri}{separator}{query}").parse().unwrap();
    }
    client.request(request).await.map_err(|error| match error {
        kube::Error::Api(status) => status.message,
        other => panic!("no answer from the API server: {other}"),
    })
}
