//! Structured logs.

use std::panic;
use std::str::FromStr;

use tracing::error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::TryInitError;

use crate::Metrics;

/// How logs are written. What is written is chosen by `RUST_LOG`; the default is `info`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Logs {
    /// One JSON object a line: for machines, and so for every pod.
    #[default]
    Json,
    /// For a person at a terminal.
    Pretty,
    /// As whoever started us set it up: for tests.
    Inherit,
}

impl FromStr for Logs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "json" => Ok(Self::Json),
            "pretty" => Ok(Self::Pretty),
            other => Err(format!("{other:?} is not a log format: use json or pretty")),
        }
    }
}

/// Why the logs could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    /// `RUST_LOG` is not understood.
    #[error("understand RUST_LOG")]
    Filter(#[from] tracing_subscriber::filter::FromEnvError),
    /// They were set up already.
    #[error("install the log writer")]
    Install(#[from] TryInitError),
}

impl Logs {
    pub(super) fn init(self) -> Result<(), LogsError> {
        use tracing_subscriber::util::SubscriberInitExt as _;
        if self == Self::Inherit {
            return Ok(());
        }
        // hyper and tower tell of every request at debug level: ask for them by name if you want them.
        let filter = EnvFilter::builder()
            .with_default_directive(tracing::Level::INFO.into())
            .from_env()?;
        let builder = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr);
        if self == Self::Json {
            builder
                .json()
                .flatten_event(true)
                .with_current_span(true)
                .with_span_list(false)
                .finish()
                .try_init()?;
        } else {
            builder.finish().try_init()?;
        }
        Ok(())
    }
}

/// Panics are logged as everything else is, and counted.
pub(super) fn log_panics(metrics: Metrics) {
    panic::set_hook(Box::new(move |info| {
        metrics.panicked();
        let message = info
            .payload()
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| info.payload().downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        let place = info.location().map(ToString::to_string);
        error!(panic = message, place, "panic: this is a bug");
    }));
}
