//! The table of CEL rules: for each, changes of a good object that pass and changes that do not.

mod planner;
mod pools;
mod volumes;

use serde_json::Value;

/// A change: what to put at which JSON pointer; null takes away.
pub type Edits = Vec<(&'static str, Value)>;

/// Examples of one rule at one place.
pub struct Case {
    pub kind: &'static str,
    /// Where in the schema the rule stands.
    pub at: &'static str,
    /// How its message begins.
    pub says: &'static str,
    pub base: Value,
    /// For a rule about changes: what the object was.
    pub before: Option<Edits>,
    pub accepted: Vec<Edits>,
    pub refused: Vec<Edits>,
}

impl Case {
    pub fn title(&self) -> String {
        format!("{} at {}: {}…", self.kind, self.at, self.says)
    }
}

pub fn cases() -> Vec<Case> {
    let mut cases = pools::cases();
    cases.extend(volumes::cases());
    cases.extend(planner::cases());
    cases
}
