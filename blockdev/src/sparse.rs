//! Files that stand in for disks. We find them; whoever wants one makes it.

use std::os::unix::fs::MetadataExt as _;

use camino::Utf8Path;

use crate::device::{Device, DeviceNumber, Kind};

/// More files than this in one directory are a mistake.
const MOST: usize = 64;

/// The plain files in a directory, as devices. What cannot be read is left out.
#[must_use]
pub fn files(directory: &Utf8Path) -> Vec<Device> {
    let Ok(entries) = directory.read_dir_utf8() else {
        return Vec::new();
    };
    let mut files: Vec<_> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let metadata = entry.path().symlink_metadata().ok()?;
            if !metadata.is_file() {
                return None;
            }
            let number = DeviceNumber { major: 0, minor: 0 };
            let mut device = Device::new(entry.path().as_str(), number, Kind::Sparse, metadata.len());
            device.path = entry.path().to_owned();
            device.sequence = Some(metadata.ino());
            Some(device)
        })
        .collect();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files.truncate(MOST);
    files
}
