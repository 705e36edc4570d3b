//! Scrubs, resilvers and expansions.

use jiff::Timestamp;
use serde::Deserialize;

use super::{Members, Number, Parsed};
use crate::{Expansion, Scan, ScanFunction, ScanState};

/// The last or running scan of the whole pool, and those of single groups. Each may be absent.
#[derive(Deserialize)]
pub(super) struct ScanRecord {
    function: Option<String>,
    state: Option<String>,
    #[serde(default)]
    start_time: Number,
    #[serde(default)]
    end_time: Number,
    #[serde(default)]
    to_examine: Number,
    #[serde(default)]
    examined: Number,
    #[serde(default)]
    issued: Number,
    #[serde(default)]
    processed: Number,
    #[serde(default)]
    errors: Number,
    #[serde(default)]
    scrub_pause: Number,
    /// Resilvers in the order of the disks rather than of the data, by the group that is resilvered.
    #[serde(default)]
    rebuild_stats: Members<RebuildRecord>,
}

#[derive(Deserialize)]
struct RebuildRecord {
    state: String,
    start_time: Number,
    end_time: Number,
    to_scan: Number,
    scanned: Number,
    issued: Number,
    rebuilt: Number,
    errors: Number,
}

#[derive(Deserialize)]
pub(super) struct ExpansionRecord {
    state: String,
    #[serde(default)]
    start_time: Number,
    #[serde(default)]
    end_time: Number,
    #[serde(default)]
    to_reflow: Number,
    #[serde(default)]
    reflowed: Number,
}

/// What runs, or ran last; `None` if there was never anything.
pub(super) fn scan(mut record: ScanRecord) -> Parsed<Option<Scan>> {
    let rebuilds = std::mem::take(&mut record.rebuild_stats).0;
    let rebuilds = rebuilds.into_iter().map(|(_, record)| rebuild(record));
    let mut scans: Vec<Scan> = rebuilds.filter_map(Result::transpose).collect::<Parsed<_>>()?;
    // A group that is resilvered keeps the pool's own scan waiting, if there is one.
    if let Some(running) = together(&scans) {
        return Ok(Some(running));
    }
    scans.extend(whole(record)?);
    Ok(scans.into_iter().max_by_key(|scan| match scan.ended {
        Some(ended) if scan.state != ScanState::Scanning => ended,
        _ => Timestamp::MAX,
    }))
}

fn whole(record: ScanRecord) -> Parsed<Option<Scan>> {
    let (function, state) = match (record.function.as_deref(), record.state.as_deref()) {
        (None, None) | (Some("NONE"), _) | (_, Some("NONE")) => return Ok(None),
        (Some(function), Some(state)) => (function, state),
        _ => return Err("a scan is told by half".to_owned()),
    };
    let function = match function {
        "SCRUB" => ScanFunction::Scrub,
        "RESILVER" => ScanFunction::Resilver,
        "ERRORSCRUB" => ScanFunction::ErrorScrub,
        other => return Err(format!("a scan is called {other:?}")),
    };
    let state = match state {
        "SCANNING" | "ERRORSCRUBBING" if record.scrub_pause.0 > 0 => ScanState::Paused,
        "SCANNING" | "ERRORSCRUBBING" => ScanState::Scanning,
        "FINISHED" => ScanState::Finished,
        "CANCELED" => ScanState::Canceled,
        other => return Err(format!("the state of a scan is called {other:?}")),
    };
    Ok(Some(Scan {
        function,
        state,
        started: time(record.start_time)?,
        ended: time(record.end_time)?,
        to_examine: record.to_examine.0,
        examined: record.examined.0,
        issued: record.issued.0,
        processed: record.processed.0,
        errors: record.errors.0,
    }))
}

fn rebuild(record: RebuildRecord) -> Parsed<Option<Scan>> {
    let state = match record.state.as_str() {
        "ACTIVE" => ScanState::Scanning,
        "COMPLETE" => ScanState::Finished,
        "CANCELED" => ScanState::Canceled,
        "NONE" => return Ok(None),
        other => return Err(format!("the state of a resilver is called {other:?}")),
    };
    Ok(Some(Scan {
        function: ScanFunction::Resilver,
        state,
        started: time(record.start_time)?,
        ended: time(record.end_time)?,
        to_examine: record.to_scan.0,
        examined: record.scanned.0,
        issued: record.issued.0,
        processed: record.rebuilt.0,
        errors: record.errors.0,
    }))
}

/// All resilvers that run as one, if any does.
fn together(rebuilds: &[Scan]) -> Option<Scan> {
    let running = rebuilds.iter().filter(|scan| scan.state == ScanState::Scanning);
    running.cloned().reduce(|sum, next| Scan {
        started: sum.started.min(next.started),
        to_examine: sum.to_examine.saturating_add(next.to_examine),
        examined: sum.examined.saturating_add(next.examined),
        issued: sum.issued.saturating_add(next.issued),
        processed: sum.processed.saturating_add(next.processed),
        errors: sum.errors.saturating_add(next.errors),
        ..sum
    })
}

/// The last or running expansion; `None` if there was never one.
pub(super) fn expansion(record: ExpansionRecord) -> Parsed<Option<Expansion>> {
    let running = match record.state.as_str() {
        "SCANNING" => true,
        "FINISHED" | "CANCELED" => false,
        "NONE" => return Ok(None),
        other => return Err(format!("the state of an expansion is called {other:?}")),
    };
    Ok(Some(Expansion {
        running,
        to_reflow: record.to_reflow.0,
        reflowed: record.reflowed.0,
        started: time(record.start_time)?,
        ended: time(record.end_time)?,
    }))
}

/// Seconds since 1970; 0 is never.
fn time(seconds: Number) -> Parsed<Option<Timestamp>> {
    if seconds.0 == 0 {
        return Ok(None);
    }
    let time = i64::try_from(seconds.0).ok().map(Timestamp::from_second);
    match time {
        Some(Ok(time)) => Ok(Some(time)),
        _ => Err(format!("{} is no time", seconds.0)),
    }
}
