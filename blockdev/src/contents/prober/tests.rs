use std::os::unix::fs::{FileExt, PermissionsExt};

use camino::Utf8Path;
use cstor_exec::Program;
use tempfile::TempDir;

use super::*;

const MIB: u64 = 1 << 20;
const LONG: Duration = Duration::from_secs(60);

/// A directory of images.
struct Images(TempDir);

impl Images {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> Utf8PathBuf {
        Utf8Path::from_path(self.0.path()).unwrap().join(name)
    }

    /// A file of zeros that stands in for a disk.
    fn make(&self, name: &str, bytes: u64) -> Device {
        let path = self.path(name);
        std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
        device(&path, bytes)
    }
}

fn device(path: &Utf8Path, bytes: u64) -> Device {
    let number = DeviceNumber { major: 0, minor: 0 };
    let mut device = Device::new("image", number, Kind::Sparse, bytes);
    device.path = path.to_owned();
    device
}

async fn run(program: &str, args: &[&str], path: &Utf8Path) {
    let call = Program::find(program).unwrap().call();
    call.args(args.iter().copied())
        .arg(path.as_str())
        .run()
        .await
        .unwrap();
}

async fn contents(device: &Device) -> Contents {
    match Prober::new(LONG).probe(device).await {
        Probe::Read(contents) => contents,
        other => panic!("{other:?}"),
    }
}

fn failed(probe: Probe) -> String {
    match probe {
        Probe::Failed(message) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn tells_what_is_on_an_image_and_that_nothing_is() {
    let images = Images::new();
    let zeros = images.make("zeros", 70 * MIB);
    assert_eq!(contents(&zeros).await, Contents::default());

    let ext4 = images.make("ext4", 70 * MIB);
    run("mke2fs", &["-q", "-t", "ext4", "-L", "some data"], &ext4.path).await;
    let found = contents(&ext4).await;
    let [signature] = &found.signatures[..] else {
        panic!("{found:?}")
    };
    assert_eq!((signature.kind.as_str(), signature.offset), ("ext4", 1080));
    assert_eq!(signature.usage.as_deref(), Some("filesystem"));
    assert_eq!(signature.label.as_deref(), Some("some data"));
    assert!(signature.uuid.is_some() && found.data_at.is_some());

    let swap = images.make("swap", 70 * MIB);
    run("mkswap", &["--quiet"], &swap.path).await;
    assert_eq!(contents(&swap).await.signatures[0].kind, "swap");

    let odd = images.make("odd", 70 * MIB);
    let file = std::fs::OpenOptions::new().write(true).open(&odd.path).unwrap();
    file.write_all_at(b"!", 70 * MIB - 1).unwrap();
    let expected = Contents {
        data_at: Some(70 * MIB - 1),
        ..Contents::default()
    };
    assert_eq!(contents(&odd).await, expected);
}

#[tokio::test]
async fn reading_changes_nothing() {
    let images = Images::new();
    let ext4 = images.make("ext4", 8 * MIB);
    run("mke2fs", &["-q", "-t", "ext4"], &ext4.path).await;
    std::fs::set_permissions(&ext4.path, std::fs::Permissions::from_mode(0o400)).unwrap();
    let state = |device: &Device| {
        let metadata = std::fs::metadata(&device.path).unwrap();
        (std::fs::read(&device.path).unwrap(), metadata.modified().unwrap())
    };
    let before = state(&ext4);
    contents(&ext4).await;
    assert!(state(&ext4) == before);
}

#[tokio::test]
async fn what_cannot_be_read_is_told_in_the_words_of_the_system() {
    let images = Images::new();
    let absent = device(&images.path("absent"), MIB);
    let message = failed(Prober::new(LONG).probe(&absent).await);
    assert!(message.contains("No such file or directory"), "{message}");
    let directory = device(&images.path(""), MIB);
    failed(Prober::new(LONG).probe(&directory).await);
}

#[tokio::test]
async fn another_disk_in_the_same_place_is_not_taken_for_the_one_that_was_asked_about() {
    let images = Images::new();
    let mut device = images.make("disk", 8 * MIB);
    // A file is told by its inode, a disk by its sequence.
    device.kind = Kind::Disk;
    device.sequence = Some(7);
    let block = images.path("sys/dev/block/0:0");
    std::fs::create_dir_all(&block).unwrap();
    let mut prober = Prober::new(LONG);
    prober.sysfs = images.path("sys");
    for (found, is_read) in [(None, false), (Some("8\n"), false), (Some("7\n"), true)] {
        if let Some(found) = found {
            std::fs::write(block.join("diskseq"), found).unwrap();
        }
        let probe = prober.probe(&device).await;
        assert_eq!(matches!(probe, Probe::Read(_)), is_read, "{found:?}: {probe:?}");
    }
    // A partition has none of its own.
    std::fs::write(images.path("sys/dev/block/diskseq"), "7\n").unwrap();
    std::fs::remove_file(block.join("diskseq")).unwrap();
    assert!(matches!(prober.probe(&device).await, Probe::Read(_)));
}

#[tokio::test]
async fn a_device_that_does_not_answer_in_time_is_not_responding() {
    let images = Images::new();
    let slow = images.make("slow", MIB);
    let prober = Prober::new(Duration::ZERO);
    assert_eq!(prober.probe(&slow).await, Probe::NotResponding);
    // The process could be killed, or the thread comes to its end: nothing is left for long, and the next one may try.
    let entry = prober.entry(Key::of(&slow));
    while entry.lock().await.as_ref().is_some_and(Remains::are_there) {
        tokio::task::yield_now().await;
    }
}

/// What is stuck is not joined by another: while it is there nothing is started, and afterwards all is as before.
#[tokio::test]
async fn remains_are_waited_out_without_adding_to_them() {
    let images = Images::new();
    let (dead, well) = (images.make("dead", 8 * MIB), images.make("well", 8 * MIB));
    let prober = Prober::new(LONG);
    let (release, released) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let _ = released.recv();
    });
    *prober.entry(Key::of(&dead)).lock().await = Some(Remains::Thread(thread));
    // Far below what starting wipefs takes, which is how it shows that nothing was started.
    for _ in 0..100 {
        assert_eq!(prober.probe(&dead).await, Probe::NotResponding);
    }
    assert_eq!(prober.probe(&well).await, Probe::Read(Contents::default()));
    assert_eq!(prober.book.lock().unwrap().len(), 2);
    drop(release);
    while prober.probe(&dead).await == Probe::NotResponding {
        tokio::task::yield_now().await;
    }
    assert_eq!(prober.probe(&well).await, Probe::Read(Contents::default()));
    assert_eq!(
        prober.book.lock().unwrap().len(),
        1,
        "the other entry is forgotten"
    );
}

#[tokio::test]
async fn a_process_is_told_from_a_later_one_with_its_id() {
    let own = Remains::of_process(Some(std::process::id())).unwrap();
    assert!(own.are_there());
    let Remains::Process { pid, started } = own else {
        panic!("{own:?}")
    };
    let started = started + 1;
    assert!(!Remains::Process { pid, started }.are_there());
    assert!(Remains::of_process(None).is_none());
}

/// A disk swapped for another in the same slot has the old one's number, and is not punished for it.
#[tokio::test]
async fn the_next_disk_in_the_slot_is_another_device() {
    let mut one = device("/dev/sdb".into(), MIB);
    one.kind = Kind::Disk;
    let mut other = one.clone();
    (one.sequence, other.sequence) = (Some(3), Some(9));
    assert_ne!(Key::of(&one), Key::of(&other));
}

#[tokio::test]
async fn more_devices_than_are_read_at_a_time_are_all_read() {
    let images = Images::new();
    let devices: Vec<_> = (0..3 * AT_ONCE)
        .map(|number| images.make(&format!("image-{number}"), MIB))
        .collect();
    let prober = Prober::new(LONG);
    let probes = futures::future::join_all(devices.iter().map(|device| prober.probe(device))).await;
    assert!(
        probes
            .iter()
            .all(|probe| *probe == Probe::Read(Contents::default()))
    );
    assert_eq!(prober.permits.available_permits(), AT_ONCE);
}

#[tokio::test]
async fn a_caller_that_loses_interest_leaves_the_book_in_order() {
    let images = Images::new();
    let device = images.make("image", 70 * MIB);
    let prober = Prober::new(LONG);
    for _ in 0..20 {
        let _ = timeout(Duration::from_millis(1), prober.probe(&device)).await;
    }
    assert_eq!(prober.probe(&device).await, Probe::Read(Contents::default()));
    assert_eq!(prober.permits.available_permits(), AT_ONCE);
}

#[tokio::test]
async fn a_file_as_it_is_found_in_its_directory_is_read_and_one_in_its_place_is_not() {
    let images = Images::new();
    images.make("a.img", 64 * MIB);
    let found = crate::sparse::files(&images.path("."));
    let [file] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(contents(file).await, Contents::default());
    images.make("b.img", 64 * MIB);
    std::fs::rename(images.path("b.img"), images.path("a.img")).unwrap();
    let message = failed(Prober::new(LONG).probe(file).await);
    assert!(message.contains("replaced by another device"), "{message}");
}
