use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use tokio::time::{Instant, timeout};

use super::*;
use crate::{Datasets, State};

#[tokio::test(start_paused = true)]
async fn a_change_that_fails_before_is_not_made_and_one_that_fails_after_is() {
    let hosts = world();
    let zfs = hosts.zfs("a");
    hosts.fault("a", Call::Create, Fault::Refused);
    said(zfs.create(&new_pool(mirror("bc"))).await);
    assert_eq!(hosts.log(), []);
    hosts.fault("a", Call::Create, Fault::LostResult);
    let lost = zfs.create(&new_pool(mirror("bc"))).await;
    assert!(matches!(lost, Err(Error::CannotRun { .. })), "{lost:?}");
    assert_eq!(Pools::list(&zfs).await.unwrap().len(), 1);
    let expected = BTreeMap::from([(Fault::Refused, 1), (Fault::LostResult, 1)]);
    assert_eq!(hosts.faults_met(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_does_not_end_in_time_is_made_or_not() {
    for (fault, is_made) in [(Fault::Timeout, false), (Fault::TimeoutDone, true)] {
        let hosts = world();
        let zfs = hosts.zfs("a");
        hosts.set_deadline(Duration::from_secs(7));
        hosts.fault("a", Call::Create, fault);
        let began = Instant::now();
        let late = zfs.create(&new_pool(mirror("bc"))).await;
        assert!(matches!(late, Err(Error::TimedOut { .. })), "{late:?}");
        assert_eq!(began.elapsed(), Duration::from_secs(7));
        assert_eq!(Pools::list(&zfs).await.unwrap().len(), usize::from(is_made));
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_may_be_made_when_nobody_waits_for_it_any_more() {
    let hosts = world();
    let zfs = hosts.zfs("a");
    hosts.set_faults(Faults {
        late: Duration::from_secs(60),
        ..Faults::default()
    });
    hosts.fault("a", Call::Create, Fault::TimeoutLate);
    let late = zfs.create(&new_pool(mirror("bc"))).await;
    assert!(matches!(late, Err(Error::TimedOut { .. })), "{late:?}");
    assert_eq!(Pools::list(&zfs).await, Ok(Vec::new()));
    let again = zfs.create(&new_pool(mirror("de"))).await;
    assert!(
        matches!(again, Err(Error::Hangs { .. })),
        "nothing is begun beside it: {again:?}"
    );
    // Nor by a process that knows nothing of it: ZFS does one after the other.
    let again = hosts.zfs("a").create(&new_pool(mirror("de"))).await;
    assert!(matches!(again, Err(Error::TimedOut { .. })), "{again:?}");
    hosts.advance(Duration::from_secs(60));
    assert_eq!(
        line(&status(&zfs).await),
        "Online mirror-0=Online (b1=Online c1=Online)"
    );
    assert_eq!(hosts.found("D"), Some(Found::Nothing));
    let made: Vec<bool> = hosts
        .calls()
        .iter()
        .filter(|call| call.call == Call::Create)
        .map(|call| call.done)
        .collect();
    assert_eq!(made, [true, false]);
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn looking_fails_in_its_own_ways() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    hosts.fault("a", Call::Status, Fault::ReadError);
    hosts.fault("a", Call::Status, Fault::Unparsable);
    hosts.fault("a", Call::Status, Fault::ReadTimeout);
    assert!(matches!(zfs.status(&tank()).await, Err(Error::Refused { .. })));
    assert!(matches!(zfs.status(&tank()).await, Err(Error::Unparsable { .. })));
    let late = zfs.status(&tank()).await.unwrap_err();
    assert!(late.is_hang());
    assert_eq!(status(&zfs).await.state, State::Online);
}

#[tokio::test(start_paused = true)]
async fn what_hangs_keeps_its_own_pool_and_no_other() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let other = NewPool {
        name: PoolName::new("other").unwrap(),
        ..new_pool(mirror("de"))
    };
    zfs.create(&other).await.unwrap();
    hosts.hang_pool("a", "tank", true);
    assert!(
        Pools::set(&zfs, &tank(), "comment", "new")
            .await
            .unwrap_err()
            .is_hang()
    );
    assert!(zfs.status(&tank()).await.unwrap_err().is_hang());
    Pools::set(&zfs, &other.name, "comment", "new").await.unwrap();
    hosts.hang_pool("a", "tank", false);
    assert_eq!(
        zfs.properties(&tank()).await.unwrap()["comment"],
        "new",
        "it has been done"
    );
    // A disk that does not answer does the same.
    hosts.behave("B", Behaviour::Hanging);
    assert!(
        Pools::set(&zfs, &tank(), "comment", "newer")
            .await
            .unwrap_err()
            .is_hang()
    );
    zfs.status(&other.name).await.unwrap();
    hosts.behave("B", Behaviour::Good);
    assert_eq!(zfs.properties(&tank()).await.unwrap()["comment"], "newer");
    // And a host may be stuck as a whole.
    hosts.hang_host("a", true);
    assert!(Pools::list(&zfs).await.unwrap_err().is_hang());
    hosts.hang_host("a", false);
    assert_eq!(Pools::list(&zfs).await.unwrap().len(), 2);
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn who_listens_is_not_kept_busy_by_what_hangs() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let mut events = zfs.events();
    hosts.fault("a", Call::Scrub, Fault::TimeoutLate);
    hosts.hang_pool("a", "tank", true);
    let late = zfs.scrub(&tank(), crate::ScrubCommand::Start).await;
    assert!(late.unwrap_err().is_hang());
    let event = timeout(Duration::from_secs(60), events.next()).await;
    assert!(event.is_err(), "{event:?}");
    hosts.hang_pool("a", "tank", false);
    let event = timeout(Duration::from_secs(60), events.next()).await;
    assert_eq!(event.unwrap().unwrap().class, "sysevent.fs.zfs.scrub_start");
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_does_not_answer_hangs_who_wants_it() {
    let hosts = world();
    let zfs = hosts.zfs("a");
    hosts.behave("C", Behaviour::Hanging);
    assert!(zfs.create(&new_pool(mirror("bc"))).await.unwrap_err().is_hang());
    assert_eq!(hosts.log(), []);
    assert_eq!(Pools::list(&zfs).await, Ok(Vec::new()));
    hosts.behave("C", Behaviour::Good);
    assert_eq!(
        Pools::list(&zfs).await.unwrap().len(),
        1,
        "the command was still there"
    );
}

#[tokio::test(start_paused = true)]
async fn a_caller_is_stopped_at_either_side_of_a_change() {
    for (moment, is_made) in [(Moment::Before, false), (Moment::After, true)] {
        let hosts = world();
        let zfs = with_pool(&hosts, mirror("bc")).await;
        let number = hosts.changes("a");
        hosts.halt("a", number + 1, moment);
        Pools::set(&zfs, &tank(), "comment", "first").await.unwrap();
        let caller = zfs.clone();
        let task = tokio::spawn(async move { Pools::set(&caller, &tank(), "comment", "second").await });
        zfs.halted().await;
        task.abort();
        let comment = if is_made { "second" } else { "first" };
        // The next process is not.
        let zfs = hosts.zfs("a");
        assert_eq!(zfs.properties(&tank()).await.unwrap()["comment"], comment);
        Pools::set(&zfs, &tank(), "comment", "third").await.unwrap();
        assert!(zfs.halted().now_or_never().is_none());
        sound(&hosts);
    }
}

#[tokio::test(start_paused = true)]
async fn calls_take_the_time_they_are_told_to() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    hosts.set_faults(Faults {
        latency: Duration::from_secs(4),
        ..Faults::default()
    });
    let began = Instant::now();
    for _ in 0..20 {
        status(&zfs).await;
    }
    let took = began.elapsed();
    assert!((40..120).contains(&took.as_secs()), "{took:?}");
    assert!(hosts.faults_met().contains_key(&Fault::Latency));
}

#[tokio::test(start_paused = true)]
async fn every_fault_is_met_when_it_is_likely() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let mut events = zfs.events();
    hosts.set_faults(Faults {
        read_error: 0.2,
        unparsable: 0.2,
        read_timeout: 0.2,
        refused: 0.2,
        lost_result: 0.2,
        timeout: 0.2,
        timeout_done: 0.2,
        timeout_late: 0.2,
        late: Duration::from_secs(5),
        lost_event: 0.2,
        repeated_event: 0.2,
        event_delay: Duration::from_secs(5),
        latency: Duration::from_millis(100),
    });
    for round in 0..60 {
        let name = volume(&format!("v{round}"));
        let new = NewVolume {
            name,
            ..new_volume("v", GIB)
        };
        let _ = zfs.create_volume(&new).await;
        let _ = zfs.status(&tank()).await;
        let _ = zfs.scrub(&tank(), crate::ScrubCommand::Start).await;
        let _ = zfs
            .wait(&tank(), crate::Activity::Scrub, Duration::from_secs(30))
            .await;
        let _ = timeout(Duration::from_secs(10), events.next()).await;
    }
    let met: Vec<Fault> = hosts.faults_met().into_keys().collect();
    assert_eq!(met, Fault::ALL);
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn events_tell_what_happened_since_they_are_listened_to() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let mut events = zfs.events();
    let old = at(&status(&zfs).await, &part('c'));
    zfs.replace(&tank(), old, &device('d')).await.unwrap();
    hosts.pull("B");
    let mut classes = Vec::new();
    while classes.last().map(String::as_str) != Some("sysevent.fs.zfs.resilver_finish") {
        let event = events.next().await.unwrap();
        assert_eq!(event.pool, Some(tank()));
        classes.push(event.class);
    }
    assert_eq!(
        classes,
        [
            "sysevent.fs.zfs.resilver_start",
            "sysevent.fs.zfs.vdev_attach",
            "resource.fs.zfs.removed",
            "resource.fs.zfs.statechange",
            "sysevent.fs.zfs.resilver_finish",
        ]
    );
    assert!(events.next().now_or_never().is_none());
    assert!(hosts.past_events("a").len() > classes.len());
}
