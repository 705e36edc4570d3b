//! A node's disks that are not there: a sysfs and a procfs in a directory, and a reader who says what is on them.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use cstor_agent::disk::Settings;
use cstor_blockdev::contents::{Contents, Probe, Signature};
use cstor_blockdev::filter::Filters;
use cstor_blockdev::scan::{Places, ReadContents};

/// What is on a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holds {
    #[default]
    Nothing,
    FileSystem,
    /// It does not answer, for ever.
    Silence,
    /// It answers, but takes its time.
    Slow(Duration),
}

#[derive(Clone, Debug)]
struct Disk {
    serial: String,
    holds: Holds,
}

/// The disks of a node.
pub struct Host {
    pub node: String,
    dir: tempfile::TempDir,
    disks: Arc<Mutex<BTreeMap<String, Disk>>>,
    plugged: AtomicUsize,
    reads: Arc<AtomicUsize>,
}

pub const GIB: u64 = 1 << 30;
pub const NAMESPACE: &str = "test";

impl Host {
    pub fn new(node: &str) -> Arc<Self> {
        let dir = tempfile::tempdir().unwrap();
        let host = Self {
            node: node.to_owned(),
            dir,
            disks: Arc::default(),
            plugged: AtomicUsize::new(0),
            reads: Arc::default(),
        };
        for directory in ["sys/class/block", "sys/bus/virtio", "proc/1", "dev", "kubelet"] {
            std::fs::create_dir_all(host.at(directory)).unwrap();
        }
        std::fs::write(host.at("proc/1/mountinfo"), "").unwrap();
        std::fs::write(host.at("proc/swaps"), "Filename Type Size Used Priority\n").unwrap();
        Arc::new(host)
    }

    fn at(&self, path: &str) -> Utf8PathBuf {
        Utf8Path::from_path(self.dir.path()).unwrap().join(path)
    }

    fn device(&self, name: &str) -> Utf8PathBuf {
        self.at("sys/devices").join(name)
    }

    /// Writes a file of the kernel, all of it at once.
    fn write(&self, name: &str, file: &str, text: &str) {
        let path = self.device(name).join(file);
        let new = self.at("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, path).unwrap();
    }

    pub fn plug(&self, name: &str, serial: &str, bytes: u64, holds: Holds) {
        let number = self.plugged.fetch_add(1, Ordering::Relaxed);
        let device = self.device(name);
        for directory in ["device", "queue", "holders", "slaves"] {
            std::fs::create_dir_all(device.join(directory)).unwrap();
        }
        symlink(self.at("sys/bus/virtio"), device.join("device/subsystem")).unwrap();
        for (file, text) in [
            ("dev", format!("252:{number}")),
            ("size", (bytes / 512).to_string()),
            ("serial", serial.to_owned()),
            ("diskseq", (number + 1).to_string()),
            ("queue/rotational", "1\n".into()),
            ("queue/logical_block_size", "512\n".into()),
            ("queue/physical_block_size", "4096\n".into()),
        ] {
            self.write(name, file, &text);
        }
        let disk = Disk {
            serial: serial.to_owned(),
            holds,
        };
        self.disks.lock().unwrap().insert(name.to_owned(), disk);
        symlink(&device, self.at("sys/class/block").join(name)).unwrap();
    }

    pub fn unplug(&self, name: &str) {
        std::fs::remove_file(self.at("sys/class/block").join(name)).unwrap();
        self.disks.lock().unwrap().remove(name).expect("it was plugged");
        std::fs::remove_dir_all(self.device(name)).unwrap();
    }

    pub fn resize(&self, name: &str, bytes: u64) {
        self.write(name, "size", &(bytes / 512).to_string());
    }

    pub fn put(&self, name: &str, holds: Holds) {
        self.disks.lock().unwrap().get_mut(name).unwrap().holds = holds;
    }

    /// The kernel's description of one disk makes no sense, or does again.
    pub fn garble(&self, name: &str, garbled: bool) {
        let text = if garbled { "many" } else { "20971520" };
        self.write(name, "size", text);
    }

    /// Takes the sysfs away, or brings it back.
    pub fn hide_sysfs(&self, hidden: bool) {
        let (here, away) = (self.at("sys/class"), self.at("sys/away"));
        let (from, to) = if hidden { (here, away) } else { (away, here) };
        std::fs::rename(from, to).unwrap();
    }

    pub fn has(&self, serial: &str) -> bool {
        self.disks
            .lock()
            .unwrap()
            .values()
            .any(|disk| disk.serial == serial)
    }

    /// How often a disk was read.
    pub fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }

    pub fn reader(&self) -> ReadContents {
        let (disks, reads) = (self.disks.clone(), self.reads.clone());
        Arc::new(move |device| {
            reads.fetch_add(1, Ordering::Relaxed);
            let holds = disks.lock().unwrap().get(&device.name).map(|disk| disk.holds);
            Box::pin(async move {
                match holds {
                    Some(Holds::Nothing) => Probe::Read(Contents::default()),
                    Some(Holds::FileSystem) => Probe::Read(file_system()),
                    Some(Holds::Silence) => std::future::pending().await,
                    Some(Holds::Slow(time)) => {
                        tokio::time::sleep(time).await;
                        Probe::Read(Contents::default())
                    }
                    None => Probe::Failed("it is gone".into()),
                }
            })
        })
    }

    pub fn settings(&self, every: Duration) -> Settings {
        Settings {
            node: self.node.clone(),
            host: self.node.clone(),
            namespace: NAMESPACE.to_owned(),
            places: Places {
                sys: self.at("sys"),
                proc: self.at("proc"),
                dev: self.at("dev"),
                udev: false,
                sparse_files: None,
            },
            kubelet: self.at("kubelet"),
            filters: Filters::default(),
            every,
        }
    }
}

fn file_system() -> Contents {
    let signature = Signature {
        kind: "ext4".into(),
        usage: Some("filesystem".into()),
        offset: 1080,
        uuid: None,
        label: None,
    };
    Contents {
        signatures: vec![signature],
        ..Contents::default()
    }
}
