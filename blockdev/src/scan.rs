//! Looking at the node's devices: each on its own, with a deadline, so that a dead disk delays nobody but itself.

mod missing;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use camino::Utf8PathBuf;
use futures::future::{BoxFuture, join_all};
use futures::{StreamExt as _, stream};
use serde::Serialize;
use tokio::sync::oneshot::{self, error::RecvError};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use self::missing::{Missing, Undescribed};
use self::users::{Export, note_exports, note_loops};
use crate::contents::Probe;
use crate::device::{Device, DeviceNumber};
use crate::sysfs::{self, Error, Sysfs};
use crate::usage::{Usage, node_number};
use crate::{sparse, udev};

/// How long a look waits for what is said of all devices in one place. It comes from memory.
const SHARED_WITHIN: Duration = Duration::from_secs(10);

/// How long a look waits for the descriptions of all devices. They come from memory but for a serial number now and
/// then, for which the kernel asks the device. One that takes longer is reported as it was before, and asked again.
const DESCRIBE_WITHIN: Duration = Duration::from_secs(2);

/// How many devices are described at once.
const AT_ONCE: usize = 32;

/// After this long the description of a device no longer counts against that number.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long a device that udevd has not worked on yet may stay unpublished.
const SETTLE_WITHIN: Duration = Duration::from_secs(10);

/// How long a look waits for the devices to be read, all of them together. One that takes longer is reported with what
/// was known of it, and looked at again.
const READ_WITHIN: Duration = Duration::from_secs(3);

/// How long a device may be asked in vain, for a description or for its contents, before it counts as not responding,
/// whatever was known of it before. A busy node may be slow to ask.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// Where the node's devices are described.
#[derive(Debug, Clone)]
pub struct Places {
    /// Where sysfs is.
    pub sys: Utf8PathBuf,
    /// Where procfs is; the first process in it must be the node's.
    pub proc: Utf8PathBuf,
    /// Where the device nodes are.
    pub dev: Utf8PathBuf,
    /// Whether udev's database is asked. It describes this node, not one that a test has made.
    pub udev: bool,
    /// Where files are that stand in for disks.
    pub sparse_files: Option<Utf8PathBuf>,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            sys: "/sys".into(),
            proc: "/proc".into(),
            dev: "/dev".into(),
            udev: true,
            sparse_files: None,
        }
    }
}

/// Reads what is on a device.
pub type ReadContents = Arc<dyn Fn(Device) -> BoxFuture<'static, Probe> + Send + Sync>;

/// Says whether anybody wants to know what is on a device. One that nobody wants is never opened.
pub type Wanted = Arc<dyn Fn(&Device, &BTreeMap<String, Device>) -> bool + Send + Sync>;

/// A device that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Found {
    /// What it is.
    pub device: Device,
    /// What is on it. `None` if nobody wants to know.
    pub probe: Option<Probe>,
    /// When it was first found.
    #[serde(skip)]
    pub since: Instant,
    /// Whether udevd has it still to work on, and so links and names may be missing.
    pub settling: bool,
    /// Whether it is being read: what is said of its contents is from before.
    pub pending: bool,
    /// Whether it is being read because a change of it was told: what was known of its contents may be wrong by now.
    pub changed: bool,
    /// Since when it is asked and does not answer.
    #[serde(skip)]
    pub asked: Option<Instant>,
}

/// The devices of a node, by the kernel's names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inventory {
    /// What was found.
    pub found: BTreeMap<String, Found>,
    /// What is there and could not be described, and why. Nothing may be concluded about these.
    pub undescribed: BTreeMap<String, String>,
    /// What was asked to describe itself and has not answered, and since when. Until it counts as undescribed, it is found
    /// as it was before; of one that was not known before nothing is known yet, not even which disk it is.
    #[serde(skip)]
    pub awaited: BTreeMap<String, Instant>,
}

impl Inventory {
    /// The devices alone.
    #[must_use]
    pub fn devices(&self) -> BTreeMap<String, Device> {
        let devices = self.found.iter();
        devices
            .map(|(name, found)| (name.clone(), found.device.clone()))
            .collect()
    }
}

/// What to read anew. Every look describes all devices, which costs no I/O; reading their contents does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// The devices of which a change was told.
    pub changed: BTreeSet<String>,
    /// Read all.
    pub everything: bool,
}

/// Looks at the devices of a node.
#[derive(Clone)]
pub struct Scanner {
    places: Places,
    read: ReadContents,
    wanted: Wanted,
    readings: Arc<Mutex<BTreeMap<String, Reading>>>,
    describe: Describe,
    describing: Describing,
    /// Whether devices are described in threads of their own, as those must be that may not answer. Files that a test has
    /// made answer, and its time may be simulated, of which threads know nothing.
    in_threads: bool,
}

/// Makes the description of a device, in a thread of its own.
type Describe = Arc<dyn Fn(&str) -> Said + Send + Sync>;

/// A description; `None` of a device that is gone.
type Said = Result<Option<Box<Described>>, Error>;

/// The descriptions that are under way, by the kernel's names. A request to a dead device never ends: there is one at most
/// for each, however often it is looked at.
type Describing = Arc<Mutex<BTreeMap<String, Weak<()>>>>;

/// What the kernel says of a device.
struct Described {
    device: Device,
    /// The device that this one is made of as if it were a file.
    under: Option<DeviceNumber>,
}

/// A reading that a look did not wait for. A later one hears what came of it: a slow disk would never be read otherwise.
struct Reading {
    of: Device,
    task: JoinHandle<Probe>,
    /// Whether a change was told since it began.
    overtaken: bool,
}

impl std::fmt::Debug for Scanner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scanner")
            .field("places", &self.places)
            .finish_non_exhaustive()
    }
}

/// What is said of all devices in one place.
struct Shared {
    links: BTreeMap<String, Vec<Utf8PathBuf>>,
    usage: Usage,
    exports: Vec<Export>,
    names: Vec<String>,
    files: Vec<Device>,
    udev_running: bool,
}

impl Scanner {
    /// Looks at `places`, and reads by `read` what is on the devices that are `wanted`.
    #[must_use]
    pub fn new(places: Places, read: ReadContents, wanted: Wanted) -> Self {
        Self {
            describe: describer(places.clone()),
            in_threads: places.udev,
            places,
            read,
            wanted,
            readings: Arc::default(),
            describing: Arc::default(),
        }
    }

    /// Where it looks.
    #[must_use]
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Looks at all devices. What `before` knows of contents is kept for devices that have not changed.
    ///
    /// # Errors
    /// The list of devices, the mounts or the swaps could not be read: nothing is known then, least of all that devices
    /// are gone.
    pub async fn look(&self, before: &Inventory, look: &Look) -> Result<Inventory, Error> {
        let shared = self.shared().await?;
        let (mut described, missing) = self.describe(&shared).await;
        let now = Instant::now();
        let Missing {
            undescribed,
            awaited,
            kept,
        } = Missing::of(missing, before, now);
        for (name, device) in &kept {
            described.insert(name.clone(), as_before(device, &shared));
        }
        let under: BTreeMap<_, _> = described
            .iter()
            .filter_map(|(name, described)| Some((name.clone(), described.under?)))
            .collect();
        let devices = described.into_iter();
        let mut devices: BTreeMap<_, _> = devices
            .map(|(name, described)| (name, described.device))
            .collect();
        shared.usage.note(&mut devices);
        note_exports(&shared.exports, &mut devices);
        note_loops(&under, &mut devices);
        for file in shared.files {
            devices.insert(file.name.clone(), file);
        }

        self.readings().retain(|name, _| devices.contains_key(name));
        let until = Instant::now() + READ_WITHIN;
        let mut looks: Vec<BoxFuture<'_, (String, Found)>> = Vec::new();
        for device in devices.values() {
            let known = before
                .found
                .get(&device.name)
                .filter(|known| same(&known.device, device));
            let since = known.map_or(now, |known| known.since);
            let wanted = (self.wanted)(device, &devices);
            let differs = touches(look, device)
                || known.is_none_or(|known| {
                    known.device.bytes != device.bytes
                        || known.device.partitions != device.partitions
                        || known.device.holders != device.holders
                });
            let changed = differs || known.is_some_and(|known| known.changed);
            let told = look.everything || differs;
            let stale = told
                || known.is_none_or(|known| known.pending || !matches!(known.probe, Some(Probe::Read(_))));
            let asked_before = known.and_then(|known| known.asked);
            let asked = asked_before.unwrap_or(now);
            let known = known.and_then(|known| known.probe.clone());
            let is_kept = kept.contains_key(&device.name);
            let udev_running = shared.udev_running;
            looks.push(Box::pin(async move {
                let (probe, pending, asked) = match known {
                    _ if !wanted => (None, false, None),
                    // Who does not say who it is would not be read either.
                    known if is_kept => (known, true, asked_before),
                    Some(probe) if !stale => (Some(probe), false, None),
                    known => match self.read(device, told, until).await {
                        // What was read before the change was told may not show it.
                        Some((probe, overtaken)) => (Some(probe), overtaken, None),
                        None if now - asked >= ANSWER_WITHIN => {
                            (Some(Probe::NotResponding), true, Some(asked))
                        }
                        None => (known, true, Some(asked)),
                    },
                };
                let settling = udev_running && device.udev.is_none() && now - since < SETTLE_WITHIN;
                let found = Found {
                    device: device.clone(),
                    probe,
                    since,
                    settling: settling && device.kind != crate::Kind::Sparse,
                    pending,
                    changed: pending && changed,
                    asked,
                };
                (device.name.clone(), found)
            }));
        }
        // All at once: whoever reads knows how many it can read at a time, and that dead ones do not count.
        let mut found: BTreeMap<_, _> = join_all(looks).await.into_iter().collect();
        for name in undescribed.keys() {
            // It is there: what was known of it stays, but for its contents.
            if let Some(known) = before.found.get(name) {
                let mut known = known.clone();
                known.probe = known.probe.map(|_| Probe::NotResponding);
                found.insert(name.clone(), known);
            }
        }
        Ok(Inventory {
            found,
            undescribed,
            awaited,
        })
    }

    /// What came of reading a device, and whether a change was told after the reading began; `None` if it takes longer.
    async fn read(&self, device: &Device, told: bool, until: Instant) -> Option<(Probe, bool)> {
        let left = self.readings().remove(&device.name);
        let left = left.filter(|reading| same(&reading.of, device));
        let mut reading = match left {
            Some(mut reading) => {
                reading.overtaken |= told;
                reading
            }
            None => Reading {
                of: device.clone(),
                task: tokio::spawn((self.read)(device.clone())),
                overtaken: false,
            },
        };
        match timeout_at(until, &mut reading.task).await {
            Ok(Ok(probe)) => Some((probe, reading.overtaken)),
            Ok(Err(error)) => {
                let failed = Probe::Failed(format!("the reading was broken off: {error}"));
                Some((failed, reading.overtaken))
            }
            Err(_) => {
                self.readings().insert(device.name.clone(), reading);
                None
            }
        }
    }

    fn readings(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Reading>> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn shared(&self) -> Result<Shared, Error> {
        let places = self.places.clone();
        blocking(move || {
            let sysfs = Sysfs::at(places.sys);
            let exports = sysfs.exports()?.into_iter();
            Ok(Shared {
                links: sysfs::links(&places.dev)?,
                usage: Usage::read(&places.proc, &places.dev)?,
                exports: exports
                    .map(|(path, by)| Export {
                        number: node_number(&places.dev, &path),
                        path,
                        by,
                    })
                    .collect(),
                names: sysfs.names()?,
                files: places
                    .sparse_files
                    .map(|directory| sparse::files(&directory))
                    .unwrap_or_default(),
                udev_running: places.udev && udev::is_running(),
            })
        })
        .await
        .unwrap_or_else(|why| {
            Err(Error::Read {
                path: self.places.sys.clone(),
                source: std::io::Error::new(std::io::ErrorKind::TimedOut, why),
            })
        })
    }

    async fn describe(
        &self,
        shared: &Shared,
    ) -> (BTreeMap<String, Described>, BTreeMap<String, Undescribed>) {
        let (mut described, undescribed) = if self.in_threads {
            describe_all(&self.describing, &shared.names, &self.describe).await
        } else {
            described_now(&shared.names, &self.describe)
        };
        for (name, one) in &mut described {
            one.device.links = shared.links.get(name).cloned().unwrap_or_default();
        }
        (described, undescribed)
    }
}

/// Describes the devices of these places.
fn describer(places: Places) -> Describe {
    Arc::new(move |name| {
        let Some(mut device) = Sysfs::at(places.sys.clone()).device(name)? else {
            return Ok(None);
        };
        if places.udev {
            note_udev(&mut device);
        }
        let backing = device.backing.as_ref();
        let under = backing.and_then(|backing| node_number(&places.dev, &backing.file));
        Ok(Some(Box::new(Described { device, under })))
    })
}

/// The description that was known of a device, without what is said of all devices in one place: that is known anew.
fn as_before(known: &Device, shared: &Shared) -> Described {
    let device = Device {
        links: shared.links.get(&known.name).cloned().unwrap_or_default(),
        mounts: Vec::new(),
        swap: false,
        exports: Vec::new(),
        ..known.clone()
    };
    Described { device, under: None }
}

/// Describes the devices with these names; says of the others that are there why they could not be.
async fn describe_all(
    describing: &Describing,
    names: &[String],
    describe: &Describe,
) -> (BTreeMap<String, Described>, BTreeMap<String, Undescribed>) {
    let until = Instant::now() + DESCRIBE_WITHIN;
    let (mut described, mut undescribed) = (BTreeMap::new(), BTreeMap::new());
    let mut note = |name: String, result: Result<Said, RecvError>| match result {
        Ok(Ok(Some(device))) => drop(described.insert(name, *device)),
        Ok(Ok(None)) => {}
        Ok(Err(error)) => drop(undescribed.insert(name, Undescribed::Failed(crate::causes(&error)))),
        Err(_) => {
            let why = "the reading was broken off".to_owned();
            drop(undescribed.insert(name, Undescribed::Failed(why)));
        }
    };
    let mut silent = Vec::new();
    let mut late = Vec::new();
    // Boxed: the compiler cannot see by itself that a stream of closures over borrowed names may be sent.
    let mut starts: Vec<BoxFuture<'_, (&String, Answer)>> = Vec::new();
    for name in names {
        starts.push(Box::pin(async move {
            let receiver = start(describing, name, describe);
            let answer = match receiver {
                Ok(Some(mut receiver)) => {
                    let patience = (Instant::now() + PATIENCE).min(until);
                    match timeout_at(patience, &mut receiver).await {
                        Ok(result) => Answer::Came(result),
                        Err(_) => Answer::Late(receiver),
                    }
                }
                Ok(None) => Answer::Silent,
                Err(error) => Answer::Came(Ok(Err(error))),
            };
            (name, answer)
        }));
    }
    let mut started = stream::iter(starts).buffer_unordered(AT_ONCE);
    while let Some((name, answer)) = started.next().await {
        match answer {
            Answer::Came(result) => note(name.clone(), result),
            Answer::Late(receiver) => late.push((name, receiver)),
            Answer::Silent => silent.push(name),
        }
    }
    for (name, mut receiver) in late {
        match timeout_at(until, &mut receiver).await {
            Ok(result) => note(name.clone(), result),
            // What comes later is of then, and nobody waits for it.
            Err(_) => silent.push(name),
        }
    }
    let silent = silent.into_iter();
    undescribed.extend(silent.map(|name| (name.clone(), Undescribed::Silent)));
    (described, undescribed)
}

/// Describes the devices with these names, one after the other.
fn described_now(
    names: &[String],
    describe: &Describe,
) -> (BTreeMap<String, Described>, BTreeMap<String, Undescribed>) {
    let (mut described, mut undescribed) = (BTreeMap::new(), BTreeMap::new());
    for name in names {
        match describe(name) {
            Ok(Some(device)) => drop(described.insert(name.clone(), *device)),
            Ok(None) => {}
            Err(error) => {
                let why = Undescribed::Failed(crate::causes(&error));
                drop(undescribed.insert(name.clone(), why));
            }
        }
    }
    (described, undescribed)
}

/// What came of asking for a description.
enum Answer {
    Came(Result<Said, RecvError>),
    Late(oneshot::Receiver<Said>),
    Silent,
}

/// Begins to describe a device; `None` if an earlier description of it is still under way.
fn start(
    describing: &Describing,
    name: &str,
    describe: &Describe,
) -> Result<Option<oneshot::Receiver<Said>>, Error> {
    let mut describing = describing.lock().unwrap_or_else(PoisonError::into_inner);
    describing.retain(|_, under_way| under_way.strong_count() > 0);
    if describing.contains_key(name) {
        return Ok(None);
    }
    let (sender, receiver) = oneshot::channel();
    let under_way = Arc::new(());
    let noted = Arc::downgrade(&under_way);
    let (describe, asked) = (Arc::clone(describe), name.to_owned());
    // Not one of tokio's threads: at its end the runtime waits for those, and this one may never end.
    std::thread::Builder::new()
        .name(format!("describe {name}"))
        .spawn(move || {
            let result = describe(&asked);
            // Before the answer: who has it may ask again.
            drop(under_way);
            drop(sender.send(result));
        })
        .map_err(|source| Error::Read {
            path: name.into(),
            source,
        })?;
    describing.insert(name.to_owned(), noted);
    Ok(Some(receiver))
}

/// Runs something that may wait for the kernel. What does not end in time is left behind in its thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    match timeout(SHARED_WITHIN, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!(
            "the kernel did not answer within {} s",
            SHARED_WITHIN.as_secs()
        )),
    }
}

fn note_udev(device: &mut Device) {
    device.udev = udev::properties(device.number);
    let said = |key: &str| device.udev(key).map(str::to_ascii_lowercase);
    let (type_id, uuid, md_uuid) = (
        said("ID_PART_ENTRY_TYPE"),
        said("ID_PART_ENTRY_UUID"),
        said("MD_UUID"),
    );
    if let Some(partition) = &mut device.partition {
        partition.type_id = type_id;
        partition.uuid = uuid;
    }
    device.md_uuid = device.md_uuid.take().or(md_uuid);
}

/// Whether two descriptions are of one device, as far as the kernel can tell.
fn same(one: &Device, other: &Device) -> bool {
    one.number == other.number
        && one.sequence == other.sequence
        && one.serial == other.serial
        && one.wwid == other.wwid
}

/// Whether a change was told of the device, its disk or a part of it.
fn touches(look: &Look, device: &Device) -> bool {
    let parent = device.parent.iter();
    let related = parent.chain(&device.partitions).chain(&device.holders);
    std::iter::once(&device.name)
        .chain(related)
        .any(|name| look.changed.contains(name))
}

#[cfg(test)]
mod tests;
