//! Many disks, disks that hang, and a host that cannot be looked at.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cstor_api::openebs::BlockDevice;
use cstor_reconcile::memory_api::MemoryApi;
use cstor_reconcile::{Clock, Taps};
use jiff::Timestamp;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::host::{GIB, Holds, Host};
use super::world::{Agent, api, register};

const EVERY: Duration = Duration::from_secs(600);

/// A node with so many disks, `disk-0` as vdx0 and so on, and its agent.
struct Running {
    api: MemoryApi,
    host: Arc<Host>,
    agent: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.agent.abort();
    }
}

impl Running {
    async fn start(disks: usize, holds: impl Fn(usize) -> Holds) -> Self {
        let (api, host) = (api(0), Host::new("node-1"));
        for number in 0..disks {
            host.plug(
                &format!("vdx{number}"),
                &format!("disk-{number}"),
                10 * GIB,
                holds(number),
            );
        }
        register(&api, &host).await;
        let clock = Clock::simulated(Timestamp::from_second(1_800_000_000).unwrap());
        let agent = Agent {
            api: &api,
            host: &host,
            clock: &clock,
            every: EVERY,
            resync: EVERY,
            seed: 0,
        };
        let agent = tokio::spawn(agent.run(Taps::none()));
        Self { api, host, agent }
    }

    fn object(&self, serial: &str) -> Value {
        let mut all = self.api.peek_all::<BlockDevice>().into_iter();
        all.find(|object| object["spec"]["identity"]["value"] == serial)
            .unwrap_or_default()
    }

    fn count(&self, state: &str) -> usize {
        let all = self.api.peek_all::<BlockDevice>();
        all.iter()
            .filter(|object| object["status"]["state"] == state)
            .count()
    }

    /// How many are offered.
    fn blank(&self) -> usize {
        let all = self.api.peek_all::<BlockDevice>();
        let is_blank = |object: &&Value| {
            let conditions = object["status"]["conditions"].as_array();
            let mut blank = conditions
                .into_iter()
                .flatten()
                .filter(|one| one["type"] == "Blank");
            blank.any(|one| one["status"] == "True")
        };
        all.iter().filter(is_blank).count()
    }

    async fn until(&self, what: &str, reached: impl Fn(&Self) -> bool) -> Duration {
        let began = tokio::time::Instant::now();
        while !reached(self) {
            assert!(began.elapsed() < EVERY * 3, "never {what}");
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        began.elapsed()
    }

    /// The names of the objects that were written since `seen` writes.
    fn written(&self, seen: usize) -> BTreeSet<String> {
        let writes = self.api.writes().split_off(seen).into_iter();
        let writes = writes.filter(|request| request.resource == "blockdevices");
        writes.map(|request| request.name).collect()
    }

    fn writes(&self) -> usize {
        self.api.writes().len()
    }

    fn name(&self, serial: &str) -> String {
        self.object(serial)["metadata"]["name"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

/// How many threads this process has.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[tokio::test(start_paused = true)]
async fn two_hundred_disks_cost_nothing_while_nothing_changes() {
    let running = Running::start(200, |_| Holds::Nothing).await;
    running.until("published", |running| running.blank() == 200).await;
    tokio::time::sleep(EVERY).await;

    let (writes, reads) = (running.writes(), running.host.reads());
    tokio::time::sleep(EVERY * 10).await;
    assert_eq!(running.writes(), writes, "{:?}", &running.api.writes()[writes..]);
    let looks = (running.host.reads() - reads) / 200;
    assert!((9..=11).contains(&looks), "all disks were read {looks} times");

    // One disk changes: one object is written.
    running.host.resize("vdx17", 20 * GIB);
    running.host.put("vdx18", Holds::FileSystem);
    running.host.unplug("vdx19");
    let changed = ["disk-17", "disk-18", "disk-19"].map(|serial| running.name(serial));
    tokio::time::sleep(EVERY * 2).await;
    assert_eq!(running.written(writes), BTreeSet::from(changed));
    assert_eq!(running.object("disk-17")["spec"]["capacity"]["storage"], 20 * GIB);
    assert_eq!(running.object("disk-18")["spec"]["filesystem"]["fsType"], "ext4");
    assert_eq!(running.object("disk-19")["status"]["state"], "Inactive");
    assert_eq!((running.count("Active"), running.blank()), (199, 198));
}

#[tokio::test(start_paused = true)]
async fn one_that_hangs_delays_nobody_and_is_told() {
    let running = Running::start(200, |number| {
        if number == 100 {
            Holds::Silence
        } else {
            Holds::Nothing
        }
    })
    .await;
    let took = running.until("published", |running| running.blank() == 199).await;
    assert!(
        took < Duration::from_secs(10),
        "the others were there after {took:?}"
    );
    let took = running
        .until("told", |running| running.count("Unknown") == 1)
        .await;
    assert!(took < Duration::from_secs(60), "{took:?}");
    let hangs = running.object("disk-100");
    assert!(
        hangs["status"]["conditions"]
            .to_string()
            .contains("NotResponding"),
        "{hangs:#}"
    );

    // It hangs on, is asked once and no more, and nothing is written.
    let (writes, reads) = (running.writes(), running.host.reads());
    tokio::time::sleep(EVERY / 2).await;
    assert_eq!((running.writes(), running.host.reads()), (writes, reads));
    // While it hangs, others come and go.
    running.host.unplug("vdx5");
    running
        .until("noticed", |running| running.count("Inactive") == 1)
        .await;
    assert_eq!((running.count("Active"), running.count("Unknown")), (198, 1));

    // One that was known hangs: it is not offered any more, and never said to be gone.
    running.host.put("vdx7", Holds::Silence);
    running
        .until("told", |running| running.count("Unknown") == 2)
        .await;
    assert_eq!((running.count("Inactive"), running.blank()), (1, 197));
}

/// A disk that answers after the look has gone on is heard all the same.
#[tokio::test(start_paused = true)]
async fn one_that_is_slow_is_read_in_the_end() {
    let slow = Holds::Slow(Duration::from_secs(8));
    let running = Running::start(3, |number| if number == 1 { slow } else { Holds::Nothing }).await;
    let took = running.until("published", |running| running.blank() == 3).await;
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert_eq!(running.count("Unknown"), 0);
    let writes = running.writes();
    tokio::time::sleep(EVERY * 4).await;
    assert_eq!(running.writes(), writes, "{:?}", &running.api.writes()[writes..]);
}

#[tokio::test(start_paused = true)]
async fn five_hundred_disks_are_published_by_a_bounded_number_of_threads() {
    let before = threads();
    let running = Running::start(500, |_| Holds::Nothing).await;
    running.until("published", |running| running.blank() == 500).await;
    // Other tests run beside this one, so this is generous; one thread for each disk it is not.
    let more = threads().saturating_sub(before);
    println!("{more} threads more");
    assert!(more < 300, "{more} threads more");
    assert_eq!(running.api.peek_all::<BlockDevice>().len(), 500);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_cannot_be_looked_at_has_lost_no_disk() {
    let running = Running::start(20, |_| Holds::Nothing).await;
    running.until("published", |running| running.blank() == 20).await;
    tokio::time::sleep(EVERY).await;
    let writes = running.writes();
    running.host.hide_sysfs(true);
    tokio::time::sleep(EVERY * 3).await;
    assert_eq!(running.writes(), writes, "{:?}", &running.api.writes()[writes..]);
    assert_eq!(running.count("Active"), 20);
    running.host.hide_sysfs(false);
    running.host.unplug("vdx3");
    running
        .until("looked at again", |running| running.count("Inactive") == 1)
        .await;

    // One device that makes no sense: it may be any that is missing, so none is said to be gone.
    running.host.garble("vdx4", true);
    running.host.unplug("vdx5");
    running
        .until("unknown", |running| {
            running.object("disk-5")["status"]["state"] == "Unknown"
        })
        .await;
    assert_eq!(running.object("disk-4")["status"]["state"], "Unknown");
    running.host.garble("vdx4", false);
    running
        .until("gone", |running| {
            running.object("disk-5")["status"]["state"] == "Inactive"
        })
        .await;
    running
        .until("there", |running| {
            running.object("disk-4")["status"]["state"] == "Active"
        })
        .await;
}

/// A file system is made while the disk is being read: what was read before is not the last word.
#[tokio::test(start_paused = true)]
async fn what_changes_while_it_is_read_is_read_again() {
    let slow = Holds::Slow(Duration::from_secs(8));
    let running = Running::start(1, |_| slow).await;
    running.until("offered", |running| running.blank() == 1).await;
    // It grows, is read because of that, and meanwhile grows again and gets a file system.
    let (settled, reads) = (running.host.reads(), |running: &Running| running.host.reads());
    running.host.resize("vdx0", 11 * GIB);
    running
        .until("read anew", |running| reads(running) > settled)
        .await;
    running.host.resize("vdx0", 12 * GIB);
    running.host.put("vdx0", Holds::FileSystem);
    running
        .until("told", |running| {
            running.object("disk-0")["spec"]["filesystem"]["fsType"] == "ext4"
        })
        .await;
    assert_eq!(running.blank(), 0);
    assert_eq!(running.object("disk-0")["spec"]["capacity"]["storage"], 12 * GIB);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let writes = running.writes();
    tokio::time::sleep(EVERY * 2).await;
    assert_eq!(running.writes(), writes);
}
