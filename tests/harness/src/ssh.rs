//! Running commands on a node.
//!
//! One connection is kept open as a process of the node's box and every command goes through it: under emulation a
//! new connection costs more than a second, a command on an open one a tenth of that.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use camino::Utf8PathBuf;
use cstor_exec::{Error, Invocation, Output, Program};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::boxes::{BoxDir, last_lines};
use crate::image::HOST_KEY_ALIAS;

/// What a command may take unless told otherwise.
const COMMAND_WITHIN: Duration = Duration::from_secs(120);

/// A node that is there greets at once.
const GREETING_WITHIN: Duration = Duration::from_secs(1);

/// What ssh itself exits with when it, and not the command, failed.
const SSH_FAILED: i32 = 255;

/// The way to a node.
#[derive(Debug, Clone)]
pub struct Ssh {
    home: BoxDir,
    port: u16,
    key: Utf8PathBuf,
    known_hosts: Utf8PathBuf,
}

impl Ssh {
    /// The way to the node whose sshd is behind `port` of the host; the connection is kept in `home`.
    #[must_use]
    pub fn new(home: BoxDir, port: u16, key: Utf8PathBuf, known_hosts: Utf8PathBuf) -> Self {
        Self {
            home,
            port,
            key,
            known_hosts,
        }
    }

    /// Opens the connection, trying until the node answers or `within` has passed.
    pub async fn connect(&self, within: Duration) -> Result<()> {
        let deadline = Instant::now() + within;
        loop {
            if self.greets().await && self.try_connect(deadline).await? {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!(
                    "the node does not answer ssh after {} s: {}",
                    within.as_secs(),
                    last_lines(&self.home.log())
                );
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Whether the node's sshd greets.
    ///
    /// QEMU takes a connection for the node before the node does, and then tries ever more seldom to hand it on. So
    /// early attempts are short ones, and ssh, which needs seconds under emulation, is started when somebody is there.
    async fn greets(&self) -> bool {
        let greeting = async {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
            let mut start = [0; 4];
            stream.read_exact(&mut start).await.ok()?;
            (start == *b"SSH-").then_some(())
        };
        timeout(GREETING_WITHIN, greeting)
            .await
            .is_ok_and(|greeting| greeting.is_some())
    }

    async fn try_connect(&self, deadline: Instant) -> Result<bool> {
        self.disconnect().await?;
        let mut master = self
            .home
            .start(self.call(&["-M", "-N", "-o", "ConnectTimeout=60"])?)?;
        while Instant::now() < deadline {
            if self.call(&["-O", "check"])?.run().await.is_ok() {
                return Ok(true);
            }
            if master.ended()?.is_some() {
                return Ok(false);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(false)
    }

    /// Closes the connection.
    pub async fn disconnect(&self) -> Result<()> {
        self.home.end_processes().await?;
        let _ = std::fs::remove_file(self.socket());
        Ok(())
    }

    /// Runs a shell script on the node.
    pub async fn sh(&self, script: &str) -> Result<Output> {
        self.run(script, Vec::new(), COMMAND_WITHIN).await
    }

    /// Runs a shell script on the node that reads `input`, with a deadline of its own.
    pub async fn run(&self, script: &str, input: Vec<u8>, within: Duration) -> Result<Output> {
        let result = self
            .call(&["--", &quote(script)])?
            .stdin(input)
            .deadline(within)
            .run()
            .await;
        result.map_err(|error| match error {
            // The command line of ssh is of no interest here; what the node said is.
            Error::Failed {
                status,
                stdout,
                stderr,
                ..
            } if status.code() != Some(SSH_FAILED) => {
                anyhow::anyhow!(
                    "`{script}` failed on the node ({status}): {}{}",
                    stderr.trim(),
                    stdout.trim()
                )
            }
            error => anyhow::Error::new(error).context(format!("run `{script}` on the node")),
        })
    }

    /// A call of ssh on the caller's terminal.
    pub fn interactive(&self, command: &[String]) -> Result<Invocation> {
        let mut args: Vec<&str> = Vec::new();
        if command.is_empty() {
            args.push("-t");
        }
        args.push("--");
        args.extend(command.iter().map(String::as_str));
        Ok(self.call(&args)?.inherit_env())
    }

    fn socket(&self) -> Utf8PathBuf {
        self.home.path().join("s")
    }

    fn call(&self, args: &[&str]) -> Result<Invocation> {
        let ssh = Program::find("ssh").context("ssh is needed to reach the nodes")?;
        let call = ssh
            .call()
            .args([
                "-F",
                "/dev/null",
                "-S",
                self.socket().as_str(),
                "-p",
                &self.port.to_string(),
            ])
            .args([
                "-i",
                self.key.as_str(),
                "-o",
                "IdentitiesOnly=yes",
                "-o",
                "BatchMode=yes",
            ])
            .args(["-o", &format!("UserKnownHostsFile={}", self.known_hosts)])
            .args([
                "-o",
                &format!("HostKeyAlias={HOST_KEY_ALIAS}"),
                "-o",
                "StrictHostKeyChecking=yes",
            ])
            .args([
                "-o",
                "ServerAliveInterval=10",
                "-o",
                "ServerAliveCountMax=6",
                "-o",
                "LogLevel=ERROR",
            ])
            .args(["-l", "root"]);
        // Options come before the host, the command after it.
        let (options, command) = match args.iter().position(|arg| *arg == "--") {
            Some(place) => args.split_at(place),
            None => (args, &[] as &[&str]),
        };
        Ok(call
            .args(options.iter().copied())
            .arg("127.0.0.1")
            .args(command.iter().copied()))
    }
}

/// ssh hands the words it gets to a login shell as one line; this makes the script one word for `sh -ec`.
fn quote(script: &str) -> String {
    format!("exec sh -ec {}", word(script))
}

/// One word for a shell, which means itself whatever is in it.
#[must_use]
pub fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_survives_the_remote_shell() {
        assert_eq!(quote("echo 'a b' $x"), r"exec sh -ec 'echo '\''a b'\'' $x'");
    }
}
