//! Walking schemas, and finding in objects what they speak of.

use serde_json::Value;

/// A step from a schema into one below it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Field(String),
    Items,
    Values,
}

/// Where in a schema something stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SchemaPath(pub Vec<Step>);

impl std::fmt::Display for SchemaPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Field(name) if index == 0 => write!(f, "{name}")?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Items => write!(f, "[]")?,
                Step::Values => write!(f, "{{}}")?,
            }
        }
        Ok(())
    }
}

impl SchemaPath {
    fn then(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    pub fn is_in_status(&self) -> bool {
        self.0.first() == Some(&Step::Field("status".to_owned()))
    }
}

/// Every schema below and including this one.
pub fn walk(schema: &Value) -> Vec<(SchemaPath, Value)> {
    fn visit(path: &SchemaPath, schema: &Value, found: &mut Vec<(SchemaPath, Value)>) {
        found.push((path.clone(), schema.clone()));
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            visit(&path.then(Step::Field(name.clone())), field, found);
        }
        if schema["items"].is_object() {
            visit(&path.then(Step::Items), &schema["items"], found);
        }
        if schema["additionalProperties"].is_object() {
            visit(&path.then(Step::Values), &schema["additionalProperties"], found);
        }
    }
    let mut found = Vec::new();
    visit(&SchemaPath::default(), schema, &mut found);
    found
}

/// A place in an object that a schema path leads to, as a JSON pointer.
pub fn locate(path: &SchemaPath, object: &Value) -> Option<String> {
    fn visit(steps: &[Step], value: &Value, pointer: String) -> Option<String> {
        let Some((step, rest)) = steps.split_first() else {
            return (!value.is_null()).then_some(pointer);
        };
        let escape = |key: &str| key.replace('~', "~0").replace('/', "~1");
        match step {
            Step::Field(name) => visit(rest, value.get(name)?, format!("{pointer}/{}", escape(name))),
            Step::Items => {
                let mut items = value.as_array()?.iter().enumerate();
                items.find_map(|(index, item)| visit(rest, item, format!("{pointer}/{index}")))
            }
            Step::Values => {
                let mut values = value.as_object()?.iter();
                values.find_map(|(key, value)| visit(rest, value, format!("{pointer}/{}", escape(key))))
            }
        }
    }
    visit(&path.0, object, String::new())
}

/// Puts a value at a JSON pointer, whose parent must exist; null takes it away.
pub fn put(object: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/").replace("~0", "~");
    let parent = object
        .pointer_mut(parent)
        .unwrap_or_else(|| panic!("nothing at {parent}"));
    match parent {
        Value::Object(fields) if value.is_null() => {
            fields.remove(&key);
        }
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) if value.is_null() => {
            items.remove(key.parse().unwrap());
        }
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
        other => panic!("cannot put {key} into {other}"),
    }
}
