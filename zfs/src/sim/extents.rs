//! What is written where in a volume.

use std::collections::BTreeMap;

use super::users::Piece;

/// A piece that was written at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) bytes: u64,
    /// Which write it was: two pieces at one place with one stamp are one on the disks.
    pub(super) stamp: u64,
    /// What was written, for tests to recognise.
    pub(super) value: u64,
}

/// Pieces that do not overlap, by where they begin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Extents(BTreeMap<u64, Extent>);

impl Extents {
    pub(super) fn write(&mut self, start: u64, extent: Extent) {
        self.cut(start, extent.bytes);
        if extent.bytes > 0 {
            self.0.insert(start, extent);
        }
    }

    /// Takes away what lies there.
    pub(super) fn cut(&mut self, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        for (at, extent) in self.overlapping(start, end) {
            self.0.remove(&at);
            let extent_end = at + extent.bytes;
            if at < start {
                let bytes = start - at;
                self.0.insert(at, Extent { bytes, ..extent });
            }
            if extent_end > end {
                let bytes = extent_end - end;
                self.0.insert(end, Extent { bytes, ..extent });
            }
        }
    }

    /// The pieces of which something lies between these.
    fn overlapping(&self, start: u64, end: u64) -> Vec<(u64, Extent)> {
        let before = self.0.range(..start).next_back();
        let before = before.filter(|(at, extent)| *at + extent.bytes > start);
        let within = self.0.range(start..end.max(start));
        before
            .into_iter()
            .chain(within)
            .map(|(at, extent)| (*at, *extent))
            .collect()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.values().map(|extent| extent.bytes).sum()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Extent)> {
        self.0.iter().map(|(at, extent)| (*at, *extent))
    }

    /// The pieces that none of the others has.
    pub(super) fn without(&self, others: &[&Self]) -> Self {
        let mut left = self.clone();
        for (at, extent) in self.iter() {
            for other in others {
                for (other_at, shared) in other.overlapping(at, at + extent.bytes) {
                    if shared.stamp == extent.stamp {
                        let start = other_at.max(at);
                        let end = (other_at + shared.bytes).min(at + extent.bytes);
                        left.cut(start, end.saturating_sub(start));
                    }
                }
            }
        }
        left
    }

    /// What was written, without how it came about.
    pub(super) fn pieces(&self) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        for (at, extent) in self.iter() {
            match pieces.last_mut() {
                Some(last) if last.at + last.bytes == at && last.value == extent.value => {
                    last.bytes += extent.bytes;
                }
                _ => pieces.push(Piece {
                    at,
                    bytes: extent.bytes,
                    value: extent.value,
                }),
            }
        }
        pieces
    }
}

/// What several have together, what they share counted once.
pub(super) fn together(sets: &[&Extents], without: &[&Extents]) -> u64 {
    let mut seen = without.to_vec();
    let mut bytes = 0;
    for set in sets {
        bytes += set.without(&seen).bytes();
        seen.push(set);
    }
    bytes
}
