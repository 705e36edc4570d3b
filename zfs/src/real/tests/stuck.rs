//! Commands that cannot be ended.
//!
//! No test can make a process that the kernel does not end. One that nobody has ended yet is as good to all but
//! cstor-exec, which tells us that it could not.

use std::time::Instant;

use cstor_exec::Process;
use futures::FutureExt as _;

use super::super::call;
use super::super::queue::{Intent, Stuck};
use crate::{Activity, Datasets, Pools};

use super::*;

/// Something that is there until it is let go of.
struct Hanging {
    process: Process,
    daemon: cstor_exec::Daemon,
    pid: u32,
}

impl Hanging {
    fn new(fake: &Fake) -> Self {
        let log = std::fs::File::create(fake.path("log")).unwrap();
        let call = Program::find("sleep").unwrap().call().arg("100000");
        let daemon = call.start_daemon(&log).unwrap();
        let pid = daemon.pid().unwrap();
        Self {
            process: Process::of(pid).unwrap(),
            daemon,
            pid,
        }
    }

    /// What hangs with this intent on a pool.
    fn note(&self, fake: &Fake, pool: &str, intent: Intent) {
        fake.zfs.host.queues.of(pool).note(Stuck {
            process: self.process,
            command: "zpool something tank".to_owned(),
            began: Instant::now(),
            intent,
        });
    }

    async fn end(mut self) {
        let pid = rustix::process::Pid::from_raw(self.pid.try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        self.daemon.wait().await.unwrap();
    }
}

#[track_caller]
fn assert_hangs<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    match outcome {
        Err(ref error @ Error::Hangs { ref command, .. }) => {
            assert_eq!(command, "zpool something tank");
            assert!(error.is_hang());
        }
        other => panic!("{other:?}"),
    }
}

/// What looks, what changes and what rescues: whether each of them was let through on the pool tank.
async fn let_through(fake: &Fake) -> [bool; 3] {
    let before = fake.calls().len();
    let look = Datasets::get(&fake.zfs, "tank/pvc-1", &["guid"]).await;
    let change = fake.zfs.trim(&tank()).await;
    let rescue = fake.zfs.clear(&tank(), None).await;
    let hangs = [
        matches!(look, Err(Error::Hangs { .. })),
        matches!(change, Err(Error::Hangs { .. })),
        matches!(rescue, Err(Error::Hangs { .. })),
    ];
    let through = hangs.map(|hangs| !hangs);
    let run = fake.calls().len() - before;
    assert_eq!(run, through.iter().filter(|through| **through).count());
    through
}

#[tokio::test]
async fn beside_a_stuck_look_nothing_is_done_but_a_rescue() {
    let fake = Fake::new("exit 0");
    let hanging = Hanging::new(&fake);
    hanging.note(&fake, "tank", Intent::Look);
    assert_eq!(let_through(&fake).await, [false, false, true]);
    assert_hangs(fake.zfs.status(&tank()).await);
    assert_hangs(fake.zfs.properties(&tank()).await);
    assert_hangs(fake.zfs.wait(&tank(), Activity::Scrub, SHORT).await);
    hanging.end().await;
    assert_eq!(let_through(&fake).await, [true, true, true], "it is gone");
}

#[tokio::test]
async fn beside_a_stuck_change_there_is_still_looked() {
    let fake = Fake::new("exit 0");
    let hanging = Hanging::new(&fake);
    hanging.note(&fake, "tank", Intent::Change);
    assert_eq!(let_through(&fake).await, [true, false, true]);
    hanging.end().await;
    assert_eq!(let_through(&fake).await, [true, true, true]);
}

#[tokio::test]
async fn a_stuck_rescue_is_not_tried_again() {
    let fake = Fake::new("exit 0");
    let hanging = Hanging::new(&fake);
    hanging.note(&fake, "tank", Intent::Rescue);
    assert_eq!(let_through(&fake).await, [true, false, false]);
    hanging.end().await;
}

#[tokio::test]
async fn a_pool_that_hangs_keeps_nobody_from_the_others() {
    let fake = Fake::new("exit 0");
    let hanging = Hanging::new(&fake);
    hanging.note(&fake, "other", Intent::Look);
    assert_eq!(let_through(&fake).await, [true, true, true]);
    assert_eq!(Pools::list(&fake.zfs).await, Ok(Vec::new()));
    hanging.end().await;
}

#[tokio::test]
async fn streams_are_not_begun_beside_what_is_stuck() {
    let fake = Fake::new("exit 0");
    let hanging = Hanging::new(&fake);
    hanging.note(&fake, "tank", Intent::Change);
    let nothing = || std::fs::File::open("/dev/null").unwrap().into();
    assert_hangs(fake.zfs.receive(&volume(), &none(), nothing()).await);
    hanging.end().await;
    assert_eq!(fake.zfs.receive(&volume(), &none(), nothing()).await, Ok(()));
}

#[tokio::test]
async fn who_waited_for_what_got_stuck_is_told_so() {
    let fake = Fake::new("exit 0");
    let queue = fake.zfs.host.queues.of("tank");
    let turn = std::sync::Arc::clone(&queue).turn().await;
    let pool = tank();
    let mut waits = Box::pin(fake.zfs.trim(&pool));
    assert!((&mut waits).now_or_never().is_none());
    let hanging = Hanging::new(&fake);
    hanging.note(&fake, "tank", Intent::Change);
    drop(turn);
    assert_hangs(waits.await);
    hanging.end().await;
}

#[tokio::test]
async fn what_could_not_be_killed_is_taken_note_of_and_nothing_else_is() {
    let fake = Fake::new("exit 0");
    let hanging = Hanging::new(&fake);
    let queue = fake.zfs.host.queues.of("tank");
    let outcome = |unkillable, pid| {
        Err(cstor_exec::Error::Deadline {
            command: "zpool something tank".to_owned(),
            deadline: SHORT,
            unkillable,
            pid,
        })
    };
    let note = |outcome| call::note_stuck(&queue, Intent::Look, Instant::now(), &outcome);
    note(outcome(false, Some(hanging.pid)));
    note(outcome(true, None));
    note(Ok(cstor_exec::Output {
        stdout: String::new(),
        stderr: String::new(),
    }));
    assert_eq!(queue.hang(Intent::Look), None);
    note(outcome(true, Some(hanging.pid)));
    let (command, _) = queue.hang(Intent::Look).unwrap();
    assert_eq!(command, "zpool something tank");
    hanging.end().await;
    assert_eq!(queue.hang(Intent::Look), None);
}
