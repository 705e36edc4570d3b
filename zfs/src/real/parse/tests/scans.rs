//! Scrubs, resilvers and expansions.

use serde_json::{Value as Json, json};

use super::*;
use crate::{Scan, ScanFunction, ScanState};

fn scan_of(name: &str) -> Scan {
    read(name).scan.unwrap_or_else(|| panic!("no scan in {name}"))
}

#[test]
fn what_runs_or_ran_last() {
    use ScanFunction::{Resilver, Scrub};
    use ScanState::{Canceled, Finished, Paused, Scanning};
    for (name, function, state) in [
        ("scrub-running", Scrub, Scanning),
        ("scrub-paused", Scrub, Paused),
        ("scrub-stopped", Scrub, Canceled),
        ("scrub-finished", Scrub, Finished),
        ("offline", Scrub, Finished),
        ("replacing", Resilver, Scanning),
        ("resilvering", Resilver, Scanning),
        ("spare-replacing", Resilver, Scanning),
        ("resilvered", Resilver, Finished),
        ("spare-in-use", Resilver, Finished),
        ("rebuilding", Resilver, Scanning),
        ("rebuilt", Resilver, Finished),
        ("rebuilt-scrubbed", Scrub, Finished),
        // ZFS scrubs what it has widened.
        ("expanded", Scrub, Scanning),
        ("data-errors", Scrub, Finished),
    ] {
        let status = read(name);
        let scan = scan_of(name);
        assert_eq!((scan.function, scan.state), (function, state), "{name}");
        let resilvers = (function, state) == (Resilver, Scanning);
        assert_eq!(status.is_resilvering(), resilvers, "{name}");
        assert!(scan.started.is_some(), "{name}");
        let ended = matches!(state, Finished | Canceled);
        assert_eq!(scan.ended.is_some(), ended, "{name}");
        assert!(
            scan.ended.is_none_or(|ended| Some(ended) >= scan.started),
            "{name}"
        );
        assert!(scan.to_examine > 0, "{name}");
    }
    for name in ["online", "raidz", "expanding", "suspended"] {
        assert_eq!(read(name).scan, None, "{name}");
    }
}

#[test]
fn how_far_a_scan_is() {
    let finished = scan_of("scrub-finished");
    assert!(finished.examined > 0 && finished.issued > 0);
    assert_eq!((finished.processed, finished.errors), (0, 0));
    let mended = scan_of("checksum-errors");
    assert!(mended.processed > 0 && mended.errors == 0);
    assert!(scan_of("data-errors").errors > 0);
    let rebuilding = scan_of("rebuilding");
    assert!(rebuilding.examined > 0 && rebuilding.examined < rebuilding.to_examine);
    assert!(rebuilding.processed > 0);
}

#[test]
fn an_expansion_that_runs_and_one_that_ran() {
    let running = read("expanding").expansion.unwrap();
    assert!(running.running && running.started.is_some() && running.ended.is_none());
    assert!(running.reflowed > 0 && running.reflowed < running.to_reflow);
    let ended = read("expanded").expansion.unwrap();
    assert!(!ended.running && ended.ended > ended.started);
    assert_eq!(read("raidz").expansion, None);
}

/// What is read of a pool whose scans are these.
fn with_scans(scans: Json) -> Parsed<Option<Scan>> {
    let mut document: Json = serde_json::from_str(&fixture("rebuilding.json")).unwrap();
    document["pools"]["fx"]["scan_stats"] = scans;
    status(&document.to_string(), &pool()).map(|status| status.scan)
}

#[test]
fn groups_that_are_rebuilt_together_are_one_resilver() {
    let document: Json = serde_json::from_str(&fixture("rebuilding.json")).unwrap();
    let rebuild = &document["pools"]["fx"]["scan_stats"]["rebuild_stats"]["mirror-0"];
    let one = scan_of("rebuilding");
    let mut second = rebuild.clone();
    second["start_time"] = json!("1794960000");
    let two = with_scans(json!({ "rebuild_stats": { "mirror-0": rebuild, "mirror-1": second } }));
    let two = two.unwrap().unwrap();
    assert_eq!((two.function, two.state), (one.function, one.state));
    assert_eq!(
        (two.examined, two.to_examine),
        (2 * one.examined, 2 * one.to_examine)
    );
    assert_eq!(two.started.unwrap().as_second(), 1_794_960_000);
    let mut done = rebuild.clone();
    done["state"] = json!("COMPLETE");
    done["end_time"] = json!("1794969999");
    let of_two = with_scans(json!({ "rebuild_stats": { "mirror-0": rebuild, "mirror-1": done } }));
    assert_eq!(of_two.unwrap(), Some(one));
}

#[test]
fn a_scan_of_a_word_that_is_not_known_is_none_that_is_understood() {
    let scan = |function: &str, state: &str| with_scans(json!({ "function": function, "state": state }));
    assert_eq!(scan("NONE", "NONE"), Ok(None));
    assert!(scan("ERRORSCRUB", "ERRORSCRUBBING").unwrap().is_some());
    assert!(scan("POLISH", "SCANNING").is_err());
    assert!(scan("SCRUB", "TIRED").is_err());
    assert!(with_scans(json!({ "function": "SCRUB" })).is_err());
    assert_eq!(with_scans(json!({})), Ok(None));
    let never = json!({ "function": "SCRUB", "state": "FINISHED", "start_time": "18446744073709551615" });
    assert!(with_scans(never).is_err());
}
