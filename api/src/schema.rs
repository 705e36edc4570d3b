//! From Rust types to the schemas of custom resource definitions.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use kube::core::schema::StructuralSchemaRewriter;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::{AddNullable, Transform, transform_subschemas};
use serde_json::{Map, Value, json};

/// A rule in the Common Expression Language, and what to say when it does not hold.
pub(crate) type Rule = (&'static str, &'static str);

/// Rules as they stand in a schema.
pub(crate) fn rules<const N: usize>(rules: [Rule; N]) -> Value {
    rules
        .iter()
        .map(|(rule, message)| json!({ "rule": rule, "message": message }))
        .collect()
}

/// The structural schema of a type; `None` if it has none, which a unit test rules out.
pub(crate) fn structural<T: JsonSchema>() -> Option<JSONSchemaProps> {
    let generator = SchemaSettings::openapi3()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .with_transform(AddNullable::default())
        .with_transform(StructuralSchemaRewriter)
        .with_transform(Kubernetes)
        .into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    if let Some(root) = schema.as_object_mut() {
        // Nullability of the root says nothing, and its description is the resource's.
        root.remove("nullable");
    }
    serde_json::from_value(schema.to_value()).ok()
}

/// What Kubernetes understands of a schema, and what we want of it.
#[derive(Clone)]
struct Kubernetes;

impl Transform for Kubernetes {
    fn transform(&mut self, schema: &mut schemars::Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else {
            return;
        };
        object.remove("title");
        // No defaults by the API server: absent stays absent, defaults are decided (and shown) by the controllers.
        object.remove("default");
        if let Some(Value::String(description)) = object.get_mut("description") {
            *description = unwrapped(description);
        }
        unwrap_option(object);
        unwrap_reference(object);
        closed_enum(object);
        signed_number(object);
        if object.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
            // Kubernetes takes a type here as a contradiction.
            object.remove("type");
        }
    }
}

/// A doc comment without the line breaks of the source; paragraphs stay apart.
fn unwrapped(description: &str) -> String {
    let paragraphs = description
        .split("\n\n")
        .map(|paragraph| paragraph.replace('\n', " "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// `anyOf: [T, null]`, which is how an `Option<T>` comes out for some `T`, becomes a nullable `T`.
fn unwrap_option(object: &mut Map<String, Value>) {
    let Some(Value::Array(alternatives)) = object.get("anyOf") else {
        return;
    };
    let [Value::Object(inner), null] = alternatives.as_slice() else {
        return;
    };
    if null.get("nullable") != Some(&json!(true)) {
        return;
    }
    let inner = inner.clone();
    object.remove("anyOf");
    // What is said at the field (its description above all) wins over what is said at the type.
    for (key, value) in inner {
        object.entry(key).or_insert(value);
    }
    object.insert("nullable".to_owned(), json!(true));
}

/// `allOf: [T]`, which is how a described reference comes out, becomes `T`.
fn unwrap_reference(object: &mut Map<String, Value>) {
    let Some(Value::Array(parts)) = object.get("allOf") else {
        return;
    };
    let [Value::Object(inner)] = parts.as_slice() else {
        return;
    };
    let inner = inner.clone();
    object.remove("allOf");
    for (key, value) in inner {
        object.entry(key).or_insert(value);
    }
}

/// An optional enum is absent or one of its values. `null` among them would only lengthen the error message.
fn closed_enum(object: &mut Map<String, Value>) {
    let Some(Value::Array(values)) = object.get_mut("enum") else {
        return;
    };
    values.retain(|value| !value.is_null());
    object.remove("nullable");
}

/// Kubernetes knows int32 and int64 only. An unsigned number becomes a bounded signed one, with the bounds of its Rust
/// type, so that what is admitted can be read.
fn signed_number(object: &mut Map<String, Value>) {
    let (format, largest) = match object.get("format").and_then(Value::as_str) {
        Some("uint64" | "uint") => ("int64", None),
        Some("uint32") => ("int64", Some(u32::MAX)),
        Some("uint16") => ("int32", Some(u32::from(u16::MAX))),
        Some("uint8") => ("int32", Some(u32::from(u8::MAX))),
        _ => return,
    };
    object.insert("format".to_owned(), json!(format));
    object.entry("minimum").or_insert(json!(0));
    if let Some(largest) = largest {
        object.entry("maximum").or_insert(json!(largest));
    }
}
