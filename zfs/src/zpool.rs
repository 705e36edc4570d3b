//! Pools: what can be asked of them and done to them.

use std::collections::BTreeMap;
use std::time::Duration;

use camino::Utf8PathBuf;
use futures::stream::BoxStream;

use crate::{Guid, Layout, PoolName, PoolStatus, PoolSummary, Result};

/// A pool to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPool {
    /// Its name.
    pub name: PoolName,
    /// Of what.
    pub layout: Layout,
    /// Pool properties (`-o`), such as ashift, autotrim, failmode, comment, compatibility, multihost.
    pub properties: BTreeMap<String, String>,
    /// Properties of the dataset at its top (`-O`), such as compression, canmount and our own.
    pub root: BTreeMap<String, String>,
}

/// A pool to be taken up, from these devices and no others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Which.
    pub guid: Guid,
    /// By which name; its own if absent.
    pub name: Option<PoolName>,
    /// The devices to look at, as they are named now.
    pub devices: Vec<Utf8PathBuf>,
    /// Properties to be set while importing, such as cachefile.
    pub properties: BTreeMap<String, String>,
    /// Take it up although its label names another host as its user. Only for whom this has been established by other
    /// means, or by a person.
    pub although_in_use: bool,
    /// Take it up although a log device is missing: the last seconds of synchronous writes are lost.
    pub without_log: bool,
    /// Change nothing on it.
    pub read_only: bool,
}

/// What a scrub is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScrubCommand {
    /// Begin, or go on after a pause.
    Start,
    /// Interrupt it, to go on later.
    Pause,
    /// Break it off.
    Stop,
}

/// How a device is switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Online {
    /// At the size it has in the pool.
    AsIs,
    /// At the size it has grown to.
    Expand,
}

/// How long a device is switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offline {
    /// Until it is switched on.
    Lasting,
    /// Until the pool is imported the next time.
    UntilImport,
}

/// What runs in the background of a pool and can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Anything that restores redundancy.
    Resilver,
    /// A device that takes the place of another.
    Replace,
    /// A scrub.
    Scrub,
    /// The removal of a vdev.
    Remove,
    /// The widening of a raidz group.
    RaidzExpand,
    /// Initializing.
    Initialize,
    /// Trimming.
    Trim,
    /// Space that is being freed.
    Free,
}

/// Something happened to a pool. What it is now is asked, not told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolEvent {
    /// The class, such as sysevent.fs.zfs.resilver_finish or resource.fs.zfs.statechange.
    pub class: String,
    /// The pool, if the event is about one.
    pub pool: Option<PoolName>,
    /// The vdev, if the event is about one.
    pub vdev: Option<Guid>,
}

/// The pools of this host.
///
/// # Guarantees
/// - Every call comes to an end: by its result, or by [`Error::TimedOut`](crate::Error::TimedOut).
/// - Calls that change a pool go one after the other for each pool; what only looks does not wait for them.
/// - A device is named by its number wherever it is part of a pool already.
/// - Nothing is forced: a device that ZFS believes to be in use is refused.
pub trait Pools: Clone + Send + Sync + 'static {
    /// All pools that are imported.
    fn list(&self) -> impl Future<Output = Result<Vec<PoolSummary>>> + Send;

    /// One pool as it is. The pool must be imported; [`Self::list`] tells.
    fn status(&self, pool: &PoolName) -> impl Future<Output = Result<PoolStatus>> + Send;

    /// Pool properties, ours included, as exact texts.
    fn properties(&self, pool: &PoolName) -> impl Future<Output = Result<BTreeMap<String, String>>> + Send;

    /// Sets a pool property.
    fn set(&self, pool: &PoolName, name: &str, value: &str) -> impl Future<Output = Result<()>> + Send;

    /// Makes a pool.
    fn create(&self, new: &NewPool) -> impl Future<Output = Result<()>> + Send;

    /// Takes up a pool.
    fn import(&self, import: &Import) -> impl Future<Output = Result<()>> + Send;

    /// Lets go of a pool.
    fn export(&self, pool: &PoolName) -> impl Future<Output = Result<()>> + Send;

    /// Destroys a pool.
    fn destroy(&self, pool: &PoolName) -> impl Future<Output = Result<()>> + Send;

    /// Adds groups and devices.
    fn add(&self, pool: &PoolName, layout: &Layout) -> impl Future<Output = Result<()>> + Send;

    /// Makes a device a copy of another, or widens a raidz group by it.
    fn attach(
        &self,
        pool: &PoolName,
        to: Guid,
        device: &Utf8PathBuf,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Takes a copy away, or breaks off a replacement.
    fn detach(&self, pool: &PoolName, device: Guid) -> impl Future<Output = Result<()>> + Send;

    /// Begins to put a device in the place of another.
    fn replace(
        &self,
        pool: &PoolName,
        old: Guid,
        new: &Utf8PathBuf,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Switches a device on.
    fn online(&self, pool: &PoolName, device: Guid, how: Online) -> impl Future<Output = Result<()>> + Send;

    /// Switches a device off.
    fn offline(&self, pool: &PoolName, device: Guid, how: Offline)
    -> impl Future<Output = Result<()>> + Send;

    /// Removes a vdev; its data is moved to the others in the background.
    fn remove(&self, pool: &PoolName, vdev: Guid) -> impl Future<Output = Result<()>> + Send;

    /// Forgets the errors of a device, or of all, and has a suspended pool try again.
    fn clear(&self, pool: &PoolName, device: Option<Guid>) -> impl Future<Output = Result<()>> + Send;

    /// Has ZFS open all devices of a pool anew. One that was pulled is noticed by this; a pool that nobody writes to would
    /// go on believing that it is there.
    fn reopen(&self, pool: &PoolName) -> impl Future<Output = Result<()>> + Send;

    /// Clears the ZFS labels of a device that belongs to no pool any more, if they are of the vdev of this number.
    fn clear_labels(&self, device: &Utf8PathBuf, of: Guid) -> impl Future<Output = Result<()>> + Send;

    /// Begins, interrupts or breaks off a scrub.
    fn scrub(&self, pool: &PoolName, what: ScrubCommand) -> impl Future<Output = Result<()>> + Send;

    /// Begins to tell the devices of free space.
    fn trim(&self, pool: &PoolName) -> impl Future<Output = Result<()>> + Send;

    /// Begins to write to all free space of the devices once.
    fn initialize(&self, pool: &PoolName) -> impl Future<Output = Result<()>> + Send;

    /// Waits until an activity has ended, but not longer than this. Returns whether it has.
    fn wait(
        &self,
        pool: &PoolName,
        activity: Activity,
        within: Duration,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Whether newer features of this ZFS are not enabled on the pool.
    fn is_upgradable(&self, pool: &PoolName) -> impl Future<Output = Result<bool>> + Send;

    /// What happens from now on, for ever. Events may be lost; who wants to be sure looks from time to time.
    fn events(&self) -> BoxStream<'static, PoolEvent>;
}
