//! What the schema admits, the types can read, and write back as it was.
//!
//! The promise that matters to a controller: one odd object must not blind it to all others. So objects are made up
//! from the schemas alone, as odd as these allow, and passed through the types.
#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code: a failed step is a failed test"
)]

use cstor_api::{cstor, dao, openebs};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use proptest::prelude::*;
use proptest::sample::select;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

fn text() -> BoxedStrategy<Value> {
    let odd = [
        "",
        " ",
        "0",
        "null",
        "true",
        "Ä\u{1f4be}",
        "5G",
        "1.26G",
        "-1",
        "a\nb",
        "\u{0}",
    ]
    .map(|text| json!(text));
    prop_oneof![select(odd.to_vec()), "[ -~]{0,12}".prop_map(Value::from)].boxed()
}

fn number(schema: &Value) -> BoxedStrategy<Value> {
    let (low, high) = match schema["format"].as_str() {
        Some("int32") => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "bounds of our schemas are small whole numbers"
    )]
    let bound = |name: &str| schema[name].as_f64().map(|bound| bound as i64);
    let (low, high) = (bound("minimum").unwrap_or(low), bound("maximum").unwrap_or(high));
    prop_oneof![Just(low), Just(high), low..=high]
        .prop_map(Value::from)
        .boxed()
}

/// A value the schema admits; rules are not looked at, since what they refuse is only fewer objects.
fn value(schema: &Value) -> BoxedStrategy<Value> {
    let admitted = if let Some(values) = schema["enum"].as_array() {
        select(values.clone()).boxed()
    } else if schema["x-kubernetes-int-or-string"] == true {
        prop_oneof![any::<i64>().prop_map(Value::from), text()].boxed()
    } else {
        match schema["type"].as_str() {
            Some("string") if schema["format"] == "date-time" => select(vec![
                json!("2024-05-04T10:11:12Z"),
                json!("2024-05-04t10:11:12z"),
                json!("2024-05-04T10:11:12.123456789+05:30"),
            ])
            .boxed(),
            Some("string") => text(),
            Some("integer") => number(schema),
            Some("number") => (schema["minimum"].as_f64().unwrap()..=schema["maximum"].as_f64().unwrap())
                .prop_map(Value::from)
                .boxed(),
            Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
            Some("array") => prop::collection::vec(value(&schema["items"]), 0..3)
                .prop_map(Value::from)
                .boxed(),
            Some("object") if schema["additionalProperties"].is_object() => {
                let entries =
                    prop::collection::btree_map("[ -~]{0,8}", value(&schema["additionalProperties"]), 0..3);
                entries.prop_map(|entries| entries.into_iter().collect()).boxed()
            }
            Some("object") => object(schema),
            other => panic!("what is the type {other:?}?"),
        }
    };
    if schema["nullable"] == true {
        prop_oneof![1 => Just(Value::Null), 9 => admitted].boxed()
    } else {
        admitted
    }
}

fn object(schema: &Value) -> BoxedStrategy<Value> {
    let required = |name: &String| {
        schema["required"]
            .as_array()
            .is_some_and(|names| names.contains(&json!(name)))
    };
    let mut fields = Just(Map::new()).boxed();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let present = if required(name) {
            Just(true).boxed()
        } else {
            prop::bool::weighted(0.7).boxed()
        };
        let name = name.clone();
        fields = (fields, present, value(field))
            .prop_map(move |(mut fields, present, value)| {
                if present {
                    fields.insert(name.clone(), value);
                }
                fields
            })
            .boxed();
    }
    fields.prop_map(Value::Object).boxed()
}

/// An object of a kind.
fn admitted(crd: &CustomResourceDefinition) -> BoxedStrategy<Value> {
    let version = &crd.spec.versions[0];
    let schema = serde_json::to_value(
        version
            .schema
            .as_ref()
            .unwrap()
            .open_api_v3_schema
            .as_ref()
            .unwrap(),
    )
    .unwrap();
    let api_version = format!("{}/{}", crd.spec.group, version.name);
    let kind = crd.spec.names.kind.clone();
    object(&schema)
        .prop_map(move |mut object| {
            object["apiVersion"] = json!(api_version);
            object["kind"] = json!(kind);
            object["metadata"] = json!({ "name": "x" });
            object
        })
        .boxed()
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            fields
                .map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

fn check<T: CustomResourceExt + Serialize + DeserializeOwned>() {
    let config = ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let outcome = runner.run(&admitted(&T::crd()), |object| {
        let typed: T = serde_json::from_value(object.clone())
            .map_err(|error| TestCaseError::fail(format!("cannot be read: {error}")))?;
        prop_assert_eq!(serde_json::to_value(&typed).unwrap(), without_nulls(&object));
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{}: {error}", T::crd_name()));
}

macro_rules! kinds {
    ($($test:ident: $kind:ty,)+) => {
        $(
            #[test]
            fn $test() {
                check::<$kind>();
            }
        )+

        #[test]
        fn no_kind_is_left_out() {
            let checked = [$(<$kind>::crd_name()),+];
            let all = cstor_api::crds();
            assert_eq!(checked.to_vec(), all.iter().map(|crd| crd.metadata.name.as_deref().unwrap()).collect::<Vec<_>>());
        }
    };
}

kinds! {
    pool_cluster: cstor::CStorPoolCluster,
    pool_instance: cstor::CStorPoolInstance,
    volume_replica: cstor::CStorVolumeReplica,
    volume: cstor::CStorVolume,
    volume_config: cstor::CStorVolumeConfig,
    volume_policy: cstor::CStorVolumePolicy,
    volume_attachment: cstor::CStorVolumeAttachment,
    backup: cstor::CStorBackup,
    completed_backup: cstor::CStorCompletedBackup,
    restore: cstor::CStorRestore,
    block_device: openebs::BlockDevice,
    block_device_claim: openebs::BlockDeviceClaim,
    cluster_config: dao::CStorClusterConfig,
    cluster_plan: dao::CStorClusterPlan,
    storage_set: dao::CStorClusterStorageSet,
    storage: dao::Storage,
}
