//! How long a look at the disks of a node takes, and how that grows with their number, in one run on one machine.
#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "a benchmark: a failed step is a failed run, and its result is printed"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use cstor_agent::disk;
use cstor_blockdev::contents::Probe;
use cstor_blockdev::scan::{Inventory, Look, Places, ReadContents, Scanner};

#[path = "../faults/disks/host.rs"]
mod host;

use host::{GIB, Holds, Host};

const LOOKS: usize = 21;
const READS: usize = 5;
const DISKS: [usize; 3] = [10, 50, 200];
/// As many files as stand in for disks at the most.
const FILES: [usize; 2] = [10, 50];
const FILE_BYTES: u64 = 64 << 20;

#[tokio::main]
async fn main() {
    println!("a look at disks that have not changed, median of {LOOKS}");
    let mut idle = Vec::new();
    for disks in DISKS {
        idle.push((disks, unchanged(disks).await));
    }
    tell(&idle);

    println!(
        "a look that reads all contents anew (files of {} MiB), median of {READS}",
        FILE_BYTES >> 20
    );
    let mut read = Vec::new();
    for files in FILES {
        read.push((files, contents(files).await));
    }
    tell(&read);
}

/// What the kernel says of all disks is read; what is on them is known.
async fn unchanged(disks: usize) -> Duration {
    let host = Host::new("node-1");
    for number in 0..disks {
        let (name, serial) = (format!("vdx{number}"), format!("disk-{number}"));
        host.plug(&name, &serial, 10 * GIB, Holds::Nothing);
    }
    // As on a node: each device is described in a thread of its own, and udev is asked.
    let places = Places {
        udev: true,
        ..host.settings(Duration::MAX).places
    };
    let scanner = scanner(places, host.reader());
    let before = everything(&scanner).await;
    assert_eq!(before.found.len(), disks);
    let mut times = Vec::new();
    for _ in 0..LOOKS {
        let began = Instant::now();
        let after = scanner.look(&before, &Look::default()).await.unwrap();
        times.push(began.elapsed());
        assert_eq!(after.devices(), before.devices());
    }
    assert_eq!(host.reads(), disks, "each was read once");
    median(times)
}

/// Everything is read, by the reader of real disks.
async fn contents(files: usize) -> Duration {
    let (host, directory) = (Host::new("node-1"), tempfile::tempdir().unwrap());
    for number in 0..files {
        let file = std::fs::File::create(directory.path().join(format!("{number}.img"))).unwrap();
        file.set_len(FILE_BYTES).unwrap();
    }
    let directory: Utf8PathBuf = Utf8Path::from_path(directory.path()).unwrap().into();
    let places = Places {
        sparse_files: Some(directory),
        ..host.settings(Duration::MAX).places
    };
    let scanner = scanner(places, disk::real_contents());
    let mut times = Vec::new();
    for _ in 0..READS {
        let began = Instant::now();
        let found = everything(&scanner).await.found;
        times.push(began.elapsed());
        assert_eq!(found.len(), files);
        for found in found.values() {
            assert!(matches!(found.probe, Some(Probe::Read(_))), "{found:?}");
        }
    }
    median(times)
}

fn scanner(places: Places, read: ReadContents) -> Scanner {
    Scanner::new(places, read, Arc::new(|_, _| true))
}

/// Reads everything, until all is read.
async fn everything(scanner: &Scanner) -> Inventory {
    let look = Look {
        everything: true,
        ..Look::default()
    };
    let mut inventory = scanner.look(&Inventory::default(), &look).await.unwrap();
    while inventory.found.values().any(|found| found.pending) {
        inventory = scanner.look(&inventory, &Look::default()).await.unwrap();
    }
    inventory
}

/// Tells the times, and by how much a disk among many costs more than one among few.
fn tell(times: &[(usize, Duration)]) {
    let each = |(disks, time): &(usize, Duration)| {
        time.as_secs_f64() * 1e3 / f64::from(u32::try_from(*disks).unwrap())
    };
    for one in times {
        let whole = one.1.as_secs_f64() * 1e3;
        println!(
            "  {:>3} disks  {whole:>8.2} ms  {:>6.3} ms each",
            one.0,
            each(one)
        );
    }
    let (few, many) = (times.first().expect("some"), times.last().expect("some"));
    let ratio = each(many) / each(few);
    println!(
        "  a disk among {} costs {ratio:.2} times what one among {} does",
        many.0, few.0
    );
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().expect("at least one round")
}
