//! One call of a program.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use camino::Utf8PathBuf;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout, timeout_at};

use crate::Error;
use crate::program::PATH;

const DEFAULT_DEADLINE: Duration = Duration::from_secs(60);
const DEFAULT_LIMIT: usize = 64 << 20;
/// How long a killed process may take to be gone before it counts as stuck in the kernel.
const KILL_GRACE: Duration = Duration::from_secs(2);

/// Which of its outputs a program wrote a line to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// What a successful program wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// One call of a program, described and not yet made.
#[derive(Debug, Clone)]
#[must_use = "a call that is not run does nothing"]
pub struct Invocation {
    program: Utf8PathBuf,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    inherit_env: bool,
    withheld: Vec<String>,
    directory: Option<Utf8PathBuf>,
    stdin: Vec<u8>,
    deadline: Duration,
    limit: usize,
}

impl Invocation {
    pub(crate) fn new(program: Utf8PathBuf) -> Self {
        Self {
            program,
            args: Vec::new(),
            env: BTreeMap::from([("LC_ALL".to_owned(), "C.UTF-8".to_owned())]),
            inherit_env: false,
            withheld: Vec::new(),
            directory: None,
            stdin: Vec::new(),
            deadline: DEFAULT_DEADLINE,
            limit: DEFAULT_LIMIT,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Hands on the caller's whole environment. For developer tools (`cargo`, `go`, `apt-get`) alone.
    pub fn inherit_env(mut self) -> Self {
        self.inherit_env = true;
        self
    }

    /// Takes variables of this name, or of a name that begins so if it ends in `*`, out of what is handed on.
    pub fn without_env(mut self, name: impl Into<String>) -> Self {
        self.withheld.push(name.into());
        self
    }

    /// Runs in `directory`.
    pub fn directory(mut self, directory: impl Into<Utf8PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Gives the program `bytes` to read. This is the way for secrets: a command line is visible to everybody.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// The time the program has; 60 s unless set. [`Duration::MAX`] is for ever, for what ends when its caller goes away.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How many bytes of each output are kept; 64 MiB unless set.
    pub fn limit(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// The command line, for people.
    #[must_use]
    pub fn command_line(&self) -> String {
        let mut line = self
            .program
            .file_name()
            .unwrap_or(self.program.as_str())
            .to_owned();
        for arg in &self.args {
            let plain = !arg.is_empty() && !arg.contains(|c: char| c.is_whitespace() || c == '"');
            let _ = if plain {
                write!(line, " {arg}")
            } else {
                write!(line, " {arg:?}")
            };
        }
        line
    }

    /// Runs the program to its end.
    pub async fn run(self) -> Result<Output, Error> {
        self.run_lines(|_, _| {}).await
    }

    /// Runs the program to its end and shows each line as it comes.
    pub async fn run_lines(self, on_line: impl FnMut(Stream, &str) + Send) -> Result<Output, Error> {
        self.talk(Stdio::piped(), Stdio::piped(), on_line).await
    }

    /// Runs the program to its end; it reads from this file, pipe or socket itself. There is no other input.
    pub async fn run_reading(self, from: OwnedFd) -> Result<Output, Error> {
        self.talk(from.into(), Stdio::piped(), |_, _| {}).await
    }

    /// Runs the program to its end; it writes to this file, pipe or socket itself, and the output is empty.
    pub async fn run_writing(self, into: OwnedFd) -> Result<Output, Error> {
        self.talk(Stdio::piped(), into.into(), |_, _| {}).await
    }

    async fn talk(
        self,
        stdin: Stdio,
        stdout: Stdio,
        mut on_line: impl FnMut(Stream, &str) + Send,
    ) -> Result<Output, Error> {
        let command = self.command_line();
        let until = Instant::now().checked_add(self.deadline);
        tracing::debug!(%command, "run");
        let mut child = self.start(stdin, stdout, Stdio::piped(), true)?;
        let contact = |source| Error::Contact {
            command: command.clone(),
            source,
        };

        let stdin = child.stdin.take();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut group = Group::of(&child);
        let feed = async {
            if let Some(mut pipe) = stdin {
                // A program may end without reading all of its input; its exit status tells how that went.
                let _ = pipe.write_all(&self.stdin).await;
            }
        };
        let lines = std::sync::Mutex::new(&mut on_line);
        let show = |stream, line: &str| {
            if let Ok(mut on_line) = lines.lock() {
                on_line(stream, line);
            }
        };
        let talk = async {
            let (_, out, err, status) = tokio::join!(
                feed,
                collect(stdout, self.limit, |line| show(Stream::Out, line)),
                collect(stderr, self.limit, |line| show(Stream::Err, line)),
                child.wait(),
            );
            (out, err, status)
        };
        let ended = match until {
            Some(until) => timeout_at(until, talk).await.ok(),
            None => Some(talk.await),
        };
        let Some((out, err, status)) = ended else {
            group.kill();
            let pid = child.id();
            let unkillable = timeout(KILL_GRACE, child.wait()).await.is_err();
            tracing::warn!(%command, unkillable, "killed at its deadline");
            return Err(Error::Deadline {
                command,
                deadline: self.deadline,
                unkillable,
                pid,
            });
        };
        group.disarm();
        let status = status.map_err(contact)?;
        let (out, err) = (out.map_err(contact)?, err.map_err(contact)?);
        let text = |collected: Collected| {
            if collected.truncated {
                return Err(Error::TooMuchOutput {
                    command: command.clone(),
                    limit: self.limit,
                });
            }
            String::from_utf8(collected.bytes).map_err(|_| Error::NotUtf8 {
                command: command.clone(),
            })
        };
        if !status.success() {
            let lossy = |collected: Collected| String::from_utf8_lossy(&collected.bytes).into_owned();
            return Err(Error::Failed {
                command,
                status,
                stdout: lossy(out),
                stderr: lossy(err),
            });
        }
        Ok(Output {
            stdout: text(out)?,
            stderr: text(err)?,
        })
    }

    /// Runs the program on the caller's own terminal and returns how it ended. There is no deadline: a person waits.
    pub async fn run_attached(self) -> Result<ExitStatus, Error> {
        let command = self.command_line();
        let mut child = self.start(Stdio::inherit(), Stdio::inherit(), Stdio::inherit(), false)?;
        child
            .wait()
            .await
            .map_err(|source| Error::Contact { command, source })
    }

    /// Starts a program that outlives this call, in a session of its own, with its output in `log`.
    pub fn start_daemon(self, log: &File) -> Result<Daemon, Error> {
        let command = self.command_line();
        let output = |log: &File| {
            let copy = log.try_clone();
            copy.map(Stdio::from).map_err(|source| Error::Start {
                command: command.clone(),
                source,
            })
        };
        let (out, err) = (output(log)?, output(log)?);
        let mut process = self.prepare(Stdio::null(), out, err, true);
        process.kill_on_drop(false);
        let child = process.spawn().map_err(|source| Error::Start {
            command: command.clone(),
            source,
        })?;
        Ok(Daemon { child, command })
    }

    fn start(&self, stdin: Stdio, stdout: Stdio, stderr: Stdio, group: bool) -> Result<Child, Error> {
        self.prepare(stdin, stdout, stderr, group)
            .spawn()
            .map_err(|source| Error::Start {
                command: self.command_line(),
                source,
            })
    }

    fn withholds(&self, name: &str) -> bool {
        self.withheld
            .iter()
            .any(|withheld| match withheld.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == withheld,
            })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that runs programs"
    )]
    fn prepare(&self, stdin: Stdio, stdout: Stdio, stderr: Stdio, group: bool) -> Command {
        let mut command = Command::new(&self.program);
        if !self.inherit_env {
            command.env_clear().env("PATH", PATH);
        }
        for (name, _) in std::env::vars_os().filter(|(name, _)| self.withholds(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        command.args(&self.args).envs(&self.env);
        command
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            .kill_on_drop(true);
        if group {
            command.process_group(0);
        }
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }
}

/// A program that was started and goes on by itself; dropping this does not end it.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    command: String,
}

impl Daemon {
    /// The process id, while the process is there.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// How it ended, or `None` while it runs.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child.try_wait().map_err(|source| Error::Contact {
            command: self.command.clone(),
            source,
        })
    }

    /// Waits until it has ended.
    pub async fn wait(&mut self) -> Result<ExitStatus, Error> {
        self.child.wait().await.map_err(|source| Error::Contact {
            command: self.command.clone(),
            source,
        })
    }
}

/// Kills the process group when the caller goes away before the program has ended.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(
            child
                .id()
                .and_then(|id| i32::try_from(id).ok())
                .and_then(Pid::from_raw),
        )
    }

    fn kill(&mut self) {
        if let Some(group) = self.0.take() {
            // The group may be gone already, which is what we want.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

struct Collected {
    bytes: Vec<u8>,
    truncated: bool,
}

/// Reads a pipe to its end, so that the program never blocks on it, and keeps at most `limit` bytes.
async fn collect(
    pipe: Option<impl AsyncRead + Unpin>,
    limit: usize,
    mut on_line: impl FnMut(&str),
) -> std::io::Result<Collected> {
    let mut collected = Collected {
        bytes: Vec::new(),
        truncated: false,
    };
    let Some(mut pipe) = pipe else {
        return Ok(collected);
    };
    let mut line = Vec::new();
    let mut chunk = [0; 8192];
    loop {
        let read = pipe.read(&mut chunk).await?;
        let bytes = chunk.get(..read).unwrap_or_default();
        if bytes.is_empty() {
            break;
        }
        let room = limit.saturating_sub(collected.bytes.len()).min(bytes.len());
        collected
            .bytes
            .extend_from_slice(bytes.get(..room).unwrap_or_default());
        collected.truncated |= room < bytes.len();
        for byte in bytes {
            if matches!(byte, b'\n' | b'\r') {
                on_line(&String::from_utf8_lossy(&line));
                line.clear();
            } else if line.len() < 4096 {
                line.push(*byte);
            }
        }
    }
    if !line.is_empty() {
        on_line(&String::from_utf8_lossy(&line));
    }
    Ok(collected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Program;

    fn sh(script: &str) -> Invocation {
        Program::find("sh").unwrap().call().args(["-c", script])
    }

    #[tokio::test]
    async fn returns_what_the_program_wrote() {
        let output = sh("echo out; echo err >&2").run().await.unwrap();
        assert_eq!(
            output,
            Output {
                stdout: "out\n".into(),
                stderr: "err\n".into()
            }
        );
    }

    #[tokio::test]
    async fn gives_a_clean_environment() {
        let output = Program::find("env")
            .unwrap()
            .call()
            .env("GIVEN", "1")
            .run()
            .await
            .unwrap();
        let mut names: Vec<_> = output
            .stdout
            .lines()
            .filter_map(|line| line.split('=').next())
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["GIVEN", "LC_ALL", "PATH"]);
    }

    #[tokio::test]
    async fn withholds_what_it_is_told_to() {
        let env = Program::find("env").unwrap().call().inherit_env();
        let given = |output: Output| {
            output
                .stdout
                .lines()
                .any(|line| line.starts_with("CARGO_PKG_NAME="))
        };
        assert!(given(env.clone().run().await.unwrap()), "cargo sets it for tests");
        assert!(!given(
            env.clone().without_env("CARGO_PKG_*").run().await.unwrap()
        ));
        assert!(!given(
            env.clone().without_env("CARGO_PKG_NAME").run().await.unwrap()
        ));
        assert!(given(env.without_env("CARGO_PKG").run().await.unwrap()));
    }

    #[tokio::test]
    async fn a_failure_carries_status_and_the_programs_own_words() {
        let error = sh("echo 'no such pool' >&2; exit 3").run().await.unwrap_err();
        let Error::Failed {
            status, ref stderr, ..
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!((status.code(), stderr.as_str()), (Some(3), "no such pool\n"));
        assert!(
            error.to_string().ends_with("(exit status: 3): no such pool"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn the_deadline_ends_the_whole_process_group() {
        let marker = format!("86{}", std::process::id());
        let script = format!("sleep {marker} & sleep {marker}; true");
        let error = sh(&script)
            .deadline(Duration::from_millis(200))
            .run()
            .await
            .unwrap_err();
        assert!(
            matches!(
                error,
                Error::Deadline {
                    unkillable: false,
                    ..
                }
            ),
            "{error}"
        );
        assert_gone(&marker).await;
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_ends_the_process_group() {
        let marker = format!("87{}", std::process::id());
        let script = format!("echo started; sleep {marker} & sleep {marker}; true");
        let (tell, mut started) = tokio::sync::mpsc::unbounded_channel();
        let call = tokio::spawn(sh(&script).run_lines(move |_, _| {
            let _ = tell.send(());
        }));
        started.recv().await.unwrap();
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
        assert_gone(&marker).await;
    }

    /// Waits until no `sleep` with this argument is left: a killed process is gone soon, not at once.
    async fn assert_gone(marker: &str) {
        let there = || {
            std::fs::read_dir("/proc")
                .unwrap()
                .filter_map(Result::ok)
                .any(|entry| {
                    let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                    line.starts_with(b"sleep") && String::from_utf8_lossy(&line).contains(marker)
                })
        };
        for _ in 0..500 {
            if !there() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("a child is still there");
    }

    #[tokio::test]
    async fn output_beyond_the_limit_is_an_error_and_never_a_shorter_list() {
        let error = sh("head -c 5000 /dev/zero | tr '\\0' x")
            .limit(4096)
            .run()
            .await
            .unwrap_err();
        assert!(
            matches!(error, Error::TooMuchOutput { limit: 4096, .. }),
            "{error}"
        );
    }

    #[tokio::test]
    async fn output_that_is_not_utf8_is_an_error() {
        let error = sh("printf '\\377'").run().await.unwrap_err();
        assert!(matches!(error, Error::NotUtf8 { .. }), "{error}");
    }

    #[tokio::test]
    async fn input_is_given_and_may_be_left_unread() {
        let cat = Program::find("cat")
            .unwrap()
            .call()
            .stdin("secret")
            .run()
            .await
            .unwrap();
        assert_eq!(cat.stdout, "secret");
        assert!(sh("exit 0").stdin(vec![b'x'; 1 << 20]).run().await.is_ok());
    }

    #[tokio::test]
    async fn lines_are_shown_as_they_come() {
        let mut seen = Vec::new();
        sh("echo one; printf two")
            .run_lines(|stream, line| seen.push((stream, line.to_owned())))
            .await
            .unwrap();
        assert_eq!(
            seen,
            [(Stream::Out, "one".to_owned()), (Stream::Out, "two".to_owned())]
        );
    }

    #[tokio::test]
    async fn a_program_reads_and_writes_files_itself() {
        let (read, write) = std::io::pipe().unwrap();
        let writing = sh("printf data; echo told >&2").run_writing(write.into());
        let reading = sh("cat; cat >&2").run_reading(read.into());
        let (written, read) = tokio::join!(writing, reading);
        let output = |stdout: &str, stderr: &str| Output {
            stdout: stdout.into(),
            stderr: stderr.into(),
        };
        assert_eq!(written.unwrap(), output("", "told\n"));
        assert_eq!(read.unwrap(), output("data", ""));
    }

    #[tokio::test]
    async fn a_deadline_may_be_never() {
        let output = sh("sleep 0.1; echo done").deadline(Duration::MAX).run().await;
        assert_eq!(output.unwrap().stdout, "done\n");
    }

    #[test]
    fn a_command_line_is_readable() {
        let call = sh("echo hi").arg("");
        assert_eq!(call.command_line(), r#"sh -c "echo hi" """#);
    }
}
