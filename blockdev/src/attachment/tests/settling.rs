//! When a match is believed, and when not any more.

use std::time::{Duration, Instant};

use super::*;
use crate::attachment::settling::{Look, SETTLES_IN, Settling, Verdict};

const NAME: &str = "csi-vol-0a1b2c3d4e5f60718";

struct Clock {
    settling: Settling,
    start: Instant,
}

impl Clock {
    fn new() -> Self {
        Self {
            settling: Settling::default(),
            start: Instant::now(),
        }
    }

    fn look(&mut self, millis: u64, settled: bool, devices: &[Device], attachments: &[Attachment]) -> Look {
        let results = look_all(devices, &Published::new(), attachments);
        let now = self.start + Duration::from_millis(millis);
        self.settling
            .look(now, settled, attachments.iter().zip(&results), devices)
    }

    fn accepts(&mut self, millis: u64, devices: &[Device]) -> bool {
        Now::of(&self.look(millis, true, devices, &[volume()])) == Now::Accepted
    }
}

/// What a look says of the attachment.
#[derive(Debug, PartialEq, Eq)]
enum Now {
    Accepted,
    Waiting,
    Refused,
    Unmentioned,
}

impl Now {
    fn of(look: &Look) -> Self {
        match look.verdicts.get(NAME) {
            Some(Verdict::Accepted(_)) => Self::Accepted,
            Some(Verdict::Waiting { .. }) => Self::Waiting,
            Some(Verdict::Refused) => Self::Refused,
            None => Self::Unmentioned,
        }
    }
}

fn volume() -> Attachment {
    attachment("ebs.csi.aws.com", "vol-0a1b2c3d4e5f60718")
}

fn device() -> Device {
    ebs(1, "vol0a1b2c3d4e5f60718")
}

/// A clock with a match that was accepted at 5 s.
fn accepted() -> Clock {
    let mut clock = Clock::new();
    assert!(!clock.accepts(0, &[device()]));
    assert!(clock.accepts(5000, &[device()]));
    clock
}

#[test]
fn a_match_is_believed_when_it_was_the_same_twice_five_seconds_apart() {
    let mut clock = Clock::new();
    let first = clock.look(0, true, &[device()], &[volume()]);
    assert_eq!(first.again(), Some(SETTLES_IN));
    assert!(!clock.accepts(1000, &[device()]));
    assert!(!clock.accepts(4999, &[device()]));
    assert!(clock.accepts(5000, &[device()]));
    assert!(clock.accepts(5001, &[device()]), "and stays so");
    assert_eq!(clock.look(5002, true, &[device()], &[volume()]).again(), None);
}

#[test]
fn one_late_look_is_not_two() {
    let mut clock = Clock::new();
    assert!(!clock.accepts(60_000, &[device()]));
    assert!(clock.accepts(65_000, &[device()]));
}

#[test]
fn what_flaps_is_never_believed() {
    let mut clock = Clock::new();
    for round in 0..20 {
        assert!(!clock.accepts(round * 6000, &[device()]));
        assert!(!clock.accepts(round * 6000 + 3000, &[]));
    }
    // Gone and back between two looks: only the kernel's number of the disk tells.
    let mut clock = Clock::new();
    for round in 0..20 {
        let mut device = device();
        device.sequence = Some(round);
        assert!(!clock.accepts(round * 6000, &[device]));
    }
}

#[test]
fn nothing_settles_while_udev_is_at_work() {
    let mut clock = Clock::new();
    clock.look(0, false, &[device()], &[volume()]);
    assert!(!clock.accepts(6000, &[device()]), "the first did not count");
    let busy = clock.look(12_000, false, &[device()], &[volume()]);
    assert_eq!(Now::of(&busy), Now::Waiting);
    assert!(clock.accepts(12_001, &[device()]));
    // What was believed stays so while udev works on something else.
    let busy = clock.look(12_002, false, &[device()], &[volume()]);
    assert_eq!(Now::of(&busy), Now::Accepted);
}

#[test]
fn a_match_is_given_up_at_once() {
    let mut detached = volume();
    detached.attached = false;
    let mut renumbered = device();
    renumbered.number = number(9);
    let mut replaced = device();
    replaced.sequence = Some(1);
    let mut mounted = device();
    mounted.mounts = vec![mount("/srv", Some("ext4"))];
    let other = ebs(1, "vol0ffffffffffffffff");
    let twin = ebs(2, "vol0a1b2c3d4e5f60718");
    for (now, devices, attachments) in [
        (Now::Unmentioned, vec![device()], vec![]),
        (Now::Refused, vec![device()], vec![detached]),
        (Now::Waiting, vec![renumbered], vec![volume()]),
        (Now::Waiting, vec![replaced], vec![volume()]),
        (Now::Refused, vec![mounted], vec![volume()]),
        (Now::Refused, vec![other], vec![volume()]),
        (Now::Refused, vec![], vec![volume()]),
        (Now::Refused, vec![device(), twin], vec![volume()]),
    ] {
        for settled in [true, false] {
            let mut clock = accepted();
            let look = clock.look(5001, settled, &devices, &attachments);
            assert_eq!(Now::of(&look), now, "{look:?}");
            // It begins anew, from the first look that shows it again.
            assert!(!clock.accepts(5002, &[device()]));
            assert!(!clock.accepts(10_001, &[device()]));
            assert!(clock.accepts(10_002, &[device()]));
        }
    }
}

#[test]
fn what_was_never_believed_is_refused_when_it_goes() {
    let mut clock = Clock::new();
    clock.look(0, true, &[device()], &[volume()]);
    let look = clock.look(1000, true, &[], &[volume()]);
    assert_eq!(look.verdicts[NAME], Verdict::Refused);
}

#[test]
fn another_volume_under_the_same_attachment_begins_anew() {
    let mut clock = accepted();
    let mut moved = volume();
    moved.volume.as_mut().unwrap().persistent_volume = "pv-2".into();
    let moved = [moved];
    for (millis, now) in [
        (5001, Now::Waiting),
        (10_000, Now::Waiting),
        (10_001, Now::Accepted),
    ] {
        let look = clock.look(millis, true, &[device()], &moved);
        assert_eq!(Now::of(&look), now, "at {millis} ms");
    }
}

#[test]
fn growing_and_being_used_by_a_pod_change_nothing() {
    let mut clock = accepted();
    let mut grown = device();
    grown.bytes = 20 * GIB;
    let mut larger = volume();
    larger.volume.as_mut().unwrap().bytes = Some(20 * GIB);
    let results = look_all(&[grown.clone()], &handed_out("pv-1", &[1]), &[larger.clone()]);
    let now = clock.start + Duration::from_secs(6);
    let look = clock.settling.look(now, true, [(&larger, &results[0])], &[grown]);
    assert_eq!(Now::of(&look), Now::Accepted);
}
