//! Conditions in the standard shape.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::failure::shorten;

/// The longest message the standard schema of a condition takes.
const MESSAGE_LIMIT: usize = 32_768;

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// It does.
    True,
    /// It does not.
    False,
    /// We cannot tell.
    Unknown,
}

impl Truth {
    /// As Kubernetes spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// The conditions of a status in the making.
///
/// # Guarantees
/// - `lastTransitionTime` changes when, and only when, a condition's status does; so a decision made twice gives the same
///   conditions, and the second is no write.
/// - Conditions that are not mentioned stay as they are, in their place: somebody else may own them.
#[derive(Clone, Debug)]
pub struct Conditions {
    list: Vec<Condition>,
    generation: Option<i64>,
    now: Timestamp,
}

impl Conditions {
    /// Starts from the conditions the object has, for what was observed at `now` of the object's `generation`.
    #[must_use]
    pub fn new(current: &[Condition], generation: Option<i64>, now: Timestamp) -> Self {
        Self {
            list: current.to_vec(),
            generation,
            now,
        }
    }

    /// Says whether `kind` holds and why.
    pub fn set(
        &mut self,
        kind: &str,
        truth: impl Into<Truth>,
        reason: &str,
        message: impl Into<String>,
    ) -> &mut Self {
        let (status, message) = (truth.into().as_str(), shorten(message.into(), MESSAGE_LIMIT));
        let fresh = Condition {
            type_: kind.into(),
            status: status.into(),
            reason: reason.into(),
            message,
            observed_generation: self.generation,
            last_transition_time: Time(whole_seconds(self.now)),
        };
        match self.list.iter_mut().find(|known| known.type_ == kind) {
            Some(known) => {
                let since = if known.status == status {
                    known.last_transition_time.clone()
                } else {
                    fresh.last_transition_time.clone()
                };
                *known = Condition {
                    last_transition_time: since,
                    ..fresh
                };
            }
            None => self.list.push(fresh),
        }
        self
    }

    /// Forgets `kind`: it does not apply.
    pub fn remove(&mut self, kind: &str) -> &mut Self {
        self.list.retain(|known| known.type_ != kind);
        self
    }

    /// What is said of `kind`.
    #[must_use]
    pub fn get(&self, kind: &str) -> Option<&Condition> {
        self.list.iter().find(|known| known.type_ == kind)
    }

    /// The list for the status.
    #[must_use]
    pub fn into_vec(self) -> Vec<Condition> {
        self.list
    }
}

/// The API server keeps whole seconds; a finer time would differ from what is read back, for ever.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::new(second, 5_000_000).unwrap()
    }

    #[test]
    fn the_time_is_that_of_the_last_transition() {
        let mut conditions = Conditions::new(&[], Some(1), at(10));
        conditions.set("Ready", false, "Creating", "creating the pool");
        let first = conditions.into_vec();
        assert_eq!(
            first[0].last_transition_time.0,
            Timestamp::from_second(10).unwrap()
        );

        let mut conditions = Conditions::new(&first, Some(2), at(20));
        conditions.set("Ready", false, "Failed", "no such disk");
        let second = conditions.into_vec();
        assert_eq!(second[0].last_transition_time, first[0].last_transition_time);
        assert_eq!(
            (second[0].reason.as_str(), second[0].observed_generation),
            ("Failed", Some(2))
        );

        let mut conditions = Conditions::new(&second, Some(2), at(30));
        conditions.set("Ready", Truth::True, "Online", "");
        let third = conditions.into_vec();
        assert_eq!(
            third[0].last_transition_time.0,
            Timestamp::from_second(30).unwrap()
        );
    }

    #[test]
    fn the_same_again_is_equal_and_others_stay() {
        let mut conditions = Conditions::new(&[], None, at(10));
        conditions
            .set("Theirs", true, "Because", "")
            .set("Ours", Truth::Unknown, "NotYet", "");
        let list = conditions.into_vec();
        let mut again = Conditions::new(&list, None, at(99));
        again.set("Ours", Truth::Unknown, "NotYet", "");
        assert_eq!(again.clone().into_vec(), list);
        again.remove("Ours");
        assert_eq!(again.get("Ours"), None);
        assert_eq!(again.into_vec().len(), 1);
    }
}
