//! What happens to a call: its fault, its delay, its effect.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use super::SimZfs;
use super::faults::{Fate, Fault, Moment};
use super::world::{Answer, Later, No, World};
use crate::{Error, Result};

macro_rules! calls {
    ($($name:ident $change:literal $words:literal,)*) => {
        /// What can be called.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "they are named after the methods")]
        pub enum Call {
            $($name,)*
        }

        impl Call {
            /// All there are.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Whether it changes something.
            #[must_use]
            pub fn is_change(self) -> bool {
                match self {
                    $(Self::$name => $change,)*
                }
            }

            /// What is being done, for people.
            pub(super) fn doing(self, target: &str) -> String {
                format!("{} {target}", self.words())
            }

            fn words(self) -> &'static str {
                match self {
                    $(Self::$name => $words,)*
                }
            }
        }
    };
}

calls! {
    ListPools false "list the pools",
    Status false "read the status of",
    Properties false "read the properties of",
    Wait false "wait for",
    IsUpgradable false "look for features of",
    SetProperty true "set a property of",
    Create true "create the pool",
    Import true "import the pool",
    Export true "export the pool",
    Destroy true "destroy the pool",
    Add true "add devices to",
    Attach true "attach a device to",
    Detach true "detach a device from",
    Replace true "replace a device of",
    Online true "switch on a device of",
    Offline true "switch off a device of",
    Remove true "remove a device from",
    Clear true "clear the errors of",
    Reopen true "open the devices anew of",
    ClearLabels true "clear the labels of",
    Scrub true "scrub",
    Trim true "trim",
    Initialize true "initialize",
    ListDatasets false "list the datasets of",
    GetDataset false "read the properties of",
    Holds false "list the holds of",
    Send false "send",
    SetDataset true "set properties of",
    Inherit true "inherit a property of",
    CreateVolume true "create the volume",
    CreateFileSystem true "create the file system",
    Grow true "grow",
    DestroyDataset true "destroy",
    Snapshot true "take a snapshot of",
    CloneSnapshot true "clone",
    Promote true "promote",
    Rename true "rename",
    Hold true "hold",
    Release true "release",
    Receive true "receive",
    AbortReceive true "abort the receive of",
}

/// A call that had its effect, or was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecord {
    /// The host.
    pub host: String,
    /// What was called.
    pub call: Call,
    /// On what.
    pub target: String,
    /// Whether it had its effect, whatever the caller was told.
    pub done: bool,
}

enum Step<T> {
    Answer(Result<T>),
    /// This, after the deadline.
    Late(Error),
}

impl SimZfs {
    /// Whether the host it runs on is the one it was started on: nobody outlives a power cut.
    pub(super) fn is_alive(&self, world: &World) -> bool {
        let host = world.host(&self.host);
        host.is_ok_and(|host| host.cuts == self.cuts)
    }

    /// Makes a call. `op` is its effect, and is made again later if it hangs.
    pub(super) async fn call<T, F>(&self, call: Call, target: &str, op: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&mut World) -> Answer<T> + Send + Sync + 'static,
    {
        let (fate, number) = self.roll(call);
        delay(fate.before).await;
        self.halt_if_planned(number, Moment::Before).await;
        let step = self.step(call, target, fate, Arc::new(op));
        if call.is_change() {
            self.inner.news.notify_waiters();
        }
        self.halt_if_planned(number, Moment::After).await;
        match step {
            Step::Answer(answer) => {
                delay(fate.after).await;
                answer
            }
            Step::Late(error) => {
                let deadline = self.inner.world().deadline;
                tokio::time::sleep(deadline).await;
                Err(error)
            }
        }
    }

    /// What will happen to a call, and the how manieth change it is.
    fn roll(&self, call: Call) -> (Fate, Option<u64>) {
        let mut world = self.inner.world();
        let script = world
            .hosts
            .get_mut(self.host.as_ref())
            .map(|host| &mut host.script);
        let mut planned = None;
        let mut number = None;
        if let Some(script) = script {
            planned = script.take(call);
            if call.is_change() {
                number = Some(script.changes);
                script.changes += 1;
            }
        }
        (world.dice.call(call.is_change(), planned), number)
    }

    async fn halt_if_planned(&self, number: Option<u64>, moment: Moment) {
        let Some(number) = number else {
            return;
        };
        let halts = {
            let mut world = self.inner.world();
            let script = world
                .hosts
                .get_mut(self.host.as_ref())
                .map(|host| &mut host.script);
            script.is_some_and(|script| {
                if script.halt == Some((number, moment)) {
                    script.halt = None;
                    script.halted.insert(self.process);
                }
                script.halted.contains(&self.process)
            })
        };
        if halts {
            self.inner.news.notify_waiters();
            pending::<()>().await;
        }
    }

    /// Has the call its effect, or meet its fate.
    fn step<T, F>(&self, call: Call, target: &str, fate: Fate, op: Arc<F>) -> Step<T>
    where
        T: Send + 'static,
        F: Fn(&mut World) -> Answer<T> + Send + Sync + 'static,
    {
        let mut guard = self.inner.world();
        let world = &mut *guard;
        world.tick();
        let (now, after) = (world.now(), world.deadline);
        let doing = || call.doing(target);
        let refused = |said: String| Step::Answer(Err(Error::Refused { doing: doing(), said }));
        let cannot_run = |why: &str| {
            let why = why.to_owned();
            Step::Answer(Err(Error::CannotRun { doing: doing(), why }))
        };
        let timed_out = || {
            Step::Late(Error::TimedOut {
                doing: doing(),
                after,
            })
        };
        if !self.is_alive(world) {
            return cannot_run("the host has lost its power");
        }
        let queue = world.queue(&self.host, call, target);
        if let Some(stuck) = queue.iter().find(|late| late.process == self.process) {
            return Step::Answer(Err(Error::Hangs {
                doing: doing(),
                command: stuck.call.doing(&stuck.target),
                since: now.saturating_sub(stuck.since),
            }));
        }
        let is_queued = !queue.is_empty();
        let later = |due: Option<Duration>| {
            let op = op.clone();
            Later {
                host: self.host.to_string(),
                process: self.process,
                call,
                target: target.to_owned(),
                since: now,
                due,
                run: Box::new(move |world| op(world).map(drop)),
            }
        };
        match fate.fault {
            Some(Fault::ReadError | Fault::Refused) => {
                return refused("internal error (injected)".to_owned());
            }
            Some(Fault::Unparsable) => {
                let why = "the answer ends in the middle (injected)".to_owned();
                return Step::Answer(Err(Error::Unparsable { doing: doing(), why }));
            }
            Some(Fault::Timeout | Fault::ReadTimeout) => return timed_out(),
            Some(Fault::TimeoutLate) => {
                world.later.push(later(Some(now + after + fate.late)));
                return timed_out();
            }
            _ => {}
        }
        let hangs = is_queued || world.hangs(&self.host, call.pool(target));
        let answer = if hangs { Err(No::Hang) } else { op(world) };
        if !self.is_alive(world) {
            return cannot_run("the host has lost its power");
        }
        if answer.as_ref().err() != Some(&No::Hang) {
            world.record(&self.host, call, target, answer.is_ok());
        }
        match answer {
            Err(No::Hang) => {
                if call.is_change() {
                    world.later.push(later(None));
                }
                timed_out()
            }
            Err(No::Said(said)) => refused(said),
            Ok(_) if fate.fault == Some(Fault::LostResult) => {
                cannot_run("it was ended by a signal (injected)")
            }
            Ok(_) if fate.fault == Some(Fault::TimeoutDone) => timed_out(),
            Ok(value) => Step::Answer(Ok(value)),
        }
    }
}

impl Call {
    /// The pool that a call is about; none where the target is a device.
    pub(super) fn pool(self, target: &str) -> &str {
        if self == Self::ClearLabels {
            return "";
        }
        target.split(['/', '@', '#']).next().unwrap_or_default()
    }
}

impl World {
    /// The changes of a pool that did not come to an end and that a call has to wait for.
    fn queue(&self, host: &str, call: Call, target: &str) -> Vec<&Later> {
        let pool = call.pool(target);
        let waits = |late: &&Later| {
            // Clearing its errors may set a pool free, and waits for nobody but its own kind.
            let yields = call.is_change() && (call != Call::Clear || late.call == Call::Clear);
            yields && !pool.is_empty() && late.host == host && late.pool() == pool
        };
        self.later.iter().filter(waits).collect()
    }

    pub(super) fn record(&mut self, host: &str, call: Call, target: &str, done: bool) {
        self.calls.push(CallRecord {
            host: host.to_owned(),
            call,
            target: target.to_owned(),
            done,
        });
    }
}

async fn delay(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}
