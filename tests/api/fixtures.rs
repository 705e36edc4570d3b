//! Objects to test with.
//!
//! * `cstor-3.6/`: an object of each kind as cStor 3.6 left it, all fields filled, oddities included.
//! * `added/`: what cstor-rs adds to the kinds of cStor, laid over those.
//! * `design/`: the kinds of the planner.

use std::path::{Path, PathBuf};

use serde_json::Value;

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("api/fixtures")
        .join(name)
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files of a directory for a kind: `Kind.yaml` and `Kind.variant.yaml`.
fn of_kind(name: &str, kind: &str) -> Vec<Value> {
    let mut paths: Vec<_> = std::fs::read_dir(directory(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort_by_key(|path| path.file_name().unwrap().len());
    let is_of_kind =
        |path: &&PathBuf| path.file_name().unwrap().to_str().unwrap().split('.').next() == Some(kind);
    paths.iter().filter(is_of_kind).map(|path| read(path)).collect()
}

/// The object of a kind as cStor 3.6 left it, or as the design document has it.
pub fn old(kind: &str) -> Vec<Value> {
    let mut objects = of_kind("cstor-3.6", kind);
    objects.extend(of_kind("design", kind));
    assert!(!objects.is_empty(), "no fixture for {kind}");
    objects
}

/// Objects of a kind that together have every field there is.
pub fn full(kind: &str) -> Vec<Value> {
    let mut objects = old(kind);
    for added in of_kind("added", kind) {
        merge(&mut objects[0], added);
    }
    objects
}

/// Lays one document over another: objects are merged, everything else is replaced.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// The document without its nulls.
pub fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}
