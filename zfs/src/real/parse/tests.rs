//! Fixtures are captured from real pools by `zfs/fixtures/capture.sh`, never written by hand.

mod datasets;
mod events;
mod health;
mod layouts;
mod mutations;
mod pools;
mod scans;

use super::*;
use crate::{PoolName, PoolStatus, SnapshotName, Vdev, VdevClass};

fn fixture(name: &str) -> String {
    let path = format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn pool() -> PoolName {
    PoolName::new("fx").unwrap()
}

fn read(name: &str) -> PoolStatus {
    status(&fixture(&format!("{name}.json")), &pool()).unwrap()
}

/// A pool in one line: its state, then each vdev with its own, and in brackets what it is made of.
fn tree(status: &PoolStatus) -> String {
    fn add(vdev: &Vdev, line: &mut String) {
        let state = match &vdev.why {
            Some(why) => format!("{:?}/{why}", vdev.state),
            None => format!("{:?}", vdev.state),
        };
        let name = vdev
            .path
            .as_ref()
            .map_or(vdev.name.as_str(), |path| path.as_str());
        line.push_str(&format!("{}={state}", name.trim_start_matches("/dev/")));
        if !vdev.children.is_empty() {
            line.push_str(" (");
            for (index, child) in vdev.children.iter().enumerate() {
                line.push_str(if index > 0 { " " } else { "" });
                add(child, line);
            }
            line.push(')');
        }
    }
    let mut line = format!("{:?}", status.state);
    for vdev in &status.vdevs {
        line.push_str(match vdev.class {
            VdevClass::Data => " ",
            VdevClass::Log => " log ",
            VdevClass::Special => " special ",
            VdevClass::Dedup => " dedup ",
            VdevClass::Cache => " cache ",
            VdevClass::Spare => " spare ",
        });
        add(vdev, &mut line);
    }
    line
}

#[track_caller]
fn assert_trees(expected: &[(&str, &str)]) {
    for (name, line) in expected {
        assert_eq!(tree(&read(name)), *line, "{name}");
    }
}
