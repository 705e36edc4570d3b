//! Streams: a snapshot on its way from one pool to another.
//!
//! A stream is lines of JSON: what it is, what is written and where, and that this was all. What arrived of one that was
//! broken off are its whole lines.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::extents::{Extent, Extents};
use super::pool::Pool;
use super::properties;
use super::tree::{Ds, Partial, Snap, seconds};
use super::volumes::Named;
use super::world::{Answer, World, no};
use crate::{DatasetKind, Guid, Send};

/// What a stream begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    /// The name of the snapshot in its dataset.
    snapshot: String,
    guid: u64,
    /// The snapshot to which it is the difference.
    since: Option<u64>,
    volume: bool,
    volsize: u64,
    volblocksize: u64,
    /// How many frames are left out, since the other side has them, if it is one that goes on.
    left_out: Option<usize>,
}

/// What is different in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Frame {
    Write { at: u64, bytes: u64, value: u64 },
    Free { at: u64, bytes: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
enum Line {
    Begin(Header),
    Frame(Frame),
    End,
}

/// A stream as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrived {
    header: Header,
    frames: Vec<Frame>,
    whole: bool,
}

impl Partial {
    /// How the sender can go on.
    pub(super) fn token(&self) -> String {
        let Header { guid, since, .. } = self.header;
        let since = since.unwrap_or_default();
        format!("1-{guid:x}-{since:x}-{:x}", self.frames.len())
    }
}

/// The numbers in a token: the snapshot, the one before, the frames that have arrived.
fn read_token(token: &str) -> Option<(Guid, Option<Guid>, usize)> {
    let mut numbers = token
        .strip_prefix("1-")?
        .split('-')
        .map(|part| u64::from_str_radix(part, 16).ok());
    let (guid, since) = (numbers.next()??, numbers.next()??);
    let frames = usize::try_from(numbers.next()??).ok()?;
    let since = (since != 0).then_some(Guid(since));
    Some((Guid(guid), since, frames))
}

/// What must be done to have `new` where `old` is.
fn frames(old: &Extents, new: &Extents) -> Vec<Frame> {
    let free = old.without(&[new]);
    let free = free.iter().map(|(at, extent)| {
        let bytes = extent.bytes;
        Frame::Free { at, bytes }
    });
    let write = new.without(&[old]);
    let write = write.iter().map(|(at, extent)| {
        let Extent { bytes, value, .. } = extent;
        Frame::Write { at, bytes, value }
    });
    free.chain(write).collect()
}

fn print(lines: impl IntoIterator<Item = Line>) -> Answer<String> {
    let mut text = String::new();
    for line in lines {
        match serde_json::to_string(&line).map(|line| writeln!(text, "{line}")) {
            Ok(Ok(())) => {}
            _ => return no("the stream cannot be written"),
        }
    }
    Ok(text)
}

/// Reads what arrived of a stream. A line without an end counts as not arrived.
pub(super) fn read(text: &str) -> Answer<Arrived> {
    let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let first = lines.next().map(serde_json::from_str);
    let Some(Ok(Line::Begin(header))) = first else {
        return no("cannot receive: invalid stream (bad magic number)");
    };
    let mut frames = Vec::new();
    for line in lines {
        match serde_json::from_str(line) {
            Ok(Line::Frame(frame)) => frames.push(frame),
            Ok(Line::End) => {
                return Ok(Arrived {
                    header,
                    frames,
                    whole: true,
                });
            }
            _ => return no("cannot receive: invalid stream (checksum mismatch)"),
        }
    }
    Ok(Arrived {
        header,
        frames,
        whole: false,
    })
}

impl World {
    /// The stream that is to be sent.
    pub(super) fn stream(&self, host: &str, what: &Send) -> Answer<String> {
        match what {
            Send::Snapshot { snapshot, since, .. } => {
                let named = Named::new(snapshot.as_str());
                let pool = &self.imported(host, named.pool)?.pool;
                let ds = pool.datasets.get(named.dataset)?;
                let Some(snap) = ds.snap(named.snapshot.unwrap_or_default()) else {
                    return no(format!("cannot open '{snapshot}': dataset does not exist"));
                };
                let since = match since {
                    Some(since) => Some(earlier(pool, ds, snap, since)?),
                    None => None,
                };
                whole_or_rest(ds, snap, since, None)
            }
            Send::Resume { token } => {
                let Some((guid, since, left_out)) = read_token(token) else {
                    return no("cannot resume send: resume token is corrupt (bad encoding)");
                };
                self.host(host)?;
                let pools = self
                    .hosts
                    .get(host)
                    .into_iter()
                    .flat_map(|state| state.pools.values());
                for imported in pools {
                    let tree = &imported.pool.datasets;
                    let Some((name, snap)) = tree.snapshot(guid) else {
                        continue;
                    };
                    let since = match since.map(|since| tree.snapshot(since)) {
                        Some(None) => return no("cannot resume send: incremental source does not exist"),
                        Some(Some((_, since))) => Some(since),
                        None => None,
                    };
                    return whole_or_rest(tree.get(name)?, snap, since, Some(left_out));
                }
                no("cannot resume send: the snapshot no longer exists")
            }
        }
    }

    /// Takes in what arrived of a stream. Whether that was all of it.
    pub(super) fn receive(
        &mut self,
        host: &str,
        to: &str,
        set: &BTreeMap<String, String>,
        arrived: &Arrived,
    ) -> Answer<bool> {
        let named = Named::new(to);
        self.change(host, named.pool, |world, pool| {
            let partial = continued(world, pool, named.dataset, arrived)?;
            let new = partial.new;
            if arrived.whole {
                let creation = seconds(world.now());
                apply(pool, named.dataset, partial, creation)?;
            } else {
                pool.datasets.get_mut(named.dataset)?.partial = Some(partial);
            }
            let ds = pool.datasets.get_mut(named.dataset)?;
            if new || arrived.whole {
                for (property, value) in set {
                    properties::check_dataset(ds.kind, property, value)?;
                    ds.put(property, value);
                }
            }
            pool.datasets.check_room(pool.capacity())?;
            Ok(arrived.whole)
        })
    }

    pub(super) fn abort_receive(&mut self, host: &str, to: &str) -> Answer<()> {
        let named = Named::new(to);
        self.change(host, named.pool, |_, pool| {
            match pool.datasets.get_mut(named.dataset)?.partial.take() {
                None => no(format!(
                    "'{to}' does not have any resumable receive state to abort"
                )),
                Some(Partial { new: true, .. }) => {
                    pool.datasets.all.remove(named.dataset);
                    Ok(())
                }
                Some(_) => Ok(()),
            }
        })
    }
}

/// The snapshot of this name, if it comes before another in the life of a dataset.
fn earlier<'a>(pool: &'a Pool, ds: &'a Ds, snap: &Snap, name: &str) -> Answer<&'a Snap> {
    let named = Named::new(name);
    let of = pool.datasets.get(named.dataset)?;
    let Some(since) = of
        .snap(named.snapshot.unwrap_or_default())
        .filter(|_| named.pool == pool.name)
    else {
        return no(format!("cannot open '{name}': dataset does not exist"));
    };
    let before = ds.snaps.iter().take_while(|other| other.guid != snap.guid);
    let is_before = ds.origin == Some(since.guid) || before.into_iter().any(|other| other.guid == since.guid);
    if is_before {
        Ok(since)
    } else {
        no(format!(
            "cannot send: '{name}' is not an earlier snapshot from the same fs"
        ))
    }
}

fn whole_or_rest(ds: &Ds, snap: &Snap, since: Option<&Snap>, left_out: Option<usize>) -> Answer<String> {
    let header = Header {
        snapshot: snap.name.clone(),
        guid: snap.guid.0,
        since: since.map(|since| since.guid.0),
        volume: ds.kind == DatasetKind::Volume,
        volsize: snap.volsize,
        volblocksize: ds.block(),
        left_out,
    };
    let before = since.map(|since| since.data.clone()).unwrap_or_default();
    let frames = frames(&before, &snap.data)
        .into_iter()
        .skip(left_out.unwrap_or_default());
    let lines = std::iter::once(Line::Begin(header)).chain(frames.map(Line::Frame));
    print(lines.chain([Line::End]))
}

/// What there is of a stream with what has just arrived of it. The dataset is made if the stream makes it.
fn continued(world: &mut World, pool: &mut Pool, to: &str, arrived: &Arrived) -> Answer<Partial> {
    let header = Header {
        left_out: None,
        ..arrived.header.clone()
    };
    let had = pool.datasets.all.get_mut(to).and_then(|ds| ds.partial.take());
    if let Some(mut partial) = had {
        if partial.header != header || arrived.header.left_out != Some(partial.frames.len()) {
            return no(format!(
                "cannot receive: destination {to} contains partially-complete state from \"zfs receive -s\""
            ));
        }
        partial.frames.extend(&arrived.frames);
        return Ok(partial);
    }
    if arrived.header.left_out.is_some() {
        return no("cannot receive resume stream: there is nothing to go on with");
    }
    match header.since {
        None => {
            pool.datasets.check_new(to)?;
            let kind = if header.volume {
                DatasetKind::Volume
            } else {
                DatasetKind::FileSystem
            };
            let ds = Ds::new(kind, world.guid(), pool.txg + 1, world.now());
            pool.datasets.all.insert(to.to_owned(), ds);
        }
        Some(since) => {
            let ds = pool.datasets.get(to)?;
            let Some(last) = ds.snaps.last().filter(|last| last.guid.0 == since) else {
                return no(
                    "cannot receive incremental stream: most recent snapshot does not match incremental source",
                );
            };
            if ds.data != last.data {
                return no(
                    "cannot receive incremental stream: destination has been modified since most recent snapshot",
                );
            }
        }
    }
    Ok(Partial {
        new: header.since.is_none(),
        frames: arrived.frames.clone(),
        header,
    })
}

/// Makes what a whole stream says.
fn apply(pool: &mut Pool, to: &str, partial: Partial, creation: i64) -> Answer<()> {
    let stamp = pool.datasets.stamp();
    let createtxg = pool.txg + 1;
    let ds = pool.datasets.get_mut(to)?;
    for frame in partial.frames {
        match frame {
            Frame::Write { at, bytes, value } => ds.data.write(at, Extent { bytes, stamp, value }),
            Frame::Free { at, bytes } => ds.data.cut(at, bytes),
        }
    }
    let header = partial.header;
    if header.volume {
        ds.put("volsize", header.volsize.to_string());
        ds.put("volblocksize", header.volblocksize.to_string());
    }
    ds.snaps.push(Snap {
        name: header.snapshot,
        // A snapshot keeps its number wherever it is.
        guid: Guid(header.guid),
        createtxg,
        creation,
        set: BTreeMap::new(),
        volsize: header.volsize,
        data: ds.data.clone(),
        holds: std::collections::BTreeSet::new(),
    });
    Ok(())
}
