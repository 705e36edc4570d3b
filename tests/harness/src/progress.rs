//! Telling a person what takes so long.
//!
//! On a terminal every step has a spinner with its elapsed time; elsewhere each start, end and every half minute in
//! between is a plain line.

use std::io::{IsTerminal, Write as _};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// How often a step that is still running says so where there is no terminal.
const HEARTBEAT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
enum Display {
    Terminal(MultiProgress),
    Lines { since: Instant },
    Silent,
}

/// Where progress is shown.
#[derive(Debug, Clone)]
pub struct Progress {
    display: Display,
}

impl Progress {
    /// On standard error, in the way that suits it.
    #[must_use]
    pub fn new() -> Self {
        let display = if std::io::stderr().is_terminal() {
            Display::Terminal(MultiProgress::new())
        } else {
            Display::Lines {
                since: Instant::now(),
            }
        };
        Self { display }
    }

    /// Nowhere.
    #[must_use]
    pub fn silent() -> Self {
        Self {
            display: Display::Silent,
        }
    }

    /// Begins a step, named by what is being done: "building kubectl".
    #[must_use]
    pub fn step(&self, name: impl Into<String>) -> Step {
        let name = name.into();
        let bar = match &self.display {
            Display::Terminal(all) => {
                let style =
                    ProgressStyle::with_template("{spinner} [{elapsed_precise}] {prefix} {wide_msg:.dim}");
                let bar = all.add(ProgressBar::new_spinner());
                bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
                bar.set_prefix(name.clone());
                bar.enable_steady_tick(Duration::from_millis(120));
                Some(bar)
            }
            Display::Lines { .. } | Display::Silent => None,
        };
        let now = Instant::now();
        let step = Step {
            progress: self.clone(),
            name,
            began: now,
            bar,
            spoke: Arc::new(Mutex::new(now)),
            ended: false,
        };
        step.line("…");
        step
    }

    /// Shows a line that stays.
    pub fn say(&self, text: &str) {
        match &self.display {
            Display::Terminal(all) => all.suspend(|| write_line(text)),
            Display::Lines { .. } => write_line(text),
            Display::Silent => {}
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

/// Something that takes a while. Dropping it without [`Step::done`] shows that it did not succeed.
#[derive(Debug)]
pub struct Step {
    progress: Progress,
    name: String,
    began: Instant,
    bar: Option<ProgressBar>,
    spoke: Arc<Mutex<Instant>>,
    ended: bool,
}

impl Step {
    /// Where it is at: shown at once on a terminal, and every half minute elsewhere.
    pub fn note(&self, text: &str) {
        let text: String = text.chars().filter(|c| !c.is_control()).take(160).collect();
        if let Some(bar) = &self.bar {
            bar.set_message(text);
            return;
        }
        let due = self.spoke.lock().is_ok_and(|spoke| spoke.elapsed() >= HEARTBEAT);
        if due {
            self.line(&format!("({} s) {text}", self.began.elapsed().as_secs()));
        }
    }

    /// Where it is shown.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// It succeeded.
    pub fn done(mut self) {
        self.end("done");
    }

    /// It succeeded, and this is what came of it.
    pub fn done_with(mut self, result: &str) {
        self.end(result);
    }

    fn end(&mut self, result: &str) {
        self.ended = true;
        let text = format!("{}: {result} ({} s)", self.name, self.began.elapsed().as_secs());
        match (&self.bar, &self.progress.display) {
            (Some(bar), _) => {
                bar.finish_and_clear();
                self.progress.say(&format!("✓ {text}"));
            }
            (None, Display::Lines { .. }) => {
                self.line(&format!("{result} ({} s)", self.began.elapsed().as_secs()))
            }
            (None, _) => {}
        }
    }

    fn line(&self, text: &str) {
        if let Display::Lines { since } = &self.progress.display {
            if let Ok(mut spoke) = self.spoke.lock() {
                *spoke = Instant::now();
            }
            write_line(&format!(
                "[{:>5} s] {}: {text}",
                since.elapsed().as_secs(),
                self.name
            ));
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if !self.ended {
            if let Some(bar) = &self.bar {
                bar.finish_and_clear();
                self.progress
                    .say(&format!("✗ {} ({} s)", self.name, self.began.elapsed().as_secs()));
            }
            self.line("not finished");
        }
    }
}

fn write_line(text: &str) {
    // A terminal that has gone away is no reason to stop working.
    let _ = writeln!(std::io::stderr(), "{text}");
}
