//! What is decided: which devices fit, and how a claim gets one and gives it back.

mod choice;
mod fit;
mod life;

use std::collections::BTreeMap;
use std::sync::Arc;

use cstor_api::names::phase::{BlockDeviceClaimPhase, BlockDeviceClaimState, BlockDeviceState};
use cstor_api::names::{annotation, condition, finalizer, label, reason};
use cstor_api::openebs::{
    BlockDevice, BlockDeviceClaim, BlockDeviceClaimSpec, BlockDeviceClaimStatus, BlockDeviceSpec,
    BlockVolumeMode, ClaimNodeAttributes, DeviceClaimDetails, DeviceClaimResources, DeviceDetails,
    DeviceType, DriveType, Filesystem, Identity, NodeAttributes,
};
use cstor_api::{Condition, ConditionStatus};
use cstor_reconcile::failure::{Class, During, Failure};
use cstor_reconcile::{Decision, Hold, Step as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, Time};
use proptest::prelude::*;

use super::ClaimStep;
use super::decide::decide;
use super::fit::{Misfit, Nonsense, Wish, why};
use super::observe::{Devices, Observed};

const GI: u64 = 1 << 30;

/// A device that any claim of up to `size` may have.
fn device(name: &str, size: u64) -> BlockDevice {
    let mut device = BlockDevice::new(name, BlockDeviceSpec::default());
    device.metadata.namespace = Some("openebs".into());
    device.metadata.resource_version = Some("7".into());
    device.metadata.labels = Some(BTreeMap::from([(label::HOSTNAME.into(), "host-1".into())]));
    device.spec.capacity.storage = size;
    device.spec.path = "/dev/sdb".into();
    device.spec.node_attributes = Some(NodeAttributes {
        node_name: Some("node-1".into()),
    });
    device.spec.identity = Some(Identity {
        scheme: "wwn/v1".into(),
        value: name.into(),
    });
    device.spec.details = Some(DeviceDetails {
        device_type: Some(DeviceType::Disk),
        drive_type: Some(DriveType::Ssd),
        ..DeviceDetails::default()
    });
    let status = device.status.get_or_insert_default();
    status.state = Some(BlockDeviceState::Active);
    status.claim_state = Some(BlockDeviceClaimState::Unclaimed);
    says(
        &mut device,
        condition::BLANK,
        ConditionStatus::True,
        reason::NOTHING_FOUND,
        "",
    );
    device
}

fn says(device: &mut BlockDevice, kind: &str, status: ConditionStatus, why: &str, message: &str) {
    let conditions = device
        .status
        .get_or_insert_default()
        .conditions
        .get_or_insert_default();
    conditions.retain(|condition| condition.type_ != kind);
    conditions.push(Condition::new(kind, status, why, message));
}

fn found(device: &mut BlockDevice, why: &str) {
    says(
        device,
        condition::BLANK,
        ConditionStatus::False,
        why,
        "What was found.",
    );
}

fn claimed_by(device: &mut BlockDevice, name: &str, uid: &str) {
    device.spec.claim_ref = Some(ObjectReference {
        kind: Some("BlockDeviceClaim".into()),
        namespace: Some("openebs".into()),
        name: Some(name.into()),
        uid: Some(uid.into()),
        ..ObjectReference::default()
    });
    device.status.get_or_insert_default().claim_state = Some(BlockDeviceClaimState::Claimed);
}

fn labelled(device: &mut BlockDevice, key: &str, value: &str) {
    device
        .metadata
        .labels
        .get_or_insert_default()
        .insert(key.into(), value.into());
}

fn spec(size: &str) -> BlockDeviceClaimSpec {
    BlockDeviceClaimSpec {
        resources: Some(DeviceClaimResources {
            requests: BTreeMap::from([("storage".into(), size.into())]),
        }),
        ..BlockDeviceClaimSpec::default()
    }
}

fn claim(spec: BlockDeviceClaimSpec) -> BlockDeviceClaim {
    let mut claim = BlockDeviceClaim::new("mine", spec);
    claim.metadata.namespace = Some("openebs".into());
    claim.metadata.uid = Some("uid-mine".into());
    claim.metadata.resource_version = Some("3".into());
    claim.metadata.generation = Some(1);
    claim.metadata.finalizers = Some(vec![finalizer::BLOCK_DEVICE_CLAIM.into()]);
    claim
}

fn named(name: &str) -> BlockDeviceClaimSpec {
    BlockDeviceClaimSpec {
        block_device_name: Some(name.into()),
        ..BlockDeviceClaimSpec::default()
    }
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn look(claim: BlockDeviceClaim, devices: Devices) -> Decision<ClaimStep, BlockDeviceClaimStatus> {
    decide(&Observed {
        claim,
        devices,
        failure: None,
        now: now(),
    })
}

fn all(devices: impl IntoIterator<Item = BlockDevice>) -> Devices {
    Devices::All(devices.into_iter().map(Arc::new).collect(), BTreeMap::new())
}

fn one(device: BlockDevice) -> Devices {
    Devices::Named(Arc::new(device))
}

fn steps(decision: &Decision<ClaimStep, BlockDeviceClaimStatus>) -> Vec<&'static str> {
    decision.steps.iter().map(|step| step.name()).collect()
}

fn said(
    decision: &Decision<ClaimStep, BlockDeviceClaimStatus>,
    kind: &str,
) -> (ConditionStatus, String, String) {
    let status = decision.report.status.as_ref().expect("a status");
    let conditions = status.conditions.as_ref().expect("conditions");
    let condition = conditions
        .iter()
        .find(|condition| condition.type_ == kind)
        .expect("the condition");
    (
        condition.status.clone(),
        condition.reason.clone().unwrap(),
        condition.message.clone().unwrap(),
    )
}

fn phase(decision: &Decision<ClaimStep, BlockDeviceClaimStatus>) -> Option<BlockDeviceClaimPhase> {
    decision.report.status.as_ref()?.phase.clone()
}

fn chosen(decision: &Decision<ClaimStep, BlockDeviceClaimStatus>) -> Option<String> {
    match decision.steps.as_slice() {
        [ClaimStep::Claim(device)] => Some(device.0.name.clone()),
        _ => None,
    }
}

/// What makes a device unfit for everybody who did not ask for exactly it: a name, and how to make one so.
type Spoil = (&'static str, fn(&mut BlockDevice));

const SPOILS: &[Spoil] = &[
    ("left alone as annotated or labelled", |device| {
        device.metadata.annotations = Some(BTreeMap::from([(
            annotation::BLOCK_DEVICE_RECONCILE.into(),
            "false".into(),
        )]));
    }),
    ("left alone as annotated or labelled", |device| {
        labelled(device, label::BLOCK_DEVICE_MANAGED, "false");
    }),
    ("being deleted", |device| {
        device.metadata.deletion_timestamp = Some(Time(now()))
    }),
    ("tagged for nobody", |device| {
        labelled(device, label::BLOCK_DEVICE_TAG, "")
    }),
    ("tagged gold, which the selector does not name", |device| {
        labelled(device, label::BLOCK_DEVICE_TAG, "gold");
    }),
    ("sparse files, claimed by name only", |device| {
        device.spec.details.as_mut().unwrap().device_type = Some(DeviceType::Sparse);
    }),
    ("partitions, which allowPartition does not allow", |device| {
        device.spec.details.as_mut().unwrap().device_type = Some(DeviceType::Partition);
    }),
    ("smaller than 10Gi", |device| {
        device.spec.capacity.storage = 10 * GI - 1
    }),
    ("smaller than 10Gi", |device| device.spec.capacity.storage = 0),
    ("claimed", |device| claimed_by(device, "theirs", "uid-theirs")),
    ("claimed", |device| {
        claimed_by(device, "theirs", "uid-theirs");
        device.status.as_mut().unwrap().claim_state = Some(BlockDeviceClaimState::Unclaimed);
    }),
    ("being released", |device| {
        device.status.as_mut().unwrap().claim_state = Some(BlockDeviceClaimState::Claimed);
    }),
    ("being released", |device| {
        device.status.as_mut().unwrap().claim_state = Some("Odd".into());
    }),
    ("released and not blank", |device| {
        device.status.as_mut().unwrap().claim_state = Some(BlockDeviceClaimState::Released);
        found(device, reason::FOREIGN_POOL);
    }),
    ("not Active (Inactive)", |device| {
        device.status.as_mut().unwrap().state = Some(BlockDeviceState::Inactive);
    }),
    ("not Active (Unknown)", |device| {
        device.status.as_mut().unwrap().state = Some(BlockDeviceState::Unknown);
    }),
    ("not Active (not known yet)", |device| {
        device.status.as_mut().unwrap().state = None
    }),
    ("quarantined", |device| {
        says(
            device,
            condition::QUARANTINED,
            ConditionStatus::True,
            reason::DUPLICATE_IDENTITY,
            "",
        );
    }),
    ("quarantined", |device| {
        says(device, condition::QUARANTINED, ConditionStatus::Unknown, "", "");
    }),
    ("without an identity", |device| device.spec.identity = None),
    ("to be wiped", |device| {
        let annotations = device.metadata.annotations.get_or_insert_default();
        annotations.insert(annotation::WIPE.into(), "serial".into());
    }),
    ("not examined by an agent yet", |device| {
        device.status.as_mut().unwrap().conditions = None
    }),
    ("not blank (ForeignPool)", |device| {
        found(device, reason::FOREIGN_POOL)
    }),
    ("not blank (InOurPool)", |device| {
        found(device, reason::IN_OUR_POOL)
    }),
    ("not blank (FileSystem)", |device| {
        found(device, reason::FILE_SYSTEM)
    }),
    ("not blank (Mounted)", |device| found(device, reason::MOUNTED)),
    ("not blank (Partitioned)", |device| {
        found(device, reason::PARTITIONED)
    }),
    ("not blank (Member)", |device| found(device, reason::MEMBER)),
    ("not blank (Held)", |device| found(device, reason::HELD)),
    ("not blank (UnrecognisedData)", |device| {
        found(device, reason::UNRECOGNISED_DATA)
    }),
    ("not blank (Unreadable)", |device| {
        says(
            device,
            condition::BLANK,
            ConditionStatus::Unknown,
            reason::UNREADABLE,
            "",
        );
    }),
    ("not blank (ForeignPool)", |device| {
        says(
            device,
            condition::BLANK,
            ConditionStatus::Unknown,
            reason::FOREIGN_POOL,
            "",
        );
    }),
    ("not blank (file system ext4)", |device| {
        device.spec.filesystem = Some(Filesystem {
            fs_type: Some("ext4".into()),
            mount_point: None,
        });
    }),
];
