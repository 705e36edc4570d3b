//! The command line of each verb, checked before it is run.

pub(super) mod dataset;
pub(super) mod pool;

use std::collections::BTreeMap;

use camino::Utf8Path;

use crate::{DatasetName, Error, PoolName, Result, SnapshotName};

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    /// zpool.
    Zpool,
    /// zfs.
    Zfs,
}

/// A command line, and what it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    /// Which program.
    pub(super) tool: Tool,
    /// Its arguments.
    pub(super) words: Vec<String>,
    /// What is being done, for people.
    pub(super) doing: String,
    /// Whose queue it belongs to: a pool's name, or where that is not known the number, or the path of a device.
    pub(super) pool: String,
}

impl Command {
    fn zpool(verb: &str, pool: impl ToString, doing: String) -> Self {
        Self::new(Tool::Zpool, verb, pool, doing)
    }

    fn zfs(verb: &str, pool: impl ToString, doing: String) -> Self {
        Self::new(Tool::Zfs, verb, pool, doing)
    }

    fn new(tool: Tool, verb: &str, pool: impl ToString, doing: String) -> Self {
        Self {
            tool,
            words: vec![verb.to_owned()],
            doing,
            pool: pool.to_string(),
        }
    }

    fn word(mut self, word: impl ToString) -> Self {
        self.words.push(word.to_string());
        self
    }

    fn words<S: ToString>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.words.extend(words.into_iter().map(|word| word.to_string()));
        self
    }

    fn word_if(self, condition: bool, word: &str) -> Self {
        if condition { self.word(word) } else { self }
    }

    /// An option with properties, each by itself: `-o name=value`.
    fn properties(mut self, option: &str, properties: &BTreeMap<String, String>) -> Result<Self> {
        for (name, value) in properties {
            let assignment = self.assignment(name, value)?;
            self = self.word(option).word(assignment);
        }
        Ok(self)
    }

    fn assignment(&self, name: &str, value: &str) -> Result<String> {
        self.check_property(name)?;
        if value.contains('\0') {
            return Err(self.refused(format!("the value of {name} has a zero byte")));
        }
        Ok(format!("{name}={value}"))
    }

    /// A name that is no option, no list of names and no assignment.
    fn check_property(&self, name: &str) -> Result<()> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b":+._@/-".contains(&byte);
        if name.is_empty() || name.starts_with('-') || !name.bytes().all(allowed) {
            return Err(self.refused(format!("{name:?} is no name of a property")));
        }
        Ok(())
    }

    /// A device that ZFS cannot take for a word of its own, nor look for in directories of its own choice.
    fn device(self, device: &Utf8Path) -> Result<Self> {
        self.check_device(device)?;
        Ok(self.word(device))
    }

    fn check_device(&self, device: &Utf8Path) -> Result<()> {
        if !device.is_absolute() || device.as_str().contains('\0') {
            return Err(self.refused(format!("{:?} is no path of a device", device.as_str())));
        }
        Ok(())
    }

    /// Not done, for a reason of ours.
    pub(super) fn refused(&self, said: impl Into<String>) -> Error {
        Error::Refused {
            doing: self.doing.clone(),
            said: said.into(),
        }
    }
}

/// What a name names, checked: nothing that ZFS takes for several, as it does `a@b%c` and `a@b,c`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Named {
    Dataset(DatasetName),
    Snapshot(SnapshotName),
    Bookmark(DatasetName),
}

impl Named {
    fn new(name: &str, doing: &str) -> Result<Self> {
        let checked = if let Some((dataset, bookmark)) = name.split_once('#') {
            // A bookmark's own name is like a snapshot's.
            SnapshotName::new(format!("{dataset}@{bookmark}")).map(|twin| Self::Bookmark(twin.dataset()))
        } else if name.contains('@') {
            SnapshotName::new(name).map(Self::Snapshot)
        } else {
            DatasetName::new(name).map(Self::Dataset)
        };
        checked.map_err(|error| Error::Refused {
            doing: doing.to_owned(),
            said: error.to_string(),
        })
    }

    fn pool(&self) -> PoolName {
        match self {
            Self::Dataset(dataset) | Self::Bookmark(dataset) => dataset.pool(),
            Self::Snapshot(snapshot) => snapshot.dataset().pool(),
        }
    }
}

#[cfg(test)]
mod tests;
