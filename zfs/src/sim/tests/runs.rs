//! Whatever is done, in whatever order: nothing happens that cannot, and the same again happens the same way.

use std::time::Duration;

use futures::FutureExt as _;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;
use crate::{Activity, Datasets, Offline, Online, ScrubCommand};

/// Everything that can be seen of a world at its end.
fn seen(hosts: &SimHosts) -> String {
    let (log, calls, met) = (hosts.log(), hosts.calls(), hosts.faults_met());
    let events = hosts.past_events("a");
    format!(
        "{log:#?}\n{calls:#?}\n{met:?}\n{events:#?}\n{:#?}",
        hosts.disks("a")
    )
}

/// Somebody who keeps a pool alive: what is there is taken up, and if that cannot be, all is begun anew.
async fn keep(hosts: &SimHosts, zfs: &SimZfs, dice: &mut SmallRng) {
    let pools = Pools::list(zfs).await;
    if dice.random_bool(0.1) {
        for letter in 'b'..='i' {
            let serial = letter.to_uppercase().to_string();
            hosts.behave(&serial, Behaviour::Good);
            hosts.plug("a", &serial, &[device(letter)]);
        }
        let _ = zfs.clear(&tank(), None).await;
    }
    if pools != Ok(Vec::new()) {
        return;
    }
    for found in hosts.disks("a").into_values() {
        if let Ok(Found::Zfs(label)) = found.found
            && let Some(guid) = label.pool_guid
            && zfs
                .import(&import_of(Guid(guid), parts("bcdefghi")))
                .await
                .is_ok()
        {
            return;
        }
    }
    for disk in hosts.disks("a").into_values() {
        let _ = hosts.wipe("a", &disk.paths[0]);
    }
    let kinds = [
        data(Redundancy::Raidz(1), "bcd"),
        data(Redundancy::Stripe, "bc"),
        mirror("bc"),
    ];
    let kind = kinds[dice.random_range(0..kinds.len())].clone();
    let _ = zfs.create(&new_pool(kind)).await;
}

/// One thing out of all that can be done.
async fn something(hosts: &SimHosts, zfs: &SimZfs, dice: &mut SmallRng) {
    let letter = char::from(b'b' + dice.random_range(0..8));
    let serial = letter.to_uppercase().to_string();
    let devices: Vec<Guid> = match zfs.status(&tank()).await {
        Ok(status) => status.all().map(|vdev| vdev.guid).collect(),
        Err(_) => Vec::new(),
    };
    let vdev = match devices.is_empty() {
        true => Guid(1),
        false => devices[dice.random_range(0..devices.len())],
    };
    let name = format!("v{}", dice.random_range(0..2));
    let none = BTreeMap::new();
    // Whether it can be done at that moment is ZFS's business.
    let _ = match dice.random_range(0..24) {
        // A pool lives for a while.
        0 if dice.random_bool(0.3) => Pools::destroy(zfs, &tank()).await,
        0 => zfs.export(&tank()).await,
        1 => zfs.create(&new_pool(mirror("ef"))).await,
        2 | 3 => zfs.replace(&tank(), vdev, &device(letter)).await,
        4 => zfs.detach(&tank(), vdev).await,
        5 => zfs.attach(&tank(), vdev, &device(letter)).await,
        6 => zfs.online(&tank(), vdev, Online::Expand).await,
        7 => zfs.offline(&tank(), vdev, Offline::Lasting).await,
        8 => zfs.clear(&tank(), None).await,
        9 => zfs.scrub(&tank(), ScrubCommand::Start).await,
        10 => {
            let spare = Layout {
                spare: vec![device(letter)],
                ..Layout::default()
            };
            zfs.add(&tank(), &spare).await
        }
        11 => zfs.remove(&tank(), vdev).await,
        12 => zfs.create_volume(&new_volume(&name, 512 * MIB)).await,
        13 => Datasets::destroy(zfs, &format!("tank/{name}")).await,
        14 => {
            let snapshot = volume(&name).snapshot("s").unwrap();
            zfs.snapshot(&[snapshot], &none).await
        }
        15 => {
            let snapshot = volume(&name).snapshot("s").unwrap();
            zfs.clone_snapshot(&snapshot, &volume("clone"), &none).await
        }
        16 => zfs.promote(&volume("clone")).await,
        17 => {
            let piece = Piece {
                at: dice.random_range(0..64) * MIB,
                bytes: dice.random_range(1..64) * MIB,
                value: dice.random_range(0..9),
            };
            hosts.write("a", &volume(&name), piece)
        }
        18 => {
            hosts.pull(&serial);
            Ok(())
        }
        19 => {
            hosts.behave(&serial, Behaviour::Failing);
            Ok(())
        }
        20 => {
            hosts.grow(&serial, dice.random_range(4..9) * GIB);
            Ok(())
        }
        _ => {
            let time = Duration::from_secs(dice.random_range(0..30));
            zfs.wait(&tank(), Activity::Resilver, time).await.map(drop)
        }
    };
}

async fn run(seed: u64) -> SimHosts {
    let hosts = world();
    let mut dice = SmallRng::seed_from_u64(seed);
    let mut zfs = hosts.zfs("a");
    hosts.set_faults(Faults {
        read_error: 0.02,
        refused: 0.02,
        lost_result: 0.02,
        timeout_late: 0.02,
        late: Duration::from_secs(20),
        latency: Duration::from_millis(50),
        ..Faults::default()
    });
    for step in 0..100 {
        if dice.random_bool(0.05) {
            hosts.power_off_after("a", dice.random_range(0..12));
        }
        keep(&hosts, &zfs, &mut dice).await;
        something(&hosts, &zfs, &mut dice).await;
        let wrong = hosts.inconsistencies();
        assert_eq!(wrong, Vec::<String>::new(), "seed {seed}, step {step}");
        assert_eq!(hosts.violations(), [], "seed {seed}, step {step}");
        // Whoever ran on a host that lost its power is started again when it has it.
        if zfs.halted().now_or_never().is_some() {
            hosts.power_on("a");
            zfs = hosts.zfs("a");
        }
    }
    hosts
}

fn in_its_own_time<T>(f: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(f)
}

#[test]
fn nothing_happens_that_cannot() {
    let mut calls = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let hosts = in_its_own_time(run(seed));
        let done = hosts.calls().into_iter().filter(|call| call.done);
        calls.extend(done.map(|call| call.call));
    }
    // The runs are worth something: nearly all that can be done was.
    for call in [
        Call::Create,
        Call::Import,
        Call::Export,
        Call::Destroy,
        Call::Replace,
        Call::Detach,
        Call::Attach,
        Call::Online,
        Call::Offline,
        Call::Clear,
        Call::Scrub,
        Call::Add,
        Call::Remove,
        Call::CreateVolume,
        Call::DestroyDataset,
        Call::Snapshot,
        Call::CloneSnapshot,
        Call::Promote,
        Call::Wait,
    ] {
        assert!(calls.contains(&call), "{call:?} was never done");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let end = |seed| in_its_own_time(async move { seen(&run(seed).await) });
    for seed in 0..5 {
        assert!(end(seed) == end(seed), "seed {seed}");
    }
    assert!(end(1) != end(2));
}
