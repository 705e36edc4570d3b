//! The definitions of all our resources, and the files they are kept in.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;

use crate::{cstor, dao, openebs};

/// The definitions of all our resources, in the order of this list.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        cstor::CStorPoolCluster::crd(),
        cstor::CStorPoolInstance::crd(),
        cstor::CStorVolumeReplica::crd(),
        cstor::CStorVolume::crd(),
        cstor::CStorVolumeConfig::crd(),
        cstor::CStorVolumePolicy::crd(),
        cstor::CStorVolumeAttachment::crd(),
        cstor::CStorBackup::crd(),
        cstor::CStorCompletedBackup::crd(),
        cstor::CStorRestore::crd(),
        openebs::BlockDevice::crd(),
        openebs::BlockDeviceClaim::crd(),
        dao::CStorClusterConfig::crd(),
        dao::CStorClusterPlan::crd(),
        dao::CStorClusterStorageSet::crd(),
        dao::Storage::crd(),
    ]
}

const HEADER: &str = "\
# Generated from the types in api/ by `cargo xtask crds`. Do not edit.
---
";

/// The files under `manifests/crds/`: name and text of each.
///
/// A definition that could not be written would come out as a comment; a unit test rules that out.
pub fn manifests() -> Vec<(String, String)> {
    let manifest = |crd: CustomResourceDefinition| {
        let file = format!("{}.{}.yaml", crd.spec.names.plural, crd.spec.group);
        // Through JSON, so that the order of keys is that of the alphabet, whatever the order of the Rust fields.
        let mut value = serde_json::to_value(&crd).unwrap_or_default();
        whole_numbers(&mut value);
        let yaml = serde_saphyr::to_string(&value).unwrap_or_else(|error| format!("# {error}\n"));
        (file, format!("{HEADER}{yaml}"))
    };
    crds().into_iter().map(manifest).collect()
}

/// Writes 9.0 as 9. Bounds are floating-point numbers in the Rust type, and whole ones in nearly every schema.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            // Through text, which is exact where a cast would have to be defended.
            let text = number.to_string();
            if let Some(whole) = text
                .strip_suffix(".0")
                .and_then(|whole| whole.parse::<i64>().ok())
            {
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::names;

    /// The committed files are what the types say. `cargo xtask crds` writes them.
    #[test]
    fn committed_manifests_are_current() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/crds");
        let expected = manifests();
        for (file, text) in &expected {
            let committed = std::fs::read_to_string(directory.join(file)).unwrap_or_default();
            assert!(
                committed == *text,
                "manifests/crds/{file} is out of date: run `cargo xtask crds`"
            );
        }
        let listed: BTreeSet<_> = expected.into_iter().map(|(file, _)| file).collect();
        for entry in std::fs::read_dir(&directory).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            assert!(
                listed.contains(&file),
                "manifests/crds/{file} belongs to no resource: run `cargo xtask crds`"
            );
        }
    }

    #[test]
    fn manifests_say_what_the_types_say() {
        for ((file, text), crd) in manifests().into_iter().zip(crds()) {
            let read: CustomResourceDefinition = serde_saphyr::from_str(&text).unwrap();
            assert_eq!(read, crd, "{file}");
        }
    }

    #[test]
    fn every_resource_has_a_schema_and_a_place() {
        let groups = [
            (names::CSTOR_GROUP, names::CSTOR_VERSION),
            (names::OPENEBS_GROUP, names::OPENEBS_VERSION),
            (names::DAO_GROUP, names::DAO_VERSION),
        ];
        for crd in crds() {
            let version = &crd.spec.versions[0];
            assert!(
                version.schema.as_ref().unwrap().open_api_v3_schema.is_some(),
                "{}",
                crd.spec.names.kind
            );
            assert!(groups.contains(&(crd.spec.group.as_str(), version.name.as_str())));
        }
    }

    /// `kubectl explain` answers for every field that is ours.
    #[test]
    fn every_field_is_described() {
        fn walk(path: &str, schema: &Value, missing: &mut Vec<String>) {
            for (key, field) in schema["properties"].as_object().into_iter().flatten() {
                let path = format!("{path}.{key}");
                if !field["description"].is_string() {
                    missing.push(path.clone());
                }
                walk(&path, field, missing);
            }
            for inner in ["items", "additionalProperties"] {
                if schema[inner].is_object() {
                    walk(path, &schema[inner], missing);
                }
            }
        }
        let mut missing = Vec::new();
        for crd in crds() {
            let schema = serde_json::to_value(&crd.spec.versions[0].schema).unwrap();
            walk(&crd.spec.names.kind, &schema["openAPIV3Schema"], &mut missing);
        }
        assert_eq!(missing, Vec::<String>::new());
    }
}
