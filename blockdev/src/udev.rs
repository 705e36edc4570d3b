//! What udev knows, and when something changes.
//!
//! Nothing that protects data depends on udev: without it (no `/run/udev` in the container, udevd dead) devices are
//! found by the kernel's own events and by looking again now and then.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd};

use camino::Utf8Path;
use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::mpsc;
use udev::{DeviceType, MonitorBuilder};

use crate::device::DeviceNumber;

/// udevd makes this while it runs.
const CONTROL: &str = "/run/udev/control";

/// udevd keeps this while it has events to work on.
const QUEUE: &str = "/run/udev/queue";

/// Whether udevd runs, as far as it can be seen from here.
#[must_use]
pub fn is_running() -> bool {
    Utf8Path::new(CONTROL).exists()
}

/// Whether udevd is at work.
#[must_use]
pub fn is_busy() -> bool {
    Utf8Path::new(QUEUE).exists()
}

/// What udev's database says of a device; `None` if it says nothing (yet).
#[must_use]
pub fn properties(number: DeviceNumber) -> Option<BTreeMap<String, String>> {
    let number = rustix::fs::makedev(number.major, number.minor);
    let device = udev::Device::from_devnum(DeviceType::Block, number).ok()?;
    if !device.is_initialized() {
        return None;
    }
    let text = |value: &std::ffi::OsStr| value.to_string_lossy().into_owned();
    let properties = device.properties();
    Some(
        properties
            .map(|entry| (text(entry.name()), text(entry.value())))
            .collect(),
    )
}

/// Something happened to a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The kernel's name of the device; empty if it is not known.
    pub name: String,
    /// Whether changes were lost, and any device may have changed.
    pub everything: bool,
}

/// How many changes are kept for a reader who is busy. For those beyond, one of everything is told.
const KEPT: usize = 4096;

/// Tells of changes, and of those that it could not tell of as soon as it can.
struct Teller {
    sender: mpsc::Sender<Change>,
    lost: bool,
}

impl Teller {
    /// Tells of a change of one device.
    fn tell(&mut self, name: String) {
        self.catch_up();
        let everything = false;
        // With everything still to be told, one more change is among it.
        self.lost = self.lost || self.sender.try_send(Change { name, everything }).is_err();
    }

    /// Notes that changes were lost, nobody knows whose.
    fn lose(&mut self) {
        self.lost = true;
        self.catch_up();
    }

    fn catch_up(&mut self) {
        if self.lost {
            let (name, everything) = (String::new(), true);
            self.lost = self.sender.try_send(Change { name, everything }).is_err();
        }
    }
}

/// Tells of every change of a block device, from the kernel and again from udev.
///
/// # Errors
/// Netlink is not available, as in a container with a network of its own.
pub fn changes() -> std::io::Result<mpsc::Receiver<Change>> {
    let (sender, receiver) = mpsc::channel(KEPT);
    let (ready, started) = std::sync::mpsc::channel();
    // libudev's handles stay in one thread. It ends with the process or when nobody reads any more.
    std::thread::Builder::new().name("uevents".to_owned()).spawn(move || {
        let listen = || -> std::io::Result<_> {
            let kernel = MonitorBuilder::new_kernel()?.match_subsystem("block")?.listen()?;
            let udev = MonitorBuilder::new()?.match_subsystem("block")?.listen()?;
            Ok((kernel, udev))
        };
        let (kernel, udev) = match listen() {
            Ok(both) => {
                let _ = ready.send(Ok(()));
                both
            }
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let mut teller = Teller { sender, lost: false };
        while !teller.sender.is_closed() {
            let overrun = match wait(&[&kernel, &udev], teller.lost) {
                Ok(overrun) => overrun,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => false,
                Err(error) => {
                    tracing::error!(%error, "uevents cannot be waited for; devices are found by looking now and then");
                    return;
                }
            };
            for socket in [&kernel, &udev] {
                for event in socket.iter() {
                    teller.tell(event.sysname().to_string_lossy().into_owned());
                }
            }
            if overrun {
                teller.lose();
            }
            teller.catch_up();
        }
    })?;
    started
        .recv()
        .map_err(|_| std::io::Error::other("the thread for uevents did not start"))??;
    Ok(receiver)
}

/// Waits until one of the sockets has something to read, or for a while; says whether the kernel had more than fits in
/// one of them.
fn wait(sockets: &[&udev::MonitorSocket], soon: bool) -> std::io::Result<bool> {
    let fds: Vec<BorrowedFd<'_>> = sockets.iter().map(|socket| socket.as_fd()).collect();
    let mut polled: Vec<_> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    // Now and then, to see whether anybody still reads; soon, if the reader has to be told of everything.
    let now_and_then = rustix::event::Timespec {
        tv_sec: if soon { 1 } else { 5 },
        tv_nsec: 0,
    };
    poll(&mut polled, Some(&now_and_then))?;
    // This is how netlink tells of an overrun, once; the next reading takes it away.
    Ok(polled.iter().any(|one| one.revents().contains(PollFlags::ERR)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_a_busy_reader_has_no_room_for_become_one_of_everything() {
        let (sender, mut receiver) = mpsc::channel(2);
        let mut teller = Teller { sender, lost: false };
        for name in ["vda", "vdb", "vdc", "vdd"] {
            teller.tell(name.to_owned());
        }
        let mut next = || receiver.try_recv().ok().map(|told| (told.name, told.everything));
        assert_eq!(next(), Some(("vda".to_owned(), false)));
        assert_eq!(next(), Some(("vdb".to_owned(), false)));
        assert_eq!(next(), None);
        teller.catch_up();
        assert_eq!(next(), Some((String::new(), true)));
        // Once, and then as before.
        teller.catch_up();
        teller.tell("vde".to_owned());
        assert_eq!(next(), Some(("vde".to_owned(), false)));
        assert_eq!(next(), None);
    }

    #[test]
    fn what_the_kernel_had_no_room_for_is_everything() {
        let (sender, mut receiver) = mpsc::channel(1);
        let mut teller = Teller { sender, lost: false };
        teller.tell("vda".to_owned());
        teller.lose();
        assert!(!receiver.try_recv().unwrap().everything);
        teller.tell("vdb".to_owned());
        assert!(
            receiver.try_recv().unwrap().everything,
            "it is told before the next"
        );
        // vdb had no room after it, and so is owed again.
        teller.catch_up();
        assert!(receiver.try_recv().unwrap().everything);
    }
}
