//! Events, and what becomes of the program that tells them.

use cstor_exec::Process;
use futures::StreamExt as _;

use crate::{PoolEvent, Pools};

use super::*;

/// An event as `zpool events -H -v` prints it.
fn printed(number: u64, class: &str) -> String {
    format!(
        "Nov 18 2025 00:00:00.123456789\t{class}\n        version = 0x0\n        class = \"{class}\"\n        \
         pool = \"tank\"\n        pool_guid = 0x1\n        eid = {number:#x}\n\n"
    )
}

fn told(class: &str) -> PoolEvent {
    PoolEvent {
        class: class.to_owned(),
        pool: Some(tank()),
        vdev: None,
    }
}

/// What was is in the file `was`, and is told in any case. What comes is in `comes-1`, `comes-2` …, one for each time the
/// program is started to follow; it goes on after that if there is a pipe `stay`.
const TELLS: &str = r#"
    [ "$*" = "events -H -v" ] && { cat "$here/was"; exit; }
    echo x >> "$here/started"
    cat "$here/was" "$here/comes-$(wc -l < "$here/started")"
    echo $$ > "$here/pid"
    [ ! -e "$here/stay" ] || read -r _ < "$here/stay"
"#;

#[tokio::test]
async fn only_what_happens_from_now_on_is_told() {
    let fake = Fake::new(TELLS);
    let _stay = fake.pipe("stay");
    fake.write("was", &(printed(1, "before") + &printed(2, "before")));
    fake.write(
        "comes-1",
        &(printed(3, "first") + "dropped 7 events\n" + &printed(11, "second")),
    );
    let mut events = fake.zfs.events();
    assert_eq!(events.next().await, Some(told("first")));
    assert_eq!(events.next().await, Some(told("second")));
    assert_eq!(fake.calls(), ["zpool events -H -v", "zpool events -H -v -f"]);
}

#[tokio::test]
async fn where_nothing_happened_yet_everything_is_news() {
    let fake = Fake::new(TELLS);
    let _stay = fake.pipe("stay");
    fake.write("was", "");
    fake.write("comes-1", &printed(1, "first"));
    assert_eq!(fake.zfs.events().next().await, Some(told("first")));
}

#[tokio::test]
async fn a_program_that_ends_is_started_again_and_goes_on_where_it_was() {
    let fake = Fake::new(TELLS);
    fake.write("was", &printed(1, "before"));
    fake.write("comes-1", &printed(2, "first"));
    fake.write("comes-2", &printed(3, "second"));
    let mut events = fake.zfs.events();
    assert_eq!(events.next().await, Some(told("first")));
    fake.write("was", &(printed(1, "before") + &printed(2, "first")));
    assert_eq!(events.next().await, Some(told("second")));
}

#[tokio::test]
async fn after_the_module_was_loaded_anew_numbers_begin_again() {
    let fake = Fake::new(TELLS);
    fake.write("was", &printed(7, "before"));
    fake.write("comes-1", &printed(8, "first"));
    let mut events = fake.zfs.events();
    assert_eq!(events.next().await, Some(told("first")));
    fake.write("was", &printed(1, "second"));
    fake.write("comes-2", &printed(2, "third"));
    assert_eq!(events.next().await, Some(told("second")));
    assert_eq!(events.next().await, Some(told("third")));
}

#[tokio::test]
async fn what_is_not_understood_is_asked_for_again() {
    let fake = Fake::new(&format!(
        "[ -e \"$here/tried\" ] || {{ : > \"$here/tried\"; echo garbage; exit; }}\n{TELLS}"
    ));
    let _stay = fake.pipe("stay");
    fake.write("was", &printed(1, "before"));
    fake.write("comes-1", &printed(2, "first"));
    let mut events = fake.zfs.events();
    assert_eq!(
        events.next().await,
        Some(told("first")),
        "and not what was before"
    );
    assert_eq!(fake.calls().len(), 3);
}

#[tokio::test]
async fn the_program_ends_with_who_listens() {
    let fake = Fake::new(TELLS);
    let _stay = fake.pipe("stay");
    let pid = fake.pipe("pid");
    fake.write("was", "");
    fake.write("comes-1", "");
    let mut events = fake.zfs.events();
    let number = tokio::select! {
        told = events.next() => panic!("{told:?}"),
        number = pid.read() => number,
    };
    let process = Process::of(number.parse().unwrap()).unwrap();
    drop(events);
    // It was killed, which the kernel does soon and not at once.
    while process.is_there() {
        tokio::task::yield_now().await;
    }
}
