//! Who uses a device without the kernel saying so at the device.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};

use crate::device::{Device, DeviceNumber};

/// A device that is handed to other machines.
pub(super) struct Export {
    pub(super) path: Utf8PathBuf,
    pub(super) number: Option<DeviceNumber>,
    pub(super) by: String,
}

/// Notes at each device who hands it to other machines.
pub(super) fn note_exports(exports: &[Export], devices: &mut BTreeMap<String, Device>) {
    for export in exports {
        if let Some(device) = device_at(&export.path, export.number, devices) {
            device.exports.push(export.by.clone());
        }
    }
}

/// A loop device on a device uses it, which the kernel does not tell there. `under` are the numbers of such devices.
pub(super) fn note_loops(under: &BTreeMap<String, DeviceNumber>, devices: &mut BTreeMap<String, Device>) {
    let loops: Vec<_> = devices
        .values()
        .filter_map(|device| Some((device.name.clone(), device.backing.as_ref()?.file.clone())))
        .collect();
    for (name, file) in loops {
        let device = device_at(&file, under.get(&name).copied(), devices);
        // One that is told as it was before has it noted already.
        if let Some(device) = device.filter(|device| !device.holders.contains(&name)) {
            device.holders.push(name);
        }
    }
}

/// The device with a number, or that a path leads to.
fn device_at<'a>(
    path: &Utf8Path,
    number: Option<DeviceNumber>,
    devices: &'a mut BTreeMap<String, Device>,
) -> Option<&'a mut Device> {
    devices.values_mut().find(|device| {
        Some(device.number) == number || device.path == path || device.links.iter().any(|link| link == path)
    })
}
