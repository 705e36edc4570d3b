use k8s_openapi::api::core::v1::ConfigMap;

use super::*;

fn object(version: &str) -> Guarded<ConfigMap> {
    let mut object = ConfigMap::default();
    object.metadata.name = Some("a".into());
    object.metadata.resource_version = Some(version.into());
    kube::core::DeserializeGuard(Ok(object))
}

/// A look that began with version 1, wrote version 2, and during which `during` happened. Says with what the next one begins.
fn next(during: impl FnOnce(&mut Slots<ConfigMap>, &Key, Instant)) -> (Option<String>, Reading) {
    let (mut slots, now) = (Slots::new(Backoff::default()), Instant::now());
    slots.applied(object("1"), now);
    let first = slots.start(now).expect("it is new");
    first.seen.note(Some("1"));
    first.seen.note(Some("2"));
    during(&mut slots, &first.key, now);
    let then = Then {
        wait: Some(Duration::ZERO),
        ..Then::default()
    };
    slots.ended(&first.key, first.memory, Some(object("2")), then, now);
    // The event of our own write comes, and is no news.
    assert!(!slots.applied(object("2"), now));
    let next = slots.start(now).expect("it is due");
    (next.object.meta().resource_version.clone(), next.reading)
}

#[test]
fn what_was_written_is_what_the_next_look_begins_with() {
    let two = (Some("2".to_owned()), Reading::Cached);
    assert_eq!(next(|_, _, _| {}), two);
    assert_eq!(next(|slots, key, now| slots.wake(key, Wake::Trigger, now)), two);
    assert_eq!(next(|slots, key, now| slots.wake(key, Wake::Resync, now)), two);
}

#[test]
fn when_a_watch_tells_of_another_version_meanwhile_the_server_is_asked() {
    let (_, reading) = next(|slots, _, now| {
        assert!(slots.applied(object("0"), now));
    });
    assert_eq!(reading, Reading::Fresh);
}
