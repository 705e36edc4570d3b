//! What an object is called.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt as _};

/// Namespace and name of an object of the kind a controller looks at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace; `None` for objects of the whole cluster.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl Key {
    /// The key of a namespaced object.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            name: name.into(),
        }
    }

    /// The key of an object of the whole cluster.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self {
            namespace: None,
            name: name.into(),
        }
    }

    /// The key of `object`.
    pub fn of<K: Resource>(object: &K) -> Self {
        Self {
            namespace: object.meta().namespace.clone(),
            name: object.name_any(),
        }
    }

    /// The keys of the `Owner`s of `object`: the usual way to wake the owner when something it owns changes.
    ///
    /// Owner references carry no namespace: the owner of a namespaced object is in the same namespace, unless
    /// `Owner` is a kind of the whole cluster, for which pass `namespaced: false`.
    pub fn owners<Owner, K>(object: &K, namespaced: bool) -> Vec<Self>
    where
        Owner: Resource<DynamicType = ()>,
        K: Resource,
    {
        let ours = |owner: &&OwnerReference| {
            owner.kind == Owner::kind(&())
                && owner.api_version.split('/').next() == Owner::api_version(&()).split('/').next()
        };
        let namespace = object.meta().namespace.clone().filter(|_| namespaced);
        object
            .owner_references()
            .iter()
            .filter(ours)
            .map(|owner| Self {
                namespace: namespace.clone(),
                name: owner.name.clone(),
            })
            .collect()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}
