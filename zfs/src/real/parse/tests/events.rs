//! Events as the kernel told them.

use std::collections::BTreeSet;

use super::*;

fn events(text: &str) -> Vec<Event> {
    let mut events = Events::default();
    text.lines().filter_map(|line| events.line(line)).collect()
}

#[test]
fn every_event_with_its_class_pool_vdev_and_number() {
    let text = fixture("events.txt");
    let told = events(&text);
    let headings: Vec<_> = text.lines().filter_map(|line| line.split_once('\t')).collect();
    let classes: Vec<_> = headings.iter().map(|(_, class)| *class).collect();
    assert_eq!(
        told.iter()
            .map(|told| told.event.class.as_str())
            .collect::<Vec<_>>(),
        classes
    );
    assert!(told.len() > 20);
    assert!(told.is_sorted_by(|one, next| one.number < next.number));
    assert!(
        told.iter().all(|told| told.event.pool.is_some()),
        "all of these were about pools"
    );
    let with_vdev: BTreeSet<_> = told
        .iter()
        .filter(|told| told.event.vdev.is_some())
        .map(|told| told.event.class.as_str())
        .collect();
    assert!(with_vdev.contains("resource.fs.zfs.statechange"), "{with_vdev:?}");
    assert!(
        !with_vdev.contains("sysevent.fs.zfs.resilver_finish"),
        "{with_vdev:?}"
    );
}

#[test]
fn an_event_is_told_when_it_is_whole() {
    let text = fixture("events.txt");
    let end = text.find("\n\n").unwrap();
    let whole = &text[..end + 2];
    assert_eq!(events(whole).len(), 1);
    assert_eq!(events(&text[..end]), []);
    let note = format!("dropped 12 events\n{whole}");
    assert_eq!(events(&note), events(whole));
}

#[test]
fn what_is_inside_of_lists_is_not_the_events_own() {
    let text = "Nov 18\ta.class\n        class = \"a.class\"\n        detector = (embedded nvlist)\n                \
                pool = 0x1\n                class = \"no\"\n        (end detector)\n        pool = \"fx\"\n        \
                vdev_guid = 0xff\n        eid = 0x10\n\n";
    let [told] = &events(text)[..] else { panic!() };
    assert_eq!((told.number, told.event.class.as_str()), (16, "a.class"));
    assert_eq!(told.event.pool, Some(pool()));
    assert_eq!(told.event.vdev, Some(crate::Guid(255)));
}

#[test]
fn what_has_no_class_or_no_number_is_no_event() {
    assert_eq!(events("no events\n\n"), []);
    assert_eq!(events("Nov 18\ta\n        class = \"a\"\n\n"), []);
    assert_eq!(events("Nov 18\ta\n        eid = 0x1\n\n"), []);
    assert_eq!(events("Nov 18\ta\n        class = a\n        eid = x\n\n"), []);
}
