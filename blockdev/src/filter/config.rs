//! The configuration file of the filters.

use regex::Regex;
use serde::Deserialize;
use serde::de::{Deserializer, Visitor};

use super::{Filters, Lists, OS_DISK, PATH, Tag, VENDOR, is_label_value, label};

/// The keys that mean something, by the list they are in.
const TOP: &[&str] = &["filterconfigs", "tagconfigs"];
const FILTER: &[&str] = &["key", "name", "state", "include", "exclude"];
const TAG: &[&str] = &["name", "type", "pattern", "tag"];

/// The one thing that tags go by.
const TYPE_PATH: &str = "path";

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It is not YAML, or not of this shape.
    #[error("read the configuration of filters and tags: {0}")]
    Yaml(String),
    /// A tag that cannot be given.
    #[error("tagconfigs[{index}] ({name:?}): {problem}")]
    Tag {
        /// Which it is, from 0.
        index: usize,
        /// Its name.
        name: String,
        /// What is wrong, and what to do.
        problem: String,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Config {
    filterconfigs: Option<Vec<FilterConfig>>,
    tagconfigs: Option<Vec<TagConfig>>,
}

#[derive(Debug, Deserialize)]
struct FilterConfig {
    key: String,
    #[serde(default)]
    state: Option<State>,
    #[serde(default)]
    include: Option<String>,
    #[serde(default)]
    exclude: Option<String>,
}

#[derive(Debug, Deserialize)]
struct TagConfig {
    #[serde(default)]
    name: String,
    #[serde(rename = "type")]
    kind: String,
    pattern: String,
    tag: String,
}

/// On or off: a boolean, a number, or one of the words that NDM took.
#[derive(Debug, Clone, Copy)]
struct State(bool);

impl<'de> Deserialize<'de> for State {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Word;

        impl Visitor<'_> for Word {
            type Value = State;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("true or false")
            }

            fn visit_bool<E: serde::de::Error>(self, state: bool) -> Result<State, E> {
                Ok(State(state))
            }

            fn visit_u64<E: serde::de::Error>(self, state: u64) -> Result<State, E> {
                self.visit_str(&state.to_string())
            }

            fn visit_i64<E: serde::de::Error>(self, state: i64) -> Result<State, E> {
                self.visit_str(&state.to_string())
            }

            fn visit_str<E: serde::de::Error>(self, state: &str) -> Result<State, E> {
                match state.trim().to_ascii_lowercase().as_str() {
                    "true" | "yes" | "ok" | "on" | "1" => Ok(State(true)),
                    "false" | "no" | "off" | "0" => Ok(State(false)),
                    // NDM took a slip of the pen for "off", which opens what was to be closed.
                    other => Err(E::custom(format!(
                        "the state {other:?} is neither true nor false"
                    ))),
                }
            }
        }

        deserializer.deserialize_any(Word)
    }
}

pub(super) fn parse(text: &str) -> Result<(Filters, Vec<String>), ConfigError> {
    let mut filters = Filters::default();
    if text.trim().is_empty() {
        return Ok((filters, Vec::new()));
    }
    let failed = |error: serde_saphyr::Error| ConfigError::Yaml(error.to_string());
    // Once for what we know, so that an error says where it is, and once for what we do not know.
    let config: Option<Config> = serde_saphyr::from_str(text).map_err(failed)?;
    let config = config.unwrap_or_default();
    let tree: serde_json::Value = serde_saphyr::from_str(text).map_err(failed)?;
    let mut warnings = unknown(&tree);

    let mut seen = Vec::new();
    for (index, filter) in config.filterconfigs.into_iter().flatten().enumerate() {
        let key = filter.key.trim().to_owned();
        if seen.contains(&key) {
            warnings.push(format!(
                "filterconfigs[{index}]: there is a {key} before it, and it is ignored"
            ));
            continue;
        }
        apply(&mut filters, &key, &filter, index, &mut warnings);
        seen.push(key);
    }
    for (index, tag) in config.tagconfigs.into_iter().flatten().enumerate() {
        filters.tags.push(read_tag(index, tag)?);
    }
    Ok((filters, warnings))
}

fn apply(filters: &mut Filters, key: &str, config: &FilterConfig, index: usize, warnings: &mut Vec<String>) {
    let State(on) = config.state.unwrap_or_else(|| {
        warnings.push(format!(
            "filterconfigs[{index}] ({key}): has no state, and is taken to be on"
        ));
        State(true)
    });
    let lists = Lists {
        include: list(config.include.as_deref()),
        exclude: list(config.exclude.as_deref()),
    };
    match key {
        OS_DISK => {
            if !lists.include.is_empty() {
                warnings.push(format!("filterconfigs[{index}] ({key}): include has no meaning, and is ignored"));
            }
            filters.mount_points = on.then_some(lists.exclude);
        }
        VENDOR => filters.vendors = on.then_some(lists),
        PATH => filters.paths = on.then_some(lists),
        other => warnings.push(format!(
            "filterconfigs[{index}]: there is no filter {other:?}, only {OS_DISK}, {VENDOR} and {PATH}; it is ignored"
        )),
    }
}

/// The items between the commas. NDM took nothing between two commas for something that every path contains.
fn list(text: Option<&str>) -> Vec<String> {
    let items = text.unwrap_or_default().split(',').map(str::trim);
    items.filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// A tag keeps disks from whoever may not have them, so one that cannot be given is an error and not a warning.
fn read_tag(index: usize, config: TagConfig) -> Result<Tag, ConfigError> {
    let TagConfig {
        name,
        kind,
        pattern,
        tag,
    } = config;
    let wrong = |problem: String| ConfigError::Tag {
        index,
        name: name.clone(),
        problem,
    };
    if kind != TYPE_PATH {
        return Err(wrong(format!(
            "tags go by type {TYPE_PATH} alone, and not by {kind:?}"
        )));
    }
    if !is_label_value(&tag) {
        let key = label::BLOCK_DEVICE_TAG;
        return Err(wrong(format!(
            "{tag:?} cannot be a value of the label {key}: at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends"
        )));
    }
    let pattern = Regex::new(&pattern)
        .map_err(|error| wrong(format!("the pattern is no regular expression: {error}")))?;
    Ok(Tag { pattern, tag })
}

/// A sentence for each key that means nothing here.
fn unknown(tree: &serde_json::Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut look = |object: &serde_json::Value, known: &[&str], place: &str| {
        let keys = object.as_object().into_iter().flat_map(|map| map.keys());
        for key in keys.filter(|key| !known.contains(&key.as_str())) {
            found.push(format!("{place}{key}: has no meaning here, and is ignored"));
        }
    };
    look(tree, TOP, "");
    for (section, known) in [("filterconfigs", FILTER), ("tagconfigs", TAG)] {
        let items = tree.get(section).and_then(serde_json::Value::as_array);
        for (index, item) in items.into_iter().flatten().enumerate() {
            look(item, known, &format!("{section}[{index}]."));
        }
    }
    found
}
