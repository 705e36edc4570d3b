//! Label and field selectors.

use serde_json::Value;

/// Which objects a list or watch is for.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    pub(super) namespace: Option<String>,
    labels: Vec<Term>,
    fields: Vec<Term>,
}

#[derive(Clone, Debug)]
struct Term {
    key: String,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    There,
    NotThere,
}

impl Selector {
    pub(super) fn new(namespace: Option<String>, labels: Option<&str>, fields: Option<&str>) -> Self {
        Self {
            namespace,
            labels: terms(labels.unwrap_or_default()),
            fields: terms(fields.unwrap_or_default()),
        }
    }

    /// Whether it is for one object, by name: Kubernetes answers that by a consistent read of that one.
    pub(super) fn names_one(&self) -> bool {
        self.fields
            .iter()
            .any(|term| term.key == "metadata.name" && matches!(term.test, Test::In(_)))
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let metadata = object.get("metadata");
        let namespace = text(metadata.and_then(|metadata| metadata.get("namespace")));
        let label = |key: &str| {
            text(
                metadata
                    .and_then(|metadata| metadata.get("labels"))
                    .and_then(|all| all.get(key)),
            )
        };
        let field = |path: &str| text(path.split('.').try_fold(object, |value, name| value.get(name)));
        (self.namespace.is_none() || namespace == self.namespace)
            && self.labels.iter().all(|term| term.matches(label(&term.key)))
            && self
                .fields
                .iter()
                .all(|term| term.matches(Some(field(&term.key).unwrap_or_default())))
    }
}

impl Term {
    fn matches(&self, value: Option<String>) -> bool {
        match (&self.test, value) {
            (Test::In(values), Some(value)) => values.contains(&value),
            (Test::NotIn(values), Some(value)) => !values.contains(&value),
            (Test::There, value) => value.is_some(),
            (Test::NotThere, value) => value.is_none(),
            (Test::In(_), None) => false,
            (Test::NotIn(_), None) => true,
        }
    }
}

fn terms(text: &str) -> Vec<Term> {
    // Commas within brackets belong to a set of values.
    let mut depth = 0;
    let parts = text.split(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    parts
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(term)
        .collect()
}

fn term(text: &str) -> Term {
    let of = |key: &str, test| Term {
        key: key.trim().into(),
        test,
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    let set = |values: &str| {
        values
            .trim()
            .trim_start_matches('(')
            .trim_end_matches(')')
            .split(',')
            .map(|value| value.trim().to_owned())
            .collect()
    };
    if let Some((key, value)) = text.split_once("!=") {
        of(key, Test::NotIn(one(value)))
    } else if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        of(key, Test::In(one(value)))
    } else if let Some((key, values)) = text.split_once(" notin ") {
        of(key, Test::NotIn(set(values)))
    } else if let Some((key, values)) = text.split_once(" in ") {
        of(key, Test::In(set(values)))
    } else if let Some(key) = text.strip_prefix('!') {
        of(key, Test::NotThere)
    } else {
        of(text, Test::There)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_select() {
        let object = json!({
            "metadata": {"name": "a", "namespace": "ns", "labels": {"node": "n1", "tier": "x"}},
            "spec": {"host": "n1"},
        });
        let of =
            |labels, fields| Selector::new(Some("ns".into()), Some(labels), Some(fields)).matches(&object);
        assert!(of("", ""));
        assert!(of("node=n1,tier in (x, y)", "metadata.name=a,spec.host=n1"));
        assert!(of("node!=n2,!gone,tier,absent!=z", "spec.host!=n2"));
        assert!(
            !of("node=n2", "") && !of("tier notin (x)", "") && !of("gone", "") && !of("", "spec.host=n2")
        );
        assert!(!Selector::new(Some("other".into()), None, None).matches(&object));
        assert!(Selector::new(None, None, Some("metadata.name=a")).names_one());
    }
}
