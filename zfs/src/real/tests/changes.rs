//! Verbs that are more than one command, and streams.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;

use crate::{Datasets, Guid, Label, Pools, Send};

use super::*;

#[tokio::test]
async fn a_volume_is_made_larger_and_never_smaller() {
    let fake = Fake::new(&format!(
        "case $1 in get) cat {} ;; esac",
        fixture("dataset.json")
    ));
    let name = DatasetName::new("fx/group/one").unwrap();
    let get = "zfs get -j -p volsize fx/group/one";
    let now = 64 << 20;
    assert_refused(
        fake.zfs.grow(&name, now - 1).await,
        "it has 67108864 bytes already",
    );
    assert_eq!(fake.zfs.grow(&name, now).await, Ok(()));
    assert_eq!(fake.calls(), [get, get]);
    assert_eq!(fake.zfs.grow(&name, now + 1).await, Ok(()));
    assert_eq!(
        fake.calls(),
        [get, get, get, "zfs set volsize=67108865 fx/group/one"]
    );
}

#[tokio::test]
async fn what_is_no_volume_is_not_made_larger() {
    let fake = Fake::new(&format!(
        "case $1 in get) cat {} ;; esac",
        fixture("file-system.json")
    ));
    let name = DatasetName::new("fx/group").unwrap();
    assert_refused(fake.zfs.grow(&name, 1 << 40).await, "it is no volume");
    assert_eq!(fake.calls().len(), 1);
}

#[tokio::test]
async fn streams_go_straight_into_and_out_of_files() {
    let fake = Fake::new(
        "case $1 in send) printf 'stream of %s' \"$2\" ;; receive) cat > \"$here/received\" ;; esac",
    );
    let snapshot = volume().snapshot("s").unwrap();
    let sent = fake.path("sent");
    let what = Send::Snapshot {
        snapshot,
        since: None,
        raw: false,
    };
    let into = File::create(&sent).unwrap();
    fake.zfs.send(&what, into.into()).await.unwrap();
    assert_eq!(std::fs::read_to_string(&sent).unwrap(), "stream of tank/pvc-1@s");
    let from = File::open(&sent).unwrap();
    let copy = DatasetName::new("tank/copy").unwrap();
    fake.zfs.receive(&copy, &none(), from.into()).await.unwrap();
    let received = std::fs::read_to_string(fake.path("received")).unwrap();
    assert_eq!(received, "stream of tank/pvc-1@s");
}

#[tokio::test]
async fn a_stream_that_is_refused_says_why() {
    let fake = Fake::new("cat > /dev/null; echo 'cannot receive: the stream is short' >&2; exit 1");
    let empty = File::open("/dev/null").unwrap();
    let outcome = fake.zfs.receive(&volume(), &none(), empty.into()).await;
    assert_refused(outcome, "cannot receive: the stream is short");
    let resume = Send::Resume {
        token: "1-bf31".to_owned(),
    };
    let nowhere = File::create("/dev/null").unwrap();
    assert_refused(
        fake.zfs.send(&resume, nowhere.into()).await,
        "cannot receive: the stream is short",
    );
}

/// A device with a label of a pool that was exported, and the number in it.
fn labelled(fake: &Fake) -> (Utf8PathBuf, Guid) {
    let mut list = std::fs::read(fixture("labels/exported.nvlist")).unwrap();
    list.resize(112 << 10, 0);
    let device = fake.path("device");
    let file = File::create(&device).unwrap();
    file.set_len(2 << 20).unwrap();
    file.write_all_at(&list, 16 << 10).unwrap();
    (device, Guid(Label::decode(&list).unwrap().vdev_guid))
}

#[tokio::test]
async fn labels_are_cleared_if_they_are_of_the_vdev_that_is_meant() {
    let fake = Fake::new("for device; do :; done; : > \"$device\"; truncate -s 2M \"$device\"");
    let (device, guid) = labelled(&fake);
    assert_refused(
        fake.zfs.clear_labels(&device, Guid(1)).await,
        &format!("it is the vdev {guid}, not 1"),
    );
    assert_eq!(fake.calls(), [""; 0], "nothing was run");
    assert_eq!(fake.zfs.clear_labels(&device, guid).await, Ok(()));
    assert_eq!(fake.calls(), [format!("zpool labelclear -f {device}")]);
    assert_refused(
        fake.zfs.clear_labels(&device, guid).await,
        "there is no label of ZFS on it",
    );
    let mut left = Vec::new();
    File::open(&device).unwrap().read_to_end(&mut left).unwrap();
    assert!(left.iter().all(|byte| *byte == 0));
}

#[tokio::test]
async fn labels_that_are_still_there_were_not_cleared() {
    let fake = Fake::new("exit 0");
    let (device, guid) = labelled(&fake);
    assert_refused(
        fake.zfs.clear_labels(&device, guid).await,
        "ZFS says that it did, but there are still labels",
    );
    let gone = fake.path("gone");
    let error = fake.zfs.clear_labels(&gone, guid).await.unwrap_err();
    assert!(matches!(error, Error::CannotRun { .. }), "{error:?}");
}
