//! What people are told of a disk that is not theirs to use.

use super::*;

/// What the condition `Blank` says to people.
fn blank_message(seen: &Observed) -> String {
    let status = decide(seen).report.status.unwrap();
    let mut conditions = status.conditions.into_iter().flatten();
    let blank = conditions.find(|one| one.type_ == condition::BLANK).unwrap();
    blank.message.unwrap()
}

#[test]
fn what_keeps_a_disk_from_being_used_is_told_with_what_to_do() {
    let leftover = with([found(virtio("vdb", "alpha"), holds("ext4"))]);
    let name = leftover.object.metadata.name.clone().unwrap();
    let message = blank_message(&leftover);
    let begins = "The disk is not blank: /dev/vdb carries ext4 at byte 9437184. Nobody uses it now.";
    assert!(message.starts_with(begins), "{message}");
    let command = format!("kubectl annotate bd -n openebs {name} cstor.openebs.io/wipe='alpha'");
    assert!(message.ends_with(&command), "{message}");
    // As long as it would be refused, it is not advised.
    let mut claimed = leftover.clone();
    claimed.object = self::claimed(claimed.object);
    let mounted = with([found(mounted(virtio("vdb", "alpha"), "/srv"), holds("ext4"))]);
    let mut read_only = virtio("vdb", "alpha");
    read_only.read_only = true;
    let read_only = with([found(read_only, holds("ext4"))]);
    for (seen, begins) in [
        (claimed, "The disk is not blank: /dev/vdb carries"),
        (mounted, "The disk is in use: /dev/vdb is mounted at /srv"),
        (read_only, "The disk is not suitable: /dev/vdb refuses writes"),
    ] {
        let message = blank_message(&seen);
        assert!(message.starts_with(begins), "{message}");
        assert!(!message.contains("kubectl"), "{message}");
    }
}
