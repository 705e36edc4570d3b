//! Who has a pool's turn, and what hangs there.
//!
//! A process that is stuck in the kernel cannot be ended. Until it is gone:
//!
//! - nothing is changed on its pool: what the stuck one has done, or will do, is not known;
//! - if it was only looking, nobody looks either: it would get stuck, too, and such processes would pile up. Beside one
//!   that was changing something there is still looked, since a suspended pool tells its status well;
//! - only what may set it free, `zpool clear`, is let through, unless that is stuck itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cstor_exec::Process;
use tokio::sync::OwnedMutexGuard;

/// What a command is up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intent {
    /// It only looks.
    Look,
    /// It changes the pool.
    Change,
    /// It changes the pool, and may set free what is stuck there.
    Rescue,
}

impl Intent {
    /// Whether a stuck command of the other intent keeps this one away.
    fn yields_to(self, stuck: Self) -> bool {
        match self {
            Self::Look => stuck == Self::Look,
            Self::Change => true,
            Self::Rescue => stuck == Self::Rescue,
        }
    }
}

/// The queues of all pools.
#[derive(Debug, Default)]
pub(super) struct Queues {
    book: Mutex<BTreeMap<String, Arc<Queue>>>,
}

/// The queue of one pool.
#[derive(Debug, Default)]
pub(super) struct Queue {
    turn: Arc<tokio::sync::Mutex<()>>,
    stuck: Mutex<Vec<Stuck>>,
}

/// A command that did not end and could not be ended.
#[derive(Debug, Clone)]
pub(super) struct Stuck {
    /// Its process.
    pub(super) process: Process,
    /// Its command line.
    pub(super) command: String,
    /// When it was begun.
    pub(super) began: Instant,
    /// What it was up to.
    pub(super) intent: Intent,
}

/// The turn to change a pool; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    /// While somebody has its turn, a queue must not be forgotten: the next would get the turn of a new one.
    queue: Arc<Queue>,
    _mine: OwnedMutexGuard<()>,
}

impl Turn {
    /// The queue it is the turn of.
    pub(super) fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.queue)
    }
}

impl Queues {
    /// The queue of a pool. Those of pools on which nothing goes on are forgotten.
    pub(super) fn of(&self, pool: &str) -> Arc<Queue> {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.retain(|_, queue| Arc::strong_count(queue) > 1 || queue.has_stuck());
        Arc::clone(book.entry(pool.to_owned()).or_default())
    }
}

impl Queue {
    /// Waits for the turn.
    pub(super) async fn turn(self: Arc<Self>) -> Turn {
        let mine = Arc::clone(&self.turn).lock_owned().await;
        Turn {
            queue: self,
            _mine: mine,
        }
    }

    /// Takes note of a command that is stuck.
    pub(super) fn note(&self, stuck: Stuck) {
        self.there().push(stuck);
    }

    /// The command that keeps one of this intent away, and for how long it hangs.
    pub(super) fn hang(&self, intent: Intent) -> Option<(String, Duration)> {
        let there = self.there();
        let first = there.iter().find(|stuck| intent.yields_to(stuck.intent))?;
        Some((first.command.clone(), first.began.elapsed()))
    }

    fn has_stuck(&self) -> bool {
        !self.there().is_empty()
    }

    /// The commands that are still stuck.
    fn there(&self) -> std::sync::MutexGuard<'_, Vec<Stuck>> {
        let mut stuck = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        stuck.retain(|stuck| stuck.process.is_there());
        stuck
    }
}
