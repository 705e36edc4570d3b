//! The shape of a draid group.

use std::fmt;

/// How many devices of a draid group are for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DraidShape {
    /// How many may fail in each redundancy group.
    pub parity: u8,
    /// Devices' worth of data in each redundancy group; ZFS chooses if absent.
    pub data: Option<u16>,
    /// Devices in all.
    pub children: u16,
    /// Devices' worth of spare space.
    pub spares: u16,
}

impl fmt::Display for DraidShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "draid{}", self.parity)?;
        if let Some(data) = self.data {
            write!(f, ":{data}d")?;
        }
        write!(f, ":{}c:{}s", self.children, self.spares)
    }
}
