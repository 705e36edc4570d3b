//! What is looked at again although no event tells: what the kubelet does, and what people do to PersistentVolumes.

use std::time::Duration;

use cstor_blockdev::attachment::{Attachment, Correlation, PUBLISH_PATH};

/// How soon.
const SOON: Duration = Duration::from_secs(15);

/// When to look at an attachment again, if what it came to may change without an event.
pub(super) fn again(attachment: &Attachment, correlation: &Correlation) -> Option<Duration> {
    // The kubelet binds and unbinds devices, and tells nobody.
    let handed_out = attachment.volume.as_ref().is_none_or(|volume| volume.block_mode);
    let may_change = match correlation {
        Correlation::Matched(found) => found.method == PUBLISH_PATH,
        Correlation::NoDevice { .. } | Correlation::Ambiguous { .. } => handed_out,
        Correlation::Mismatch { .. } => true,
        Correlation::NotAttached { .. } => false,
    };
    may_change.then_some(SOON)
}

/// Whether the PersistentVolume as it was read will do for the next look. A size that does not fit may be corrected, and
/// one that grows fits again in the end.
pub(super) fn may_keep_volume(correlation: &Correlation) -> bool {
    !matches!(correlation, Correlation::Mismatch { .. })
}

#[cfg(test)]
mod tests {
    use cstor_blockdev::DeviceNumber;
    use cstor_blockdev::attachment::{Match, Volume};

    use super::*;

    fn attachment(block_mode: bool) -> Attachment {
        Attachment {
            volume: Some(Volume {
                block_mode,
                ..Volume::default()
            }),
            ..Attachment::default()
        }
    }

    #[test]
    fn what_no_event_tells_is_looked_at_again() {
        let device = DeviceNumber { major: 8, minor: 0 };
        let message = String::new;
        let none = Correlation::NoDevice { message: message() };
        let several = Correlation::Ambiguous {
            candidates: vec![device],
            message: message(),
        };
        let wrong = Correlation::Mismatch {
            message: message(),
            device,
        };
        let waiting = Correlation::NotAttached { message: message() };
        let matched = |method| {
            Correlation::Matched(Match {
                device,
                name: "sda".to_owned(),
                method,
                serial: None,
            })
        };
        let (file_system, block) = (attachment(false), attachment(true));
        let of_nothing = Attachment::default();
        for (attachment, correlation, looks) in [
            (&file_system, &none, false),
            (&block, &none, true),
            (&of_nothing, &none, true),
            (&file_system, &several, false),
            (&block, &several, true),
            (&file_system, &wrong, true),
            (&block, &waiting, false),
            (&block, &matched("ebs-nvme-serial"), false),
            (&block, &matched(PUBLISH_PATH), true),
        ] {
            assert_eq!(again(attachment, correlation).is_some(), looks, "{correlation:?}");
        }
        assert!(!may_keep_volume(&wrong));
        assert!(may_keep_volume(&none));
    }
}
