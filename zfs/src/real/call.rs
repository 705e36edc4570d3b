//! Running a command, and what became of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cstor_exec::{Invocation, Output, Process};

use super::Zfs;
use super::command::{Command, Tool};
use super::parse::Parsed;
use super::queue::{Intent, Queue, Stuck, Turn};
use crate::{Error, Result};

impl Zfs {
    /// Runs what only looks, and reads what it printed.
    pub(super) async fn look<T>(&self, command: Command, parse: impl FnOnce(&str) -> Parsed<T>) -> Result<T> {
        let queue = self.queue(&command);
        refuse_beside_stuck(&queue, &command, Intent::Look)?;
        let doing = command.doing.clone();
        let deadline = self.host.deadlines.looks;
        let output = self.run(queue, command, Intent::Look, deadline, None).await?;
        parse(&output.stdout).map_err(|why| Error::Unparsable { doing, why })
    }

    /// Runs what changes something, when it has its turn.
    pub(super) async fn change(&self, command: Command) -> Result<()> {
        self.change_as(command, Intent::Change).await
    }

    /// Runs what changes something with this intent, when it has its turn.
    pub(super) async fn change_as(&self, command: Command, intent: Intent) -> Result<()> {
        let turn = self.turn(&command, intent).await?;
        self.change_in(command, intent, turn).await
    }

    /// Waits for the turn of a command.
    pub(super) async fn turn(&self, command: &Command, intent: Intent) -> Result<Turn> {
        let queue = self.queue(command);
        refuse_beside_stuck(&queue, command, intent)?;
        let turn = queue.turn().await;
        // Who had the turn before may have got stuck.
        refuse_beside_stuck(&turn.queue(), command, intent)?;
        Ok(turn)
    }

    /// Runs what changes something, having its turn.
    pub(super) async fn change_in(&self, command: Command, intent: Intent, turn: Turn) -> Result<()> {
        let deadline = self.host.deadlines.changes;
        self.run(turn.queue(), command, intent, deadline, Some(turn))
            .await?;
        Ok(())
    }

    /// Runs what waits for something; `None` if it still waited at the end of this time. It ends with its caller.
    pub(super) async fn wait_for(&self, command: Command, within: Duration) -> Result<Option<()>> {
        let queue = self.queue(&command);
        refuse_beside_stuck(&queue, &command, Intent::Look)?;
        let began = Instant::now();
        let outcome = self.invocation(&command).deadline(within).run().await;
        note_stuck(&queue, Intent::Look, began, &outcome);
        match outcome {
            Ok(_) => Ok(Some(())),
            Err(cstor_exec::Error::Deadline {
                unkillable: false, ..
            }) => Ok(None),
            Err(error) => Err(failure(command.doing, error)),
        }
    }

    /// Begins to describe the call of a command.
    pub(super) fn invocation(&self, command: &Command) -> Invocation {
        let program = match command.tool {
            Tool::Zpool => &self.host.zpool,
            Tool::Zfs => &self.host.zfs,
        };
        program.call().args(command.words.clone())
    }

    /// The queue of the command's pool.
    pub(super) fn queue(&self, command: &Command) -> Arc<Queue> {
        self.host.queues.of(&command.pool)
    }

    async fn run(
        &self,
        queue: Arc<Queue>,
        command: Command,
        intent: Intent,
        deadline: Duration,
        turn: Option<Turn>,
    ) -> Result<Output> {
        let call = self.invocation(&command).deadline(deadline);
        // A task of its own: it goes on, and has its turn, when who asked for it does not wait any more.
        let task = tokio::spawn(async move {
            let began = Instant::now();
            let outcome = call.run().await;
            note_stuck(&queue, intent, began, &outcome);
            drop(turn);
            outcome
        });
        let doing = command.doing;
        match task.await {
            Ok(outcome) => outcome.map_err(|error| failure(doing, error)),
            Err(error) => Err(Error::CannotRun {
                doing,
                why: error.to_string(),
            }),
        }
    }
}

/// Starts nothing beside what is stuck.
pub(super) fn refuse_beside_stuck(queue: &Queue, command: &Command, intent: Intent) -> Result<()> {
    match queue.hang(intent) {
        None => Ok(()),
        Some((stuck, since)) => Err(Error::Hangs {
            doing: command.doing.clone(),
            command: stuck,
            since,
        }),
    }
}

/// Takes note of a command that did not end and could not be ended.
pub(super) fn note_stuck(
    queue: &Queue,
    intent: Intent,
    began: Instant,
    outcome: &std::result::Result<Output, cstor_exec::Error>,
) {
    let Err(cstor_exec::Error::Deadline {
        unkillable: true,
        pid: Some(pid),
        command,
        ..
    }) = outcome
    else {
        return;
    };
    if let Some(process) = Process::of(*pid) {
        queue.note(Stuck {
            process,
            command: command.clone(),
            began,
            intent,
        });
    }
}

/// What a failed call means.
pub(super) fn failure(doing: String, error: cstor_exec::Error) -> Error {
    use cstor_exec::Error as Exec;
    match error {
        Exec::Failed {
            status,
            stdout,
            stderr,
            ..
        } => {
            let said = [stderr, stdout]
                .into_iter()
                .map(|text| text.trim().to_owned())
                .find(|text| !text.is_empty());
            Error::Refused {
                doing,
                said: said.unwrap_or_else(|| format!("without a word ({status})")),
            }
        }
        Exec::Deadline { deadline, .. } => Error::TimedOut {
            doing,
            after: deadline,
        },
        error @ (Exec::TooMuchOutput { .. } | Exec::NotUtf8 { .. }) => Error::Unparsable {
            doing,
            why: error.to_string(),
        },
        error @ (Exec::NotFound { .. } | Exec::Start { .. } | Exec::Contact { .. }) => {
            let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
            Error::CannotRun {
                doing,
                why: format!("{error}{}", source.unwrap_or_default()),
            }
        }
    }
}
