//! Says what is on images and devices, and whose they are: one line of JSON for each path.
//!
//!     inspect_image [record=UID:POOL-GUID:VDEV-GUID]… [deadline=SECONDS] [times=COUNT] PATH…
//!
//! A record makes a pool ours, as a CStorPoolInstance does; with a count, one process looks that often. Of a device only what its contents tell is looked at, and its
//! partitions; who else uses it is not.

use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::Duration;

use anyhow::{Context, Result};
use camino::{Utf8Path, Utf8PathBuf};
use cstor_blockdev::contents::{Probe, Prober};
use cstor_blockdev::device::Partition;
use cstor_blockdev::ownership::{Examined, Record, Records, Subject, ownership};
use cstor_blockdev::{Device, DeviceNumber, Kind};
use futures::future::join_all;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "this is what it is for")]
async fn main() -> Result<()> {
    let mut records = Vec::new();
    let mut paths = Vec::new();
    let (mut deadline, mut times) = (120, 1);
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some(("record", text)) => records.push(record(text).with_context(|| argument.clone())?),
            Some(("deadline", text)) => deadline = text.parse()?,
            Some(("times", text)) => times = text.parse()?,
            _ => paths.push(Utf8PathBuf::from(argument)),
        }
    }
    let records = Records::from_iter(records);
    let prober = Prober::new(Duration::from_secs(deadline));
    for path in paths.iter().cycle().take(paths.len().saturating_mul(times)) {
        let device = device(path).with_context(|| path.clone())?;
        let probe = prober.probe(&device).await;
        let partitions = partitions(&device)?;
        let probes: Vec<Probe> = join_all(partitions.iter().map(|partition| prober.probe(partition))).await;
        let partitions: Vec<Examined<'_>> = partitions
            .iter()
            .zip(&probes)
            .map(|(device, probe)| Examined { device, probe })
            .collect();
        let subject = Subject {
            examined: Examined {
                device: &device,
                probe: &probe,
            },
            partitions: &partitions,
            parent: None,
            foreign_attachment: None,
        };
        let answer = serde_json::json!({
            "path": path,
            "probe": probe,
            "partitions": probes,
            "ownership": ownership(&subject, &records),
        });
        println!("{answer}");
    }
    Ok(())
}

fn record(text: &str) -> Result<Record> {
    let mut parts = text.split(':');
    let mut part = || parts.next().context("there are three parts to a record");
    Ok(Record {
        instance: part()?.parse()?,
        pool_name: None,
        pool_guid: Some(part()?.parse()?),
        vdev_guids: BTreeSet::from([part()?.parse()?]),
    })
}

fn device(path: &Utf8Path) -> Result<Device> {
    let path = path.canonicalize_utf8()?;
    let metadata = path.metadata()?;
    let name = path.file_name().context("it has no name")?;
    let number = DeviceNumber {
        major: rustix::fs::major(metadata.rdev()),
        minor: rustix::fs::minor(metadata.rdev()),
    };
    let mut device = if metadata.file_type().is_block_device() {
        let sectors: u64 = read(&Utf8Path::new("/sys/class/block").join(name).join("size"))?.parse()?;
        Device::new(name, number, Kind::Disk, sectors * 512)
    } else {
        Device::new(name, number, Kind::Sparse, metadata.len())
    };
    device.path = path;
    if device.kind == Kind::Disk {
        let mut names: Vec<String> = Vec::new();
        for entry in Utf8Path::new("/sys/class/block")
            .join(&device.name)
            .read_dir_utf8()?
        {
            let entry = entry?;
            if entry.path().join("partition").exists() {
                names.push(entry.file_name().to_owned());
            }
        }
        names.sort();
        device.partitions = names;
    }
    Ok(device)
}

fn partitions(disk: &Device) -> Result<Vec<Device>> {
    let partition = |name: &String| {
        let mut partition = device(&Utf8Path::new("/dev").join(name))?;
        partition.kind = Kind::Partition;
        partition.parent = Some(disk.name.clone());
        partition.partition = Some(Partition {
            number: read(&Utf8Path::new("/sys/class/block").join(name).join("partition"))?.parse()?,
            ..Partition::default()
        });
        Ok(partition)
    };
    disk.partitions.iter().map(partition).collect()
}

fn read(path: &Utf8Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| path.to_owned())?;
    Ok(text.trim().to_owned())
}
