//! Names and numbers that ZFS gives, checked once.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What is wrong with a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no name of {of}: {why}")]
pub struct NameError {
    name: String,
    of: &'static str,
    why: &'static str,
}

/// The longest name of a dataset or snapshot, in bytes.
const LONGEST: usize = 255;

/// What no pool's name may begin with, since `zpool create` reads it as a kind of vdev.
const KINDS: [&str; 4] = ["mirror", "raidz", "draid", "spare"];

fn is_component(text: &str) -> Result<(), &'static str> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.: ".contains(&byte);
    if text.is_empty() {
        return Err("a part of it is empty");
    }
    if text == "." || text == ".." {
        return Err("a part of it is . or ..");
    }
    if !text.bytes().all(allowed) {
        return Err("use letters, digits, and - _ . :");
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $of:literal, $check:path) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// Checks a name.
            pub fn new(name: impl Into<String>) -> Result<Self, NameError> {
                let name = name.into();
                let checked = if name.len() > LONGEST {
                    Err("it is longer than 255 bytes")
                } else {
                    $check(&name)
                };
                match checked {
                    Ok(()) => Ok(Self(name)),
                    Err(why) => Err(NameError { name, of: $of, why }),
                }
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $type {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0
            }
        }
    };
}

fn check_pool(name: &str) -> Result<(), &'static str> {
    is_component(name)?;
    if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return Err("it must begin with a letter");
    }
    let device = name.strip_prefix('c').and_then(|rest| rest.chars().next());
    if device.is_some_and(|second| second.is_ascii_digit()) {
        return Err("c and a digit at the beginning are kept for devices");
    }
    if name == "log" || KINDS.iter().any(|kind| name.starts_with(kind)) {
        return Err("the word is kept for kinds of vdevs");
    }
    Ok(())
}

fn check_dataset(name: &str) -> Result<(), &'static str> {
    let mut parts = name.split('/');
    check_pool(parts.next().unwrap_or_default())?;
    parts.try_for_each(is_component)
}

fn check_snapshot(name: &str) -> Result<(), &'static str> {
    match name.split_once('@') {
        Some((dataset, snapshot)) => check_dataset(dataset).and_then(|()| is_component(snapshot)),
        None => Err("there is no @ in it"),
    }
}

name! {
    /// The name of a pool.
    PoolName, "a pool", check_pool
}

name! {
    /// The name of a file system or volume: the pool and the way down from it.
    DatasetName, "a dataset", check_dataset
}

name! {
    /// The name of a snapshot: its dataset, @, and its own.
    SnapshotName, "a snapshot", check_snapshot
}

impl PoolName {
    /// The dataset at the top of the pool.
    #[must_use]
    pub fn root(&self) -> DatasetName {
        DatasetName(self.0.clone())
    }
}

impl DatasetName {
    /// The pool it is in.
    #[must_use]
    pub fn pool(&self) -> PoolName {
        let end = self.0.find('/').unwrap_or(self.0.len());
        PoolName(self.0.get(..end).unwrap_or_default().to_owned())
    }

    /// A dataset below this one.
    pub fn child(&self, name: &str) -> Result<Self, NameError> {
        Self::new(format!("{self}/{name}"))
    }

    /// A snapshot of this dataset.
    pub fn snapshot(&self, name: &str) -> Result<SnapshotName, NameError> {
        SnapshotName::new(format!("{self}@{name}"))
    }
}

impl SnapshotName {
    /// What it is a snapshot of.
    #[must_use]
    pub fn dataset(&self) -> DatasetName {
        let end = self.0.find('@').unwrap_or(self.0.len());
        DatasetName(self.0.get(..end).unwrap_or_default().to_owned())
    }
}

/// The number of a pool or vdev, which it has for life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Guid(pub u64);

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Guid {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl TryFrom<String> for Guid {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Guid> for String {
    fn from(guid: Guid) -> Self {
        guid.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_zfs_takes() {
        for name in [
            "tank",
            "cstor-0ba5b3ac-4a3e-4a1a-9b35-2d4b9e6c2f22",
            "logs",
            "a.b:c_d",
        ] {
            assert_eq!(PoolName::new(name).map(String::from), Ok(name.to_owned()));
        }
        let name = PoolName::new("tank").unwrap();
        let volume = name.root().child("pvc-1").unwrap();
        assert_eq!((volume.as_str(), volume.pool()), ("tank/pvc-1", name));
        let snapshot = volume.snapshot("s 1").unwrap();
        assert_eq!(
            (snapshot.as_str(), snapshot.dataset()),
            ("tank/pvc-1@s 1", volume)
        );
    }

    #[test]
    fn names_that_it_does_not() {
        for name in [
            "", "1st", "-f", "mirror", "mirrored", "raidz9", "draid2", "log", "c0t0", "a/b", "a@b", "a%b",
            "ä",
        ] {
            assert!(PoolName::new(name).is_err(), "{name:?}");
        }
        let long = format!("tank/{}", "x".repeat(251));
        for name in [
            "tank/",
            "/tank",
            "tank//a",
            "tank/../a",
            "tank/.",
            "tank/a@b",
            &long,
        ] {
            assert!(DatasetName::new(name).is_err(), "{name:?}");
        }
        for name in ["tank", "tank@", "@a", "tank@a@b", "tank@a/b"] {
            assert!(SnapshotName::new(name).is_err(), "{name:?}");
        }
        let said = PoolName::new("a b%").unwrap_err().to_string();
        assert_eq!(
            said,
            "\"a b%\" is no name of a pool: use letters, digits, and - _ . :"
        );
    }

    #[test]
    fn a_guid_is_a_text_in_json() {
        let guid = Guid(u64::MAX);
        assert_eq!(serde_json::to_string(&guid).unwrap(), "\"18446744073709551615\"");
        assert_eq!(
            serde_json::from_str::<Guid>("\"18446744073709551615\"").unwrap(),
            guid
        );
        assert!("18446744073709551616".parse::<Guid>().is_err());
    }
}
