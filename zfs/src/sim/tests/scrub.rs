use std::time::Duration;

use super::*;
use crate::{Activity, ScanFunction, ScanState, ScrubCommand};

#[tokio::test(start_paused = true)]
async fn a_scrub_is_begun_interrupted_and_broken_off() {
    let hosts = world();
    hosts.set_rate(100 * MIB);
    let zfs = with_pool(&hosts, mirror("bc")).await;
    fill(&hosts, &zfs, 1000 * MIB).await;
    let scan = async || status(&zfs).await.scan.unwrap();
    said(zfs.scrub(&tank(), ScrubCommand::Pause).await);
    zfs.scrub(&tank(), ScrubCommand::Start).await.unwrap();
    said(zfs.scrub(&tank(), ScrubCommand::Start).await);
    hosts.advance(Duration::from_secs(5));
    zfs.scrub(&tank(), ScrubCommand::Pause).await.unwrap();
    hosts.advance(Duration::from_secs(600));
    let paused = scan().await;
    assert_eq!(
        (paused.function, paused.state),
        (ScanFunction::Scrub, ScanState::Paused)
    );
    assert!((300 * MIB..600 * MIB).contains(&paused.examined), "{paused:?}");
    zfs.scrub(&tank(), ScrubCommand::Start).await.unwrap();
    assert_eq!(
        zfs.wait(&tank(), Activity::Scrub, Duration::from_secs(60)).await,
        Ok(true)
    );
    let finished = scan().await;
    assert_eq!(
        (finished.state, finished.examined),
        (ScanState::Finished, 1000 * MIB)
    );
    assert!(finished.ended > finished.started);
    zfs.scrub(&tank(), ScrubCommand::Start).await.unwrap();
    zfs.scrub(&tank(), ScrubCommand::Stop).await.unwrap();
    assert_eq!(scan().await.state, ScanState::Canceled);
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_resilvered_is_not_scrubbed() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    let old = at(&status(&zfs).await, &part('c'));
    zfs.replace(&tank(), old, &device('d')).await.unwrap();
    assert!(said(zfs.scrub(&tank(), ScrubCommand::Start).await).contains("resilvering"));
}

#[tokio::test(start_paused = true)]
async fn a_scrub_goes_on_where_it_was_after_an_import() {
    let hosts = world();
    hosts.set_rate(100 * MIB);
    let zfs = with_pool(&hosts, mirror("bc")).await;
    fill(&hosts, &zfs, 1000 * MIB).await;
    let guid = status(&zfs).await.guid;
    zfs.scrub(&tank(), ScrubCommand::Start).await.unwrap();
    hosts.advance(Duration::from_secs(5));
    let before = status(&zfs).await.scan.unwrap().examined;
    zfs.export(&tank()).await.unwrap();
    hosts.advance(Duration::from_secs(600));
    zfs.import(&import_of(guid, parts("bc"))).await.unwrap();
    let scan = status(&zfs).await.scan.unwrap();
    assert_eq!((scan.state, scan.examined), (ScanState::Scanning, before));
}

#[tokio::test(start_paused = true)]
async fn trimming_and_initializing_take_their_time() {
    let hosts = world();
    let zfs = with_pool(&hosts, mirror("bc")).await;
    zfs.trim(&tank()).await.unwrap();
    zfs.initialize(&tank()).await.unwrap();
    said(zfs.trim(&tank()).await);
    let both = [Activity::Trim, Activity::Initialize];
    for (seconds, is_over) in [(1, false), (60, true)] {
        for activity in both {
            let waited = zfs.wait(&tank(), activity, Duration::from_secs(seconds)).await;
            assert_eq!(waited, Ok(is_over), "{activity:?}");
        }
    }
    assert_eq!(
        zfs.wait(&tank(), Activity::Free, Duration::from_secs(1)).await,
        Ok(true)
    );
}
