//! The simulator does what ZFS does.

mod datasets;
mod disks;
mod expansion;
mod faults;
mod import;
mod oracle;
mod pools;
mod power;
mod replace;
mod runs;
mod scrub;
mod spares;
mod streams;

use std::collections::BTreeMap;

use camino::Utf8PathBuf;

use super::*;
use crate::{
    DatasetName, Error, Group, Guid, Import, Layout, NewPool, NewVolume, PoolName, PoolStatus, Pools,
    Redundancy, Vdev, VdevClass,
};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What ZFS uses of a disk of 4 GiB: not the ends, and nothing that is no whole piece of 16 MiB.
const USED: u64 = 4080 * MIB;

/// A world with the disks B to I of 4 GiB each in the host `a`, at `/dev/sdb` to `/dev/sdi`.
fn world() -> SimHosts {
    let hosts = SimHosts::new(1);
    for letter in 'b'..='i' {
        let serial = letter.to_uppercase().to_string();
        hosts.add_disk(&serial, 4 * GIB);
        hosts.plug("a", &serial, &[device(letter)]);
    }
    hosts
}

/// The path of a disk.
fn device(letter: char) -> Utf8PathBuf {
    format!("/dev/sd{letter}").into()
}

/// The path of the partition that ZFS uses on a disk.
fn part(letter: char) -> Utf8PathBuf {
    format!("/dev/sd{letter}1").into()
}

fn parts(letters: &str) -> Vec<Utf8PathBuf> {
    letters.chars().map(part).collect()
}

fn tank() -> PoolName {
    PoolName::new("tank").unwrap()
}

fn volume(name: &str) -> DatasetName {
    DatasetName::new(format!("tank/{name}")).unwrap()
}

fn set(properties: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    properties.iter().map(owned).collect()
}

fn group(redundancy: Redundancy, letters: &str) -> Group {
    Group {
        redundancy,
        devices: letters.chars().map(device).collect(),
    }
}

/// One group of data.
fn data(redundancy: Redundancy, letters: &str) -> Layout {
    Layout {
        data: vec![group(redundancy, letters)],
        ..Layout::default()
    }
}

fn mirror(letters: &str) -> Layout {
    data(Redundancy::Mirror, letters)
}

fn new_pool(layout: Layout) -> NewPool {
    NewPool {
        name: tank(),
        layout,
        properties: set(&[("comment", "ours")]),
        root: BTreeMap::new(),
    }
}

/// The host `a` with a pool of this layout.
async fn with_pool(hosts: &SimHosts, layout: Layout) -> SimZfs {
    let zfs = hosts.zfs("a");
    zfs.create(&new_pool(layout)).await.unwrap();
    zfs
}

fn import_of(guid: Guid, devices: Vec<Utf8PathBuf>) -> Import {
    Import {
        guid,
        name: None,
        devices,
        properties: BTreeMap::new(),
        although_in_use: false,
        without_log: false,
        read_only: false,
    }
}

fn new_volume(name: &str, bytes: u64) -> NewVolume {
    NewVolume {
        name: volume(name),
        bytes,
        thin: true,
        properties: BTreeMap::new(),
    }
}

/// Has a pool hold this much.
async fn fill(hosts: &SimHosts, zfs: &SimZfs, bytes: u64) {
    use crate::Datasets as _;
    zfs.create_volume(&new_volume("data", bytes)).await.unwrap();
    let all = Piece {
        at: 0,
        bytes,
        value: 1,
    };
    hosts.write("a", &volume("data"), all).unwrap();
}

async fn status(zfs: &SimZfs) -> PoolStatus {
    zfs.status(&tank()).await.unwrap()
}

/// The device that the pool knows by this path.
fn at(status: &PoolStatus, path: &Utf8PathBuf) -> Guid {
    let found = status.devices().find(|vdev| vdev.path.as_ref() == Some(path));
    found
        .unwrap_or_else(|| panic!("{path} is not in {}", line(status)))
        .guid
}

/// A pool in one line: its state, and below it each vdev with its state.
fn line(status: &PoolStatus) -> String {
    fn add(vdev: &Vdev, line: &mut String) {
        let name = vdev
            .path
            .as_ref()
            .map_or(vdev.name.as_str(), |path| path.as_str());
        line.push_str(&format!(
            "{}={:?}",
            name.trim_start_matches("/dev/sd"),
            vdev.state
        ));
        if let Some(why) = &vdev.why {
            line.push_str(&format!("/{why}"));
        }
        if !vdev.children.is_empty() {
            line.push_str(" (");
            for (index, child) in vdev.children.iter().enumerate() {
                line.push_str(if index > 0 { " " } else { "" });
                add(child, line);
            }
            line.push(')');
        }
    }
    let mut line = format!("{:?}", status.state);
    for vdev in &status.vdevs {
        line.push_str(match vdev.class {
            VdevClass::Data => " ",
            VdevClass::Log => " log ",
            VdevClass::Special => " special ",
            VdevClass::Dedup => " dedup ",
            VdevClass::Cache => " cache ",
            VdevClass::Spare => " spare ",
        });
        add(vdev, &mut line);
    }
    line
}

/// What ZFS said.
fn said<T: fmt::Debug>(result: crate::Result<T>) -> String {
    match result {
        Err(Error::Refused { said, .. }) => said,
        other => panic!("it was not refused: {other:?}"),
    }
}

/// Nothing happened that cannot or must not.
fn sound(hosts: &SimHosts) {
    assert_eq!(hosts.inconsistencies(), Vec::<String>::new());
    assert_eq!(hosts.violations(), []);
}
