//! What is done to disks beside ZFS, and what the host says of itself.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use camino::Utf8Path;
use cstor_zfs::Label;

use crate::disk::view::Disk;
use crate::disk::wipe::{WipeError, Wiper};

/// What a pool controller needs of its host beside ZFS.
pub trait Hands: Clone + Send + Sync + 'static {
    /// The number by which ZFS tells this host from others; `None` if it has none.
    fn host_id(&self) -> Option<u64>;

    /// Whether nobody has the disk for himself alone, and so we could.
    fn is_free(&self, disk: &Disk) -> impl Future<Output = bool> + Send;

    /// Makes a disk of this identity blank.
    fn clear(&self, disk: &Disk, identity: &str) -> impl Future<Output = Result<(), WipeError>> + Send;
}

/// The hands of this host.
#[derive(Debug, Clone)]
pub struct HostHands {
    /// The one who wipes.
    pub wiper: Wiper,
}

/// How long a disk has to be opened.
const OPEN_WITHIN: Duration = Duration::from_secs(20);

impl Hands for HostHands {
    fn host_id(&self) -> Option<u64> {
        let of_module = || std::fs::read_to_string("/sys/module/spl/parameters/spl_hostid").ok();
        let of_module = of_module().and_then(|text| text.trim().parse().ok());
        let of_file = || {
            let bytes: [u8; 4] = std::fs::read("/etc/hostid").ok()?.try_into().ok()?;
            Some(u64::from(u32::from_ne_bytes(bytes)))
        };
        of_module
            .filter(|id| *id != 0)
            .or_else(of_file)
            .filter(|id| *id != 0)
    }

    async fn is_free(&self, disk: &Disk) -> bool {
        let path = disk.device().path.clone();
        let opened = tokio::task::spawn_blocking(move || open_alone(&path).is_ok());
        matches!(tokio::time::timeout(OPEN_WITHIN, opened).await, Ok(Ok(true)))
    }

    async fn clear(&self, disk: &Disk, identity: &str) -> Result<(), WipeError> {
        self.wiper.wipe(disk, identity).await
    }
}

/// Opens a disk for us alone, to read: an open for writing would make udevd look at it when it is closed.
fn open_alone(path: &Utf8Path) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::EXCL.union(rustix::fs::OFlags::NONBLOCK);
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Whether the label says that a host has its pool, and not this one.
pub(super) fn is_used_elsewhere(label: &Label, host_id: Option<u64>) -> bool {
    const ACTIVE: u64 = 0;
    label.state == ACTIVE && label.hostid.is_some_and(|id| id != 0 && Some(id) != host_id)
}
