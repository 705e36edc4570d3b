//! ZFS labels: what a device says of the pool it belongs to, read without ZFS.
//!
//! A device of a pool carries four copies of its label: two at its beginning, two at its end. Each has the description
//! of the pool, an XDR-encoded list of names and values, and a ring of uberblocks.
//!
//! What is read here was written by anybody. The list is walked pair by pair inside the bytes that were read: nothing is
//! allocated but the few texts that are kept, nested lists are stepped over by the size of their pair, and what does not
//! add up makes the whole label [damaged](Labels::damaged) and never a shorter one.

use std::io;

use serde::Serialize;

/// The size of one label.
const LABEL: u64 = 256 << 10;
/// Where the description of the pool is in a label, and its size.
const LIST_AT: u64 = 16 << 10;
const LIST: usize = 112 << 10;
/// Where the ring of uberblocks is in a label, and its size.
const RING_AT: u64 = 128 << 10;
const RING: usize = 128 << 10;
/// Uberblocks are at least this far apart.
const UBERBLOCK: usize = 1 << 10;
/// What an uberblock begins with, in the byte order of who wrote it.
const UBERBLOCK_MAGIC: u64 = 0x00ba_b10c;

/// The first byte of a list: how it is encoded. ZFS writes labels in XDR alone.
const XDR: u8 = 1;
/// The only version of lists there is.
const LIST_VERSION: u32 = 0;
/// The numbers of the types that are read; the others are stepped over.
const TYPE_U64: u32 = 8;
const TYPE_STRING: u32 = 9;

/// What a label says. Only what is needed to tell whose the device is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Label {
    /// The name of the pool. Absent in the label of a spare or a cache device.
    pub pool_name: Option<String>,
    /// The GUID of the pool. Absent in the label of a spare or a cache device.
    pub pool_guid: Option<u64>,
    /// The GUID of this device in the pool.
    pub vdev_guid: u64,
    /// The comment of the pool.
    pub comment: Option<String>,
    /// The state of the pool, in ZFS's numbers: 0 active, 1 exported, 2 destroyed, 3 spare, 4 L2ARC.
    pub state: u64,
    /// The transaction group the label was written in; 0 for spares and cache devices, which have none.
    pub txg: u64,
    /// The host that had the pool last.
    pub hostname: Option<String>,
    /// The id of that host.
    pub hostid: Option<u64>,
}

/// What the labels of one device say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Labels {
    /// The label with the highest transaction group.
    pub best: Option<Label>,
    /// Labels that speak of another pool or another device than the best one does: a device that had two lives.
    pub others: Vec<Label>,
    /// There is a label that cannot be understood. Somebody's pool is, or was, on the device.
    pub damaged: bool,
    /// There is an uberblock: a pool has written to the device at least once. A device whose pool died while it was being
    /// made has labels at most.
    pub written: bool,
}

impl Labels {
    /// Reads the labels of a device of `bytes` bytes. `source` reads that many bytes at that offset, or fails.
    pub fn read(bytes: u64, mut source: impl FnMut(u64, usize) -> io::Result<Vec<u8>>) -> io::Result<Self> {
        let mut labels = Self::default();
        let mut found: Vec<Label> = Vec::new();
        for place in places(bytes) {
            let list = source(place.saturating_add(LIST_AT), LIST)?;
            let ring = source(place.saturating_add(RING_AT), RING)?;
            let written = has_uberblock(&ring);
            labels.written |= written;
            match Label::decode(&list) {
                Some(label) => found.push(label),
                None => labels.damaged |= written,
            }
        }
        // Of equals the first: they say the same, or disagree and are told as others.
        let best = found.iter().rev().max_by_key(|label| label.txg).cloned();
        for label in found {
            let same = |other: &Label| other.is_of_the_same_device(&label);
            if !best.as_ref().is_some_and(same) && !labels.others.iter().any(same) {
                labels.others.push(label);
            }
        }
        labels.best = best;
        Ok(labels)
    }
}

impl Label {
    /// What the description of a pool in a label says; `None` if it is none, or not a whole one.
    #[must_use]
    pub fn decode(list: &[u8]) -> Option<Self> {
        let mut rest = Bytes(list);
        let [XDR, _byte_order, _, _] = rest.take(4)? else {
            return None;
        };
        if rest.u32()? != LIST_VERSION {
            return None;
        }
        let _flags = rest.u32()?;
        let (mut numbers, mut texts) = (Numbers::default(), Texts::default());
        while let Some(pair) = rest.pair()? {
            match pair {
                Pair::Number(name, value) => set(numbers.field(name), value)?,
                Pair::Text(name, value) => set(texts.field(name), text(value))?,
                Pair::Other => {}
            }
        }
        Some(Self {
            pool_name: texts.name,
            pool_guid: numbers.pool_guid,
            vdev_guid: numbers.guid?,
            comment: texts.comment,
            state: numbers.state?,
            txg: numbers.txg.unwrap_or_default(),
            hostname: texts.hostname,
            hostid: numbers.hostid,
        })
    }

    /// Whether both speak of the same device of the same pool.
    fn is_of_the_same_device(&self, other: &Self) -> bool {
        (self.pool_guid, self.vdev_guid) == (other.pool_guid, other.vdev_guid)
    }
}

/// Where the labels of a device of this size are. The two at the end are counted from a whole number of labels.
fn places(bytes: u64) -> Vec<u64> {
    let end = bytes - bytes % LABEL;
    if end < 4 * LABEL {
        return Vec::new();
    }
    vec![0, LABEL, end - 2 * LABEL, end - LABEL]
}

/// Whether an uberblock is in a ring, of a machine of either byte order.
fn has_uberblock(ring: &[u8]) -> bool {
    ring.chunks(UBERBLOCK).any(|slot| {
        slot.first_chunk().is_some_and(|magic| {
            u64::from_le_bytes(*magic) == UBERBLOCK_MAGIC || u64::from_be_bytes(*magic) == UBERBLOCK_MAGIC
        })
    })
}

#[derive(Default)]
struct Numbers {
    txg: Option<u64>,
    pool_guid: Option<u64>,
    guid: Option<u64>,
    state: Option<u64>,
    hostid: Option<u64>,
}

impl Numbers {
    fn field(&mut self, name: &[u8]) -> Option<&mut Option<u64>> {
        match name {
            b"txg" => Some(&mut self.txg),
            b"pool_guid" => Some(&mut self.pool_guid),
            b"guid" => Some(&mut self.guid),
            b"state" => Some(&mut self.state),
            b"hostid" => Some(&mut self.hostid),
            _ => None,
        }
    }
}

#[derive(Default)]
struct Texts {
    name: Option<String>,
    hostname: Option<String>,
    comment: Option<String>,
}

impl Texts {
    fn field(&mut self, name: &[u8]) -> Option<&mut Option<String>> {
        match name {
            b"name" => Some(&mut self.name),
            b"hostname" => Some(&mut self.hostname),
            b"comment" => Some(&mut self.comment),
            _ => None,
        }
    }
}

/// Sets a field that is kept. A name that comes twice makes the list one that ZFS did not write: `None`.
fn set<T>(field: Option<&mut Option<T>>, value: T) -> Option<()> {
    match field {
        None => Some(()),
        Some(field) => field.replace(value).is_none().then_some(()),
    }
}

/// Bytes that are no UTF-8 become U+FFFD, which no text that we compare with holds.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// One name and its value.
enum Pair<'a> {
    Number(&'a [u8], u64),
    Text(&'a [u8], &'a [u8]),
    Other,
}

/// The bytes that are still to be read. Every step takes some or fails.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_be_bytes)
    }

    /// A length and that many bytes, filled up to a multiple of four.
    fn string(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u32()?).ok()?;
        let filled = self.take(length.checked_next_multiple_of(4)?)?;
        filled.get(..length)
    }

    /// The next pair; `Some(None)` at the end of the list, `None` if it cannot be read.
    fn pair(&mut self) -> Option<Option<Pair<'a>>> {
        let (encoded, decoded) = (self.u32()?, self.u32()?);
        if (encoded, decoded) == (0, 0) {
            return Some(None);
        }
        // The size counts itself and its twin.
        let size = usize::try_from(encoded).ok()?.checked_sub(8)?;
        let mut pair = Bytes(self.take(size)?);
        let name = pair.string()?;
        let (kind, count) = (pair.u32()?, pair.u32()?);
        let read = match (kind, count) {
            (TYPE_U64, 1) => Pair::Number(name, pair.u64()?),
            (TYPE_STRING, 1) => Pair::Text(name, pair.string()?),
            _ => Pair::Other,
        };
        Some(Some(read))
    }
}

#[cfg(test)]
mod tests;
