//! Which devices the kubelet hands to pods.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use camino::{Utf8Path, Utf8PathBuf};

use crate::device::DeviceNumber;

/// The names of PersistentVolumes of mode Block, and the devices that are handed out as each.
pub type Published = BTreeMap<String, Vec<DeviceNumber>>;

/// Where the kubelet hands out volumes of mode Block: `<volume>/<pod>`, with older kubelets `<volume>` alone.
const DIRECTORY: &str = "plugins/kubernetes.io/csi/volumeDevices/publish";

/// A node has a few hundred pods; what has more entries than this is not a kubelet's.
const MOST: usize = 10_000;

/// Why it is not known what the kubelet hands out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A directory could not be read.
    #[error("look for devices that the kubelet hands to pods in {path}")]
    Read {
        /// The directory or the device.
        path: Utf8PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// There is too much.
    #[error("{path} has more entries than a kubelet makes: see what is in it")]
    TooMany {
        /// The directory.
        path: Utf8PathBuf,
    },
}

/// What the kubelet hands to pods that keeps its things in `kubelet` (as this process sees it), each volume's devices once
/// and in their order.
///
/// A directory that is not there hands out nothing; one that cannot be read is an error and never an empty answer.
/// Links are not followed: what they lead to is not what the kubelet has bound.
///
/// # Errors
/// A directory cannot be read, or has too many entries.
pub fn published(kubelet: &Utf8Path) -> Result<Published, Error> {
    with_at_most(MOST, kubelet)
}

fn with_at_most(entries: usize, kubelet: &Utf8Path) -> Result<Published, Error> {
    let directory = kubelet.join(DIRECTORY);
    let mut found = Published::new();
    let mut left = entries;
    for volume in names(&directory, &mut left)? {
        let path = directory.join(&volume);
        let numbers = match entry(&path)? {
            Entry::Device(number) => vec![number],
            Entry::Directory => {
                let mut numbers = Vec::new();
                for pod in names(&path, &mut left)? {
                    if let Entry::Device(number) = entry(&path.join(pod))? {
                        numbers.push(number);
                    }
                }
                numbers.sort_unstable();
                numbers.dedup();
                numbers
            }
            Entry::Other => Vec::new(),
        };
        if !numbers.is_empty() {
            found.insert(volume, numbers);
        }
    }
    Ok(found)
}

enum Entry {
    Device(DeviceNumber),
    Directory,
    Other,
}

fn entry(path: &Utf8Path) -> Result<Entry, Error> {
    let metadata = match path.symlink_metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Entry::Other),
        Err(source) => {
            let path = path.to_owned();
            return Err(Error::Read { path, source });
        }
    };
    Ok(if metadata.file_type().is_block_device() {
        Entry::Device(DeviceNumber {
            major: rustix::fs::major(metadata.rdev()),
            minor: rustix::fs::minor(metadata.rdev()),
        })
    } else if metadata.is_dir() {
        Entry::Directory
    } else {
        Entry::Other
    })
}

/// The names in a directory that can be those of Kubernetes objects.
fn names(directory: &Utf8Path, left: &mut usize) -> Result<Vec<String>, Error> {
    let failed = |source| Error::Read {
        path: directory.to_owned(),
        source,
    };
    let entries = match directory.as_std_path().read_dir() {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        *left = left.checked_sub(1).ok_or_else(|| Error::TooMany {
            path: directory.to_owned(),
        })?;
        // Others are not the kubelet's; a name that is no UTF-8 is none of them.
        if let Ok(name) = entry.file_name().into_string()
            && is_object_name(&name)
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Small letters, digits, dashes and dots, and no dot alone between two ends.
fn is_object_name(name: &str) -> bool {
    let letters =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    name.bytes().all(letters) && name.split('.').all(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubelet() -> (tempfile::TempDir, Utf8PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(directory.path().to_owned()).unwrap();
        (directory, path)
    }

    #[test]
    fn a_kubelet_without_such_volumes_hands_out_nothing() {
        let (_directory, path) = kubelet();
        assert!(published(&path).unwrap().is_empty());
        assert!(published(Utf8Path::new("/nowhere/at/all")).unwrap().is_empty());
        std::fs::create_dir_all(path.join(DIRECTORY).join("pv-1")).unwrap();
        assert!(published(&path).unwrap().is_empty());
    }

    #[test]
    fn what_is_no_device_is_not_handed_out() {
        let (_directory, path) = kubelet();
        let publish = path.join(DIRECTORY);
        std::fs::create_dir_all(publish.join("pv-1/uid/deeper")).unwrap();
        std::fs::write(publish.join("pv-2"), "").unwrap();
        // A link to a block device: whoever can place it could name any disk.
        std::os::unix::fs::symlink("/dev/loop0", publish.join("pv-3")).unwrap();
        std::os::unix::fs::symlink("/dev/loop0", publish.join("pv-1/uid-2")).unwrap();
        assert!(published(&path).unwrap().is_empty());
    }

    #[test]
    fn a_directory_that_cannot_be_read_is_an_error() {
        let (_directory, path) = kubelet();
        let publish = path.join(DIRECTORY);
        std::fs::create_dir_all(publish.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&publish, &publish).unwrap();
        assert!(matches!(published(&path), Err(Error::Read { .. })));
    }

    #[test]
    fn what_has_too_many_entries_is_an_error_and_not_a_shorter_list() {
        let (_directory, path) = kubelet();
        for entry in ["pv-1/a", "pv-1/b", "pv-2/c"] {
            let entry = path.join(DIRECTORY).join(entry);
            std::fs::create_dir_all(entry.parent().unwrap()).unwrap();
            std::fs::write(entry, "").unwrap();
        }
        assert!(with_at_most(5, &path).is_ok());
        for entries in 0..5 {
            let found = with_at_most(entries, &path);
            assert!(matches!(found, Err(Error::TooMany { .. })), "{entries}");
        }
    }

    #[test]
    fn names_are_those_of_objects() {
        for name in ["pv-1", "pvc-0b1c", "a.b", "1"] {
            assert!(is_object_name(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "../a", "a..b", "A", "a_b", "ä", ".a", "a."] {
            assert!(!is_object_name(name), "{name}");
        }
    }

    /// Makes device nodes, which takes a privilege; where it lacks, the virtual machines' tests see to it.
    #[test]
    fn devices_are_found_with_and_without_a_directory_for_the_pod() {
        use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
        let (_directory, path) = kubelet();
        let publish = path.join(DIRECTORY);
        let node = |name: &str, minor| {
            let path = publish.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            mknodat(
                CWD,
                path.as_std_path(),
                FileType::BlockDevice,
                Mode::RUSR,
                makedev(259, minor),
            )
        };
        match node("pv-old", 300) {
            Err(rustix::io::Errno::PERM) => return,
            made => made.unwrap(),
        }
        node("pv-new/0a1b-uid", 2).unwrap();
        node("pv-two/0a1b-uid", 4).unwrap();
        node("pv-two/0c2d-uid", 3).unwrap();
        node("pv-two/0e3f-uid", 3).unwrap();
        node("Pv_Odd/uid", 9).unwrap();
        let number = |minor| DeviceNumber { major: 259, minor };
        let expected = [
            ("pv-new".to_owned(), vec![number(2)]),
            ("pv-old".to_owned(), vec![number(300)]),
            ("pv-two".to_owned(), vec![number(3), number(4)]),
        ];
        assert_eq!(published(&path).unwrap(), Published::from(expected));
    }
}
