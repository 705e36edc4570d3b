//! How a controller's errors become metric labels, condition reasons and retries.

use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;

use crate::reason;

/// When to try again after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// After the object's back-off, which grows with each failure in a row.
    Backoff,
    /// After this long, whatever came before: for things that are known to take their time.
    After(Duration),
    /// When the object changes, a trigger names it, or the next resync comes: trying again by itself is
    /// useless, because a person has to change something first.
    OnChange,
    /// At once and without counting as a failure: somebody else was quicker, so look again.
    LookAgain,
}

/// What an error means to the engine: decided in one place per error type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// The label of the failure metric: `snake_case`, one of a few.
    pub label: &'static str,
    /// The reason of a condition: `PascalCase`, one of a few.
    pub reason: &'static str,
    /// When to try again.
    pub retry: Retry,
}

impl Class {
    /// A failure that is retried with back-off.
    #[must_use]
    pub const fn new(label: &'static str, reason: &'static str) -> Self {
        Self {
            label,
            reason,
            retry: Retry::Backoff,
        }
    }

    /// The same, retried as `retry` says.
    #[must_use]
    pub const fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }
}

/// An error of a controller.
///
/// `classify` is the one place where a variant is mapped to what follows from it.
pub trait Classify: Error + Send + Sync + 'static {
    /// What this error means.
    fn classify(&self) -> Class;
}

/// A controller that cannot fail.
impl Classify for std::convert::Infallible {
    fn classify(&self) -> Class {
        match *self {}
    }
}

/// Errors of the API server, for controllers whose steps write objects.
impl Classify for kube::Error {
    fn classify(&self) -> Class {
        match self {
            Self::Api(status) if status.code == 409 => {
                Class::new("api_conflict", reason::CONFLICT).retry(Retry::LookAgain)
            }
            Self::Api(status) if status.code == 403 => Class::new("api_forbidden", reason::FORBIDDEN),
            Self::Api(status) if status.code == 422 => Class::new("api_invalid", reason::INVALID),
            Self::Api(_) => Class::new("api", reason::API_ERROR),
            _ => Class::new("api_unreachable", reason::API_UNREACHABLE),
        }
    }
}

/// What was being done when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum During {
    /// Observing: nothing is known about the world.
    Observe,
    /// A step, by its name.
    Step(&'static str),
}

impl During {
    /// A word for logs and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Step(name) => name,
        }
    }
}

/// The last failure of an object, kept by the engine until a pass goes through and handed to the next `observe`,
/// so that `decide` can say it in the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was being done.
    pub during: During,
    /// What the error means.
    pub class: Class,
    /// The error and its causes, in the words of the tool that failed; at most [`MESSAGE_LIMIT`] bytes.
    pub message: String,
    /// When it failed for the first time in a row.
    pub since: Timestamp,
    /// How often in a row. Do not put it in a status: every retry would be a write.
    pub count: u32,
}

impl Failure {
    /// Whether the step called `name` failed.
    #[must_use]
    pub fn is_of_step(&self, name: &str) -> bool {
        matches!(self.during, During::Step(step) if step == name)
    }
}

/// How much of an error's text is kept.
pub const MESSAGE_LIMIT: usize = 1024;

/// An error and its causes in one line: `doing a: doing b: permission denied`.
///
/// A cause whose text its parent already repeats is left out.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let said = next.to_string();
        if !text.contains(&said) {
            let _infallible = write!(text, ": {said}");
        }
        cause = next.source();
    }
    shorten(text, MESSAGE_LIMIT)
}

/// Cuts `text` to at most `limit` bytes, at a character, and says so.
#[must_use]
pub fn shorten(mut text: String, limit: usize) -> String {
    const MARK: &str = "…";
    if text.len() > limit {
        let mut end = limit.saturating_sub(MARK.len());
        while !text.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        text.truncate(end);
        text.push_str(MARK);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("create the pool")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn a_chain_reads_as_one_sentence() {
        let error = Outer(std::io::Error::other("no such device"));
        assert_eq!(chain(&error), "create the pool: no such device");
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        let text = shorten("ä".repeat(2000), MESSAGE_LIMIT);
        assert!(
            text.len() <= MESSAGE_LIMIT && text.ends_with('…'),
            "{}",
            text.len()
        );
        assert_eq!(shorten("short".into(), 10), "short");
    }
}
