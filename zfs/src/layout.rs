//! What a pool is built of: groups of devices, by what they are for.

use std::fmt;

use camino::Utf8PathBuf;

use crate::DraidShape;

/// How the devices of a group share the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Redundancy {
    /// Each device by itself.
    Stripe,
    /// Every device has everything.
    Mirror,
    /// As many devices of the group may fail as this says: one, two or three.
    Raidz(u8),
    /// Parity and spare space over many devices.
    Draid(DraidShape),
}

impl fmt::Display for Redundancy {
    /// The word `zpool create` knows; nothing for devices by themselves.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stripe => Ok(()),
            Self::Mirror => f.write_str("mirror"),
            Self::Raidz(parity) => write!(f, "raidz{parity}"),
            Self::Draid(shape) => shape.fmt(f),
        }
    }
}

/// Devices that together are one part of a pool. For [`Redundancy::Stripe`] each is a part by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// How they share the data.
    pub redundancy: Redundancy,
    /// The devices, in order.
    pub devices: Vec<Utf8PathBuf>,
}

/// A pool, or what is to be added to one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// The data.
    pub data: Vec<Group>,
    /// Synchronous writes.
    pub log: Vec<Group>,
    /// Metadata and small blocks.
    pub special: Vec<Group>,
    /// The table of deduplicated blocks.
    pub dedup: Vec<Group>,
    /// Copies of what is read often.
    pub cache: Vec<Utf8PathBuf>,
    /// Devices that wait for others to fail.
    pub spare: Vec<Utf8PathBuf>,
}

impl Layout {
    /// All devices, in the order in which ZFS is given them.
    pub fn devices(&self) -> impl Iterator<Item = &Utf8PathBuf> {
        let groups = [&self.data, &self.special, &self.dedup, &self.log];
        let grouped = groups.into_iter().flatten().flat_map(|group| &group.devices);
        grouped.chain(&self.cache).chain(&self.spare)
    }

    /// The words that `zpool create` and `zpool add` take.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (class, groups) in [
            ("", &self.data),
            ("special", &self.special),
            ("dedup", &self.dedup),
            ("log", &self.log),
        ] {
            for group in groups {
                let kind = group.redundancy.to_string();
                let before = [class.to_owned(), kind];
                words.extend(before.into_iter().filter(|word| !word.is_empty()));
                words.extend(group.devices.iter().map(ToString::to_string));
            }
        }
        for (class, devices) in [("cache", &self.cache), ("spare", &self.spare)] {
            if !devices.is_empty() {
                words.push(class.to_owned());
                words.extend(devices.iter().map(ToString::to_string));
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(redundancy: Redundancy, devices: &[&str]) -> Group {
        Group {
            redundancy,
            devices: devices.iter().map(Into::into).collect(),
        }
    }

    #[test]
    fn the_words_of_a_pool() {
        let layout = Layout {
            data: vec![
                group(Redundancy::Raidz(2), &["/dev/a", "/dev/b", "/dev/c"]),
                group(Redundancy::Raidz(2), &["/dev/d", "/dev/e", "/dev/f"]),
            ],
            log: vec![group(Redundancy::Mirror, &["/dev/l1", "/dev/l2"])],
            special: vec![group(Redundancy::Mirror, &["/dev/s1", "/dev/s2"])],
            dedup: vec![group(Redundancy::Stripe, &["/dev/t"])],
            cache: vec!["/dev/x".into()],
            spare: vec!["/dev/y".into(), "/dev/z".into()],
        };
        assert_eq!(
            layout.words().join(" "),
            "raidz2 /dev/a /dev/b /dev/c raidz2 /dev/d /dev/e /dev/f special mirror /dev/s1 /dev/s2 dedup /dev/t \
             log mirror /dev/l1 /dev/l2 cache /dev/x spare /dev/y /dev/z"
        );
        assert_eq!(layout.devices().count(), 14);
    }

    #[test]
    fn devices_by_themselves_and_draid() {
        let shape = DraidShape {
            parity: 2,
            data: Some(4),
            children: 9,
            spares: 1,
        };
        let stripe = Layout {
            data: vec![group(Redundancy::Stripe, &["/dev/a", "/dev/b"])],
            ..Layout::default()
        };
        assert_eq!(stripe.words(), ["/dev/a", "/dev/b"]);
        let draid = Layout {
            data: vec![group(Redundancy::Draid(shape), &["/dev/a"])],
            ..Layout::default()
        };
        assert_eq!(draid.words(), ["draid2:4d:9c:1s", "/dev/a"]);
    }
}
