//! How a command can end.

use futures::FutureExt as _;

use super::super::queue::Intent;
use crate::{Activity, DatasetKind, Datasets, Error, Guid, Pools, Source, State};

use super::*;

#[tokio::test]
async fn what_zfs_prints_is_read() {
    let fake = Fake::new(&format!(
        r#"case "$tool $1" in
            "zpool list") cat {} ;;
            "zpool status") cat {} ;;
            "zpool get") cat {} ;;
            "zfs list") cat {} ;;
            "zfs get") cat {} ;;
            "zfs holds") cat {} ;;
        esac"#,
        fixture("list.json"),
        fixture("online.json"),
        fixture("properties.json"),
        fixture("datasets.json"),
        fixture("dataset.json"),
        fixture("holds.tsv"),
    ));
    let pool = PoolName::new("fx").unwrap();
    let list = Pools::list(&fake.zfs).await.unwrap();
    assert_eq!(list[0].name, pool);
    let status = fake.zfs.status(&pool).await.unwrap();
    assert_eq!((status.guid, status.state), (list[0].guid, State::Online));
    let properties = fake.zfs.properties(&pool).await.unwrap();
    assert_eq!(properties["guid"], list[0].guid.to_string());
    assert_eq!(properties["comment"], "made by a cstor-rs fixture");
    assert_eq!(fake.zfs.is_upgradable(&pool).await, Ok(false));
    let datasets = Datasets::list(&fake.zfs, &pool, &[DatasetKind::Volume], &["guid"]).await;
    assert!(datasets.unwrap().iter().any(|one| one.name == "fx/group/one"));
    let one = Datasets::get(&fake.zfs, "fx/group/one", &["compression"]).await;
    assert_eq!(one.unwrap().properties["compression"].source, Source::Local);
    let guid = Datasets::guid(&fake.zfs, "fx/group/one").await.unwrap();
    assert_ne!(guid, Guid(0));
    let first = DatasetName::new("fx/group/one")
        .unwrap()
        .snapshot("first")
        .unwrap();
    assert_eq!(fake.zfs.holds(&first).await.unwrap(), ["kept", "kept too"]);
}

#[tokio::test]
async fn nothing_at_all_is_an_answer_only_where_it_is_zfss_own() {
    let fake = Fake::new("exit 0");
    assert_eq!(Pools::list(&fake.zfs).await, Ok(Vec::new()));
    assert_eq!(
        fake.zfs.holds(&volume().snapshot("s").unwrap()).await,
        Ok(Vec::new())
    );
    assert_unparsable(fake.zfs.status(&tank()).await);
    assert_unparsable(fake.zfs.properties(&tank()).await);
    assert_unparsable(fake.zfs.is_upgradable(&tank()).await);
    assert_unparsable(Datasets::list(&fake.zfs, &tank(), &[DatasetKind::Volume], &[]).await);
    assert_unparsable(Datasets::get(&fake.zfs, "tank/pvc-1", &["guid"]).await);
    assert_unparsable(Datasets::guid(&fake.zfs, "tank/pvc-1").await);
}

#[tokio::test]
async fn what_is_not_understood_is_an_error_that_says_what_was_asked() {
    for garbage in [
        "echo '}{'",
        "echo '[]'",
        "echo '{}'",
        "echo no pools available",
        "printf '\\377'",
    ] {
        let fake = Fake::new(garbage);
        assert_unparsable(Pools::list(&fake.zfs).await);
        assert_unparsable(fake.zfs.status(&tank()).await);
        assert_unparsable(fake.zfs.properties(&tank()).await);
        assert_unparsable(Datasets::list(&fake.zfs, &tank(), &[DatasetKind::Volume], &[]).await);
        assert_unparsable(Datasets::get(&fake.zfs, "tank/pvc-1", &["guid"]).await);
        assert_unparsable(fake.zfs.holds(&volume().snapshot("s").unwrap()).await);
    }
    let error = Fake::new("echo '}{'").zfs.status(&tank()).await.unwrap_err();
    let begins = "look at the pool tank: the answer is not understood: ";
    assert!(error.to_string().starts_with(begins), "{error}");
    assert!(!error.is_hang());
}

#[tokio::test]
async fn a_refusal_has_zfss_own_words() {
    let words = "cannot open 'tank': no such pool";
    let fake = Fake::new(&format!("echo \"{words}\" >&2; exit 1"));
    assert_refused(Pools::list(&fake.zfs).await, words);
    assert_refused(fake.zfs.status(&tank()).await, words);
    assert_refused(fake.zfs.properties(&tank()).await, words);
    assert_refused(Pools::destroy(&fake.zfs, &tank()).await, words);
    assert_refused(fake.zfs.wait(&tank(), Activity::Scrub, LONG).await, words);
    assert_refused(Datasets::destroy(&fake.zfs, "tank/pvc-1").await, words);
    let error = fake.zfs.export(&tank()).await.unwrap_err().to_string();
    assert_eq!(error, format!("export the pool tank: {words}"));

    let on_stdout = Fake::new("echo why; exit 1");
    assert_refused(on_stdout.zfs.export(&tank()).await, "why");
    let silent = Fake::new("exit 2");
    assert_refused(
        silent.zfs.export(&tank()).await,
        "without a word (exit status: 2)",
    );
    let killed = Fake::new("kill -9 $$");
    assert_refused(
        killed.zfs.export(&tank()).await,
        "without a word (signal: 9 (SIGKILL))",
    );
    // A list of which only the beginning came is none, whatever it is the beginning of.
    let half = Fake::new(&format!("cat {}; exit 1", fixture("list.json")));
    assert!(matches!(Pools::list(&half.zfs).await, Err(Error::Refused { .. })));
}

#[tokio::test]
async fn no_command_takes_longer_than_its_deadline() {
    let fake = Fake::within(SHORT, "sleep 1000");
    let expected = |doing: &str| Error::TimedOut {
        doing: doing.to_owned(),
        after: SHORT,
    };
    let looked = fake.zfs.status(&tank()).await;
    assert_eq!(looked, Err(expected("look at the pool tank")));
    let changed = fake.zfs.export(&tank()).await.unwrap_err();
    assert_eq!(changed, expected("export the pool tank"));
    assert!(changed.is_hang());
    // They could be ended, and so nothing keeps the next ones away.
    let queue = fake.zfs.host.queues.of("tank");
    assert_eq!(queue.hang(Intent::Change), None);
    assert!(queue.turn().now_or_never().is_some());
}

#[tokio::test]
async fn waiting_ends_with_what_is_waited_for_or_with_the_time_given() {
    let ended = Fake::new("exit 0");
    assert_eq!(ended.zfs.wait(&tank(), Activity::Resilver, LONG).await, Ok(true));
    assert_eq!(ended.calls(), ["zpool wait -t resilver tank"]);
    // The deadline of the others is not its own.
    let waits = Fake::new("sleep 1000");
    assert_eq!(
        waits.zfs.wait(&tank(), Activity::Resilver, SHORT).await,
        Ok(false)
    );
}

#[tokio::test]
async fn a_program_that_is_gone_says_nothing_about_pools() {
    let fake = Fake::new("exit 0");
    std::fs::remove_file(fake.path("zpool")).unwrap();
    let error = Pools::list(&fake.zfs).await.unwrap_err();
    assert!(matches!(error, Error::CannotRun { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("No such file or directory"), "{said}");
}
