//! Every enum, range, length and required field of every schema refuses what lies outside.
//!
//! Nothing is listed here: the test walks the definitions, finds a place in a full object that each bound speaks of, puts
//! something there that the bound forbids, and looks for the refusal to name the field and to say what is allowed. A new field
//! without a fixture fails the test, so a bound cannot be forgotten.

use std::collections::BTreeSet;

use futures::StreamExt;
use kube::Client;
use serde_json::{Value, json};

use crate::fixtures;
use crate::kind::{Kind, name};
use crate::schema::{self, SchemaPath};
use crate::support::{client, namespace};

/// Something a schema forbids.
struct Offence {
    what: String,
    path: SchemaPath,
    /// Changes the value at the place, given what is there.
    change: Box<dyn Fn(&Value) -> Value + Send + Sync>,
    /// What the refusal must say.
    expected: Vec<String>,
}

fn offence(
    what: &str,
    path: &SchemaPath,
    change: impl Fn(&Value) -> Value + Send + Sync + 'static,
    expected: &[&str],
) -> Offence {
    Offence {
        what: what.to_owned(),
        path: path.clone(),
        change: Box::new(change),
        expected: expected.iter().map(|text| (*text).to_owned()).collect(),
    }
}

/// The rules about amounts stand at many places; they are checked at each of them, here.
pub const AMOUNT_RULES: [&str; 4] = [
    "This is not a size:",
    "One of these is not a size:",
    "This is not the size of a disk:",
    "One of these is not an amount:",
];

/// The one of them for CPU as well as for bytes.
const AMOUNT_OF_ANYTHING: &str = AMOUNT_RULES[3];

/// Puts the same amount into a field, or into all fields of a map.
fn all_of(amount: Value) -> impl Fn(&Value) -> Value + Send + Sync {
    move |value| match value {
        Value::Object(amounts) => amounts.keys().map(|key| (key.clone(), amount.clone())).collect(),
        _ => amount.clone(),
    }
}

/// All that the schemas of a kind forbid.
fn offences(kind: &Kind) -> Vec<Offence> {
    let mut found = Vec::new();
    for (path, schema) in schema::walk(&kind.schema()) {
        if let Some(values) = schema["enum"].as_array() {
            let expected = values
                .iter()
                .map(|value| format!("{value}"))
                .collect::<Vec<_>>()
                .join(", ");
            let expected = format!("Unsupported value: \"nonsense\": supported values: {expected}");
            found.push(offence("enum", &path, |_| json!("nonsense"), &[&expected]));
        }
        let is_text = schema["type"] == "string";
        let is_integer = schema["type"] == "integer";
        let step = if is_integer { 1.0 } else { 0.005 };
        let number = move |value: f64| {
            if is_integer {
                json!(value as i64)
            } else {
                json!(value)
            }
        };
        if let Some(least) = schema["minimum"].as_f64() {
            let expected = format!("should be greater than or equal to {least}");
            found.push(offence(
                "minimum",
                &path,
                move |_| number(least - step),
                &[&expected],
            ));
        }
        if let Some(most) = schema["maximum"].as_f64() {
            let expected = format!("should be less than or equal to {most}");
            found.push(offence(
                "maximum",
                &path,
                move |_| number(most + step),
                &[&expected],
            ));
        }
        match schema["format"].as_str() {
            Some("int32") => found.push(offence("format", &path, |_| json!(1_u64 << 31), &["int32"])),
            Some("int64") => found.push(offence("format", &path, |_| json!(1_u64 << 63), &["int64"])),
            Some("date-time") => {
                let expected = "must be of type date-time";
                found.push(offence("format", &path, |_| json!("yesterday"), &[expected]));
            }
            Some("double") | None => {}
            Some(other) => panic!("{path}: what is the format {other}?"),
        }
        if let Some(least) = schema["minLength"].as_u64() {
            let expected = format!("should be at least {least} chars long");
            let text = "x".repeat(least as usize - 1);
            found.push(offence("minLength", &path, move |_| json!(text), &[&expected]));
        }
        if let Some(most) = schema["maxLength"].as_u64() {
            let expected = format!("may not be more than {most} bytes");
            let text = "1".repeat(most as usize + 1);
            found.push(offence("maxLength", &path, move |_| json!(text), &[&expected]));
        }
        if let Some(least) = schema["minItems"].as_u64() {
            assert_eq!(least, 1, "{path}");
            found.push(offence(
                "minItems",
                &path,
                |_| json!([]),
                &["should have at least 1 items"],
            ));
        }
        if let Some(most) = schema["maxItems"].as_u64() {
            let expected = format!("must have at most {most} items");
            let repeat = move |value: &Value| Value::Array(vec![value[0].clone(); most as usize + 1]);
            found.push(offence("maxItems", &path, repeat, &["Too many", &expected]));
        }
        if let Some(most) = schema["maxProperties"].as_u64() {
            let expected = format!("must have at most {most} items");
            let repeat = move |value: &Value| {
                let one = value.as_object().unwrap().values().next().unwrap().clone();
                (0..=most)
                    .map(|index| (format!("key-{index}"), one.clone()))
                    .collect()
            };
            found.push(offence("maxProperties", &path, repeat, &["Too many", &expected]));
        }
        for field in schema["required"].as_array().into_iter().flatten() {
            let field = field.as_str().unwrap().to_owned();
            let expected = [format!("{field}: Required value")];
            let without = move |value: &Value| {
                let mut value = value.clone();
                value.as_object_mut().unwrap().remove(&field);
                value
            };
            found.push(offence("required", &path, without, &[&expected[0]]));
        }
        if schema["x-kubernetes-list-type"] == "map" {
            let twice = |value: &Value| json!([value[0], value[0]]);
            found.push(offence("list-map-keys", &path, twice, &["Duplicate value"]));
        }
        for rule in schema["x-kubernetes-validations"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let message = rule["message"].as_str().unwrap();
            if AMOUNT_RULES.iter().any(|start| message.starts_with(start)) {
                found.push(offence("amount", &path, all_of(json!("lots")), &[message]));
                // A text where the field takes texts alone.
                let less = if is_text { json!("-1") } else { json!(-1) };
                found.push(offence("amount below zero", &path, all_of(less), &[message]));
                if !message.starts_with(AMOUNT_OF_ANYTHING) {
                    let thousandths = all_of(json!("500m"));
                    found.push(offence("amount in thousandths", &path, thousandths, &[message]));
                    for much in ["99999Ei", "8Ei", "1e19"] {
                        found.push(offence(
                            "amount too large",
                            &path,
                            all_of(json!(much)),
                            &[message],
                        ));
                    }
                }
            }
        }
        let known = [
            "additionalProperties",
            "description",
            "enum",
            "format",
            "items",
            "maxItems",
            "maxLength",
            "maxProperties",
            "maximum",
            "minItems",
            "minLength",
            "minimum",
            "nullable",
            "properties",
            "required",
            "type",
            "x-kubernetes-int-or-string",
            "x-kubernetes-list-map-keys",
            "x-kubernetes-list-type",
            "x-kubernetes-map-type",
            "x-kubernetes-validations",
        ];
        for key in schema.as_object().unwrap().keys() {
            assert!(
                known.contains(&key.as_str()),
                "{path}: this test does not know the keyword {key}"
            );
        }
    }
    found
}

/// Commits the offence on an object that is there, and says what is wrong with the answer.
async fn commit(
    client: &Client,
    kind: &Kind,
    namespace: &str,
    whole: &[Value],
    offence: &Offence,
) -> Option<String> {
    let at = format!("{} {}: {}", kind.name(), offence.path, offence.what);
    let found = whole
        .iter()
        .find_map(|object| Some((object, schema::locate(&offence.path, object)?)));
    let Some((object, pointer)) = found else {
        return Some(format!("{at}: no fixture has it"));
    };
    let mut object = object.clone();
    let changed = (offence.change)(object.pointer(&pointer).unwrap());
    if pointer.is_empty() {
        object = changed;
    } else {
        schema::put(&mut object, &pointer, changed);
    }
    let answer = if offence.path.is_in_status() && kind.has_status() {
        kind.update_status(client, namespace, &object, true).await
    } else {
        kind.update(client, namespace, &object, true).await
    };
    match answer {
        Ok(_) => Some(format!("{at}: accepted {object}")),
        Err(message) => {
            let field = match offence.path.0.last() {
                Some(schema::Step::Field(name)) => name.as_str(),
                _ => "",
            };
            let says =
                offence.expected.iter().all(|expected| message.contains(expected)) && message.contains(field);
            (!says).then(|| format!("{at}: expected {:?}, got: {message}", offence.expected))
        }
    }
}

#[tokio::test]
async fn what_lies_outside_the_bounds_is_refused() {
    let client = client().await;
    let namespace = namespace(&client).await;
    let mut problems = Vec::new();
    let mut checked = 0;
    for kind in Kind::all() {
        // All that is changed below was accepted before, so it is the change that is refused.
        let mut whole = Vec::new();
        for object in fixtures::full(kind.name()) {
            whole.push(kind.create_whole(&client, &namespace, &object).await.unwrap());
        }
        let offences = offences(&kind);
        checked += offences.len();
        let answers = futures::stream::iter(&offences)
            .map(|offence| commit(&client, &kind, &namespace, &whole, offence))
            .buffer_unordered(8);
        problems.extend(
            answers
                .filter_map(async |problem| problem)
                .collect::<Vec<_>>()
                .await,
        );
    }
    assert!(
        problems.is_empty(),
        "{} of {checked}:\n{}",
        problems.len(),
        problems.join("\n")
    );
}

/// Every value of every enum is accepted by the enum (another rule may still say something about it).
#[tokio::test]
async fn every_listed_value_is_accepted() {
    let client = client().await;
    let namespace = namespace(&client).await;
    for kind in Kind::all() {
        for (path, schema) in schema::walk(&kind.schema()) {
            let Some(values) = schema["enum"].as_array() else {
                continue;
            };
            let object = fixtures::full(kind.name()).remove(0);
            let pointer = schema::locate(&path, &object).unwrap();
            let made = kind.create_whole(&client, &namespace, &object).await;
            let made = match made {
                Ok(made) => made,
                Err(_) => kind.get(&client, &namespace, name(&object)).await,
            };
            for value in values {
                let mut changed = made.clone();
                schema::put(&mut changed, &pointer, value.clone());
                let answer = if path.is_in_status() {
                    kind.update_status(&client, &namespace, &changed, true).await
                } else {
                    kind.update(&client, &namespace, &changed, true).await
                };
                let refusal = answer.err().unwrap_or_default();
                assert!(
                    !refusal.contains("Unsupported value"),
                    "{} {path} = {value}: {refusal}",
                    kind.name()
                );
            }
        }
    }
}

/// The keywords in use, so that a change of the schemas that drops one is noticed.
#[test]
fn bounds_of_every_sort_are_in_use() {
    let sorts: BTreeSet<_> = Kind::all()
        .iter()
        .flat_map(offences)
        .map(|offence| offence.what)
        .collect();
    let expected = [
        "amount",
        "amount below zero",
        "amount in thousandths",
        "amount too large",
        "enum",
        "format",
        "list-map-keys",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "required",
    ];
    assert_eq!(sorts.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}
