use std::os::unix::fs::{FileExt as _, symlink};

use cstor_blockdev::Kind;

use super::*;
use crate::disk::fixtures::{NODE, blank, found, holds, only, partition, view, virtio};

const BYTES: u64 = 64 << 20;

/// A file that stands in for the disk at its path. Its number is that of all files, 0:0, and this is what sysfs calls vdb.
struct Bench {
    dir: tempfile::TempDir,
    disk: Disk,
    wiper: Wiper,
}

impl Bench {
    fn new(probe: Probe) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap();
        let sys = root.join("sys");
        let device = sys.join("devices/virtio0/block/vdb");
        std::fs::create_dir_all(device.join("device")).unwrap();
        std::fs::create_dir_all(sys.join("bus/virtio")).unwrap();
        std::fs::create_dir_all(sys.join("class/block")).unwrap();
        std::fs::create_dir_all(sys.join("dev/block")).unwrap();
        symlink(sys.join("bus/virtio"), device.join("device/subsystem")).unwrap();
        symlink(&device, sys.join("class/block/vdb")).unwrap();
        symlink(&device, sys.join("dev/block/0:0")).unwrap();
        for (file, text) in [
            ("dev", "0:0".to_owned()),
            ("size", (BYTES / 512).to_string()),
            ("serial", "alpha".into()),
            (
                "diskseq",
                virtio("vdb", "alpha").sequence.unwrap_or_default().to_string(),
            ),
        ] {
            std::fs::write(device.join(file), text).unwrap();
        }
        let mut device = virtio("vdb", "alpha");
        device.path = root.join("disk");
        device.bytes = BYTES;
        std::fs::write(&device.path, vec![0xa5; BYTES as usize]).unwrap();
        let places = Places {
            sys,
            ..Places::default()
        };
        let wiper = Wiper::new(places, NODE);
        let disk = only(&view([found(device, probe)])).clone();
        Self { dir, disk, wiper }
    }

    fn sys(&self, file: &str) -> std::path::PathBuf {
        self.dir.path().join("sys").join(file)
    }

    /// Whether the whole block at `offset` is zero.
    fn is_wiped(&self, offset: u64) -> bool {
        let mut block = [0xff; 512];
        let file = File::open(self.disk.device().path.as_std_path()).unwrap();
        file.read_exact_at(&mut block, offset).unwrap();
        block == [0; 512]
    }

    #[track_caller]
    fn assert_untouched(&self) {
        let content = std::fs::read(self.disk.device().path.as_std_path()).unwrap();
        assert!(content.iter().all(|byte| *byte == 0xa5), "nothing was written");
    }
}

#[tokio::test]
async fn both_ends_and_what_was_found_are_wiped_and_nothing_else() {
    let bench = Bench::new(holds("ext4"));
    bench.wiper.wipe(&bench.disk, "alpha").await.unwrap();
    let wiped = [0, ENDS - 512, 9 << 20, BYTES - ENDS, BYTES - 512];
    for offset in wiped {
        assert!(bench.is_wiped(offset), "{offset}");
    }
    for offset in [ENDS, 32 << 20, BYTES - ENDS - 512] {
        assert!(!bench.is_wiped(offset), "{offset}");
    }
    // We died right after, and the request is still there.
    bench.wiper.wipe(&bench.disk, "alpha").await.unwrap();
}

#[tokio::test]
async fn another_disk_at_the_path_is_not_touched() {
    let bench = Bench::new(blank());
    let error = bench.wiper.wipe(&bench.disk, "beta").await.unwrap_err();
    assert!(matches!(error, WipeError::Another { .. }), "{error}");
    bench.assert_untouched();
    // Another one is in the slot by now.
    std::fs::write(bench.sys("devices/virtio0/block/vdb/serial"), "gamma").unwrap();
    let error = bench.wiper.wipe(&bench.disk, "alpha").await.unwrap_err();
    assert!(error.reason() == reason::WRONG_IDENTITY, "{error}");
    bench.assert_untouched();
}

#[tokio::test]
async fn a_disk_that_the_kernel_cannot_name_is_not_touched() {
    let bench = Bench::new(blank());
    std::fs::remove_file(bench.sys("dev/block/0:0")).unwrap();
    assert!(bench.wiper.wipe(&bench.disk, "alpha").await.is_err());
    bench.assert_untouched();
    // The name leads to a device of another number.
    symlink(bench.sys("devices/virtio0/block/vdb"), bench.sys("dev/block/0:0")).unwrap();
    std::fs::write(bench.sys("devices/virtio0/block/vdb/dev"), "252:0").unwrap();
    assert!(bench.wiper.wipe(&bench.disk, "alpha").await.is_err());
    bench.assert_untouched();
}

#[tokio::test]
async fn a_disk_that_is_gone_is_an_error() {
    let bench = Bench::new(blank());
    std::fs::remove_file(bench.disk.device().path.as_std_path()).unwrap();
    let error = bench.wiper.wipe(&bench.disk, "alpha").await.unwrap_err();
    assert!(matches!(error, WipeError::Io { .. }), "{error}");
}

/// The disk hangs when it is asked for its serial number. Time is simulated: the deadline passes at once.
#[tokio::test(start_paused = true)]
async fn a_disk_that_does_not_answer_is_told_and_left_alone_when_it_is_back() {
    let bench = Bench::new(blank());
    let serial = bench.sys("devices/virtio0/block/vdb/serial");
    std::fs::remove_file(&serial).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let pipe = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &serial, pipe, mode, 0).unwrap();
    for _ in 0..3 {
        let error = bench.wiper.wipe(&bench.disk, "alpha").await.unwrap_err();
        assert_eq!(error.reason(), reason::NOT_RESPONDING, "{error}");
        let under_way = bench.wiper.under_way.lock().unwrap();
        assert_eq!(under_way.len(), 1, "one thread waits for it");
    }
    std::fs::write(&serial, "alpha").unwrap();
    while bench.wiper.under_way.lock().unwrap()["vdb"].strong_count() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    bench.assert_untouched();
}

#[test]
fn regions_cover_partitions_and_stay_inside() {
    let mut disk = virtio("vdb", "alpha");
    let mut part = partition(&mut disk, 1);
    part.partition.as_mut().unwrap().start = 1 << 30;
    let (start, end) = (1 << 30, (1 << 30) + part.bytes);
    let view = view([found(disk, blank()), found(part, blank())]);
    let disk = &view.disks["vdb"];
    let bytes = disk.device().bytes;
    let covered = |offset: u64| {
        regions(disk, bytes)
            .iter()
            .any(|(at, length)| (*at..at + length).contains(&offset))
    };
    for offset in [
        0,
        ENDS - 1,
        bytes - 1,
        bytes - ENDS,
        start,
        start + ENDS - 1,
        end - ENDS,
        end - 1,
    ] {
        assert!(covered(offset), "{offset}");
    }
    for offset in [ENDS, start - 1, start + ENDS, end] {
        assert!(!covered(offset), "{offset}");
    }
    // It shrank since it was described: nothing behind its end, and nothing twice as long as it.
    for bytes in [0, 512, ENDS, 1 << 30] {
        assert!(
            regions(disk, bytes)
                .iter()
                .all(|(at, length)| at + length <= bytes)
        );
    }
    assert!(regions(disk, 0).is_empty());
    assert_eq!(disk.device().kind, Kind::Disk);
}
