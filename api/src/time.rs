//! Points in time, as objects carry them.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A point in time, as the text that stands in the object (RFC 3339).
///
/// The text is kept, for two reasons: writing an object back must not rewrite its values
/// (`+00:00` is not `Z`), and the API server's idea of a date-time is wider than any parser's,
/// so parsing on arrival would make some admitted objects unreadable.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(String);

impl Timestamp {
    /// The instant, unless the text is not one.
    pub fn instant(&self) -> Option<jiff::Timestamp> {
        self.0.parse().ok()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<jiff::Timestamp> for Timestamp {
    /// Whole seconds, as everything else in Kubernetes writes them.
    fn from(instant: jiff::Timestamp) -> Self {
        Self(instant.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kept() {
        for text in [
            "2024-05-04T10:11:12Z",
            "2024-05-04T10:11:12+00:00",
            "2024-05-04t10:11:12z",
        ] {
            let time: Timestamp = serde_json::from_value(text.into()).unwrap();
            assert_eq!(serde_json::to_value(&time).unwrap(), text);
            assert_eq!(time.instant().unwrap().as_second(), 1_714_817_472);
        }
    }

    #[test]
    fn an_instant_is_written_in_whole_seconds() {
        let instant = jiff::Timestamp::new(1_714_817_472, 345_000_000).unwrap();
        assert_eq!(Timestamp::from(instant).as_str(), "2024-05-04T10:11:12Z");
    }

    #[test]
    fn nonsense_is_no_instant() {
        let time: Timestamp = serde_json::from_value("soon".into()).unwrap();
        assert_eq!(time.instant(), None);
    }
}
