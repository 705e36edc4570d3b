//! `test`: the suites, from the least powerful to the most.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use cstor_exec::Invocation;
use cstor_harness::assets;
use cstor_harness::boxes::{self, BOX_VARIABLE, BoxDir, Passing};
use cstor_harness::cache::Cache;
use cstor_harness::cluster::{LOGS_VARIABLE, NODES_AT_A_TIME};
use cstor_harness::control_plane::ControlPlane;
use cstor_harness::deploy::{self, AGENT_VARIABLE, CONTROLLER_VARIABLE, Programs};
use cstor_harness::prerequisites::Wanted;
use cstor_harness::progress::Progress;

use crate::interrupt::interruptible;
use crate::workspace::{self, cargo};
use crate::{crds, programs};

/// Longer than this is not slow but stuck.
const SUITE_WITHIN: Duration = Duration::from_secs(80 * 60);
const FULL_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);

/// Nodes that the suites run at a time.
const NODES: u8 = NODES_AT_A_TIME;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// Formatting, lints, generated files, and the tests of each crate
    Unit,
    /// The engine, crashed and lied to, on a simulated API server
    Faults,
    /// Resources and engine on a real API server
    Api,
    /// Real nodes with real disks
    Node,
    /// `up` and `down` themselves
    E2e,
}

impl Suite {
    const ALL: [Self; 5] = [Self::Unit, Self::Faults, Self::Api, Self::Node, Self::E2e];

    fn name(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Faults => "faults",
            Self::Api => "api",
            Self::Node => "node",
            Self::E2e => "e2e",
        }
    }

    /// Whether it installs agent and controller.
    fn installs(self) -> bool {
        matches!(self, Self::Node | Self::E2e)
    }

    fn wanted(self) -> Wanted {
        match self {
            Self::Unit | Self::Faults => Wanted::default(),
            Self::Api => Wanted {
                control_plane: true,
                ..Wanted::default()
            },
            Self::Node | Self::E2e => Wanted {
                nodes: NODES,
                control_plane: true,
                ..Wanted::default()
            },
        }
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct TestArgs {
    /// Which suite; all if left out
    suite: Option<Suite>,
    /// Only tests whose name contains this
    filter: Option<String>,
    /// Run the long counts in full instead of a sample
    #[arg(long)]
    full: bool,
    /// Replay the runs of this seed
    #[arg(long)]
    seed: Option<u64>,
}

/// How a suite went.
#[derive(Debug, Clone, Default)]
struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
    /// What the failed tests said.
    told: Vec<String>,
    /// Whether the test runner is telling of a failed test.
    telling: bool,
}

/// What a failed test said is repeated at the end, as far as this.
const TOLD_LINES: usize = 200;

impl Tally {
    /// Adds what the test runner said of one test binary.
    fn read(&mut self, line: &str) {
        match line {
            "failures:" => self.telling = !self.telling,
            _ if line.starts_with("test result:") => self.telling = false,
            _ if self.telling && self.told.len() < TOLD_LINES && !line.is_empty() => {
                self.told.push(line.to_owned());
            }
            _ => {}
        }
        let Some(result) = line.strip_prefix("test result: ") else {
            return;
        };
        let number = |what: &str| {
            let part = result
                .split([';', '.'])
                .find(|part| part.trim().ends_with(what))?;
            part.split_whitespace().next()?.parse::<u64>().ok()
        };
        self.passed += number("passed").unwrap_or_default();
        self.failed += number("failed").unwrap_or_default();
        self.skipped += number("ignored").unwrap_or_default();
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.told.extend(other.told);
    }
}

/// Runs the suites.
pub(crate) async fn test(args: TestArgs) -> Result<ExitCode> {
    let cache = Cache::open()?;
    boxed(&cache, async |home| run_all(&cache, home, &args).await).await
}

/// Runs the benchmarks, or the one of this name.
pub(crate) async fn bench(name: Option<String>) -> Result<ExitCode> {
    let cache = Cache::open()?;
    boxed(&cache, async |home| {
        let wanted = Wanted {
            nodes: NODES,
            control_plane: true,
            building: true,
            api_port: None,
        };
        assets::prepare(&cache, &Progress::new(), wanted).await?;
        // The driver only waits: what is measured runs on the nodes, and need not be built twice.
        let which = name.map_or("--benches".to_owned(), |name| format!("--bench={name}"));
        let call = cargo()?
            .args(["bench", "--quiet", "--profile", "dev", "--package", "cstor-tests"])
            .arg(which);
        let call = call
            .env(BOX_VARIABLE, home.path().as_str())
            .env(LOGS_VARIABLE, workspace::test_logs());
        show(call.deadline(FULL_WITHIN), |_| {})
            .await
            .map(|()| ExitCode::SUCCESS)
    })
    .await
}

/// Gives `work` a box, and ends what is in it when `work` has ended or was interrupted.
async fn boxed<T>(cache: &Cache, work: impl AsyncFnOnce(&BoxDir) -> Result<T>) -> Result<T> {
    boxes::remove_abandoned(cache).await?;
    let home = boxes::own(cache, Passing::Test)?;
    home.create()?;
    let result = interruptible(work(&home), async || boxes::remove_abandoned(cache).await).await;
    home.remove().await?;
    result
}

async fn run_all(cache: &Cache, home: &BoxDir, args: &TestArgs) -> Result<ExitCode> {
    let progress = Progress::new();
    let suites: Vec<_> = args.suite.map_or(Suite::ALL.to_vec(), |suite| vec![suite]);
    // Lints and suites are built from the workspace, whichever they are.
    let building = Wanted {
        building: true,
        ..Wanted::default()
    };
    let wanted = suites.iter().fold(building, |all, suite| {
        let one = suite.wanted();
        Wanted {
            nodes: all.nodes.max(one.nodes),
            control_plane: all.control_plane || one.control_plane,
            ..all
        }
    });
    assets::prepare(cache, &progress, wanted).await?;

    let mut lines = Vec::new();
    let mut total = Tally::default();
    for suite in suites {
        let began = Instant::now();
        println!("── {} ──", suite.name());
        let mut tally = Tally::default();
        if let Err(error) = run_suite(suite, cache, &progress, home, args, &mut tally).await {
            println!("{}: {error:#}", suite.name());
            tally.told.insert(0, format!("{}: {error:#}", suite.name()));
            // A suite may fail before or beside its tests: it must not end as passed.
            tally.failed = tally.failed.max(1);
        }
        let Tally {
            passed,
            failed,
            skipped,
            ..
        } = &tally;
        let seconds = began.elapsed().as_secs();
        lines.push(format!(
            "{:<8} {passed} passed, {failed} failed, {skipped} skipped in {seconds} s",
            suite.name()
        ));
        total.add(tally);
    }
    println!("──");
    // A reader of the end alone must know what failed; the passing tests have printed a lot in between.
    for line in &total.told {
        println!("{line}");
    }
    for line in lines {
        println!("{line}");
    }
    println!(
        "total: {} passed, {} failed, {} skipped",
        total.passed, total.failed, total.skipped
    );
    if total.passed + total.failed == 0 {
        bail!("no test has this name: leave the filter out to run all");
    }
    Ok(if total.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn run_suite(
    suite: Suite,
    cache: &Cache,
    progress: &Progress,
    home: &BoxDir,
    args: &TestArgs,
    tally: &mut Tally,
) -> Result<()> {
    if suite == Suite::Unit && args.filter.is_none() {
        lints().await?;
    }
    let mut call = cargo()?.arg("test").env(BOX_VARIABLE, home.path().as_str());
    call = match suite {
        // The simulated API server has tests of its own, which are built with it alone.
        Suite::Unit => call.args([
            "--workspace",
            "--exclude",
            "cstor-tests",
            "--features",
            "cstor-reconcile/memory-api",
        ]),
        _ => call.args(["--package", "cstor-tests", "--test", suite.name()]),
    };
    call = call.env(LOGS_VARIABLE, workspace::test_logs());
    if suite == Suite::Api {
        let binaries = assets::binaries(cache, &Progress::silent()).await?;
        let control_plane = ControlPlane::create(home.inner("control-plane"), &binaries, None)?;
        control_plane.ensure_running().await?;
        deploy::install_crds(&control_plane).await?;
        call = call.env("CSTOR_TEST_KUBECONFIG", control_plane.kubeconfig());
        call = call.env("CSTOR_TEST_KUBECTL", binaries.kubectl);
    }
    if suite.installs() {
        let Programs { agent, controller } = programs::build(progress, home).await?;
        call = call
            .env(AGENT_VARIABLE, agent)
            .env(CONTROLLER_VARIABLE, controller);
    }
    if suite == Suite::E2e {
        let own = std::env::current_exe().context("find this program")?;
        call = call.env("CSTOR_TEST_XTASK", own.to_string_lossy());
    }
    if args.full {
        call = call.env("CSTOR_FULL", "1");
    }
    if let Some(seed) = args.seed {
        call = call.env("CSTOR_SEED", seed.to_string());
    }
    if args.filter.is_none() {
        // Tests that panic on purpose would bury the message of one that did not; a filter is for a closer look.
        call = call.env("RUST_BACKTRACE", "0");
    }
    call = call.deadline(if args.full { FULL_WITHIN } else { SUITE_WITHIN });
    // Seeds and sizes are part of the result, so what passing tests print is shown too.
    call = call.arg("--").args(args.filter.clone());
    if suite != Suite::Unit {
        call = call.arg("--show-output");
    }
    let result = show(call, |line| tally.read(line)).await;
    if suite == Suite::Api {
        let control_plane = home.inner("control-plane");
        if result.is_err() {
            let logs = workspace::test_logs().join("control-plane");
            control_plane.keep_logs(&logs)?;
            println!("the logs of the control plane are in {logs}");
        }
        control_plane.remove().await?;
    }
    result
}

/// What a reviewer should not have to say.
async fn lints() -> Result<()> {
    show(cargo()?.args(["fmt", "--all", "--check"]), |_| {}).await?;
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--quiet",
        "--",
        "--deny",
        "warnings",
    ];
    show(cargo()?.args(clippy).deadline(SUITE_WITHIN), |_| {}).await?;
    crds::crds(true)
}

/// Runs a program and shows what it writes, as it comes.
async fn show(call: Invocation, mut on_line: impl FnMut(&str) + Send) -> Result<()> {
    let command = call.command_line();
    let result = call.run_lines(|_, line| {
        println!("{line}");
        on_line(line);
    });
    match result.await {
        Ok(_) => Ok(()),
        // What it wrote has been shown.
        Err(cstor_exec::Error::Failed { status, .. }) => bail!("`{command}` failed ({status})"),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up() {
        let mut tally = Tally::default();
        tally.read(
            "test result: ok. 11 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.23s",
        );
        tally.read("test result: FAILED. 3 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.23s");
        tally.read("test some::test ... ok");
        for line in [
            "failures:",
            "",
            "---- a::b stdout ----",
            "it broke",
            "failures:",
            "    a::b",
            "test result: FAILED",
        ] {
            tally.read(line);
        }
        assert_eq!(tally.told, ["---- a::b stdout ----", "it broke"]);
        assert_eq!((tally.passed, tally.failed, tally.skipped), (14, 4, 2));
    }
}
