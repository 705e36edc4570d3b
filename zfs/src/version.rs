//! Which OpenZFS a node runs.

use std::fmt;

use serde::Deserialize;

/// A version of OpenZFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number.
    pub patch: u32,
}

impl Version {
    /// Reads what ZFS calls itself: `zfs-2.3.2-2`, `zfs-kmod-2.3.2-2`.
    fn parse(text: &str) -> Option<Self> {
        let rest = text
            .strip_prefix("zfs-kmod-")
            .or_else(|| text.strip_prefix("zfs-"))?;
        // What a distribution or a release candidate appends begins with a dash.
        let numbers = rest.split('-').next()?;
        let mut parts = numbers.split('.').map(|part| part.parse().ok());
        let version = Self {
            major: parts.next()??,
            minor: parts.next()??,
            patch: parts.next()??,
        };
        Some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The versions of the two halves of ZFS. They may differ: a package upgrade does not replace a loaded module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// The programs.
    pub userland: Version,
    /// The kernel module that is loaded.
    pub kernel: Version,
}

/// What `zfs version -j` printed is not what it prints.
#[derive(Debug, thiserror::Error)]
pub enum ParseVersionsError {
    /// It is not the document that OpenZFS 2.3 and newer print.
    #[error("`zfs version -j` printed something else than its versions")]
    Document(#[from] serde_json::Error),
    /// A version is none.
    #[error("`zfs version -j` calls its {half} {text:?}, which is no version")]
    Version {
        /// Whose version it is.
        half: &'static str,
        /// What it printed.
        text: String,
    },
}

#[derive(Deserialize)]
struct Document {
    zfs_version: Halves,
}

#[derive(Deserialize)]
struct Halves {
    userland: String,
    kernel: String,
}

impl Versions {
    /// Reads what `zfs version -j` printed.
    pub fn from_json(text: &str) -> Result<Self, ParseVersionsError> {
        let Document {
            zfs_version: Halves { userland, kernel },
        } = serde_json::from_str(text)?;
        let parse =
            |half, text: String| Version::parse(&text).ok_or(ParseVersionsError::Version { half, text });
        Ok(Self {
            userland: parse("userland", userland)?,
            kernel: parse("kernel module", kernel)?,
        })
    }
}

/// The oldest OpenZFS we drive: the first that prints JSON.
#[derive(Debug, Clone, Copy)]
pub struct Floor;

impl Floor {
    /// The floor.
    pub const VERSION: Version = Version {
        major: 2,
        minor: 3,
        patch: 0,
    };

    /// Refuses versions below the floor.
    pub fn check(versions: Versions) -> Result<(), TooOld> {
        let halves = [
            ("programs", versions.userland),
            ("kernel module", versions.kernel),
        ];
        match halves.into_iter().find(|(_, version)| *version < Self::VERSION) {
            Some((half, version)) => Err(TooOld { half, version }),
            None => Ok(()),
        }
    }
}

/// This OpenZFS is too old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this node has version {version} of the ZFS {half}: install OpenZFS {} or newer",
    Floor::VERSION
)]
pub struct TooOld {
    half: &'static str,
    version: Version,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(major: u32, minor: u32, patch: u32) -> Version {
        Version { major, minor, patch }
    }

    #[test]
    fn what_a_node_prints() {
        let versions = Versions::from_json(include_str!("../fixtures/version.json")).unwrap();
        assert!(versions.userland >= Floor::VERSION, "{versions:?}");
        assert!(versions.kernel >= Floor::VERSION, "{versions:?}");
        Floor::check(versions).unwrap();
    }

    #[test]
    fn names_of_distributions_and_candidates() {
        assert_eq!(Version::parse("zfs-2.3.2-2"), Some(version(2, 3, 2)));
        assert_eq!(Version::parse("zfs-kmod-2.4.0-rc1"), Some(version(2, 4, 0)));
        for wrong in ["", "2.3.2", "zfs-2.3", "zfs-a.b.c", "zfs-kmod-"] {
            assert_eq!(Version::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn anything_else_is_an_error_and_never_a_version() {
        for wrong in [
            "",
            "zfs-2.3.2-2\nzfs-kmod-2.3.2-2",
            "{}",
            r#"{"zfs_version":{"userland":"zfs-2.3.2"}}"#,
        ] {
            assert!(
                matches!(Versions::from_json(wrong), Err(ParseVersionsError::Document(_))),
                "{wrong}"
            );
        }
        let odd = r#"{"zfs_version":{"userland":"zfs-2.3.2-2","kernel":"-"}}"#;
        assert!(matches!(
            Versions::from_json(odd),
            Err(ParseVersionsError::Version { .. })
        ));
    }

    #[test]
    fn below_the_floor_is_refused_with_what_to_do() {
        let versions = Versions {
            userland: version(2, 3, 4),
            kernel: version(2, 2, 9),
        };
        let error = Floor::check(versions).unwrap_err().to_string();
        assert_eq!(
            error,
            "this node has version 2.2.9 of the ZFS kernel module: install OpenZFS 2.3.0 or newer"
        );
    }
}
