//! Running `cargo xtask …` as a person does, on a cluster of the test's own.

use std::fs::File;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use cstor_exec::{Daemon, Error, Invocation, Output, Program};
use cstor_harness::boxes::{BoxDir, abandoned};
use cstor_harness::cache::Cache;

const COMMAND_WITHIN: Duration = Duration::from_secs(15 * 60);

/// One cluster in a box, apart from the one that a person may have.
pub struct Door {
    pub place: BoxDir,
    temporary: Utf8PathBuf,
}

impl Door {
    pub fn new(name: &str) -> Self {
        let around = BoxDir::current().expect("run this suite by `cargo xtask test e2e`");
        let door = Self {
            place: around.inner(name),
            temporary: around.path().join(format!("{name}-tmp")),
        };
        std::fs::create_dir_all(&door.temporary).unwrap();
        door
    }

    pub fn call(&self, args: &[&str]) -> Invocation {
        let xtask = std::env::var("CSTOR_TEST_XTASK").expect("run this suite by `cargo xtask test e2e`");
        let call = Program::at(xtask)
            .unwrap()
            .call()
            .inherit_env()
            .args(args.iter().copied());
        let call = call
            .env("CSTOR_UP_BOX", self.place.path().as_str())
            .env("TMPDIR", self.temporary.as_str());
        call.deadline(COMMAND_WITHIN)
    }

    pub async fn run(&self, args: &[&str]) -> Output {
        self.call(args)
            .run()
            .await
            .unwrap_or_else(|error| panic!("{}", told(&error)))
    }

    /// Starts a command and leaves it running.
    pub fn start(&self, args: &[&str]) -> Daemon {
        self.start_with(args, "CSTOR_TEST", "1")
    }

    /// Starts a command with a variable of its own and leaves it running.
    pub fn start_with(&self, args: &[&str], name: &str, value: &str) -> Daemon {
        let log = File::create(self.temporary.with_added_extension("log")).unwrap();
        self.call(args).env(name, value).start_daemon(&log).unwrap()
    }

    /// What the command says when it fails, which it must.
    pub async fn refused(&self, call: Invocation) -> String {
        match call.run().await {
            Err(Error::Failed { stderr, .. }) => stderr,
            other => panic!("this must fail: {other:?}"),
        }
    }

    /// What is left of the cluster: processes, files, mounts, temporary files.
    pub fn left(&self) -> Vec<String> {
        let place = self.place.path();
        let mut left: Vec<String> = self.place.processes().iter().map(ToString::to_string).collect();
        left.extend(place.exists().then(|| place.to_string()));
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        left.extend(
            mounts
                .lines()
                .filter(|line| line.contains(place.as_str()))
                .map(str::to_owned),
        );
        left.extend(files_in(&self.temporary));
        left.extend(workers_on(place));
        left.extend(abandoned_boxes(place));
        left
    }
}

pub fn files_in(directory: &Utf8Path) -> Vec<String> {
    directory
        .read_dir_utf8()
        .unwrap()
        .map(|entry| entry.unwrap().path().to_string())
        .collect()
}

/// Processes that name a directory of ours on their command line, whatever they believe to belong to: builders, above
/// all. A mount or process namespace lives no longer than the processes in it.
pub fn workers_on(directory: &Utf8Path) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes
        .filter_map(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(directory.as_str()).then_some(line)
        })
        .collect()
}

/// Directories in which a build or a first boot was at work, and which nobody is at work in any more. The cache is shared: another
/// checkout may be at work in some.
fn abandoned_boxes(place: &Utf8Path) -> Vec<String> {
    let boxes = place
        .ancestors()
        .find(|path| path.file_name() == Some("boxes"))
        .unwrap();
    let cache = Cache::at(boxes.parent().unwrap()).unwrap();
    let abandoned = abandoned(&cache).unwrap().into_iter().map(String::from);
    abandoned
        .filter(|path| path.ends_with(".partial") || path.contains("/ready-"))
        .collect()
}

impl Drop for Door {
    fn drop(&mut self) {
        self.place.kill();
        if std::thread::panicking() && self.place.path().exists() {
            let logs = std::env::var("CSTOR_TEST_LOGS").expect("run this suite by `cargo xtask test e2e`");
            let logs = Utf8Path::new(&logs).join(self.place.path().file_name().unwrap_or("e2e"));
            match self.place.keep_logs(&logs) {
                Ok(()) => println!("the logs of the cluster are in {logs}"),
                Err(error) => println!("the logs of the cluster could not be kept: {error:#}"),
            }
        }
    }
}

pub fn told(error: &Error) -> String {
    match error {
        Error::Failed { stdout, stderr, .. } => format!("{error}\n{stdout}\n{stderr}"),
        other => other.to_string(),
    }
}
