//! What the controllers read off a BlockDevice.

use cstor_api::names::phase::{BlockDeviceClaimState, BlockDeviceState};
use cstor_api::names::{annotation, condition, label};
use cstor_api::openebs::BlockDevice;
use cstor_api::{Condition, ConditionStatus};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt as _;

/// Whether somebody told us to leave the device alone.
pub(crate) fn is_left_alone(device: &BlockDevice) -> bool {
    let says_no = |value: Option<&String>| value.is_some_and(|value| value == "false");
    says_no(device.annotations().get(annotation::BLOCK_DEVICE_RECONCILE))
        || says_no(device.labels().get(label::BLOCK_DEVICE_MANAGED))
}

/// Whether the device is there.
pub(crate) fn state(device: &BlockDevice) -> Option<&BlockDeviceState> {
    device.status.as_ref()?.state.as_ref()
}

/// Whether the device is there, and its agent says so.
pub(crate) fn is_active(device: &BlockDevice) -> bool {
    state(device) == Some(&BlockDeviceState::Active)
}

/// What is written down of whose it is.
pub(crate) fn claim_state(device: &BlockDevice) -> Option<&BlockDeviceClaimState> {
    device.status.as_ref()?.claim_state.as_ref()
}

/// The claim that has the device. A reference that names nothing is none.
pub(crate) fn claim_ref(device: &BlockDevice) -> Option<&ObjectReference> {
    let filled = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    let reference = device.spec.claim_ref.as_ref()?;
    (filled(&reference.name) || filled(&reference.uid)).then_some(reference)
}

/// What the agent says of `kind`.
pub(crate) fn condition<'a>(device: &'a BlockDevice, kind: &str) -> Option<&'a Condition> {
    let conditions = device.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Whether the agent found nothing on the device.
pub(crate) fn is_blank(device: &BlockDevice) -> bool {
    condition(device, condition::BLANK).is_some_and(|blank| blank.status == ConditionStatus::True)
}

/// The name of the device's node.
pub(crate) fn node_name(device: &BlockDevice) -> Option<&str> {
    let node = device.spec.node_attributes.as_ref()?.node_name.as_deref();
    node.filter(|node| !node.is_empty())
}

/// `namespace/name` of what a reference is to, for people.
pub(crate) fn said(reference: &ObjectReference) -> String {
    let kind = reference.kind.as_deref().unwrap_or("BlockDeviceClaim");
    let name = reference.name.as_deref().unwrap_or("without a name");
    match reference.namespace.as_deref() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}
