//! Conditions: what is the case with an object, since when, why.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::open_enum::open_enum;

open_enum! {
    /// Whether a condition holds.
    pub enum ConditionStatus: any {
        /// It holds.
        True = "True",
        /// It does not hold.
        False = "False",
        /// Nobody can tell at the moment.
        Unknown = "Unknown",
        /// cStor 3.6 on volumes: the work the condition names is under way.
        InProgress = "InProgress",
        /// cStor 3.6 on volumes: the work the condition names is done.
        Success = "Success",
    }
}

/// One aspect of an object's state.
///
/// A superset of the standard condition and of the two shapes cStor 3.6 wrote: pools carried `lastUpdateTime`, volumes
/// `lastProbeTime`. We write the standard fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the condition is about. There is at most one condition of a type.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: ConditionStatus,
    /// One word that says why, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A sentence that says why and what to do, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
    /// The generation of the object this condition was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the condition was last written. Only cStor 3.6 fills it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Timestamp>,
    /// When the condition was last looked at. Only cStor 3.6 fills it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Timestamp>,
}

/// The longest message, in bytes: what the standard condition allows. Nobody reads more, and objects have a largest size.
const LONGEST_MESSAGE: usize = 32_768;

fn shortened(mut message: String) -> String {
    if message.len() > LONGEST_MESSAGE {
        let more = " and more.";
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE - more.len()));
        message.push_str(more);
    }
    message
}

impl Condition {
    /// A condition that has no times yet; [`set_condition`] gives it one.
    pub fn new(type_: &str, status: ConditionStatus, reason: &str, message: impl Into<String>) -> Self {
        Self {
            type_: type_.to_owned(),
            status,
            reason: Some(reason.to_owned()),
            message: Some(shortened(message.into())),
            last_transition_time: None,
            observed_generation: None,
            last_update_time: None,
            last_probe_time: None,
        }
    }
}

/// Puts a condition into a list, in place of the one of the same type, and says whether anything changed.
///
/// The transition time stays while the status stays, so writing the same thing twice changes nothing.
pub fn set_condition(conditions: &mut Vec<Condition>, mut new: Condition, now: jiff::Timestamp) -> bool {
    let Some(old) = conditions
        .iter_mut()
        .find(|condition| condition.type_ == new.type_)
    else {
        new.last_transition_time = Some(now.into());
        conditions.push(new);
        return true;
    };
    new.last_transition_time = match &old.last_transition_time {
        Some(since) if old.status == new.status => Some(since.clone()),
        _ => Some(now.into()),
    };
    if *old == new {
        return false;
    }
    *old = new;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> jiff::Timestamp {
        jiff::Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_message_has_an_end() {
        let of = |message: String| Condition::new("Ready", ConditionStatus::True, "Online", message).message;
        let (fits, long) = ("x".repeat(LONGEST_MESSAGE), "ü".repeat(LONGEST_MESSAGE));
        assert_eq!(of(fits.clone()), Some(fits));
        let cut = of(long).unwrap();
        assert!(cut.len() <= LONGEST_MESSAGE && cut.ends_with("ü and more."));
    }

    #[test]
    fn same_condition_twice_changes_nothing() {
        let mut conditions = Vec::new();
        let ready = || Condition::new("Ready", ConditionStatus::True, "Online", "The pool is online.");
        assert!(set_condition(&mut conditions, ready(), at(100)));
        assert!(!set_condition(&mut conditions, ready(), at(200)));
        assert_eq!(conditions[0].last_transition_time, Some(at(100).into()));
    }

    #[test]
    fn transition_time_moves_with_the_status_only() {
        let mut conditions = Vec::new();
        set_condition(
            &mut conditions,
            Condition::new("Ready", ConditionStatus::True, "A", "a"),
            at(100),
        );
        assert!(set_condition(
            &mut conditions,
            Condition::new("Ready", ConditionStatus::True, "B", "b"),
            at(200)
        ));
        assert_eq!(conditions[0].last_transition_time, Some(at(100).into()));
        assert!(set_condition(
            &mut conditions,
            Condition::new("Ready", ConditionStatus::False, "C", "c"),
            at(300)
        ));
        assert_eq!(conditions[0].last_transition_time, Some(at(300).into()));
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn a_new_generation_is_a_change_and_no_transition() {
        let mut conditions = Vec::new();
        let of_generation = |generation| Condition {
            observed_generation: Some(generation),
            ..Condition::new("Ready", ConditionStatus::False, "NoDisk", "no such disk")
        };
        set_condition(&mut conditions, of_generation(1), at(100));
        assert!(set_condition(&mut conditions, of_generation(2), at(200)));
        assert_eq!(conditions[0].observed_generation, Some(2));
        assert_eq!(conditions[0].last_transition_time, Some(at(100).into()));
    }

    /// Somebody else may own them.
    #[test]
    fn other_conditions_stay_in_their_place() {
        let condition = |type_, status| Condition::new(type_, status, "Because", "");
        let mut conditions = Vec::new();
        for type_ in ["Before", "Ours", "After"] {
            set_condition(&mut conditions, condition(type_, ConditionStatus::True), at(100));
        }
        let before = conditions.clone();
        assert!(set_condition(
            &mut conditions,
            condition("Ours", ConditionStatus::Unknown),
            at(200)
        ));
        assert_eq!((&conditions[0], &conditions[2]), (&before[0], &before[2]));
        assert_eq!(conditions[1].status, ConditionStatus::Unknown);
    }
}
