//! How much sooner a node is there from its snapshot than by a boot, in one run on one machine.
#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs,
    reason = "a benchmark: a failed step is a failed run, and its result is printed"
)]

use std::time::{Duration, Instant};

use cstor_harness::cluster::Cluster;

const ROUNDS: usize = 5;

#[tokio::main]
async fn main() {
    let (mut loads, mut boots) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let name = format!("bench-{round}");
        let began = Instant::now();
        let mut cluster = Cluster::start(&name, 1).await.unwrap();
        cluster.node(0).sh("zfs version").await.unwrap();
        loads.push(began.elapsed());

        cluster.node(0).power_cut().await.unwrap();
        let began = Instant::now();
        cluster.node(0).boot().await.unwrap();
        cluster.node(0).sh("zfs version").await.unwrap();
        boots.push(began.elapsed());
    }
    let (load, boot) = (median(loads), median(boots));
    let ratio = boot.as_secs_f64() / load.as_secs_f64();
    println!("a node that runs ZFS, median of {ROUNDS}");
    println!("  loaded from its snapshot  {:>6.2} s", load.as_secs_f64());
    println!("  booted                    {:>6.2} s", boot.as_secs_f64());
    println!("  ratio                     {ratio:>6.2}");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().expect("at least one round")
}
