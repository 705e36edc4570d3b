//! Who waits for whom.

use futures::FutureExt as _;

use crate::{Datasets, Pools};

use super::*;

/// A `zpool export` says that it has begun, and waits to be let go on; whatever else is run ends at once.
const WAITS: &str = r#"
    [ "$1" = export ] || exit 0
    echo "$2" > "$here/begun"
    read -r _ < "$here/go"
    echo "$2" >> "$here/ended"
"#;

#[tokio::test]
async fn what_changes_one_pool_goes_one_after_the_other() {
    let fake = Fake::new(WAITS);
    let (begun, go) = (fake.pipe("begun"), fake.pipe("go"));
    let first = tokio::spawn({
        let zfs = fake.zfs.clone();
        async move { zfs.export(&tank()).await }
    });
    assert_eq!(begun.read().await, "tank");
    let (pool, other) = (tank(), PoolName::new("other").unwrap());
    let mut second = Box::pin(fake.zfs.trim(&pool));
    assert_eq!((&mut second).now_or_never(), None);

    // What only looks does not wait, and what changes another pool does not either.
    assert_eq!(Pools::list(&fake.zfs).await, Ok(Vec::new()));
    assert_unparsable(fake.zfs.status(&pool).await);
    assert_unparsable(Datasets::get(&fake.zfs, "tank/pvc-1", &["guid"]).await);
    assert_eq!(fake.zfs.trim(&other).await, Ok(()));
    assert_eq!((&mut second).now_or_never(), None);
    assert!(!fake.calls().contains(&"zpool trim tank".to_owned()));

    go.open().await;
    assert_eq!(first.await.unwrap(), Ok(()));
    assert_eq!(second.await, Ok(()));
    assert_eq!(fake.calls().last().unwrap(), "zpool trim tank");
}

#[tokio::test]
async fn datasets_and_their_pool_have_one_queue() {
    let fake = Fake::new(WAITS);
    let (begun, go) = (fake.pipe("begun"), fake.pipe("go"));
    let zfs = fake.zfs.clone();
    let export = tokio::spawn(async move { zfs.export(&tank()).await });
    begun.read().await;
    let mut destroy = Box::pin(Datasets::destroy(&fake.zfs, "tank/pvc-1@s"));
    assert_eq!((&mut destroy).now_or_never(), None);
    go.open().await;
    assert_eq!(destroy.await, Ok(()));
    assert_eq!(export.await.unwrap(), Ok(()));
    assert_eq!(fake.calls(), ["zpool export tank", "zfs destroy tank/pvc-1@s"]);
}

#[tokio::test]
async fn a_caller_who_goes_away_leaves_the_command_its_turn() {
    let fake = Fake::new(WAITS);
    let (begun, go) = (fake.pipe("begun"), fake.pipe("go"));
    let zfs = fake.zfs.clone();
    let export = tokio::spawn(async move { zfs.export(&tank()).await });
    begun.read().await;
    export.abort();
    assert!(export.await.unwrap_err().is_cancelled());

    let pool = tank();
    let mut next = Box::pin(fake.zfs.trim(&pool));
    assert_eq!((&mut next).now_or_never(), None);
    assert_unparsable(fake.zfs.status(&pool).await);
    assert_eq!(
        (&mut next).now_or_never(),
        None,
        "the turn is still the command's"
    );
    go.open().await;
    assert_eq!(next.await, Ok(()));
    let ended = std::fs::read_to_string(fake.path("ended")).unwrap();
    assert_eq!(ended, "tank\n", "the command went on to its end");
}

#[tokio::test]
async fn who_waits_and_goes_away_does_not_keep_the_others_waiting() {
    let fake = Fake::new(WAITS);
    let (begun, go) = (fake.pipe("begun"), fake.pipe("go"));
    let zfs = fake.zfs.clone();
    let export = tokio::spawn(async move { zfs.export(&tank()).await });
    begun.read().await;
    let pool = tank();
    let mut gone = Box::pin(fake.zfs.initialize(&pool));
    let mut next = Box::pin(fake.zfs.trim(&pool));
    assert_eq!((&mut gone).now_or_never(), None);
    assert_eq!((&mut next).now_or_never(), None);
    drop(gone);
    go.open().await;
    assert_eq!(next.await, Ok(()));
    assert_eq!(export.await.unwrap(), Ok(()));
    assert_eq!(fake.calls(), ["zpool export tank", "zpool trim tank"]);
}

#[tokio::test]
async fn a_turn_lasts_from_the_look_before_a_change_to_its_end() {
    let fake = Fake::new(&format!(
        r#"case $1 in
            get) echo get > "$here/begun"; read -r _ < "$here/go"; cat {} ;;
        esac"#,
        fixture("dataset.json")
    ));
    let (begun, go) = (fake.pipe("begun"), fake.pipe("go"));
    let pool = PoolName::new("fx").unwrap();
    let zfs = fake.zfs.clone();
    let grown = tokio::spawn(async move {
        let name = DatasetName::new("fx/group/one").unwrap();
        zfs.grow(&name, 1 << 30).await
    });
    begun.read().await;
    let mut next = Box::pin(fake.zfs.trim(&pool));
    assert_eq!((&mut next).now_or_never(), None);
    // Looks make no queue forget who has its turn.
    assert_eq!(Pools::list(&fake.zfs).await, Ok(Vec::new()));
    assert_eq!((&mut next).now_or_never(), None);
    go.open().await;
    assert_eq!(grown.await.unwrap(), Ok(()));
    assert_eq!(next.await, Ok(()));
    let changes: Vec<_> = fake.calls().split_off(2);
    assert_eq!(
        changes,
        ["zfs set volsize=1073741824 fx/group/one", "zpool trim fx"]
    );
}
