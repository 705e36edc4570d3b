//! What happens to pools, as it happens.
//!
//! `zpool events -f` tells what was before it tells what comes. Events are numbered: what was is asked for first, without
//! -f, and everything up to the last number is left out. When the program ends, it is started again and goes on after the
//! last number that was seen.

use std::future::ready;
use std::time::Duration;

use cstor_exec::Stream as Output;
use futures::channel::mpsc;
use futures::stream::{self, BoxStream, Stream, StreamExt as _};

use super::Zfs;
use super::command::pool as command;
use super::parse::{Event, Events, Parsed};
use crate::PoolEvent;

/// How long is waited before the program is started again: first, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// All events from now on.
pub(super) fn follow(zfs: Zfs) -> BoxStream<'static, PoolEvent> {
    let beginning = Follower {
        zfs,
        seen: None,
        running: None,
        pause: FIRST_PAUSE,
    };
    stream::unfold(beginning, |mut follower| async move {
        let event = follower.next().await;
        Some((event, follower))
    })
    .boxed()
}

struct Follower {
    zfs: Zfs,
    /// The number of the last event that was seen, or of the last that was there when this began.
    seen: Option<u64>,
    /// The program that tells.
    running: Option<BoxStream<'static, Event>>,
    pause: Duration,
}

impl Follower {
    async fn next(&mut self) -> PoolEvent {
        loop {
            if let Some(running) = &mut self.running {
                while let Some(told) = running.next().await {
                    if self.seen.is_none_or(|seen| told.number > seen) {
                        self.seen = Some(told.number);
                        self.pause = FIRST_PAUSE;
                        return told.event;
                    }
                }
                self.running = None;
                tracing::warn!(pause = ?self.pause, "the events of ZFS ended; they are followed anew");
                self.rest().await;
            }
            match self.zfs.look(command::events(false), last).await {
                Ok(last) => {
                    // Fewer than before: the module was loaded anew, and everything since then is news.
                    self.seen = match self.seen {
                        Some(seen) if last < seen => Some(0),
                        Some(seen) => Some(seen),
                        None => Some(last),
                    };
                    self.running = Some(run(&self.zfs).boxed());
                }
                Err(error) => {
                    tracing::warn!(%error, pause = ?self.pause, "the events of ZFS cannot be followed");
                    self.rest().await;
                }
            }
        }
    }

    async fn rest(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause = self.pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

/// The number of the last event that is there; 0 if there is none.
fn last(text: &str) -> Parsed<u64> {
    let mut events = Events::default();
    let numbers = text.lines().filter_map(|line| events.line(line));
    match numbers.map(|event| event.number).max() {
        Some(last) => Ok(last),
        None if text.trim().is_empty() => Ok(0),
        None => Err("there is no event in it".to_owned()),
    }
}

/// Runs the program for as long as the stream is polled and kept: it is ended with the stream.
fn run(zfs: &Zfs) -> impl Stream<Item = Event> + use<> {
    let call = zfs.invocation(&command::events(true));
    // It ends with us alone, and nothing of what it tells is kept.
    let call = call.deadline(Duration::MAX).limit(0);
    let (tell, told) = mpsc::unbounded();
    let mut events = Events::default();
    let running = call.run_lines(move |output, line| {
        if output == Output::Out
            && let Some(event) = events.line(line)
        {
            // Who listens is the one who runs this.
            let _ = tell.unbounded_send(event);
        }
    });
    let running = async move {
        if let Err(error) = running.await {
            tracing::debug!(%error, "zpool events");
        }
    };
    let silent = stream::once(running).map(|()| None);
    stream::select(told.map(Some), silent).filter_map(ready)
}
