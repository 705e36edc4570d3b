use camino::Utf8Path;

use super::*;
use crate::Kind;
use crate::contents::Contents;
use crate::device::Loop;

#[test]
fn users_that_the_kernel_does_not_name_are_found_by_path_and_link() {
    let device = |name: &str, minor, kind| {
        let number = DeviceNumber { major: 4000, minor };
        Device::new(name, number, kind, 1 << 30)
    };
    let mut disk = device("xdb", 0, Kind::Disk);
    disk.links = vec!["/dev/disk/by-id/virtio-x".into()];
    let mut over = device("loop9", 1, Kind::Loop);
    over.backing = Some(Loop {
        file: "/dev/xdb".into(),
        offset: 0,
    });
    let mut of_a_file = device("loop8", 2, Kind::Loop);
    of_a_file.backing = Some(Loop {
        file: "/var/disk.img".into(),
        offset: 0,
    });
    let devices = [disk, over, of_a_file].map(|device| (device.name.clone(), device));
    let mut devices = BTreeMap::from(devices);
    note_loops(&BTreeMap::new(), &mut devices);
    let export = Export {
        path: "/dev/disk/by-id/virtio-x".into(),
        number: None,
        by: "nvmet:a".into(),
    };
    note_exports(&[export], &mut devices);
    assert_eq!(devices["xdb"].holders, ["loop9"]);
    assert_eq!(devices["xdb"].exports, ["nvmet:a"]);
    assert!(devices["loop8"].holders.is_empty() && devices["loop9"].holders.is_empty());
}

#[test]
fn users_are_found_by_the_number_of_the_node() {
    let number = DeviceNumber {
        major: 4000,
        minor: 7,
    };
    let disk = Device::new("xdb", number, Kind::Disk, 1 << 30);
    let mut over = Device::new("loop9", DeviceNumber { major: 7, minor: 9 }, Kind::Loop, 1 << 30);
    over.backing = Some(Loop {
        file: "/dev/elsewhere".into(),
        offset: 0,
    });
    let mut devices = BTreeMap::from([disk, over].map(|device| (device.name.clone(), device)));
    note_loops(&BTreeMap::from([("loop9".to_owned(), number)]), &mut devices);
    let export = Export {
        path: "/dev/another".into(),
        number: Some(number),
        by: "target:b".into(),
    };
    note_exports(&[export], &mut devices);
    assert_eq!(
        (devices["xdb"].holders.len(), devices["xdb"].exports.len()),
        (1, 1)
    );
}

/// Describes devices, of which those that are named hang until they are let go.
struct Shelf {
    names: Vec<String>,
    asked: Arc<Mutex<BTreeMap<String, usize>>>,
    hung: Arc<std::sync::RwLock<BTreeSet<String>>>,
    describing: Describing,
}

impl Shelf {
    fn new(dead: usize, alive: usize) -> Self {
        let dead: Vec<_> = (0..dead).map(|number| format!("dead{number}")).collect();
        let alive = (0..alive).map(|number| format!("live{number}"));
        Self {
            names: dead.iter().cloned().chain(alive).collect(),
            asked: Arc::default(),
            hung: Arc::new(dead.into_iter().collect::<BTreeSet<_>>().into()),
            describing: Arc::default(),
        }
    }

    fn describe(&self) -> Describe {
        let (asked, hung) = (self.asked.clone(), self.hung.clone());
        Arc::new(move |name| {
            *asked.lock().unwrap().entry(name.to_owned()).or_default() += 1;
            while hung.read().unwrap().contains(name) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let number = DeviceNumber {
                major: 4000,
                minor: 0,
            };
            let device = Device::new(name, number, Kind::Disk, 1 << 30);
            Ok(Some(Box::new(Described { device, under: None })))
        })
    }

    async fn look(&self) -> (Vec<String>, Vec<String>) {
        let (described, undescribed) = describe_all(&self.describing, &self.names, &self.describe()).await;
        (described.into_keys().collect(), undescribed.into_keys().collect())
    }

    fn asked(&self, name: &str) -> usize {
        self.asked.lock().unwrap().get(name).copied().unwrap_or_default()
    }
}

#[tokio::test]
async fn a_device_that_does_not_answer_is_asked_once_and_delays_one_look() {
    let shelf = Shelf::new(1, 3);
    let alive = ["live0", "live1", "live2"].map(str::to_owned);
    let began = Instant::now();
    let (described, undescribed) = shelf.look().await;
    assert_eq!(
        (&described[..], &undescribed[..]),
        (&alive[..], &["dead0".to_owned()][..])
    );
    assert!(began.elapsed() >= DESCRIBE_WITHIN, "it was waited for");
    for _ in 0..5 {
        let again = start(&shelf.describing, "dead0", &shelf.describe()).unwrap();
        assert!(again.is_none(), "there is nothing that a look could wait for");
        let (described, undescribed) = shelf.look().await;
        assert_eq!(
            (&described[..], &undescribed[..]),
            (&alive[..], &["dead0".to_owned()][..])
        );
    }
    assert_eq!((shelf.asked("dead0"), shelf.asked("live0")), (1, 6));

    // It comes back: what was asked then is thrown away, and it is asked anew.
    shelf.hung.write().unwrap().clear();
    while shelf.describing.lock().unwrap()["dead0"].strong_count() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (described, undescribed) = shelf.look().await;
    assert_eq!((described.len(), undescribed.len()), (4, 0));
    assert_eq!(shelf.asked("dead0"), 2);
}

#[tokio::test]
async fn a_look_that_is_broken_off_leaves_no_second_request() {
    let shelf = Shelf::new(1, 0);
    for _ in 0..3 {
        let _ = timeout(Duration::from_millis(100), shelf.look()).await;
    }
    // Whoever asks does so in a thread, which may take its time to begin.
    while shelf.asked("dead0") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(shelf.asked("dead0"), 1);
    shelf.hung.write().unwrap().clear();
}

#[tokio::test]
async fn a_shelf_of_dead_devices_hides_none_of_the_others() {
    let shelf = Shelf::new(AT_ONCE * 3, 10);
    let (described, undescribed) = shelf.look().await;
    assert_eq!((described.len(), undescribed.len()), (10, AT_ONCE * 3));
    shelf.hung.write().unwrap().clear();
}

/// A node with these virtio disks.
fn node(disks: &[String]) -> (tempfile::TempDir, Places) {
    let directory = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(directory.path()).unwrap().to_owned();
    for name in ["sys/class/block", "proc/1", "dev"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    std::fs::write(root.join("proc/1/mountinfo"), "").unwrap();
    for (number, name) in disks.iter().enumerate() {
        let device = root.join("sys/class/block").join(name);
        std::fs::create_dir_all(device.join("device")).unwrap();
        for (file, text) in [
            ("dev", format!("4000:{number}")),
            ("size", "2048".into()),
            ("serial", name.clone()),
        ] {
            std::fs::write(device.join(file), text).unwrap();
        }
    }
    let places = Places {
        sys: root.join("sys"),
        proc: root.join("proc"),
        dev: root.join("dev"),
        udev: false,
        sparse_files: None,
    };
    (directory, places)
}

#[tokio::test(start_paused = true)]
async fn a_shelf_of_disks_that_cannot_be_read_costs_one_wait() {
    let names: Vec<_> = (0..64).map(|number| format!("dead{number}")).collect();
    let (_directory, places) = node(&[names, vec!["live".to_owned()]].concat());
    let read: ReadContents = Arc::new(|device| {
        Box::pin(async move {
            if device.name.starts_with("dead") {
                std::future::pending().await
            } else {
                Probe::Read(Contents::default())
            }
        })
    });
    let scanner = Scanner::new(places, read, Arc::new(|_, _| true));
    let began = Instant::now();
    let found = scanner
        .look(&Inventory::default(), &Look::default())
        .await
        .unwrap()
        .found;
    let took = began.elapsed();
    assert!(took >= READ_WITHIN && took < READ_WITHIN * 2, "{took:?}");
    assert_eq!(found.values().filter(|found| found.pending).count(), 64);
    assert_eq!(found["live"].probe, Some(Probe::Read(Contents::default())));
}

#[tokio::test]
async fn a_disk_whose_serial_number_cannot_be_read_is_there_and_not_described() {
    let names = ["vda", "vdb"].map(str::to_owned);
    let (_directory, places) = node(&names);
    let serial = places.sys.join("class/block/vdb/serial");
    let read: ReadContents = Arc::new(|_| Box::pin(async { Probe::Read(Contents::default()) }));
    let scanner = Scanner::new(places, read, Arc::new(|_, _| true));
    let before = scanner
        .look(&Inventory::default(), &Look::default())
        .await
        .unwrap();
    assert!(before.undescribed.is_empty());
    std::fs::remove_file(&serial).unwrap();
    std::fs::create_dir(&serial).unwrap();
    let after = scanner.look(&before, &Look::default()).await.unwrap();
    assert_eq!(after.undescribed.keys().collect::<Vec<_>>(), ["vdb"]);
    assert_eq!(after.found["vdb"].device.serial.as_deref(), Some("vdb"));
    assert_eq!(after.found["vda"], before.found["vda"]);
}

/// A busy node is slow to ask, and its disks are well.
#[tokio::test(start_paused = true)]
async fn a_device_that_is_slow_to_describe_itself_is_as_it_was_until_it_had_its_time() {
    let (_directory, places) = node(&["vdb".to_owned()]);
    let read: ReadContents = Arc::new(|_| Box::pin(async { Probe::Read(Contents::default()) }));
    let answering = Scanner::new(places, read, Arc::new(|_, _| true));
    let look = async |scanner: &Scanner, before: &Inventory| {
        let changed = BTreeSet::from(["vdb".to_owned()]);
        let look = Look {
            changed,
            ..Look::default()
        };
        scanner.look(before, &look).await.unwrap()
    };
    let well = look(&answering, &Inventory::default()).await;
    assert!(well.awaited.is_empty() && !well.found["vdb"].pending);

    let (hold, held) = std::sync::mpsc::channel::<()>();
    let held = Mutex::new(held);
    let hanging: Describe = Arc::new(move |_| {
        let _ = held.lock().unwrap().recv();
        Ok(None)
    });
    let silent = Scanner {
        describe: hanging,
        in_threads: true,
        ..answering.clone()
    };
    let waiting = look(&silent, &well).await;
    let (was, is) = (&well.found["vdb"], &waiting.found["vdb"]);
    assert_eq!((&is.device, &is.probe), (&was.device, &was.probe));
    assert!(
        is.pending && is.changed,
        "what was told of it meanwhile is not known"
    );
    assert!(waiting.undescribed.is_empty() && waiting.awaited.contains_key("vdb"));
    // Of one that was not known before nothing is.
    let unknown = look(&silent, &Inventory::default()).await;
    assert!(unknown.found.is_empty() && unknown.undescribed.is_empty());
    assert!(unknown.awaited.contains_key("vdb"));

    tokio::time::advance(ANSWER_WITHIN).await;
    let hung = look(&silent, &waiting).await;
    assert_eq!(hung.found["vdb"].probe, Some(Probe::NotResponding));
    assert!(hung.undescribed.contains_key("vdb"));
    let unknown = look(&silent, &unknown).await;
    assert!(unknown.found.is_empty() && unknown.undescribed.contains_key("vdb"));

    let back = look(&answering, &hung).await;
    assert!(back.undescribed.is_empty() && back.awaited.is_empty());
    assert_eq!(back.found["vdb"].probe, was.probe);
    assert!(!back.found["vdb"].pending);
    drop(hold);
}
