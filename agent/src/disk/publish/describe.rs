//! A disk in the words of a BlockDevice.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use cstor_api::names::label;
use cstor_api::openebs::{
    BlockDevice, BlockDeviceSpec, DevLink, DevLinkKind, DeviceCapacity, DeviceDetails, DeviceType, DriveType,
    Filesystem, Identity, NodeAttributes, Partitioned,
};
use cstor_blockdev::contents::Probe;
use cstor_blockdev::device::DesignatorKind;
use cstor_blockdev::{Device, Kind};

use serde_json::{Map, Value, json};

use crate::disk::view::Disk;

/// What the agent says of a device in `spec` and labels: everything but the claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// The spec, without the claim.
    pub spec: BlockDeviceSpec,
    /// The labels that are ours to set.
    pub labels: BTreeMap<String, String>,
}

impl Description {
    /// What is to be said of `disk` on `node`.
    #[must_use]
    pub fn of(disk: &Disk, node: &str) -> Self {
        let device = disk.device();
        let spec = BlockDeviceSpec {
            node_attributes: Some(NodeAttributes {
                node_name: Some(node.to_owned()),
            }),
            path: device.path.to_string(),
            capacity: DeviceCapacity {
                storage: device.bytes,
                physical_sector_size: device.physical_sector,
                logical_sector_size: device.logical_sector,
            },
            details: Some(details(device)),
            identity: disk.identity.as_ref().ok().map(Identity::from),
            claim_ref: None,
            devlinks: Some(links(&device.links)),
            filesystem: file_system(disk),
            partitioned: Some(if device.partitions.is_empty() {
                Partitioned::No
            } else {
                Partitioned::Yes
            }),
            parent_device: device.parent.as_ref().map(|parent| format!("/dev/{parent}")),
            aggregate_device: device.holders.first().map(|holder| format!("/dev/{holder}")),
        };
        let mut labels = BTreeMap::from([
            (label::HOSTNAME.to_owned(), disk.host.clone()),
            (label::NODE_NAME.to_owned(), node.to_owned()),
            (
                label::BLOCK_DEVICE_TYPE.to_owned(),
                label::BLOCK_DEVICE_TYPE_VALUE.to_owned(),
            ),
        ]);
        labels.extend(
            disk.tag
                .clone()
                .map(|tag| (label::BLOCK_DEVICE_TAG.to_owned(), tag)),
        );
        if disk.identity.is_err() {
            labels.insert(label::BLOCK_DEVICE_UNIDENTIFIED.to_owned(), "true".to_owned());
        }
        Self { spec, labels }
    }

    /// What makes `object` say this, as a merge patch on the version that was read; `None` if it says so already.
    ///
    /// Not server-side apply: fields that NDM or a person wrote would stay although they are no longer true. The claim is not
    /// in the patch, and so stays its owner's.
    #[must_use]
    pub fn patch(&self, object: &BlockDevice) -> Option<Value> {
        let plain = |spec: &BlockDeviceSpec| serde_json::to_value(spec).unwrap_or_default();
        let said = BlockDeviceSpec {
            claim_ref: None,
            ..object.spec.clone()
        };
        let spec = difference(&plain(&said), &plain(&self.spec));
        let known = object.metadata.labels.as_ref();
        let labels: Map<_, _> = self
            .labels
            .iter()
            .filter(|(key, value)| known.and_then(|known| known.get(*key)) != Some(*value))
            .map(|(key, value)| (key.clone(), Value::String(value.clone())))
            .collect();
        if spec.is_none() && labels.is_empty() {
            return None;
        }
        Some(json!({
            "metadata": {
                "uid": object.metadata.uid,
                "resourceVersion": object.metadata.resource_version,
                "labels": labels,
            },
            "spec": spec.unwrap_or_else(|| json!({})),
        }))
    }

    /// Whether the object says all this already.
    #[must_use]
    pub fn is_said_by(&self, object: &BlockDevice) -> bool {
        let said = BlockDeviceSpec {
            claim_ref: None,
            ..object.spec.clone()
        };
        let labels = object.metadata.labels.as_ref();
        let labelled =
            |(key, value): (&String, &String)| labels.and_then(|labels| labels.get(key)) == Some(value);
        said == self.spec && self.labels.iter().all(labelled)
    }
}

/// What makes `from` into `to` as a merge patch; `None` if nothing does.
fn difference(from: &Value, to: &Value) -> Option<Value> {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return (from != to).then(|| to.clone());
    };
    let mut patch = Map::new();
    for key in from.keys().filter(|key| !to.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, wanted) in to {
        let change = match from.get(key) {
            Some(known) => difference(known, wanted),
            None => Some(wanted.clone()),
        };
        patch.extend(change.map(|change| (key.clone(), change)));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

fn details(device: &Device) -> DeviceDetails {
    DeviceDetails {
        device_type: Some(match device.kind {
            Kind::Disk | Kind::Zvol | Kind::Other => DeviceType::Disk,
            Kind::Partition => DeviceType::Partition,
            Kind::Loop => DeviceType::Loop,
            Kind::Lvm => DeviceType::Lvm,
            Kind::Crypt => DeviceType::Crypt,
            Kind::Multipath => DeviceType::Multipath,
            Kind::DeviceMapper => DeviceType::DeviceMapper,
            Kind::Md => DeviceType::Md,
            Kind::Sparse => DeviceType::Sparse,
        }),
        drive_type: Some(match device.rotational {
            Some(true) => DriveType::Hdd,
            Some(false) => DriveType::Ssd,
            None => DriveType::Unknown,
        }),
        logical_block_size: device.logical_sector,
        physical_block_size: device.physical_sector,
        hardware_sector_size: device.logical_sector,
        model: device.model.clone(),
        compliance: None,
        serial: device.serial.clone(),
        vendor: device.vendor.clone(),
        firmware_revision: device.firmware.clone(),
        wwn: wwn(device),
    }
}

/// The World Wide Name as hardware has it, not as the kernel makes one up.
fn wwn(device: &Device) -> Option<String> {
    let scsi = device.scsi.iter().flat_map(|scsi| &scsi.page83);
    let naa = scsi
        .filter(|designator| designator.kind == DesignatorKind::Naa)
        .map(|designator| format!("0x{}", designator.value));
    let nvme = device.nvme.as_ref();
    naa.into_iter().next().or_else(|| {
        let nvme = nvme?;
        let uuid = nvme.uuid.as_ref().map(|uuid| format!("uuid.{uuid}"));
        let nguid = nvme.nguid.as_ref().map(|nguid| format!("eui.{nguid}"));
        uuid.or(nguid)
            .or_else(|| Some(format!("eui.{}", nvme.eui64.as_ref()?)))
    })
}

/// The links in the order that NDM's users know: by-id first, and in it the one that ends in the serial number.
fn links(links: &[Utf8PathBuf]) -> Vec<DevLink> {
    let of = |kind: DevLinkKind, directory: &str| {
        let links: Vec<_> = links
            .iter()
            .filter(|link| link.parent().is_some_and(|parent| parent.ends_with(directory)))
            .map(|link| link.to_string())
            .collect();
        (!links.is_empty()).then_some(DevLink {
            kind: Some(kind),
            links: Some(links),
        })
    };
    let by_id = of(DevLinkKind::ById, "by-id");
    by_id
        .into_iter()
        .chain(of(DevLinkKind::ByPath, "by-path"))
        .collect()
}

/// The file system on the device, and where it is mounted.
fn file_system(disk: &Disk) -> Option<Filesystem> {
    let signatures = match &disk.found.probe {
        Some(Probe::Read(contents)) => contents.signatures.as_slice(),
        _ => &[],
    };
    let found = signatures
        .iter()
        .find(|signature| signature.usage.as_deref() != Some("partition-table"))
        .map(|signature| signature.kind.clone());
    let mount = disk.device().mounts.first();
    let fs_type = found.or_else(|| mount.and_then(|mount| mount.file_system.clone()));
    let mount_point = mount.map(|mount| mount.point.to_string());
    (fs_type.is_some() || mount_point.is_some()).then_some(Filesystem { fs_type, mount_point })
}

#[cfg(test)]
mod tests;
