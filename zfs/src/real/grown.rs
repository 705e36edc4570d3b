//! The disk behind a device of a pool, for the one command that does not take a device by its number.
//!
//! `zpool online -e` has the partition that ZFS made on a disk enlarged first, and looks for the disk by the word it was
//! given: the path of the disk, as it was given when the pool was made. The pool has the path of the partition.

use camino::{Utf8Path, Utf8PathBuf};

/// The path of the disk, if this is the path of the first partition of one.
pub(super) fn disk_of(partition: &Utf8Path) -> Option<Utf8PathBuf> {
    let path = partition.as_str();
    if let Some(disk) = path.strip_suffix("-part1") {
        return Some(disk.into());
    }
    let disk = path.strip_suffix('1')?;
    let name = disk.strip_prefix("/dev/").filter(|name| !name.contains('/'))?;
    // nvme0n1p1, mmcblk0p1; sdb1, vdb1, xvdb1.
    if let Some(numbered) = name
        .strip_suffix('p')
        .filter(|name| name.ends_with(|c: char| c.is_ascii_digit()))
    {
        return Some(format!("/dev/{numbered}").into());
    }
    let lettered = ["sd", "vd", "xvd", "hd"].iter().any(|kind| {
        let letters = name.strip_prefix(kind);
        letters.is_some_and(|letters| {
            !letters.is_empty() && letters.bytes().all(|byte| byte.is_ascii_lowercase())
        })
    });
    lettered.then(|| disk.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_of_a_partition() {
        let of = |path: &str| disk_of(path.into()).map(Utf8PathBuf::into_string);
        for (partition, disk) in [
            ("/dev/disk/by-id/virtio-A-part1", "/dev/disk/by-id/virtio-A"),
            (
                "/dev/disk/by-path/pci-0000:00:04.0-part1",
                "/dev/disk/by-path/pci-0000:00:04.0",
            ),
            ("/dev/sdb1", "/dev/sdb"),
            ("/dev/vdaa1", "/dev/vdaa"),
            ("/dev/nvme0n1p1", "/dev/nvme0n1"),
        ] {
            assert_eq!(of(partition).as_deref(), Some(disk));
        }
        for other in [
            "/dev/loop1",
            "/dev/nvme0n1",
            "/dev/sdb",
            "/dev/sdb2",
            "/dev/dm-1",
            "/var/tmp/file1",
            "/dev/disk/by-id/A",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
