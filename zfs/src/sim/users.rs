//! What the users of volumes do.

use super::SimHosts;
use super::volumes::Named;
use super::world::{Answer, No};
use crate::{DatasetName, Error, Result};

/// What was written to a place of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins.
    pub at: u64,
    /// How long it is.
    pub bytes: u64,
    /// What was written, for tests to recognise.
    pub value: u64,
}

impl SimHosts {
    /// Writes to a volume. All of it is on the disks afterwards.
    pub fn write(&self, host: &str, volume: &DatasetName, piece: Piece) -> Result<()> {
        let (done, after) = self.act(|world| {
            let done = world.write_volume(host, volume.as_str(), piece);
            (done, world.deadline)
        });
        let doing = format!("write to {volume}");
        done.map_err(|no| match no {
            No::Said(said) => Error::Refused { doing, said },
            No::Hang => Error::TimedOut { doing, after },
        })
    }

    /// What is in a volume or snapshot that a host has, if it has it. What was never written is left out.
    #[must_use]
    pub fn read(&self, host: &str, name: &str) -> Option<Vec<Piece>> {
        let named = Named::new(name);
        let read = |world: &mut super::world::World| -> Answer<Option<Vec<Piece>>> {
            let pool = &world.imported(host, named.pool)?.pool;
            let ds = pool.datasets.get(named.dataset)?;
            Ok(match named.snapshot {
                Some(snapshot) => ds.snap(snapshot).map(|snap| snap.data.pieces()),
                None => Some(ds.data.pieces()),
            })
        };
        self.act(read).ok().flatten()
    }

    /// Has somebody on a host have a volume open, or close it.
    pub fn open(&self, host: &str, volume: &DatasetName, is_open: bool) {
        let named = Named::new(volume.as_str());
        self.act(|world| {
            if let Some(imported) = world.imported_mut(host, named.pool) {
                if is_open {
                    imported.open.insert(named.dataset.to_owned());
                } else {
                    imported.open.remove(named.dataset);
                }
            }
        });
    }
}
