//! Who uses a device: mounts and swap, from procfs.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use procfs::process::{MountInfo, MountInfos};
use procfs::{FromRead as _, ProcError};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, lstat, major, minor};
use tokio::sync::mpsc;

use crate::device::{Device, DeviceNumber, Mount};
use crate::sysfs::Error;

/// The file system that device nodes are in. A mount of one of its files is a device bound somewhere.
const DEVICE_NODES: &str = "devtmpfs";

/// Where the node's processes find device nodes, wherever we do.
const DEVICES: &str = "/dev";

/// A link that leads to a link that leads to a link: more than these are a circle.
const MOST_LINKS: usize = 8;

/// Mounts and swap of the whole node.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    mounts: Vec<MountInfo>,
    swaps: Vec<Utf8PathBuf>,
    /// The devices that mounts and swaps name by a path.
    nodes: BTreeMap<Utf8PathBuf, DeviceNumber>,
}

impl Usage {
    /// Reads what the first process of the node sees: a container has mounts of its own, which are not the node's. Its
    /// device nodes are in `dev`.
    pub fn read(proc: &Utf8Path, dev: &Utf8Path) -> Result<Self, Error> {
        let path = proc.join("1/mountinfo");
        let mounts = MountInfos::from_file(&path).map_err(|error| failed(&path, error))?;
        let path = proc.join("swaps");
        let swaps = match std::fs::read_to_string(&path) {
            Ok(text) => swaps(&text),
            // A kernel without swap.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(Error::Read { path, source }),
        };
        let sources = mounts.0.iter().filter_map(|mount| mount.mount_source.as_deref());
        let nodes = sources
            .map(Utf8Path::new)
            .chain(swaps.iter().map(Utf8PathBuf::as_path))
            .filter_map(|path| Some((path.to_owned(), node_number(dev, path)?)))
            .collect();
        Ok(Self {
            mounts: mounts.0,
            swaps,
            nodes,
        })
    }

    /// Notes at each device where it is mounted and whether it is swapped to.
    pub fn note(&self, devices: &mut BTreeMap<String, Device>) {
        let mut by_number: BTreeMap<DeviceNumber, String> = BTreeMap::new();
        for device in devices.values() {
            by_number.insert(device.number, device.name.clone());
        }
        for mount in &self.mounts {
            let (name, file_system) = if mount.fs_type == DEVICE_NODES {
                let name = mount.root.trim_start_matches('/').to_owned();
                (devices.contains_key(&name).then_some(name), None)
            } else {
                // Some file systems have numbers of their own; their source then is the device.
                let number = mount.majmin.parse().ok();
                let by_source = || self.nodes.get(Utf8Path::new(mount.mount_source.as_deref()?));
                let name = number
                    .and_then(|number| by_number.get(&number))
                    .or_else(|| by_number.get(by_source()?));
                (name.cloned(), Some(mount.fs_type.clone()))
            };
            if let Some(device) = name.and_then(|name| devices.get_mut(&name)) {
                let point = unescape(&mount.mount_point.to_string_lossy()).into();
                device.mounts.push(Mount { point, file_system });
            }
        }
        for swap in &self.swaps {
            let name = self.nodes.get(swap).and_then(|number| by_number.get(number));
            if let Some(device) = name.and_then(|name| devices.get_mut(name)) {
                device.swap = true;
            }
        }
    }
}

/// The number of the device node that the node calls `path`, if it is one.
///
/// Only what is in `dev`, where the node's device nodes are, is asked for: anything else may be in a file system whose
/// server does not answer, and whoever asks waits for it for ever. Not for an async task even so.
pub(crate) fn node_number(dev: &Utf8Path, path: &Utf8Path) -> Option<DeviceNumber> {
    let status = lstat(node(dev, path)?.as_std_path()).ok()?;
    let block = FileType::from_raw_mode(status.st_mode).is_block_device();
    block.then(|| DeviceNumber {
        major: major(status.st_rdev),
        minor: minor(status.st_rdev),
    })
}

/// What the links at `path` lead to, if all of it is among the device nodes.
fn node(dev: &Utf8Path, path: &Utf8Path) -> Option<Utf8PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        path = plain(&path)?;
        let here = dev.join(path.strip_prefix(DEVICES).ok()?);
        match here.read_link_utf8() {
            Ok(target) => path = path.parent()?.join(target),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => return Some(here),
            Err(_) => return None,
        }
    }
    None
}

/// A path without `.` and `..`; `None` if it is not absolute.
fn plain(path: &Utf8Path) -> Option<Utf8PathBuf> {
    let mut plain = Utf8PathBuf::from("/");
    for component in path.is_absolute().then(|| path.components())? {
        match component {
            Utf8Component::ParentDir => drop(plain.pop()),
            Utf8Component::Normal(name) => plain.push(name),
            _ => {}
        }
    }
    Some(plain)
}

/// Tells each time something is mounted or unmounted on the node: that makes no event of a device.
///
/// # Errors
/// The list of mounts cannot be opened, or there is no thread to wait in.
pub fn changes(proc: &Utf8Path) -> std::io::Result<mpsc::Receiver<()>> {
    let list = File::open(proc.join("1/mountinfo"))?;
    // One is as good as many: whoever is told looks at everything.
    let (sender, receiver) = mpsc::channel(1);
    let wait = move || {
        while !sender.is_closed() {
            let mut polled = [PollFd::new(&list, PollFlags::PRI)];
            // Now and then, to see whether anybody still reads.
            let now_and_then = rustix::event::Timespec {
                tv_sec: 5,
                tv_nsec: 0,
            };
            match poll(&mut polled, Some(&now_and_then)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => drop(sender.try_send(())),
                Err(error) => {
                    tracing::error!(%error, "mounts cannot be waited for; they are seen by looking now and then");
                    return;
                }
            }
        }
    };
    std::thread::Builder::new()
        .name("mounts".to_owned())
        .spawn(wait)?;
    Ok(receiver)
}

fn failed(path: &Utf8Path, error: ProcError) -> Error {
    let source = match error {
        ProcError::Io(source, _) => source,
        other => std::io::Error::other(other.to_string()),
    };
    Error::Read {
        path: path.to_owned(),
        source,
    }
}

/// The devices in `/proc/swaps`: a line of headings, then a line each, the path first.
fn swaps(text: &str) -> Vec<Utf8PathBuf> {
    let paths = text
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next());
    paths.map(|path| unescape(path).into()).collect()
}

/// The kernel writes blanks and backslashes in paths as three octal digits.
fn unescape(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = (first == b'\\')
            .then(|| after.get(..3))
            .flatten()
            .and_then(|code| std::str::from_utf8(code).ok())
            .and_then(|code| u8::from_str_radix(code, 8).ok());
        match code {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    Path::new(std::ffi::OsStr::from_bytes(&bytes))
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn mounted(line: &str) -> MountInfo {
        MountInfo::from_line(line).unwrap()
    }

    fn devices() -> BTreeMap<String, Device> {
        let device = |name: &str, minor| {
            let number = DeviceNumber { major: 252, minor };
            (name.to_owned(), Device::new(name, number, Kind::Disk, 1 << 30))
        };
        BTreeMap::from([device("vda", 0), device("vdb", 16)])
    }

    #[test]
    fn mounts_are_found_by_number_and_device_nodes_by_name() {
        let usage = Usage {
            mounts: vec![
                mounted(r"22 1 252:0 / /var/lib/with\040blank rw - ext4 /dev/vda rw"),
                mounted("23 1 0:5 /vdb /var/lib/kubelet/publish/pv rw - devtmpfs udev rw"),
                mounted("24 1 0:5 /null /somewhere rw - devtmpfs udev rw"),
                mounted("25 1 0:40 / /data rw - tmpfs tmpfs rw"),
            ],
            ..Usage::default()
        };
        let mut devices = devices();
        usage.note(&mut devices);
        let mount = |point: &str, file_system: Option<&str>| Mount {
            point: point.into(),
            file_system: file_system.map(Into::into),
        };
        assert_eq!(
            devices["vda"].mounts,
            [mount("/var/lib/with blank", Some("ext4"))]
        );
        assert_eq!(
            devices["vdb"].mounts,
            [mount("/var/lib/kubelet/publish/pv", None)]
        );
    }

    #[test]
    fn swaps_are_read() {
        let text = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/vdb partition 1 0 -2\n/swap\\040file file 1 0 -3\n";
        assert_eq!(swaps(text), ["/dev/vdb", "/swap file"]);
        assert!(swaps("Filename Type\n").is_empty());
    }

    #[test]
    fn no_procfs_is_an_error_and_not_an_idle_node() {
        assert!(Usage::read(Utf8Path::new("/nowhere"), Utf8Path::new("/dev")).is_err());
    }

    #[test]
    fn only_what_is_among_the_device_nodes_is_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let dev = Utf8Path::from_path(directory.path()).unwrap().join("dev");
        std::fs::create_dir_all(dev.join("disk/by-id")).unwrap();
        std::fs::write(dev.join("vdb"), "").unwrap();
        std::fs::write(dev.join("../hung"), "").unwrap();
        let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, dev.join(name)).unwrap();
        link("../../vdb", "disk/by-id/alpha");
        link("/dev/disk/by-id/alpha", "by-path");
        link("../hung", "out");
        link("/mnt/nfs/hung", "far");
        link("circle", "circle");
        let found = |path: &str| {
            node(&dev, Utf8Path::new(path)).map(|path| path.strip_prefix(&dev).unwrap().to_owned())
        };
        for path in [
            "/dev/vdb",
            "/dev/disk/by-id/alpha",
            "/dev/by-path",
            "/dev/./disk/../vdb",
        ] {
            assert_eq!(found(path), Some("vdb".into()), "{path}");
        }
        let outside = directory.path().join("hung").to_str().unwrap().to_owned();
        let others = [
            "/dev/out",
            "/dev/far",
            "/dev/circle",
            "/dev/none",
            "/dev/../hung",
            "/mnt/nfs",
            "vdb",
            "tmpfs",
            "",
        ];
        for path in others.into_iter().chain([outside.as_str()]) {
            assert_eq!(found(path), None, "{path}");
        }
        // A file is no device.
        assert_eq!(node_number(&dev, Utf8Path::new("/dev/vdb")), None);
    }

    #[test]
    fn mounts_with_a_number_of_their_own_and_swaps_are_found_by_their_node() {
        let number = |minor| DeviceNumber { major: 252, minor };
        let usage = Usage {
            mounts: vec![mounted("22 1 0:50 / /data rw - btrfs /dev/disk/by-id/a rw")],
            swaps: vec!["/dev/swap".into(), "/swapfile".into()],
            nodes: BTreeMap::from([
                ("/dev/disk/by-id/a".into(), number(0)),
                ("/dev/swap".into(), number(16)),
            ]),
        };
        let mut devices = devices();
        usage.note(&mut devices);
        assert_eq!(devices["vda"].mounts.len(), 1);
        assert!(devices["vdb"].swap && !devices["vda"].swap);
    }
}
