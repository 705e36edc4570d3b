use futures::{FutureExt as _, StreamExt as _};

use super::*;
use crate::disk::fixtures::virtio;

fn doubt() -> Bound {
    Bound::Doubtful {
        reason: "Ambiguous",
        message: "two".into(),
    }
}

#[test]
fn not_looked_at_is_not_the_same_as_bound_to_nothing() {
    let (old, mut new) = (virtio("vdb", "alpha"), virtio("vdb", "alpha"));
    // Another disk in the same slot, with the same number.
    new.sequence = Some(9999);
    let mut matched = Matched::examined([&old]);
    assert_eq!(matched.of(&old), Some(None));
    assert_eq!(matched.of(&new), None);
    matched.bind(&old, doubt());
    assert_eq!(matched.of(&old), Some(Some(&doubt())));
    assert_eq!(Matched::default().of(&old), None);
}

#[test]
fn a_doubt_stays_in_whatever_order_the_attachments_are_heard() {
    let device = virtio("vdb", "alpha");
    for order in [[0, 1], [1, 0]] {
        let mut matched = Matched::examined([&device]);
        for which in order {
            let bounds = [doubt(), Bound::Certain(Attachment::default())];
            matched.bind(&device, bounds[which].clone());
        }
        assert_eq!(matched.of(&device), Some(Some(&doubt())));
    }
}

#[tokio::test]
async fn only_news_wake() {
    let matches = Matches::default();
    let mut changes = Box::pin(matches.changes());
    let device = virtio("vdb", "alpha");
    let mut matched = Matched::examined([&device]);
    matches.note(matched.clone());
    assert!(changes.next().now_or_never().is_some());
    matches.note(matched.clone());
    assert!(changes.next().now_or_never().is_none());
    matched.bind(&device, doubt());
    matches.note(matched.clone());
    assert!(changes.next().now_or_never().is_some());
    assert_eq!(*matches.latest(), matched);
}
