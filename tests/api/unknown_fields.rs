//! A field that does not exist is reported, by name, and not swallowed.

use serde_json::Value;

use crate::fixtures;
use crate::kind::Kind;
use crate::schema::{self, Step};
use crate::support::{client, namespace};

/// In the root, in the spec, and in the deepest object of the spec. (Our requests are strict, as kubectl's are.)
#[tokio::test]
async fn unknown_fields_are_refused_by_name() {
    let client = client().await;
    let namespace = namespace(&client).await;
    for kind in Kind::all() {
        let object = fixtures::full(kind.name()).remove(0);
        let is_record = |schema: &Value| schema["properties"].is_object();
        let mut places: Vec<_> = schema::walk(&kind.schema())
            .into_iter()
            .filter(|(path, schema)| !path.is_in_status() && is_record(schema))
            .map(|(path, _)| path)
            .filter(|path| schema::locate(path, &object).is_some())
            .collect();
        places.sort_by_key(|path| path.0.len());
        let deepest = places.last().unwrap().clone();
        let spec = schema::SchemaPath(vec![Step::Field("spec".to_owned())]);
        for place in [schema::SchemaPath::default(), spec, deepest] {
            let mut changed = object.clone();
            let pointer = schema::locate(&place, &changed).unwrap();
            schema::put(&mut changed, &format!("{pointer}/noSuchField"), "x".into());
            let refusal = kind
                .create(&client, &namespace, &changed, true)
                .await
                .unwrap_err();
            let dotted = pointer
                .trim_start_matches('/')
                .split('/')
                .fold(String::new(), |path, step| {
                    match (step.parse::<usize>(), path.is_empty()) {
                        (Ok(index), _) => format!("{path}[{index}]"),
                        (Err(_), true) => step.to_owned(),
                        (Err(_), false) => format!("{path}.{step}"),
                    }
                });
            let field = if dotted.is_empty() {
                "noSuchField".to_owned()
            } else {
                format!("{dotted}.noSuchField")
            };
            assert!(
                refusal.contains(&format!("unknown field \"{field}\"")),
                "{}: {refusal}",
                kind.name()
            );
        }
    }
}

/// The names of the planner's historic implementation are not those of its design, and are not taken for them.
#[tokio::test]
async fn historic_names_are_refused() {
    let client = client().await;
    let namespace = namespace(&client).await;
    let kind = Kind::named("CStorClusterConfig");
    let object = fixtures::full(kind.name()).remove(0);
    for (pointer, field) in [
        (
            "/spec/allowedNodes/selectorTerms",
            "spec.allowedNodes.selectorTerms",
        ),
        ("/spec/diskConfig/external", "spec.diskConfig.external"),
        (
            "/spec/poolConfig/poolExpansion/capacityThreshold",
            "spec.poolConfig.poolExpansion.capacityThreshold",
        ),
    ] {
        let mut changed = object.clone();
        schema::put(&mut changed, pointer, serde_json::json!({}));
        let refusal = kind
            .create(&client, &namespace, &changed, true)
            .await
            .unwrap_err();
        assert!(
            refusal.contains(&format!("unknown field \"{field}\"")),
            "{refusal}"
        );
    }
}
