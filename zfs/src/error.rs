//! What can go wrong with ZFS.

use std::time::Duration;

/// Why something was not done, or cannot be told.
///
/// No kind says that something does not exist: a command that failed says nothing about that. What exists is listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// ZFS refused.
    #[error("{doing}: {said}")]
    Refused {
        /// What was being done.
        doing: String,
        /// ZFS's own words.
        said: String,
    },
    /// It did not come to an end. The command may still be at work in the kernel.
    #[error("{doing}: no answer within {} s; the pool or a disk of it may hang", .after.as_secs())]
    TimedOut {
        /// What was being done.
        doing: String,
        /// How long was waited.
        after: Duration,
    },
    /// An earlier command on this pool did not come to an end, and is still there.
    #[error("{doing}: a command on this pool hangs since {} s ({command}); nothing is started beside it", .since.as_secs())]
    Hangs {
        /// What was to be done.
        doing: String,
        /// The command that hangs.
        command: String,
        /// For how long.
        since: Duration,
    },
    /// ZFS's answer is not understood.
    #[error("{doing}: the answer is not understood: {why}")]
    Unparsable {
        /// What was being done.
        doing: String,
        /// Why not.
        why: String,
    },
    /// The program could not be run.
    #[error("{doing}: {why}")]
    CannotRun {
        /// What was being done.
        doing: String,
        /// Why not.
        why: String,
    },
}

impl Error {
    /// Whether the pool hangs, rather than something being wrong with what was asked.
    #[must_use]
    pub fn is_hang(&self) -> bool {
        matches!(self, Self::TimedOut { .. } | Self::Hangs { .. })
    }
}

/// What ZFS gives back.
pub type Result<T> = std::result::Result<T, Error>;
