//! How running a program can fail.

use std::process::ExitStatus;
use std::time::Duration;

/// How running a program can fail.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such program.
    #[error("{program} is not installed")]
    NotFound {
        /// Its name or path.
        program: String,
    },
    /// The program could not be started.
    #[error("could not start `{command}`")]
    Start {
        /// The command line.
        command: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Talking to the running program failed.
    #[error("lost contact with `{command}`")]
    Contact {
        /// The command line.
        command: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The program did not end in time. Whether it had an effect is unknown.
    #[error("`{command}` did not end within {} s{}", deadline.as_secs(), if *unkillable { " and cannot be killed" } else { "" })]
    Deadline {
        /// The command line.
        command: String,
        /// The time it was given.
        deadline: Duration,
        /// It is stuck in the kernel and is still there.
        unkillable: bool,
        /// Its process id, by which a caller can see when it is gone.
        pid: Option<u32>,
    },
    /// The program ended with a failure of its own.
    #[error("`{command}` failed ({status}){}", said(stderr))]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it wrote to standard output.
        stdout: String,
        /// What it wrote to standard error.
        stderr: String,
    },
    /// The program wrote more than is kept; what it wrote is therefore not used.
    #[error("`{command}` wrote more than {limit} bytes")]
    TooMuchOutput {
        /// The command line.
        command: String,
        /// The bytes that were allowed.
        limit: usize,
    },
    /// The program wrote something that is not UTF-8.
    #[error("`{command}` wrote something that is not UTF-8")]
    NotUtf8 {
        /// The command line.
        command: String,
    },
}

impl Error {
    /// A label of bounded variety, for metrics.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "program_not_found",
            Self::Start { .. } => "program_not_started",
            Self::Contact { .. } => "program_lost",
            Self::Deadline { .. } => "program_deadline",
            Self::Failed { .. } => "program_failed",
            Self::TooMuchOutput { .. } => "program_output_too_long",
            Self::NotUtf8 { .. } => "program_output_not_utf8",
        }
    }
}

/// The program's own words, or nothing.
fn said(stderr: &str) -> String {
    match stderr.trim() {
        "" => String::new(),
        text => format!(": {text}"),
    }
}
