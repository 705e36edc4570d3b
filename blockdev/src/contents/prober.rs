//! Reads devices side by side, and lets one that does not answer delay nobody but itself.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use camino::Utf8PathBuf;
use procfs::process::Process;
use tokio::sync::{OwnedMutexGuard, Semaphore, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::{Contents, Probe, raw, signatures};
use crate::{Device, DeviceNumber, Kind};

/// How many devices are read at a time.
const AT_ONCE: usize = 16;
/// After this long a device is slow, and no longer counts against that number.
const PATIENCE: Duration = Duration::from_secs(1);

/// Reads what is on devices.
///
/// A request to a dead disk can hang in the kernel beyond any deadline, and with it the process or the thread that made
/// it. The prober remembers these remains: while they are there, the device gets no second request and is reported as
/// not responding at once, so that however often a dead disk is looked at, it costs one process or one thread.
#[derive(Debug, Clone)]
pub struct Prober {
    deadline: Duration,
    sysfs: Utf8PathBuf,
    book: Arc<Mutex<HashMap<Key, Entry>>>,
    permits: Arc<Semaphore>,
}

/// A probe of one device at a time; what an earlier one left behind.
type Entry = Arc<tokio::sync::Mutex<Option<Remains>>>;

/// Which device it is, until the next boot. The number alone is used again for the next disk in the slot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    number: DeviceNumber,
    sequence: Option<u64>,
    /// Of a file that stands in for a disk and so has no number.
    file: Option<Utf8PathBuf>,
}

impl Key {
    fn of(device: &Device) -> Self {
        Self {
            number: device.number,
            sequence: device.sequence,
            file: (device.kind == Kind::Sparse).then(|| device.path.clone()),
        }
    }
}

/// What is stuck in the kernel.
#[derive(Debug)]
enum Remains {
    /// A process, told from a later one with the same id by when it was started.
    Process { pid: i32, started: u64 },
    /// A thread of ours.
    Thread(JoinHandle<()>),
}

impl Remains {
    fn of_process(pid: Option<u32>) -> Option<Self> {
        let pid = i32::try_from(pid?).ok()?;
        let started = started(pid)?;
        Some(Self::Process { pid, started })
    }

    fn are_there(&self) -> bool {
        match self {
            Self::Process { pid, started: then } => started(*pid) == Some(*then),
            Self::Thread(thread) => !thread.is_finished(),
        }
    }
}

/// When a process was started, if it is there.
fn started(pid: i32) -> Option<u64> {
    let stat = Process::new(pid).and_then(|process| process.stat()).ok()?;
    Some(stat.starttime)
}

impl Prober {
    /// A prober that gives each device this long to answer.
    #[must_use]
    pub fn new(deadline: Duration) -> Self {
        Self {
            deadline,
            sysfs: Utf8PathBuf::from("/sys"),
            book: Arc::default(),
            permits: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Reads what is on a device.
    ///
    /// The answer comes within the deadline and a little more, once the device has its turn. Dropping the future does not
    /// end the reading, which then ends by its deadline.
    pub async fn probe(&self, device: &Device) -> Probe {
        let entry = self.entry(Key::of(device));
        // Another probe of this device that is under way ends within the deadline.
        let patience = self.deadline.saturating_mul(2);
        let Ok(mut remains) = timeout(patience, entry.lock_owned()).await else {
            return Probe::NotResponding;
        };
        if remains.as_ref().is_some_and(Remains::are_there) {
            return Probe::NotResponding;
        }
        *remains = None;
        let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
            return Probe::Failed("the prober is closed".to_owned());
        };
        let (this, device) = (self.clone(), device.clone());
        // In a task of its own, so that the book is kept when the caller loses interest.
        let mut task = tokio::spawn(async move { this.read(&device, remains).await });
        let mut probed = timeout(PATIENCE, &mut task).await;
        drop(permit);
        if probed.is_err() {
            probed = Ok(task.await);
        }
        match probed {
            Ok(Ok(probe)) => probe,
            _ => Probe::Failed("the reading was broken off".to_owned()),
        }
    }

    /// The entry of a device. Those of devices that nobody reads and that left nothing behind are forgotten.
    fn entry(&self, key: Key) -> Entry {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.retain(|_, entry| {
            let idle = entry
                .try_lock()
                .map(|remains| !remains.as_ref().is_some_and(Remains::are_there));
            Arc::strong_count(entry) > 1 || !idle.unwrap_or(false)
        });
        Arc::clone(book.entry(key).or_default())
    }

    async fn read(&self, device: &Device, mut remains: OwnedMutexGuard<Option<Remains>>) -> Probe {
        let until = Instant::now() + self.deadline;
        let call = match signatures::call(&device.path, self.deadline) {
            Ok(call) => call,
            Err(error) => return Probe::Failed(error.to_string()),
        };
        let output = match call.run().await {
            Ok(output) => output,
            Err(cstor_exec::Error::Deadline { unkillable, pid, .. }) => {
                if unkillable {
                    *remains = Remains::of_process(pid);
                }
                return Probe::NotResponding;
            }
            Err(error) => return Probe::Failed(error.to_string()),
        };
        let signatures = match signatures::parse(&device.path, &output.stdout) {
            Ok(signatures) => signatures,
            Err(error) => return Probe::Failed(error.to_string()),
        };
        // Not one of tokio's threads: at its end the runtime waits for those, and this one may never end.
        let (sender, receiver) = oneshot::channel();
        let (path, number) = (device.path.clone(), device.number);
        let thread = std::thread::Builder::new()
            .name(format!("probe {}", device.name))
            .spawn(move || drop(sender.send(raw::read(&path, number))));
        let thread = match thread {
            Ok(thread) => thread,
            Err(error) => return Probe::Failed(format!("no thread to read {}: {error}", device.path)),
        };
        let raw = match timeout_at(until, receiver).await {
            Ok(Ok(Ok(raw))) => raw,
            Ok(Ok(Err(error))) => return Probe::Failed(error.to_string()),
            Ok(Err(_gone)) => return Probe::Failed(format!("reading {} was broken off", device.path)),
            Err(_elapsed) => {
                *remains = Some(Remains::Thread(thread));
                return Probe::NotResponding;
            }
        };
        if let Some(sequence) = self.another_sequence(device) {
            return Probe::Failed(format!(
                "{} was replaced by another device (disk {sequence} since the boot) while it was read",
                device.path
            ));
        }
        Probe::Read(Contents {
            signatures,
            zfs: raw.labels.best,
            zfs_others: raw.labels.others,
            zfs_damaged: raw.labels.damaged,
            zfs_written: raw.labels.written,
            data_at: raw.data_at,
            busy: raw.busy,
        })
    }

    /// Which disk has the number now, if it is not the one that was asked about.
    fn another_sequence(&self, device: &Device) -> Option<String> {
        let expected = device.sequence?.to_string();
        if device.kind == Kind::Sparse {
            // A file, which the kernel counts by its inode.
            let found = device.path.metadata().map_or(0, |file| file.ino()).to_string();
            return (found != expected).then_some(found);
        }
        let place = self.sysfs.join("dev/block").join(device.number.to_string());
        // A partition has its disk's.
        let found = [place.join("diskseq"), place.join("../diskseq")]
            .iter()
            .find_map(|file| std::fs::read_to_string(file).ok());
        let found = found.map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned());
        (found != expected).then_some(found)
    }
}

#[cfg(test)]
mod tests;
