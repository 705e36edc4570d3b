//! Wiping: the only thing of the disk controllers that writes to a disk.
//!
//! # How it can go wrong, and what then
//! - The name led to another disk in the meantime: the open disk itself is asked who it is, before the first byte.
//! - Somebody mounts or holds it: it is opened for us alone, which the kernel refuses; nothing is written.
//! - We die in the middle: some of it is wiped, the request is still there, and it is done again.
//! - The disk stops answering: whoever asked is told after a minute. The thread that waits for the disk is left behind; it has the
//!   disk for itself, begins no further write once it was given up, and no second one is made while it is there.
//! - Something is still found on it afterwards: the disk is not blank, and the next look says what is there.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use cstor_api::names::reason;
use cstor_blockdev::contents::Probe;
use cstor_blockdev::scan::Places;
use cstor_blockdev::sysfs::Sysfs;
use cstor_blockdev::{Device, DeviceNumber, identity};
use cstor_exec::Program;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::view::Disk;

/// What is wiped at both ends of the disk and of each partition: four ZFS labels, both GPTs and what is in front of file
/// systems fit in it many times.
const ENDS: u64 = 4 << 20;

/// What is wiped around a signature that was found elsewhere.
const AROUND: u64 = 64 << 10;

/// What is written at once.
const CHUNK: usize = 1 << 20;

/// How long a disk may take to be wiped. A few megabytes are written at a few places.
const WITHIN: Duration = Duration::from_secs(60);

/// Why a disk was not wiped.
#[derive(Debug, thiserror::Error)]
pub enum WipeError {
    /// Somebody has it.
    #[error(
        "{path} was not wiped: somebody has it open or mounted. Find out who by `lsof {path}`, `lsblk {path}` and `zpool status` on the node"
    )]
    Held {
        /// The disk.
        path: Utf8PathBuf,
    },
    /// It is another disk than was asked for, or is not there.
    #[error("{path} was not wiped: it is not the disk {identity:?} (any more)")]
    Another {
        /// The disk.
        path: Utf8PathBuf,
        /// Who it should be.
        identity: String,
    },
    /// The claim or the request changed in the meantime.
    #[error("the disk was not wiped: {0}")]
    Changed(&'static str),
    /// It does not answer.
    #[error(
        "{path} was not wiped, or not all of it: it does not answer. Check the disk, its cable and its controller"
    )]
    NotResponding {
        /// The disk.
        path: Utf8PathBuf,
    },
    /// The disk refused.
    #[error("wipe {path}")]
    Io {
        /// The disk.
        path: Utf8PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The kernel did not look at its partitions anew.
    #[error("have the partitions of {path} looked at anew")]
    Partitions {
        /// The disk.
        path: Utf8PathBuf,
        /// What the program said.
        #[source]
        source: cstor_exec::Error,
    },
}

impl WipeError {
    /// The reason of the condition.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Held { .. } => reason::HELD,
            Self::Another { .. } => reason::WRONG_IDENTITY,
            Self::Changed(_) => reason::CHANGED,
            Self::NotResponding { .. } => reason::NOT_RESPONDING,
            Self::Io { .. } | Self::Partitions { .. } => reason::WIPE_FAILED,
        }
    }
}

/// What came of a wipe.
type Wiped = Result<(), WipeError>;

/// Wipes disks of this node.
#[derive(Debug, Clone)]
pub struct Wiper {
    places: Places,
    node: String,
    /// The wipes that are under way, by the kernel's names.
    under_way: Arc<Mutex<BTreeMap<String, Weak<()>>>>,
}

impl Wiper {
    /// Wipes disks of `node` that are described in `places`.
    #[must_use]
    pub fn new(places: Places, node: &str) -> Self {
        Self {
            places,
            node: node.to_owned(),
            under_way: Arc::default(),
        }
    }

    /// Wipes `disk` if it is the one that has `identity`.
    pub async fn wipe(&self, disk: &Disk, identity: &str) -> Result<(), WipeError> {
        let path = disk.device().path.clone();
        let not_responding = || WipeError::NotResponding { path: path.clone() };
        let wiped = self.start(disk, identity)?.ok_or_else(not_responding)?;
        match timeout(WITHIN, wiped).await {
            Ok(Ok(wiped)) => wiped?,
            Ok(Err(_gone)) => {
                return Err(WipeError::Io {
                    path,
                    source: std::io::Error::other("the wipe was broken off"),
                });
            }
            Err(_elapsed) => return Err(not_responding()),
        }
        // Our close has made udevd look; where there is none, we ask the kernel.
        if disk.device().partitions.is_empty() {
            return Ok(());
        }
        let failed = |source| WipeError::Partitions {
            path: path.clone(),
            source,
        };
        let program = Program::find("blockdev").map_err(failed)?;
        let call = program.call().args(["--rereadpt", path.as_str()]);
        call.deadline(Duration::from_secs(30))
            .run()
            .await
            .map_err(failed)?;
        Ok(())
    }

    /// Begins to wipe a disk; `None` if an earlier wipe of it still waits for it.
    fn start(&self, disk: &Disk, identity: &str) -> Result<Option<oneshot::Receiver<Wiped>>, WipeError> {
        let name = &disk.device().name;
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.retain(|_, wipe| wipe.strong_count() > 0);
        if under_way.contains_key(name) {
            return Ok(None);
        }
        let (sender, receiver) = oneshot::channel();
        let this = Arc::new(());
        let noted = Arc::downgrade(&this);
        let (wiper, wanted, target) = (self.clone(), identity.to_owned(), disk.clone());
        // Not one of tokio's threads: at its end the runtime waits for those, and this one may never end.
        std::thread::Builder::new()
            .name(format!("wipe {name}"))
            .spawn(move || {
                let wiped = wiper.wipe_now(&target, &wanted, || !sender.is_closed());
                // Before the answer: who has it may ask again.
                drop(this);
                drop(sender.send(wiped));
            })
            .map_err(|source| WipeError::Io {
                path: disk.device().path.clone(),
                source,
            })?;
        under_way.insert(name.clone(), noted);
        Ok(Some(receiver))
    }

    /// Wipes a disk for as long as it `is_wanted`: one that comes back to life must not be written when nobody expects it.
    fn wipe_now(&self, disk: &Disk, identity: &str, is_wanted: impl Fn() -> bool) -> Wiped {
        let path = &disk.device().path;
        let failed = |source: std::io::Error| WipeError::Io {
            path: path.clone(),
            source,
        };
        let mut file = open(path)?;
        // From here on the kernel keeps this very disk for us: whatever has its number is it.
        let number = number(&file).map_err(failed)?;
        let decided = disk.device();
        let same = |device: &Device| {
            device.sequence == decided.sequence && device.bytes == decided.bytes && self.is(device, identity)
        };
        let device = self.device(number).filter(same);
        let device = device.ok_or_else(|| WipeError::Another {
            path: path.clone(),
            identity: identity.to_owned(),
        })?;
        for (offset, length) in regions(disk, device.bytes) {
            zero(&mut file, offset, length, &is_wanted).map_err(failed)?;
        }
        file.sync_all().map_err(failed)
    }

    /// What the kernel says of the device with this number, now.
    fn device(&self, number: DeviceNumber) -> Option<Device> {
        let link = self.places.sys.join("dev/block").join(number.to_string());
        let name = link.read_link_utf8().ok()?.file_name()?.to_owned();
        let device = Sysfs::at(self.places.sys.clone()).device(&name).ok()??;
        (device.number == number).then_some(device)
    }

    fn is(&self, device: &Device, identity: &str) -> bool {
        let sysfs = Sysfs::at(self.places.sys.clone());
        let parent = device.parent.as_ref().and_then(|name| sysfs.device(name).ok()?);
        identity::identify(device, parent.as_ref(), &self.node).is_ok_and(|own| own.value == identity)
    }
}

/// Opens a disk for us alone.
fn open(path: &Utf8Path) -> Result<File, WipeError> {
    let mut options = OpenOptions::new();
    let flags = rustix::fs::OFlags::EXCL.union(rustix::fs::OFlags::NONBLOCK);
    options
        .read(true)
        .write(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    options.open(path).map_err(|source| {
        let path = path.to_owned();
        if source.kind() == std::io::ErrorKind::ResourceBusy {
            WipeError::Held { path }
        } else {
            WipeError::Io { path, source }
        }
    })
}

fn number(file: &File) -> std::io::Result<DeviceNumber> {
    let number = file.metadata()?.rdev();
    Ok(DeviceNumber {
        major: rustix::fs::major(number),
        minor: rustix::fs::minor(number),
    })
}

/// What is wiped of a disk of this size: both ends of it and of its partitions, and where signatures were found.
fn regions(disk: &Disk, bytes: u64) -> Vec<(u64, u64)> {
    let mut regions = Vec::new();
    let mut ends = |start: u64, length: u64| {
        let end = start.saturating_add(length);
        regions.push((start, start.saturating_add(ENDS).min(end)));
        regions.push((end.saturating_sub(ENDS).max(start), end));
    };
    ends(0, bytes);
    for part in &disk.partitions {
        if let Some(partition) = &part.device.partition {
            ends(partition.start, part.device.bytes);
        }
    }
    if let Some(Probe::Read(contents)) = &disk.found.probe {
        let offsets = contents.signatures.iter().map(|signature| signature.offset);
        for offset in offsets.chain(contents.data_at) {
            let start = offset - offset % AROUND;
            regions.push((start, start.saturating_add(AROUND)));
        }
    }
    let clipped = regions
        .into_iter()
        .map(|(start, end)| (start.min(bytes), end.min(bytes)));
    clipped
        .filter(|(start, end)| start < end)
        .map(|(start, end)| (start, end - start))
        .collect()
}

fn zero(file: &mut File, offset: u64, length: u64, is_wanted: impl Fn() -> bool) -> std::io::Result<()> {
    let zeros = vec![0; CHUNK];
    file.seek(SeekFrom::Start(offset))?;
    let mut left = length;
    while left > 0 {
        if !is_wanted() {
            return Err(std::io::Error::other("it took too long, and was given up"));
        }
        let part = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        file.write_all(zeros.get(..part).unwrap_or_default())?;
        left -= part as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
