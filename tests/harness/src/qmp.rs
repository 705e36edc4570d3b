//! Talking to a running QEMU: the QEMU Machine Protocol over its socket, one JSON document a line.
//!
//! By hand, because the client crates are either unmaintained or bring generated types for the whole of QEMU, and this
//! needs a dozen commands.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use camino::Utf8Path;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, timeout_at};

/// What any answer may take. A guest that is being restored holds QEMU's main loop for a few seconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// A connection to a QEMU.
#[derive(Debug)]
pub struct Qmp {
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
    /// Events that came while an answer was awaited.
    events: Vec<Value>,
}

impl Qmp {
    /// Connects to the socket, which QEMU makes a moment after it has started.
    pub async fn connect(socket: &Utf8Path) -> Result<Self> {
        let deadline = Instant::now() + ANSWER_WITHIN;
        let stream = loop {
            match UnixStream::connect(socket).await {
                Ok(stream) => break stream,
                Err(error) if Instant::now() > deadline => {
                    return Err(error).with_context(|| format!("connect to {socket}"));
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        let (reader, writer) = stream.into_split();
        let mut qmp = Self {
            lines: BufReader::new(reader).lines(),
            writer,
            events: Vec::new(),
        };
        let greeting = qmp.read(deadline).await?;
        if greeting.get("QMP").is_none() {
            bail!("{socket} is not QEMU's: it said {greeting}");
        }
        qmp.execute("qmp_capabilities", json!({})).await?;
        Ok(qmp)
    }

    /// Runs a command and returns what it returned.
    pub async fn execute(&mut self, command: &str, arguments: Value) -> Result<Value> {
        let request = json!({ "execute": command, "arguments": arguments });
        let sent = self.writer.write_all(format!("{request}\n").as_bytes()).await;
        sent.with_context(|| format!("ask QEMU for {command}"))?;
        let deadline = Instant::now() + ANSWER_WITHIN;
        loop {
            let mut message = self
                .read(deadline)
                .await
                .with_context(|| format!("wait for QEMU's {command}"))?;
            if message.get("event").is_some() {
                self.events.push(message);
            } else if let Some(error) = message.get("error") {
                bail!(
                    "QEMU refused {command}: {}",
                    error.get("desc").and_then(Value::as_str).unwrap_or_default()
                );
            } else if let Some(value) = message.get_mut("return") {
                return Ok(value.take());
            }
        }
    }

    /// Waits for an event of this name that `matches`.
    pub async fn event(
        &mut self,
        name: &str,
        within: Duration,
        matches: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        let wanted = |event: &Value| {
            event.get("event").and_then(Value::as_str) == Some(name)
                && event.get("data").is_some_and(&matches)
        };
        if let Some(place) = self.events.iter().position(wanted) {
            self.events.drain(..=place);
            return Ok(());
        }
        let deadline = Instant::now() + within;
        loop {
            let message = self
                .read(deadline)
                .await
                .with_context(|| format!("wait for QEMU's event {name}"))?;
            if wanted(&message) {
                return Ok(());
            }
        }
    }

    /// Runs a job (a command that answers at once and works on) to its end.
    pub async fn job(&mut self, command: &str, mut arguments: Value) -> Result<()> {
        let id = format!("job-{command}");
        if let Some(fields) = arguments.as_object_mut() {
            fields.insert("job-id".to_owned(), Value::from(id.as_str()));
        }
        self.execute(command, arguments).await?;
        let concluded = |data: &Value| {
            data.get("id").and_then(Value::as_str) == Some(&id)
                && data.get("status").and_then(Value::as_str) == Some("concluded")
        };
        self.event("JOB_STATUS_CHANGE", ANSWER_WITHIN * 5, concluded)
            .await?;
        let jobs = self.execute("query-jobs", json!({})).await?;
        let ours = jobs
            .as_array()
            .into_iter()
            .flatten()
            .find(|job| job.get("id").is_some_and(|it| it == &id));
        let error = ours.and_then(|job| job.get("error")?.as_str().map(str::to_owned));
        self.execute("job-dismiss", json!({ "id": id })).await?;
        match error {
            Some(error) => bail!("QEMU's {command} failed: {error}"),
            None => Ok(()),
        }
    }

    async fn read(&mut self, deadline: Instant) -> Result<Value> {
        let line = timeout_at(deadline, self.lines.next_line())
            .await
            .context("QEMU does not answer")?;
        let line = line.context("read from QEMU")?.context("QEMU has ended")?;
        serde_json::from_str(&line).with_context(|| format!("understand QEMU's {line}"))
    }
}
