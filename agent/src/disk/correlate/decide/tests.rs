use cstor_blockdev::attachment::{Correlation, Match};
use k8s_openapi::api::storage::v1::VolumeAttachmentSpec;
use kube::api::ObjectMeta;

use super::*;
use crate::disk::fixtures::{now, virtio};

fn attachment() -> VolumeAttachment {
    VolumeAttachment {
        metadata: ObjectMeta {
            name: Some("csi-1".into()),
            uid: Some("0b1f".into()),
            ..ObjectMeta::default()
        },
        spec: VolumeAttachmentSpec::default(),
        status: None,
    }
}

fn seen(found: Found) -> Observed {
    Observed {
        found: vec![found],
        again: None,
        now: Some(now()),
    }
}

fn matched() -> Correlation {
    let device = virtio("vdb", "alpha");
    Correlation::Matched(Match {
        name: device.name.clone(),
        device: device.number,
        method: "serial",
        serial: device.serial.clone(),
    })
}

fn found(correlation: Correlation, block_device: Option<&str>) -> Found {
    Found {
        attachment: attachment(),
        correlation,
        settled: true,
        block_device: block_device.map(str::to_owned),
    }
}

/// What was written is on the attachment.
fn written(mut found: Found, step: &CorrelateStep) -> Found {
    let CorrelateStep::Annotate {
        block_device,
        condition,
        ..
    } = step;
    let annotations = found.attachment.metadata.annotations.get_or_insert_default();
    annotations.insert(annotation::CORRELATED.to_owned(), condition.clone());
    match block_device {
        Some(name) => annotations.insert(annotation::ATTACHED_BLOCK_DEVICE.to_owned(), name.clone()),
        None => annotations.remove(annotation::ATTACHED_BLOCK_DEVICE),
    };
    found
}

#[test]
fn a_match_is_written_once_and_taken_back_when_it_is_none() {
    let first = found(matched(), Some("blockdevice-1"));
    let decided = decide(&seen(first.clone()));
    let [step] = decided.steps.as_slice() else {
        panic!("{decided:?}");
    };
    let CorrelateStep::Annotate {
        name,
        uid,
        block_device,
        condition,
    } = step;
    assert_eq!(
        (name.as_str(), uid.as_str(), block_device.as_deref()),
        ("csi-1", "0b1f", Some("blockdevice-1"))
    );
    let said: Condition = serde_json::from_str(condition).unwrap();
    assert_eq!(
        (said.type_.as_str(), said.status),
        ("Correlated", ConditionStatus::True)
    );

    let known = written(first, step);
    let later = Observed {
        now: Some(now() + Duration::from_secs(60)),
        ..seen(known.clone())
    };
    assert!(
        decide(&later).steps.is_empty(),
        "nothing is written while nothing is different"
    );

    let gone = Found {
        correlation: Correlation::NotAttached {
            message: "detached".into(),
        },
        block_device: None,
        ..known
    };
    let decided = decide(&seen(gone.clone()));
    let [
        step @ CorrelateStep::Annotate {
            block_device: None, ..
        },
    ] = decided.steps.as_slice()
    else {
        panic!("{decided:?}");
    };
    assert!(decide(&seen(written(gone, step))).steps.is_empty());
}

#[test]
fn what_has_not_settled_or_has_no_object_yet_is_waited_for() {
    let unsettled = Found {
        settled: false,
        ..found(matched(), Some("blockdevice-1"))
    };
    let mut waiting = seen(unsettled);
    waiting.again = Some(Duration::from_secs(5));
    let decided = decide(&waiting);
    assert!(decided.steps.is_empty());
    assert_eq!(decided.again, Some(Duration::from_secs(5)));
    assert!(decide(&seen(found(matched(), None))).steps.is_empty());
    let mut before = seen(found(matched(), Some("blockdevice-1")));
    before.now = None;
    assert!(decide(&before).steps.is_empty());
}

#[test]
fn nonsense_in_the_annotation_is_replaced() {
    let mut odd = found(matched(), Some("blockdevice-1"));
    let annotations = odd.attachment.metadata.annotations.get_or_insert_default();
    annotations.insert(annotation::CORRELATED.to_owned(), "{".to_owned());
    assert_eq!(decide(&seen(odd)).steps.len(), 1);
}
