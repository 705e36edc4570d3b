//! `up`, interrupted at any moment.

use std::time::Duration;

use cstor_exec::Program;
use cstor_harness::seed::Seed;
use rand::RngExt as _;
use tokio::time::Instant;

use crate::door::{Door, files_in, workers_on};

/// Longer than this is not slow but stuck.
const LONG: Duration = Duration::from_secs(120);

#[tokio::test]
async fn an_interrupted_up_leaves_nothing_in_the_way_of_the_next() {
    let seed = Seed::choose("e2e");
    let mut random = seed.rng();
    let door = Door::new("interrupted");
    let up = ["up", "--nodes=1", "--disks=1"];

    let began = Instant::now();
    door.run(&up).await;
    let whole = began.elapsed();
    door.run(&["down"]).await;

    for round in 0..5 {
        let moment = whole.mul_f64(random.random_range(0.0..1.0));
        let signal = *["INT", "TERM", "KILL"].get(random.random_range(0..3)).unwrap();
        println!("round {round}: SIG{signal} after {moment:?} of {whole:?}");
        interrupt(&door, &up, moment, signal).await;
        if signal != "KILL" {
            assert_eq!(
                door.left(),
                [] as [&str; 0],
                "after SIG{signal} at {moment:?} ({seed})"
            );
        }
        // A `down` between the two is as good as none.
        if random.random_bool(0.5) {
            door.run(&["down"]).await;
            assert_eq!(door.left(), [] as [&str; 0], "after down ({seed})");
        }
        let shown = door.run(&up).await.stdout;
        assert!(shown.contains("node-1-disk-1"), "{shown} ({seed})");
        door.run(&["down"]).await;
        assert_eq!(door.left(), [] as [&str; 0], "{seed}");
    }
}

/// The same while everything is still to be built: in the middle of the packages of the image, of a Go build.
#[tokio::test]
async fn an_interrupted_build_leaves_nothing_behind() {
    let seed = Seed::choose("e2e");
    let mut random = seed.rng();
    let door = Door::new("b");
    let cache = door.place.path().with_extension("c");
    for signal in ["INT", "KILL"] {
        let mut running = door.start_with(&["up", "--nodes=1"], "CSTOR_CACHE", cache.as_str());
        let pid = running.pid().unwrap().to_string();
        // The sign that it is at it.
        let began = Instant::now();
        while workers_on(&cache).len() < 2 {
            assert!(
                running.ended().unwrap().is_none() && began.elapsed() < LONG,
                "it does not build ({seed})"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(0..4000))).await;
        send(signal, &pid).await;
        tokio::time::timeout(LONG, running.wait())
            .await
            .expect("it must end soon")
            .unwrap();
        if signal == "KILL" {
            // Nobody was left to clean up; `down` does.
            door.call(&["down"])
                .env("CSTOR_CACHE", cache.as_str())
                .run()
                .await
                .unwrap();
        }
        assert_eq!(workers_on(&cache), [] as [&str; 0], "after SIG{signal} ({seed})");
        assert_eq!(door.left(), [] as [&str; 0], "after SIG{signal} ({seed})");
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        assert!(
            !mounts.contains(cache.as_str()),
            "after SIG{signal} ({seed}): {mounts}"
        );
        let partial: Vec<_> = files_in(&cache)
            .into_iter()
            .filter(|path| path.ends_with(".partial"))
            .collect();
        assert_eq!(partial, [] as [&str; 0], "after SIG{signal} ({seed})");
    }
    std::fs::remove_dir_all(&cache).unwrap();
}

/// Starts `up`, sends it the signal at the moment, and waits until it is gone.
async fn interrupt(door: &Door, up: &[&str], moment: Duration, signal: &str) {
    let mut running = door.start(up);
    let pid = running.pid().unwrap().to_string();
    tokio::select! {
        () = tokio::time::sleep(moment) => {}
        // It may have been faster this time.
        ended = running.wait() => {
            assert!(ended.unwrap().success());
            door.run(&["down"]).await;
            return;
        }
    }
    send(signal, &pid).await;
    let ended = tokio::time::timeout(LONG, running.wait()).await;
    ended.expect("an interrupted up must end soon").unwrap();
}

async fn send(signal: &str, pid: &str) {
    let kill = Program::find("kill").unwrap().call().args(["-s", signal, pid]);
    kill.run().await.unwrap();
}
