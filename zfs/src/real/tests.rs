//! The whole of it, with programs that do what a test tells them in the place of `zpool` and `zfs`.

mod calls;
mod changes;
mod events;
mod stuck;
mod turns;

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use cstor_exec::Program;
use rustix::fs::{CWD, Mode, mkfifoat};
use tempfile::TempDir;

use super::{Deadlines, Zfs};
use crate::{DatasetName, Error, PoolName};

/// Longer than any test takes on any machine.
const LONG: Duration = Duration::from_secs(600);
/// As long as a test waits that wants a deadline to pass.
const SHORT: Duration = Duration::from_millis(300);

/// A place with a `zpool` and a `zfs`.
struct Fake {
    place: TempDir,
    zfs: Zfs,
}

impl Fake {
    /// Both programs run this piece of shell. `$tool` is which, `$here` where they are.
    fn new(does: &str) -> Self {
        Self::within(LONG, does)
    }

    /// The same with another deadline.
    fn within(deadline: Duration, does: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        // A link to a program that is there already: one that was just written may be held open, and thus not be run, by
        // what another test starts in the same moment.
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/src/real/tests/fake.sh");
        let [zpool, zfs] = ["zpool", "zfs"].map(|name| {
            let path = Utf8Path::from_path(place.path()).unwrap().join(name);
            symlink(program, &path).unwrap();
            std::fs::write(path.with_extension("does"), does).unwrap();
            Program::at(path).unwrap()
        });
        let deadlines = Deadlines {
            looks: deadline,
            changes: deadline,
        };
        let zfs = Zfs::with(zpool, zfs, deadlines);
        Self { place, zfs }
    }

    fn path(&self, name: &str) -> Utf8PathBuf {
        Utf8Path::from_path(self.place.path()).unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// What was run, a line each.
    fn calls(&self) -> Vec<String> {
        let calls = std::fs::read_to_string(self.path("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    /// A pipe by which a program and the test wait for each other.
    fn pipe(&self, name: &str) -> Pipe {
        let path = self.path(name);
        mkfifoat(CWD, path.as_std_path(), Mode::RWXU).unwrap();
        Pipe(path)
    }
}

#[derive(Clone)]
struct Pipe(Utf8PathBuf);

impl Pipe {
    /// Waits until a program has written to it, and returns what.
    async fn read(&self) -> String {
        let path = self.0.clone();
        let text = tokio::task::spawn_blocking(move || std::fs::read_to_string(path));
        text.await.unwrap().unwrap().trim().to_owned()
    }

    /// Waits until a program reads from it, and lets it go on.
    async fn open(&self) {
        let path = self.0.clone();
        let write = tokio::task::spawn_blocking(move || std::fs::write(path, "go on\n"));
        write.await.unwrap().unwrap();
    }
}

fn tank() -> PoolName {
    PoolName::new("tank").unwrap()
}

fn volume() -> DatasetName {
    DatasetName::new("tank/pvc-1").unwrap()
}

fn none() -> BTreeMap<String, String> {
    BTreeMap::new()
}

fn fixture(name: &str) -> String {
    format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(outcome: Result<T, Error>, words: &str) {
    match outcome {
        Err(Error::Refused { ref said, .. }) if said == words => {}
        other => panic!("not refused with {words:?}: {other:?}"),
    }
}

#[track_caller]
fn assert_unparsable<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    assert!(matches!(outcome, Err(Error::Unparsable { .. })), "{outcome:?}");
}
