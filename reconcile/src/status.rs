//! What has to be written for a status to become true.

use serde_json::{Map, Value};

/// The merge patch that makes `desired` of `current`; `None` if there is nothing to write.
///
/// Fields that are null count as absent, since the API server drops them. Fields of `current` that `desired` lacks are
/// removed; so `current` is the object *as our types read it*: what our types do not know is never in it, and stays.
pub(crate) fn difference(current: &Value, desired: &Value) -> Option<Value> {
    match (current, desired) {
        (Value::Object(current), Value::Object(desired)) => {
            let mut patch = Map::new();
            for (name, value) in desired.iter().filter(|(_, value)| !value.is_null()) {
                let now = current.get(name).filter(|now| !now.is_null());
                let change = match now {
                    Some(now) => difference(now, value),
                    None => Some(without_nulls(value)),
                };
                if let Some(change) = change {
                    patch.insert(name.clone(), change);
                }
            }
            for name in current
                .iter()
                .filter(|(_, now)| !now.is_null())
                .map(|(name, _)| name)
            {
                if desired.get(name).is_none_or(Value::is_null) {
                    patch.insert(name.clone(), Value::Null);
                }
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (current, desired) => {
            let (current, desired) = (without_nulls(current), without_nulls(desired));
            (current != desired).then_some(desired)
        }
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                kept.map(|(name, value)| (name.clone(), without_nulls(value)))
                    .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_is_nothing_to_write() {
        let status = json!({"phase": "Online", "disks": [{"name": "a", "size": null}], "free": {"bytes": 1}});
        assert_eq!(difference(&status, &status), None);
        let read_back = json!({"phase": "Online", "disks": [{"name": "a"}], "free": {"bytes": 1}});
        assert_eq!(difference(&read_back, &status), None);
        assert_eq!(difference(&status, &read_back), None);
    }

    #[test]
    fn only_what_differs_is_written() {
        let current = json!({"phase": "Pending", "size": 1, "free": {"bytes": 1, "blocks": 2}, "gone": true});
        let desired =
            json!({"phase": "Online", "size": 1, "free": {"bytes": 3, "blocks": 2}, "new": {"a": null}});
        let patch = json!({"phase": "Online", "free": {"bytes": 3}, "gone": null, "new": {}});
        assert_eq!(difference(&current, &desired), Some(patch));
    }

    #[test]
    fn lists_are_written_whole() {
        let patch = difference(&json!({"list": [1, 2]}), &json!({"list": [2]}));
        assert_eq!(patch, Some(json!({"list": [2]})));
    }
}
