//! The choice, for devices of all kinds.

use super::*;

/// Devices of all kinds, each spoilt in none, one or two ways.
fn devices() -> impl Strategy<Value = Vec<(BlockDevice, bool)>> {
    let spoils = prop::collection::vec(0..SPOILS.len(), 0..3);
    let one = (0_u64..6, spoils);
    prop::collection::vec(one, 0..12).prop_map(|all| {
        all.into_iter()
            .enumerate()
            .map(|(number, (size, spoils))| {
                let mut device = device(&format!("disk-{number}"), (10 + size) * GI);
                for spoil in &spoils {
                    SPOILS[*spoil].1(&mut device);
                }
                // Two ways can undo each other; which they do is for the table of single ones.
                let fit = Wish::of(&spec("10Gi")).unwrap().fits(&device).is_ok();
                assert!(!fit || spoils.len() != 1, "{spoils:?}");
                (device, fit)
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn the_choice_is_the_smallest_fit_in_any_order(
        (devices, shuffled) in devices().prop_flat_map(|devices| (Just(devices.clone()), Just(devices).prop_shuffle())),
    ) {
        let fit = devices.iter().filter(|(_, fit)| *fit).map(|(device, _)| device);
        let best = fit
            .min_by_key(|device| (device.spec.capacity.storage, device.metadata.name.clone()))
            .and_then(|device| device.metadata.name.clone());
        let only = |devices: Vec<(BlockDevice, bool)>| all(devices.into_iter().map(|(device, _)| device));
        let first = look(claim(spec("10Gi")), only(devices.clone()));
        let second = look(claim(spec("10Gi")), only(shuffled));
        prop_assert_eq!(&chosen(&first), &best);
        prop_assert_eq!(&first, &second);
        if best.is_none() && !devices.is_empty() {
            // Every device is named.
            let message = said(&first, condition::BOUND).2;
            for (device, _) in &devices {
                prop_assert!(message.contains(device.metadata.name.as_ref().unwrap()) || message.contains("more"), "{}", message);
            }
        }
    }

    #[test]
    fn a_device_that_is_somebody_elses_is_never_taken(
        devices in devices(), by_name in any::<bool>(), pick in any::<prop::sample::Index>(),
    ) {
        prop_assume!(!devices.is_empty());
        let devices: Vec<BlockDevice> = devices.into_iter().map(|(device, _)| device).collect();
        let decision = if by_name {
            let device = devices[pick.index(devices.len())].clone();
            look(claim(named(device.metadata.name.as_ref().unwrap())), one(device))
        } else {
            look(claim(spec("10Gi")), all(devices.clone()))
        };
        if let Some(name) = chosen(&decision) {
            let device = devices.iter().find(|device| device.metadata.name.as_ref() == Some(&name)).unwrap();
            prop_assert!(device.spec.claim_ref.is_none());
            prop_assert!(device.metadata.deletion_timestamp.is_none());
            prop_assert!(device.status.as_ref().unwrap().state == Some(BlockDeviceState::Active));
        }
    }
}
