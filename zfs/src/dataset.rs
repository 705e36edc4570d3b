//! Volumes and snapshots: what can be asked of them and done to them.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;

use crate::{DatasetName, Guid, PoolName, Result, SnapshotName};

/// What a dataset is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DatasetKind {
    /// A file system.
    FileSystem,
    /// A volume.
    Volume,
    /// A snapshot.
    Snapshot,
    /// A bookmark.
    Bookmark,
}

/// Where a property's value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// Set here.
    Local,
    /// The built-in value.
    Default,
    /// Set on the dataset that is named.
    Inherited(String),
    /// Came with a stream.
    Received,
    /// For as long as it is mounted.
    Temporary,
    /// Not a setting but a fact.
    None,
}

/// The value of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// The exact text; numbers in digits.
    pub text: String,
    /// Where it comes from.
    pub source: Source,
}

/// A dataset as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// Its whole name; of a snapshot with the @.
    pub name: String,
    /// What it is.
    pub kind: DatasetKind,
    /// The properties that were asked for.
    pub properties: BTreeMap<String, Value>,
}

impl Dataset {
    /// The text of a property, if it has one.
    #[must_use]
    pub fn text(&self, property: &str) -> Option<&str> {
        let value = self.properties.get(property)?;
        (value.text != "-").then_some(value.text.as_str())
    }

    /// A property that is a number.
    #[must_use]
    pub fn number(&self, property: &str) -> Option<u64> {
        self.text(property)?.parse().ok()
    }
}

/// A volume to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVolume {
    /// Its name.
    pub name: DatasetName,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether space is set aside for all of it only as it is written.
    pub thin: bool,
    /// Its properties, such as volblocksize, compression and our own.
    pub properties: BTreeMap<String, String>,
}

/// A stream to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Send {
    /// A snapshot, whole or as the difference to an earlier one.
    Snapshot {
        /// Which.
        snapshot: SnapshotName,
        /// The earlier one: the name of a snapshot or bookmark.
        since: Option<String>,
        /// As it lies on the disks, encrypted if it is.
        raw: bool,
    },
    /// The rest of a stream of which the other side has a part.
    Resume {
        /// What the other side says it has.
        token: String,
    },
}

/// The datasets of this host.
///
/// # Guarantees
/// - Every call comes to an end, except that a stream takes as long as it takes.
/// - A list that cannot be had is an error, never an empty one.
/// - Nothing is destroyed but what is named: no dependents, no snapshots, no clones.
pub trait Datasets: Clone + std::marker::Send + Sync + 'static {
    /// All datasets of these kinds in a pool, with these properties. The pool must be imported.
    fn list(
        &self,
        pool: &PoolName,
        kinds: &[DatasetKind],
        properties: &[&str],
    ) -> impl Future<Output = Result<Vec<Dataset>>> + std::marker::Send;

    /// Properties of one dataset or snapshot that exists.
    fn get(
        &self,
        name: &str,
        properties: &[&str],
    ) -> impl Future<Output = Result<Dataset>> + std::marker::Send;

    /// Sets properties of a dataset, all or none.
    fn set(
        &self,
        name: &DatasetName,
        properties: &BTreeMap<String, String>,
    ) -> impl Future<Output = Result<()>> + std::marker::Send;

    /// Takes a property back to what it would be without having been set.
    fn inherit(
        &self,
        name: &DatasetName,
        property: &str,
    ) -> impl Future<Output = Result<()>> + std::marker::Send;

    /// Makes a volume.
    fn create_volume(&self, new: &NewVolume) -> impl Future<Output = Result<()>> + std::marker::Send;

    /// Makes a file system.
    fn create_file_system(
        &self,
        name: &DatasetName,
        properties: &BTreeMap<String, String>,
    ) -> impl Future<Output = Result<()>> + std::marker::Send;

    /// Makes a volume larger.
    fn grow(&self, name: &DatasetName, bytes: u64) -> impl Future<Output = Result<()>> + std::marker::Send;

    /// Destroys a dataset without snapshots, or a snapshot without clones.
    fn destroy(&self, name: &str) -> impl Future<Output = Result<()>> + std::marker::Send;

    /// Takes snapshots, all of them in one moment; they must be in one pool.
    fn snapshot(
        &self,
        snapshots: &[SnapshotName],
        properties: &BTreeMap<String, String>,
    ) -> impl Future<Output = Result<()>> + std::marker::Send;

    /// Makes a volume of a snapshot.
    fn clone_snapshot(
        &self,
        snapshot: &SnapshotName,
        to: &DatasetName,
        properties: &BTreeMap<String, String>,
    ) -> impl Future<Output = Result<()>> + std::marker::Send;

    /// Turns a clone and its origin around, so that the origin can be destroyed.
    fn promote(&self, clone: &DatasetName) -> impl Future<Output = Result<()>> + std::marker::Send;

    /// Gives a dataset or snapshot another name.
    fn rename(&self, from: &str, to: &str) -> impl Future<Output = Result<()>> + std::marker::Send;

    /// Keeps a snapshot from being destroyed.
    fn hold(
        &self,
        snapshot: &SnapshotName,
        tag: &str,
    ) -> impl Future<Output = Result<()>> + std::marker::Send;

    /// Ends a hold.
    fn release(
        &self,
        snapshot: &SnapshotName,
        tag: &str,
    ) -> impl Future<Output = Result<()>> + std::marker::Send;

    /// The tags of the holds on a snapshot.
    fn holds(&self, snapshot: &SnapshotName)
    -> impl Future<Output = Result<Vec<String>>> + std::marker::Send;

    /// Writes a stream into a file, pipe or socket.
    fn send(
        &self,
        what: &Send,
        into: std::os::fd::OwnedFd,
    ) -> impl Future<Output = Result<()>> + std::marker::Send;

    /// Reads a stream from a file, pipe or socket. What arrived of an interrupted one is kept, and
    /// `receive_resume_token` of the dataset tells how to go on.
    fn receive(
        &self,
        to: &DatasetName,
        properties: &BTreeMap<String, String>,
        from: std::os::fd::OwnedFd,
    ) -> impl Future<Output = Result<()>> + std::marker::Send;

    /// Throws away what arrived of an interrupted stream.
    fn abort_receive(&self, to: &DatasetName) -> impl Future<Output = Result<()>> + std::marker::Send;

    /// Where the kernel shows a volume.
    fn device(&self, volume: &DatasetName) -> Utf8PathBuf {
        Utf8PathBuf::from("/dev/zvol").join(volume.as_str())
    }

    /// The number of a dataset, which it keeps under any name.
    fn guid(&self, name: &str) -> impl Future<Output = Result<Guid>> + std::marker::Send {
        async move {
            let dataset = self.get(name, &["guid"]).await?;
            let guid = dataset.number("guid");
            guid.map(Guid).ok_or_else(|| crate::Error::Unparsable {
                doing: format!("read the GUID of {name}"),
                why: "there is none in the answer".to_owned(),
            })
        }
    }
}
