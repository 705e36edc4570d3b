//! What holds whatever the disks and attachments are.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::attachment::size_fits;

/// Few names, much alike, so that they collide.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("vol-0a1b2c3d4e5f60718".to_owned()),
        Just("vol0a1b2c3d4e5f60718".to_owned()),
        Just("VOL0A1B2C3D4E5F60718".to_owned()),
        Just("vol-0a1b2c3d4e5f6071".to_owned()),
        Just("vol-0a1b2c3d4e5f60718-and-more".to_owned()),
        Just("pool/vol-0a1b2c3d4e5f60718".to_owned()),
        Just("projects/p/zones/z/disks/vol-0a1b2c3d4e5f60718".to_owned()),
        Just(String::new()),
        "[a-b/ö-]{0,24}",
        any::<String>(),
    ]
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(10 * GIB),
        Just(10 * GIB + 1),
        Just(11 * GIB),
        Just(12 * GIB),
        any::<u64>()
    ]
}

fn device() -> impl Strategy<Value = Device> {
    let kind = prop_oneof![6 => Just(Kind::Disk), 1 => Just(Kind::Partition), 1 => Just(Kind::Multipath)];
    let what = (0..5_u8, name(), name(), 0..4_u64);
    (0..12_u32, what, kind, size(), any::<[bool; 3]>()).prop_map(|(minor, what, kind, bytes, odd)| {
        let (maker, name, other, lun) = what;
        let mut device = match maker {
            0 => ebs(minor, &name),
            1 => virtio(minor, name.get(..20).unwrap_or(&name)),
            2 => scsi(minor, "Google", "PersistentDisk", &name),
            3 => azure(minor, 5, lun),
            _ => fabric(minor, &name),
        };
        device.kind = kind;
        device.bytes = bytes;
        if odd[0] && odd[1] {
            device.mounts = vec![mount("/srv", Some("ext4"))];
        }
        if odd[1] && odd[2] {
            device.holders = vec!["dm-7".into()];
        }
        with_record(device, &[&format!("/dev/disk/by-id/x-{other}")], &[])
    })
}

fn any_attachment() -> impl Strategy<Value = Attachment> {
    let driver = prop_oneof![
        Just("ebs.csi.aws.com"),
        Just("cinder.csi.openstack.org"),
        Just("pd.csi.storage.gke.io"),
        Just("disk.csi.azure.com"),
        Just("rbd.csi.ceph.com"),
        Just("any.csi.example.org"),
    ];
    let flags = (
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.9),
        any::<bool>(),
    );
    (driver, name(), 0..6_u8, size(), flags, 0..4_u64).prop_map(|(driver, handle, pv, bytes, flags, lun)| {
        let (attached, here, block_mode) = flags;
        let mut attachment = with_metadata(attachment(driver, &handle), "LUN", &lun.to_string());
        attachment.attached = attached;
        attachment.node = if here { NODE } else { "node-2" }.into();
        let volume = attachment.volume.as_mut().unwrap();
        volume.bytes = Some(bytes);
        volume.block_mode = block_mode;
        volume.persistent_volume = format!("pv-{pv}");
        attachment
    })
}

fn any_published() -> impl Strategy<Value = Published> {
    let numbers = prop::collection::vec((0..14_u32).prop_map(number), 1..3);
    prop::collection::btree_map((0..8_u8).prop_map(|pv| format!("pv-{pv}")), numbers, 0..3)
}

/// Devices have different names and numbers.
fn any_devices() -> impl Strategy<Value = Vec<Device>> {
    prop::collection::vec(device(), 0..10).prop_map(|devices| {
        let by_number: BTreeMap<_, _> = devices
            .into_iter()
            .map(|device| (device.number, device))
            .collect();
        by_number.into_values().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(700))]

    #[test]
    fn a_match_is_unique_and_fits(
        devices in any_devices(),
        published in any_published(),
        attachments in prop::collection::vec(any_attachment(), 0..8),
    ) {
        let results = look_all(&devices, &published, &attachments);
        prop_assert_eq!(results.len(), attachments.len());
        let mut taken = BTreeSet::new();
        for (attachment, result) in attachments.iter().zip(&results) {
            prop_assert!(!result.message().is_empty());
            let Some(found) = result.matched() else { continue };
            prop_assert!(taken.insert(found.device), "{} was matched twice", found.name);
            let device = devices.iter().find(|device| device.number == found.device).unwrap();
            let volume = attachment.volume.as_ref().unwrap();
            prop_assert!(size_fits(device.bytes, volume.bytes.unwrap()));
            prop_assert!(matches!(device.kind, Kind::Disk | Kind::Multipath));
            prop_assert!(attachment.attached && attachment.node == NODE);
            prop_assert!(device.mounts.is_empty() && device.holders.is_empty());
            // Nobody else, not even one who is refused, may mean the same device.
            let others = attachments.iter().zip(&results).filter(|(other, _)| !std::ptr::eq(*other, attachment));
            for (_, other) in others {
                prop_assert!(!other.devices().contains(&found.device));
            }
        }
    }

    #[test]
    fn the_order_does_not_matter(
        devices in any_devices(),
        published in any_published(),
        attachments in prop::collection::vec(any_attachment(), 0..8),
    ) {
        let results = look_all(&devices, &published, &attachments);
        let mut backwards: (Vec<_>, Vec<_>) = (devices, attachments);
        backwards.0.reverse();
        backwards.1.reverse();
        let mut again = look_all(&backwards.0, &published, &backwards.1);
        again.reverse();
        for (one, other) in results.iter().zip(&again) {
            prop_assert_eq!(one.matched(), other.matched());
            prop_assert_eq!(one.reason(), other.reason());
        }
    }
}
