//! What is wrong with pools.

use super::*;
use crate::State;

#[test]
fn devices_that_are_away_or_failed() {
    assert_trees(&[
        (
            "offline",
            "Degraded mirror-0=Degraded (loop0=Online loop1=Offline)",
        ),
        ("pulled", "Degraded mirror-0=Degraded (sda1=Online sdb1=Removed)"),
        (
            "missing-device",
            "Degraded mirror-0=Degraded (loop0=Online loop1=Unavailable)",
        ),
        (
            "missing-log",
            "Degraded loop0=Online log loop1=Unavailable cache loop2=Unavailable/TOO_SMALL",
        ),
        (
            "device-faulted",
            "Degraded mirror-0=Degraded (loop0=Faulted/EXTERNAL loop2=Online) spare loop1=Available",
        ),
        // The pool's own state comes later than the device's.
        (
            "device-fails",
            "Online mirror-0=Online (mapper/fxa=Faulted/ERR_EXCEEDED loop1=Online)",
        ),
        (
            "device-failed",
            "Degraded mirror-0=Degraded (mapper/fxa=Faulted/ERR_EXCEEDED loop1=Online)",
        ),
    ]);
}

#[test]
fn suspended_pools() {
    assert_trees(&[
        ("suspended", "Suspended mapper/fxa=Online"),
        (
            "suspended-raidz",
            "Suspended raidz1-0=Online (mapper/fxa=Online mapper/fxb=Online loop2=Online)",
        ),
        (
            "suspended-still",
            "Suspended raidz1-0=Unavailable/NO_REPLICAS (mapper/fxa=Faulted/ERR_EXCEEDED \
             mapper/fxb=Faulted/ERR_EXCEEDED loop2=Online)",
        ),
        ("after-suspension", "Online mapper/fxa=Online"),
    ]);
    assert_eq!(read("suspended").message_id.as_deref(), Some("ZFS-8000-HC"));
}

#[test]
fn spares_in_use_are_in_two_places() {
    assert_trees(&[
        (
            "spare-in-use",
            "Degraded mirror-0=Degraded (spare-0=Degraded (loop0=Faulted/EXTERNAL loop1=Online) loop2=Online) \
             spare loop1=InUse/SPARED",
        ),
        (
            "spare-replacing",
            "Degraded mirror-0=Degraded (spare-0=Degraded (replacing-0=Degraded (loop0=Faulted/EXTERNAL loop3=Online) \
             loop1=Online) loop2=Online) spare loop1=InUse/SPARED",
        ),
        (
            "draid-spare",
            "Degraded draid1:2d:5c:1s-0=Degraded (spare-0=Degraded (loop0=Faulted/EXTERNAL draid1-0-0=Online) \
             loop1=Online loop2=Online loop3=Online loop4=Online) spare draid1-0-0=InUse/SPARED",
        ),
    ]);
    let status = read("spare-in-use");
    let spare = status.vdevs.last().unwrap();
    assert_eq!(status.all().filter(|vdev| vdev.guid == spare.guid).count(), 2);
    // Where it does its work is found first.
    assert_eq!(status.vdev(spare.guid).unwrap().class, VdevClass::Data);
}

#[test]
fn a_missing_device_has_its_number_and_the_path_it_was_at() {
    let status = read("missing-device");
    let missing: Vec<_> = status.devices().filter(|vdev| vdev.not_present).collect();
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0].name, missing[0].guid.to_string());
    assert_eq!(missing[0].path.as_ref().unwrap(), "/dev/loop1");
    assert_eq!((missing[0].state, missing[0].size), (State::Unavailable, 0));
    assert!(read("pulled").devices().all(|vdev| !vdev.not_present));
}

#[test]
fn errors_are_counted_where_they_were() {
    let counted = |name: &str| -> Vec<(u64, u64, u64)> {
        let counts = |vdev: &Vdev| (vdev.read_errors, vdev.write_errors, vdev.checksum_errors);
        read(name).all().map(counts).collect()
    };
    assert_eq!(counted("online"), [(0, 0, 0); 3]);
    let [mirror, (0, 0, 0), (0, 0, sums)] = counted("checksum-errors")[..] else {
        panic!("{:?}", counted("checksum-errors"));
    };
    assert!(mirror == (0, 0, 0) && sums > 0);
    let [_, (reads, writes, 0), (0, 0, 0)] = counted("device-fails")[..] else {
        panic!("{:?}", counted("device-fails"));
    };
    assert!(reads > 0 && writes > 0);
    assert!(read("data-errors").data_errors > 0);
    assert!(read("suspended").data_errors > 0);
    assert_eq!(read("checksum-errors").data_errors, 0);
    assert!(read("online").all().all(|vdev| vdev.slow_ios == 0));
}

#[test]
fn what_zfs_says_and_advises_is_one_line_for_people() {
    let well = read("online");
    assert_eq!((well.status, well.action, well.message_id), (None, None, None));
    let missing = read("missing-device");
    assert_eq!(
        missing.status.unwrap(),
        "One or more devices could not be used because the label is missing or invalid. Sufficient replicas exist for \
         the pool to continue functioning in a degraded state."
    );
    assert_eq!(
        missing.action.unwrap(),
        "Replace the device using 'zpool replace'."
    );
    assert_eq!(missing.message_id.unwrap(), "ZFS-8000-4J");
}
