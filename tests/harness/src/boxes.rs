//! A box: the directory of one running cluster, and every process that belongs to it.
//!
//! A process belongs to a box because its environment says so ([`BOX_VARIABLE`]), and children inherit that. So the
//! processes of a box can be found and ended without any record of them: there is no moment at which a crash of ours
//! leaves one behind that nobody knows of.

use std::fs::File;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use camino::{Utf8Path, Utf8PathBuf};
use cstor_exec::{Daemon, Invocation};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use crate::cache::{Cache, remove_tree};

/// The environment variable that names the box a process belongs to.
pub const BOX_VARIABLE: &str = "CSTOR_BOX";

/// How long killed processes may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(20);

/// The longest path of a box: the sockets in it have to fit into what Linux allows for one (107 bytes).
const LONGEST_PATH: usize = 72;

/// A box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoxDir {
    path: Utf8PathBuf,
}

impl BoxDir {
    /// The box of this name; nothing is made yet.
    pub fn named(cache: &Cache, name: &str) -> Result<Self> {
        Self::at(cache.root().join("boxes").join(name))
    }

    /// The box in this directory; nothing is made yet.
    pub fn at(path: impl Into<Utf8PathBuf>) -> Result<Self> {
        let path = path.into();
        if path.as_str().len() > LONGEST_PATH {
            bail!(
                "{path} is too long a path for the sockets in it: set {} to a shorter directory",
                crate::cache::CACHE_VARIABLE
            );
        }
        Ok(Self { path })
    }

    /// The box that this process itself runs in, if it runs in one.
    #[must_use]
    pub fn current() -> Option<Self> {
        let path = std::env::var(BOX_VARIABLE)
            .ok()
            .filter(|path| path.starts_with('/'))?;
        Some(Self { path: path.into() })
    }

    /// A box inside this one: it ends with this one, and can be ended alone.
    #[must_use]
    pub fn inner(&self, name: &str) -> Self {
        Self {
            path: self.path.join(name),
        }
    }

    /// Its directory.
    #[must_use]
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Makes the directory.
    pub fn create(&self) -> Result<()> {
        std::fs::create_dir_all(&self.path).with_context(|| format!("make {}", self.path))
    }

    /// Starts a program as a process of this box, with its output appended to [`Self::log`].
    pub fn start(&self, call: Invocation) -> Result<Daemon> {
        self.create()?;
        let path = self.log();
        let log = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("open {path}"))?;
        Ok(call.env(BOX_VARIABLE, self.path.as_str()).start_daemon(&log)?)
    }

    /// Where the programs of this box write to.
    #[must_use]
    pub fn log(&self) -> Utf8PathBuf {
        self.path.join("log")
    }

    /// Copies what was logged in it to `place`, and not the disks.
    pub fn keep_logs(&self, place: &Utf8Path) -> Result<()> {
        remove_tree(place)?;
        copy_logs(&self.path, place)
    }

    /// The processes of this box and of the boxes in it.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        processes_of(&self.path)
    }

    /// Ends all its processes and waits until they are gone.
    pub async fn end_processes(&self) -> Result<()> {
        let deadline = Instant::now() + GONE_WITHIN;
        loop {
            let left = self.kill();
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let names: Vec<_> = left.iter().map(ToString::to_string).collect();
                bail!("these processes cannot be ended: {}", names.join(", "));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Kills all its processes, without waiting until they are gone, and tells which there were.
    pub fn kill(&self) -> Vec<Process> {
        let found = self.processes();
        for process in &found {
            if let Some(pid) = Pid::from_raw(process.pid) {
                // It may have ended by itself meanwhile.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        found
    }

    /// Ends everything in it and removes it.
    pub async fn remove(&self) -> Result<()> {
        self.end_processes().await?;
        remove_tree(&self.path)
    }
}

/// The last lines of a file, for an error message.
#[must_use]
pub fn last_lines(file: &Utf8Path) -> String {
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

fn copy_logs(from: &Utf8Path, to: &Utf8Path) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("make {to}"))?;
    for entry in from.read_dir_utf8().with_context(|| format!("read {from}"))? {
        let entry = entry.with_context(|| format!("read {from}"))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().with_context(|| format!("look at {path}"))?;
        if kind.is_dir() {
            copy_logs(path, &target)?;
        } else if matches!(entry.file_name(), "log" | "console" | "node.json") {
            std::fs::copy(path, &target).with_context(|| format!("copy {path}"))?;
        }
    }
    Ok(())
}

/// A process of a box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// The name of its program.
    pub program: String,
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.program, self.pid)
    }
}

/// What a process makes a box for, for no longer than it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passing {
    /// Running suites.
    Test,
    /// Building what clusters are made from.
    Build,
    /// Booting the node whose memory is saved.
    Ready,
}

impl Passing {
    const fn prefix(self) -> &'static str {
        match self {
            Self::Test => "test-",
            Self::Build => "build-",
            Self::Ready => "ready-",
        }
    }
}

/// The box that this process makes for this.
pub fn own(cache: &Cache, passing: Passing) -> Result<BoxDir> {
    BoxDir::named(cache, &format!("{}{}", passing.prefix(), std::process::id()))
}

/// The process whose box has this name. A cluster that stays has none.
fn owner(name: &str) -> Option<u32> {
    let passing = [Passing::Test, Passing::Build, Passing::Ready];
    passing
        .iter()
        .find_map(|passing| name.strip_prefix(passing.prefix()))?
        .parse()
        .ok()
}

/// Removes the boxes that processes have made for their own time and that are no more (as well as this process's own),
/// and what was left half built.
pub async fn remove_abandoned(cache: &Cache) -> Result<()> {
    for (name, found) in boxes(cache)? {
        if owner(&name).is_some_and(|owner| owner == std::process::id() || is_gone(owner)) {
            found.remove().await?;
        }
    }
    cache.remove_partial().await
}

/// What [`remove_abandoned`] would find to remove, and what this process is not at work in. Whoever builds or tests beside us on
/// the same cache is left out.
pub fn abandoned(cache: &Cache) -> Result<Vec<Utf8PathBuf>> {
    let mut found = cache.abandoned_partial()?;
    for (name, place) in boxes(cache)? {
        // In this order: its owner removes it before it ends.
        if owner(&name).is_some_and(is_gone) && place.path.exists() {
            found.push(place.path);
        }
    }
    Ok(found)
}

/// Whether the process that made a box is no more.
fn is_gone(owner: u32) -> bool {
    let program = std::fs::read_to_string(format!("/proc/{owner}/comm")).unwrap_or_default();
    program.trim() != "xtask"
}

/// All boxes of the cache, each with its name.
fn boxes(cache: &Cache) -> Result<Vec<(String, BoxDir)>> {
    let root = cache.root().join("boxes");
    let entries = match root.read_dir_utf8() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("read {root}"))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("read {root}"))?;
        if entry
            .file_type()
            .with_context(|| format!("look at {}", entry.path()))?
            .is_dir()
        {
            found.push((
                entry.file_name().to_owned(),
                BoxDir {
                    path: entry.path().to_owned(),
                },
            ));
        }
    }
    Ok(found)
}

fn processes_of(path: &Utf8Path) -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let own = std::process::id();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != own)
        .filter_map(|pid| {
            // A process that is gone, or that is another user's, is not of this box.
            let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
            let program = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            let ours = belongs(&environment, path);
            ours.then(|| {
                Some(Process {
                    pid: pid.try_into().ok()?,
                    program: program.trim().to_owned(),
                })
            })?
        })
        .collect()
}

fn belongs(environment: &[u8], path: &Utf8Path) -> bool {
    environment.split(|byte| *byte == 0).any(|variable| {
        variable
            .strip_prefix(BOX_VARIABLE.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"="))
            .and_then(|value| value.strip_prefix(path.as_str().as_bytes()))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_belongs_to_its_box_and_the_boxes_around_it() {
        let path = Utf8Path::new("/cache/boxes/up");
        assert!(belongs(b"A=1\0CSTOR_BOX=/cache/boxes/up\0", path));
        assert!(belongs(b"CSTOR_BOX=/cache/boxes/up/node-1", path));
        assert!(!belongs(b"CSTOR_BOX=/cache/boxes/upper", path));
        assert!(!belongs(b"XCSTOR_BOX=/cache/boxes/up", path));
        assert!(!belongs(b"A=CSTOR_BOX=/cache/boxes/up", path));
    }

    #[test]
    fn a_cluster_that_stays_is_never_taken_for_abandoned() {
        assert_eq!(owner("test-17"), Some(17));
        assert_eq!(owner("ready-17"), Some(17));
        assert_eq!(owner("up-12345678"), None);
        assert_eq!(owner("test-x"), None);
    }

    #[tokio::test]
    async fn what_is_abandoned_is_told_and_removed() {
        let root = Utf8PathBuf::from_path_buf(std::env::temp_dir()).unwrap();
        let cache = Cache::at(root.join(format!("cstor-abandoned-{}", std::process::id()))).unwrap();
        // No process has this id: it is above the kernel's largest.
        let left = BoxDir::named(&cache, "ready-4194999").unwrap();
        let stays = BoxDir::named(&cache, "up-12345678").unwrap();
        left.create().unwrap();
        stays.create().unwrap();
        assert_eq!(abandoned(&cache).unwrap(), [left.path()]);
        remove_abandoned(&cache).await.unwrap();
        assert_eq!(abandoned(&cache).unwrap(), [] as [Utf8PathBuf; 0]);
        assert!(stays.path().exists());
        remove_tree(cache.root()).unwrap();
    }

    #[tokio::test]
    async fn ends_a_whole_family_of_processes() {
        let root = Utf8PathBuf::from_path_buf(std::env::temp_dir()).unwrap();
        let cache = Cache::at(root.join(format!("cstor-boxes-{}", std::process::id()))).unwrap();
        let (ours, other) = (
            BoxDir::named(&cache, "a").unwrap(),
            BoxDir::named(&cache, "ab").unwrap(),
        );
        ours.create().unwrap();
        let family = |of: &BoxDir| {
            let sh = cstor_exec::Program::find("sh").unwrap();
            of.start(sh.call().args(["-c", "sleep 600 & sleep 600; true"]))
                .unwrap()
        };
        let (_first, _second) = (family(&ours), family(&other));
        // `sh` forks a moment after it has started.
        let deadline = Instant::now() + GONE_WITHIN;
        while ours.processes().len() < 3 || other.processes().len() < 3 {
            assert!(Instant::now() < deadline, "the processes are not to be seen");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        ours.remove().await.unwrap();
        assert_eq!(ours.processes(), []);
        assert!(!ours.path().exists());
        assert_eq!(other.processes().len(), 3);
        other.end_processes().await.unwrap();
        remove_tree(cache.root()).unwrap();
    }

    #[test]
    fn logs_are_kept_and_disks_are_not() {
        let root = Utf8PathBuf::from_path_buf(std::env::temp_dir()).unwrap();
        let root = root.join(format!("cstor-logs-{}", std::process::id()));
        let (from, to) = (root.join("from"), root.join("to"));
        for file in [
            "node-1/console",
            "node-1/qemu/log",
            "node-1/root.qcow2",
            "node-1/disks/0.raw",
        ] {
            let path = from.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, file).unwrap();
        }
        BoxDir::at(from).unwrap().keep_logs(&to).unwrap();
        assert_eq!(
            std::fs::read_to_string(to.join("node-1/console")).unwrap(),
            "node-1/console"
        );
        assert_eq!(
            std::fs::read_to_string(to.join("node-1/qemu/log")).unwrap(),
            "node-1/qemu/log"
        );
        assert!(!to.join("node-1/root.qcow2").exists() && !to.join("node-1/disks/0.raw").exists());
        remove_tree(&root).unwrap();
    }
}
