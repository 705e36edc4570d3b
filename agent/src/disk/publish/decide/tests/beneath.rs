//! What is built on disks that others brought.

use cstor_blockdev::Kind;
use cstor_blockdev::device::DeviceMapper;
use cstor_blockdev::filter::Filters;

use super::*;

/// A blank volume of LVM on a partition of a disk that an attachment brought for `volume`, and the object of it.
fn volume_on_a_disk_of(volume: &str) -> Observed {
    let mut disk = virtio("vdb", "alpha");
    let mut part = partition(&mut disk, 1);
    let mut logical = virtio("dm-0", "");
    logical.number.minor += 8;
    logical.kind = Kind::Lvm;
    logical.serial = None;
    logical.bus = None;
    logical.slaves = vec![part.name.clone()];
    logical.device_mapper = Some(DeviceMapper {
        name: "group-data".into(),
        uuid: Some(format!("LVM-{}", "a".repeat(64))),
    });
    part.holders = vec![logical.name.clone()];
    let mut catalogue = catalogue();
    // The default leaves volumes out.
    let config = "filterconfigs:\n  - {key: path-filter, state: true, exclude: /dev/loop}\n";
    catalogue.filters = Filters::parse(config).unwrap().0;
    let devices = [disk, part, logical].map(|device| found(device, blank()));
    let view = catalogue.view(&inventory(devices));
    let mut seen = seen();
    seen.object = object(&view.disks["dm-0"]);
    seen.view = Some(Arc::new(view));
    bound(&mut seen, Bound::Certain(attachment(volume)));
    seen
}

#[test]
fn a_volume_on_a_disk_that_was_brought_for_others_is_theirs() {
    let blank_is = |seen: &Observed| told(&decide(seen)).1[0].clone();
    let mut seen = volume_on_a_disk_of("pv-1");
    assert_eq!(blank_is(&seen), "Blank=False/ForeignAttachment");
    seen.our_volumes.insert("pv-1".into());
    assert_eq!(blank_is(&seen), "Blank=True/NothingFound");
    // The disk under it was not held against the attachments yet, or cannot be described.
    let mut unmatched = seen.clone();
    let view = unmatched.view.clone().unwrap();
    let devices = view.devices.values().filter(|device| device.name != "vdb");
    unmatched.matched = Arc::new(Matched::examined(devices));
    assert_eq!(blank_is(&unmatched), "Blank=Unknown/NotYetMatched");
    let mut undescribed = seen.clone();
    let mut view = view.as_ref().clone();
    view.devices.remove("vdb1");
    undescribed.view = Some(Arc::new(view));
    assert_eq!(blank_is(&undescribed), "Blank=Unknown/NotYetMatched");
}
