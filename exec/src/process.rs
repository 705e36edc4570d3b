//! A process that is still there although nobody waits for it any more.

/// A process, told from a later one with the same id by when it was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    pid: u32,
    started: u64,
}

impl Process {
    /// The process of this id, if it is there.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let started = started(pid)?;
        Some(Self { pid, started })
    }

    /// Whether it is still there. One that has ended and was not yet waited for is not.
    #[must_use]
    pub fn is_there(&self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

/// When a process was started, in ticks since the boot, if it lives.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse(&String::from_utf8_lossy(&stat))
}

/// The second word is the program's name in brackets, in which anything may be; what counts comes after the last bracket.
fn parse(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    // The state is the third word of the line, and the time of the start the twenty-second.
    let state = words.next()?;
    let started = words.nth(18)?.parse().ok()?;
    let lives = !matches!(state, "Z" | "X" | "x");
    lives.then_some(started)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;
    use crate::Program;

    #[test]
    fn the_line_of_a_process_is_read_whatever_its_name() {
        let line = |state: &str| {
            format!("7 (a) b 1 (c)) {state} 1 7 7 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 4711 8 9 10 11")
        };
        assert_eq!(parse(&line("D")), Some(4711));
        assert_eq!(parse(&line("Z")), None);
        assert_eq!(parse("7 (sh"), None);
        assert_eq!(parse("7 (sh) S 1 2"), None);
    }

    #[tokio::test]
    async fn a_process_is_there_until_it_has_ended() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let log = tempfile::tempfile().unwrap();
        let reader = Program::find("cat").unwrap().call().arg(pipe.to_str().unwrap());
        let mut daemon = reader.start_daemon(&log).unwrap();
        // Opened when both ends are. It reads until ours is closed, and ends then.
        let writer = std::fs::File::options().write(true).open(&pipe).unwrap();
        let process = Process::of(daemon.pid().unwrap()).unwrap();
        assert!(process.is_there());
        drop(writer);
        let gone = async {
            while process.is_there() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let gone = tokio::time::timeout(Duration::from_secs(60), gone).await;
        assert!(gone.is_ok(), "ended, although nobody waited for it");
        daemon.wait().await.unwrap();
        assert!(!process.is_there());
        let another = Process {
            started: 0,
            pid: std::process::id(),
        };
        assert!(!another.is_there());
    }
}
