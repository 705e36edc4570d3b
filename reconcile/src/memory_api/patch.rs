//! Merge, JSON and apply patches.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::store::Refused;

/// Which manager owns which leaf fields of an object by server-side apply.
pub(super) type Owners = BTreeMap<String, BTreeSet<String>>;

/// A JSON merge patch (RFC 7386).
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), change);
        }
    }
}

/// A JSON patch (RFC 6902). A test that fails is a conflict of the 422 kind, as on the real server.
pub(super) fn json(target: &mut Value, patch: &Value) -> Result<(), Refused> {
    let patch: json_patch::Patch = serde_json::from_value(patch.clone())
        .map_err(|error| Refused::new(400, "BadRequest", error.to_string()))?;
    json_patch::patch(target, &patch).map_err(|error| Refused::new(422, "Invalid", error.to_string()))
}

/// Server-side apply: `wanted` becomes true, fields that `manager` applied before and now leaves out go, fields that another
/// manager owns with another value are a conflict unless forced.
pub(super) fn apply(
    target: &mut Value,
    wanted: &Value,
    manager: &str,
    force: bool,
    owners: &mut Owners,
) -> Result<(), Refused> {
    let mut leaves = BTreeMap::new();
    collect(wanted, String::new(), &mut leaves);
    leaves.retain(|path, _| !is_identity(path));
    for (other, theirs) in owners.iter_mut().filter(|(other, _)| *other != manager) {
        for (path, value) in &leaves {
            if theirs.contains(path) && target.pointer(path) != Some(*value) {
                if !force {
                    return Err(Refused::new(
                        409,
                        "Conflict",
                        format!("{path} is managed by {other}"),
                    ));
                }
                theirs.remove(path);
            }
        }
    }
    let ours: BTreeSet<String> = leaves.keys().cloned().collect();
    let before = owners.insert(manager.into(), ours.clone()).unwrap_or_default();
    for path in before.difference(&ours) {
        if !owners.values().any(|paths| paths.contains(path)) {
            remove(target, path);
        }
    }
    merge(target, wanted);
    Ok(())
}

fn is_identity(path: &str) -> bool {
    [
        "/apiVersion",
        "/kind",
        "/metadata/name",
        "/metadata/namespace",
        "/metadata/resourceVersion",
        "/metadata/uid",
    ]
    .contains(&path)
}

fn collect<'a>(value: &'a Value, path: String, leaves: &mut BTreeMap<String, &'a Value>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                collect(
                    value,
                    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")),
                    leaves,
                );
            }
        }
        leaf => {
            leaves.insert(path, leaf);
        }
    }
}

fn remove(target: &mut Value, path: &str) {
    let Some((parent, name)) = path.rsplit_once('/') else {
        return;
    };
    let name = name.replace("~1", "/").replace("~0", "~");
    if let Some(Value::Object(fields)) = target.pointer_mut(parent) {
        fields.remove(&name);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_merge_adds_replaces_and_removes() {
        let mut target = json!({"a": 1, "b": {"c": 2, "d": 3}, "list": [1, 2]});
        merge(
            &mut target,
            &json!({"a": null, "b": {"c": 4}, "list": [3], "new": {"x": {"y": null}}}),
        );
        assert_eq!(
            target,
            json!({"b": {"c": 4, "d": 3}, "list": [3], "new": {"x": {}}})
        );
    }

    #[test]
    fn apply_owns_removes_and_conflicts() {
        let (mut target, mut owners) = (json!({"spec": {"theirs": 1}}), Owners::new());
        apply(
            &mut target,
            &json!({"spec": {"a": 1, "b": 2}}),
            "one",
            false,
            &mut owners,
        )
        .unwrap();
        assert_eq!(target, json!({"spec": {"theirs": 1, "a": 1, "b": 2}}));
        apply(&mut target, &json!({"spec": {"a": 1}}), "one", false, &mut owners).unwrap();
        assert_eq!(target, json!({"spec": {"theirs": 1, "a": 1}}));
        let conflict = apply(&mut target, &json!({"spec": {"a": 9}}), "two", false, &mut owners).unwrap_err();
        assert_eq!(conflict.code, 409);
        apply(&mut target, &json!({"spec": {"a": 9}}), "two", true, &mut owners).unwrap();
        apply(&mut target, &json!({"spec": {}}), "one", false, &mut owners).unwrap();
        assert_eq!(target, json!({"spec": {"theirs": 1, "a": 9}}));
    }
}
