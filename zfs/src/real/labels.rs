//! Clearing the labels of a device.
//!
//! # How it can go wrong, and what then
//! - The device is another, or somebody else's: its labels say so, and nothing is written.
//! - It is in use: the kernel does not let us open it for us alone, or its labels speak of a pool that was not let go of,
//!   or ZFS itself refuses. A device that was pulled out of a pool says so for ever; it is wiped on request, not here.
//! - The device does not answer: the thread that reads it stays behind, and the caller is told at the deadline.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

use camino::{Utf8Path, Utf8PathBuf};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Zfs;
use super::command::{Command, pool as command};
use super::queue::Intent;
use crate::{Error, Guid, Labels, Result};

/// The state of a pool in a label, if nobody let go of it.
const ACTIVE: u64 = 0;

impl Zfs {
    pub(super) async fn clear_labels_of(&self, device: &Utf8PathBuf, of: Guid) -> Result<()> {
        let command = command::clear_labels(device)?;
        let turn = self.turn(&command, Intent::Change).await?;
        check(&self.labels(&command, device).await?, of).map_err(|why| command.refused(why))?;
        self.change_in(command.clone(), Intent::Change, turn).await?;
        let left = self.labels(&command, device).await?;
        if left != Labels::default() {
            return Err(command.refused("ZFS says that it did, but there are still labels"));
        }
        Ok(())
    }

    async fn labels(&self, command: &Command, device: &Utf8Path) -> Result<Labels> {
        let (sender, receiver) = oneshot::channel();
        let path = device.to_owned();
        let cannot = |error: io::Error| Error::CannotRun {
            doing: command.doing.clone(),
            why: format!("read its labels: {error}"),
        };
        // Not one of tokio's threads: at its end the runtime waits for those, and this one may never end.
        std::thread::Builder::new()
            .name("zfs labels".to_owned())
            .spawn(move || drop(sender.send(read(&path))))
            .map_err(cannot)?;
        let deadline = self.host.deadlines.looks;
        match timeout(deadline, receiver).await {
            Ok(Ok(labels)) => labels.map_err(cannot),
            Ok(Err(_gone)) => Err(cannot(io::Error::other("the reading was broken off"))),
            Err(_elapsed) => Err(Error::TimedOut {
                doing: command.doing.clone(),
                after: deadline,
            }),
        }
    }
}

/// Reads the labels of a device that nobody else has open for himself alone, as every imported pool has.
fn read(path: &Utf8Path) -> io::Result<Labels> {
    let flags = rustix::fs::OFlags::EXCL.union(rustix::fs::OFlags::NONBLOCK);
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or_default())
        .open(path)?;
    let bytes = size(&file)?;
    Labels::read(bytes, |offset, length| {
        let mut buffer = vec![0; length];
        file.read_exact_at(&mut buffer, offset)?;
        Ok(buffer)
    })
}

fn size(mut file: &File) -> io::Result<u64> {
    io::Seek::seek(&mut file, io::SeekFrom::End(0))
}

/// Why these labels are not cleared as those of this vdev.
fn check(labels: &Labels, of: Guid) -> std::result::Result<(), String> {
    let Some(best) = &labels.best else {
        return Err("there is no label of ZFS on it".to_owned());
    };
    if labels.damaged || !labels.others.is_empty() {
        return Err("it has labels of others, or damaged ones".to_owned());
    }
    if best.vdev_guid != of.0 {
        return Err(format!("it is the vdev {}, not {of}", best.vdev_guid));
    }
    // A device that was taken out of its pool says so by a label without a transaction group.
    if best.state == ACTIVE && best.txg > 0 {
        let pool = best.pool_name.as_deref().unwrap_or("without a name");
        return Err(format!("its label says that it is in use by the pool {pool}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Label;

    fn label(vdev_guid: u64, state: u64) -> Label {
        Label {
            pool_name: Some("tank".into()),
            pool_guid: Some(1),
            vdev_guid,
            comment: None,
            state,
            txg: 1,
            hostname: None,
            hostid: None,
        }
    }

    fn labels(best: Option<Label>) -> Labels {
        Labels {
            best,
            ..Labels::default()
        }
    }

    #[test]
    fn only_labels_of_the_vdev_that_nobody_uses_are_cleared() {
        let said = |labels: &Labels| check(labels, Guid(7)).unwrap_err();
        for state in [1, 2, 3, 4] {
            assert_eq!(check(&labels(Some(label(7, state))), Guid(7)), Ok(()));
        }
        let left = Label {
            txg: 0,
            ..label(7, ACTIVE)
        };
        assert_eq!(check(&labels(Some(left)), Guid(7)), Ok(()));
        assert_eq!(said(&labels(None)), "there is no label of ZFS on it");
        assert_eq!(said(&labels(Some(label(8, 1)))), "it is the vdev 8, not 7");
        assert_eq!(
            said(&labels(Some(label(7, 0)))),
            "its label says that it is in use by the pool tank"
        );
        let two = Labels {
            others: vec![label(8, 1)],
            ..labels(Some(label(7, 1)))
        };
        let damaged = Labels {
            damaged: true,
            ..labels(Some(label(7, 1)))
        };
        for labels in [two, damaged] {
            assert_eq!(said(&labels), "it has labels of others, or damaged ones");
        }
    }
}
