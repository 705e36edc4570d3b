//! The command line of every verb.

use super::*;
use crate::{
    Activity, DatasetKind, DraidShape, Group, Guid, Import, Layout, NewPool, NewVolume, Offline, Redundancy,
    ScrubCommand, Send,
};

const OLD: Guid = Guid(18_144_956_609_738_444_664);

fn tank() -> PoolName {
    PoolName::new("tank").unwrap()
}

fn volume() -> DatasetName {
    DatasetName::new("tank/pvc-1").unwrap()
}

fn taken(name: &str) -> SnapshotName {
    volume().snapshot(name).unwrap()
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(pair).collect()
}

fn group(redundancy: Redundancy, devices: &[&str]) -> Group {
    Group {
        redundancy,
        devices: devices.iter().map(Into::into).collect(),
    }
}

/// The command line as it is run, each word that has a space in it in brackets.
#[track_caller]
fn is(command: impl Into<Result<Command>>, expected: &str) {
    let command = command.into().unwrap();
    let tool = match command.tool {
        Tool::Zpool => "zpool",
        Tool::Zfs => "zfs",
    };
    let words = command.words.iter().map(|word| match word.contains(' ') {
        true => format!("[{word}]"),
        false => word.clone(),
    });
    let line = std::iter::once(tool.to_owned())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ");
    assert_eq!(line, expected);
}

impl From<Command> for Result<Command> {
    fn from(command: Command) -> Self {
        Ok(command)
    }
}

#[track_caller]
fn refused(command: Result<Command>) {
    assert!(matches!(command, Err(Error::Refused { .. })), "{command:?}");
}

#[test]
fn looking_at_pools() {
    is(pool::list(), "zpool list -j -p -o name,health");
    is(pool::status(&tank()), "zpool status -j -p -P -s tank");
    is(pool::properties(&tank()), "zpool get -j -p all tank");
    is(pool::events(false), "zpool events -H -v");
    is(pool::events(true), "zpool events -H -v -f");
    for (activity, word) in [
        (Activity::Resilver, "resilver"),
        (Activity::Replace, "replace"),
        (Activity::Scrub, "scrub"),
        (Activity::Remove, "remove"),
        (Activity::RaidzExpand, "raidz_expand"),
        (Activity::Initialize, "initialize"),
        (Activity::Trim, "trim"),
        (Activity::Free, "free"),
    ] {
        is(
            pool::wait(&tank(), activity),
            &format!("zpool wait -t {word} tank"),
        );
    }
}

#[test]
fn making_pools() {
    let plain = NewPool {
        name: tank(),
        layout: Layout {
            data: vec![group(Redundancy::Mirror, &["/dev/a", "/dev/b"])],
            spare: vec!["/dev/s".into()],
            ..Layout::default()
        },
        properties: map(&[("ashift", "12"), ("comment", "rs.cstor a b")]),
        root: map(&[("canmount", "off"), ("rs.cstor:uid", "1-2")]),
    };
    is(
        pool::create(&plain),
        "zpool create -o ashift=12 -o [comment=rs.cstor a b] -O canmount=off -O rs.cstor:uid=1-2 tank \
         mirror /dev/a /dev/b spare /dev/s",
    );
    let with = |properties: &[(&str, &str)]| NewPool {
        properties: map(properties),
        root: map(&[]),
        ..plain.clone()
    };
    let rest = "tank mirror /dev/a /dev/b spare /dev/s";
    for (properties, expected) in [
        (
            [("compatibility", "openzfs-2.1-linux")],
            "-o compatibility=openzfs-2.1-linux",
        ),
        (
            [("feature@lz4_compress", "enabled")],
            "-d -o feature@lz4_compress=enabled",
        ),
        ([("feature@draid", "disabled")], "-o feature@draid=disabled"),
    ] {
        is(
            pool::create(&with(&properties)),
            &format!("zpool create {expected} {rest}"),
        );
    }
    let shape = DraidShape {
        parity: 1,
        data: Some(2),
        children: 5,
        spares: 1,
    };
    let draid = Layout {
        data: vec![group(Redundancy::Draid(shape), &["/dev/a"])],
        ..Layout::default()
    };
    is(
        pool::add(&tank(), &draid),
        "zpool add tank draid1:2d:5c:1s /dev/a",
    );
    let log = Layout {
        log: vec![group(Redundancy::Stripe, &["/dev/l"])],
        ..Layout::default()
    };
    is(pool::add(&tank(), &log), "zpool add tank log /dev/l");
    refused(pool::add(&tank(), &Layout::default()));
    for device in ["mirror", "-f", "sda", ""] {
        let layout = Layout {
            data: vec![group(Redundancy::Stripe, &["/dev/a", device])],
            ..Layout::default()
        };
        refused(pool::add(&tank(), &layout));
    }
}

#[test]
fn taking_up_pools() {
    let import = Import {
        guid: OLD,
        name: None,
        devices: vec!["/dev/a1".into(), "/dev/disk/by-id/b b".into()],
        properties: map(&[]),
        although_in_use: false,
        without_log: false,
        read_only: false,
    };
    is(
        pool::import(&import),
        "zpool import -d /dev/a1 -d [/dev/disk/by-id/b b] -N 18144956609738444664",
    );
    let all = Import {
        name: Some(tank()),
        properties: map(&[("cachefile", "none")]),
        although_in_use: true,
        without_log: true,
        read_only: true,
        devices: vec!["/dev/a1".into()],
        ..import.clone()
    };
    is(
        pool::import(&all),
        "zpool import -d /dev/a1 -N -o cachefile=none -f -m -o readonly=on 18144956609738444664 tank",
    );
    // Without a name its number stands for it, which no pool can be called.
    assert_eq!(pool::import(&import).unwrap().pool, OLD.to_string());
    assert_eq!(pool::import(&all).unwrap().pool, "tank");
    for devices in [vec![], vec!["a1".into()]] {
        refused(pool::import(&Import {
            devices,
            ..import.clone()
        }));
    }
    is(pool::export(&tank()), "zpool export tank");
    is(pool::destroy(&tank()), "zpool destroy tank");
}

#[test]
fn changing_pools() {
    let device = Utf8Path::new("/dev/n");
    let number = OLD.to_string();
    let line = |words: &str| format!("zpool {}", words.replace("OLD", &number));
    is(
        pool::set(&tank(), "comment", "a=b c"),
        "zpool set [comment=a=b c] tank",
    );
    is(
        pool::attach(&tank(), OLD, device),
        &line("attach tank OLD /dev/n"),
    );
    is(pool::detach(&tank(), OLD), &line("detach tank OLD"));
    is(
        pool::replace(&tank(), OLD, device),
        &line("replace tank OLD /dev/n"),
    );
    is(pool::online(&tank(), OLD), &line("online tank OLD"));
    is(
        pool::expand(&tank(), "/dev/disk/by-id/a".into()).unwrap(),
        &line("online -e tank /dev/disk/by-id/a"),
    );
    is(
        pool::offline(&tank(), OLD, Offline::Lasting),
        &line("offline tank OLD"),
    );
    is(
        pool::offline(&tank(), OLD, Offline::UntilImport),
        &line("offline -t tank OLD"),
    );
    is(pool::remove(&tank(), OLD), &line("remove tank OLD"));
    is(pool::clear(&tank(), None), "zpool clear tank");
    is(pool::clear(&tank(), Some(OLD)), &line("clear tank OLD"));
    is(pool::clear_labels(device), "zpool labelclear -f /dev/n");
    is(pool::scrub(&tank(), ScrubCommand::Start), "zpool scrub tank");
    is(pool::scrub(&tank(), ScrubCommand::Pause), "zpool scrub -p tank");
    is(pool::scrub(&tank(), ScrubCommand::Stop), "zpool scrub -s tank");
    is(pool::trim(&tank()), "zpool trim tank");
    is(pool::initialize(&tank()), "zpool initialize tank");
    let relative = Utf8Path::new("n");
    refused(pool::attach(&tank(), OLD, relative));
    refused(pool::replace(&tank(), OLD, relative));
    refused(pool::clear_labels(relative));
    for name in ["", "-o", "a b", "a=b", "a,b", "ä"] {
        refused(pool::set(&tank(), name, ""));
    }
    refused(pool::set(&tank(), "comment", "a\0b"));
}

#[test]
fn looking_at_datasets() {
    let kinds = [
        DatasetKind::FileSystem,
        DatasetKind::Volume,
        DatasetKind::Snapshot,
        DatasetKind::Bookmark,
    ];
    is(
        dataset::list(&tank(), &kinds, &["used", "rs.cstor:volume"]),
        "zfs list -j -p -r -t filesystem,volume,snapshot,bookmark -o name,used,rs.cstor:volume tank",
    );
    is(
        dataset::list(&tank(), &kinds[1..2], &[]),
        "zfs list -j -p -r -t volume -o name tank",
    );
    refused(dataset::list(&tank(), &[], &[]));
    refused(dataset::list(&tank(), &kinds, &["used,name"]));
    is(
        dataset::get("tank/pvc-1@s 1", &["guid", "used"]),
        "zfs get -j -p guid,used [tank/pvc-1@s 1]",
    );
    is(
        dataset::get("tank/pvc-1#b", &[]),
        "zfs get -j -p type tank/pvc-1#b",
    );
    refused(dataset::get("-r", &["guid"]));
    is(dataset::holds(&taken("s")), "zfs holds -H -p tank/pvc-1@s");
    assert_eq!(dataset::get("tank/a@b", &[]).unwrap().pool, "tank");
}

#[test]
fn changing_datasets() {
    let (none, some) = (map(&[]), map(&[("compression", "lz4"), ("rs.cstor:a", "b c")]));
    is(
        dataset::set(&volume(), &some),
        "zfs set compression=lz4 [rs.cstor:a=b c] tank/pvc-1",
    );
    refused(dataset::set(&volume(), &none));
    is(
        dataset::inherit(&volume(), "compression"),
        "zfs inherit compression tank/pvc-1",
    );
    let thin = NewVolume {
        name: volume(),
        bytes: 1 << 30,
        thin: true,
        properties: map(&[("volblocksize", "16384")]),
    };
    is(
        dataset::create_volume(&thin),
        "zfs create -s -V 1073741824 -o volblocksize=16384 tank/pvc-1",
    );
    let thick = NewVolume {
        thin: false,
        properties: none.clone(),
        ..thin
    };
    is(
        dataset::create_volume(&thick),
        "zfs create -V 1073741824 tank/pvc-1",
    );
    let group = DatasetName::new("tank/group").unwrap();
    is(
        dataset::create_file_system(&group, &map(&[("canmount", "off")])),
        "zfs create -u -o canmount=off tank/group",
    );
    is(dataset::grow(&volume(), 4096), "zfs set volsize=4096 tank/pvc-1");
    is(dataset::promote(&volume()), "zfs promote tank/pvc-1");
    is(
        dataset::clone(&taken("s"), &group, &none),
        "zfs clone tank/pvc-1@s tank/group",
    );
    is(
        dataset::clone(&taken("s"), &group, &some),
        "zfs clone -o compression=lz4 -o [rs.cstor:a=b c] tank/pvc-1@s tank/group",
    );
    is(dataset::rename("tank/a", "tank/b"), "zfs rename tank/a tank/b");
    is(
        dataset::rename("tank/a@x", "tank/a@y"),
        "zfs rename tank/a@x tank/a@y",
    );
    for (from, to) in [("tank/a", "tank/a@y"), ("tank/a#x", "tank/a#y"), ("tank/a", "-p")] {
        refused(dataset::rename(from, to));
    }
}

#[test]
fn nothing_is_destroyed_but_what_is_named() {
    for name in ["tank/pvc-1", "tank/pvc-1@s", "tank/pvc-1#b"] {
        is(dataset::destroy(name), &format!("zfs destroy {name}"));
    }
    // ZFS takes these for several.
    for name in [
        "tank/a@b%c",
        "tank/a@%",
        "tank/a@b,c",
        "tank/a@",
        "tank/a#",
        "-r",
        "-R tank",
    ] {
        refused(dataset::destroy(name));
    }
}

#[test]
fn snapshots_and_holds() {
    let other = DatasetName::new("other/a").unwrap().snapshot("s").unwrap();
    is(
        dataset::snapshot(&[taken("s"), tank().root().snapshot("s").unwrap()], &map(&[])),
        "zfs snapshot tank/pvc-1@s tank@s",
    );
    is(
        dataset::snapshot(&[taken("s")], &map(&[("rs.cstor:why", "daily")])),
        "zfs snapshot -o rs.cstor:why=daily tank/pvc-1@s",
    );
    refused(dataset::snapshot(&[], &map(&[])));
    refused(dataset::snapshot(&[taken("s"), other], &map(&[])));
    is(
        dataset::hold(&taken("s"), "kept by"),
        "zfs hold [kept by] tank/pvc-1@s",
    );
    is(
        dataset::release(&taken("s"), "kept"),
        "zfs release kept tank/pvc-1@s",
    );
    for tag in ["", "-r", "a\tb", "a\nb"] {
        refused(dataset::hold(&taken("s"), tag));
        refused(dataset::release(&taken("s"), tag));
    }
}

#[test]
fn streams() {
    let send = |since: Option<&str>, raw| {
        dataset::send(&Send::Snapshot {
            snapshot: taken("b"),
            since: since.map(str::to_owned),
            raw,
        })
    };
    is(send(None, false), "zfs send tank/pvc-1@b");
    is(
        send(Some("tank/pvc-1@a"), true),
        "zfs send -w -i tank/pvc-1@a tank/pvc-1@b",
    );
    is(
        send(Some("tank/pvc-1#a"), false),
        "zfs send -i tank/pvc-1#a tank/pvc-1@b",
    );
    refused(send(Some("-R"), false));
    refused(send(Some("tank/pvc-1"), false));
    let resume = |token: &str| dataset::send(&Send::Resume { token: token.into() });
    is(resume("1-bf31-e0-789c"), "zfs send -t 1-bf31-e0-789c");
    refused(resume(""));
    refused(resume("-R"));
    refused(resume("a b"));
    is(
        dataset::receive(&volume(), &map(&[("rs.cstor:a", "b")])),
        "zfs receive -s -u -o rs.cstor:a=b tank/pvc-1",
    );
    is(dataset::abort_receive(&volume()), "zfs receive -A tank/pvc-1");
}
