use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;

use super::*;
use crate::{Datasets, Send, SnapshotName};

/// A file that holds these bytes, to be read from its beginning.
fn file(bytes: &[u8]) -> OwnedFd {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file.into()
}

/// What is sent.
async fn sent(zfs: &SimZfs, what: &Send) -> crate::Result<Vec<u8>> {
    let mut file = tempfile::tempfile().unwrap();
    zfs.send(what, file.try_clone().unwrap().into()).await?;
    file.rewind().unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    Ok(bytes)
}

fn whole(snapshot: &str) -> Send {
    Send::Snapshot {
        snapshot: SnapshotName::new(snapshot).unwrap(),
        since: None,
        raw: false,
    }
}

fn since(snapshot: &str, earlier: &str) -> Send {
    Send::Snapshot {
        snapshot: SnapshotName::new(snapshot).unwrap(),
        since: Some(earlier.to_owned()),
        raw: false,
    }
}

/// What the other side says it has of a stream.
async fn token(zfs: &SimZfs) -> Option<String> {
    let copy = zfs.get("tank/copy", &["receive_resume_token"]).await.unwrap();
    copy.text("receive_resume_token").map(ToOwned::to_owned)
}

async fn resume(zfs: &SimZfs) -> Send {
    Send::Resume {
        token: token(zfs).await.unwrap(),
    }
}

/// Two hosts: `a` with a volume and two snapshots of it, `b` with an empty pool of the same name.
async fn two_hosts() -> (SimHosts, SimZfs, SimZfs) {
    let hosts = world();
    let a = with_pool(&hosts, mirror("bc")).await;
    let b = hosts.zfs("b");
    for letter in ['d', 'e'] {
        hosts.move_disk(&letter.to_uppercase().to_string(), "b", &[device(letter)]);
    }
    b.create(&new_pool(mirror("de"))).await.unwrap();
    a.create_volume(&new_volume("one", GIB)).await.unwrap();
    let write = |at, bytes, value| {
        hosts
            .write("a", &volume("one"), Piece { at, bytes, value })
            .unwrap()
    };
    for at in 0..8 {
        write(at * MIB, MIB, at);
    }
    a.snapshot(&[volume("one").snapshot("first").unwrap()], &BTreeMap::new())
        .await
        .unwrap();
    write(2 * MIB, MIB, 100);
    write(20 * MIB, MIB, 200);
    a.snapshot(&[volume("one").snapshot("second").unwrap()], &BTreeMap::new())
        .await
        .unwrap();
    write(0, GIB, 300);
    (hosts, a, b)
}

#[tokio::test(start_paused = true)]
async fn a_stream_brings_a_snapshot_and_what_is_in_it() {
    let (hosts, a, b) = two_hosts().await;
    let none = BTreeMap::new();
    let first = sent(&a, &whole("tank/one@first")).await.unwrap();
    let ours = set(&[("rs.cstor:who", "us")]);
    b.receive(&volume("copy"), &ours, file(&first)).await.unwrap();
    assert_eq!(hosts.read("b", "tank/copy"), hosts.read("a", "tank/one@first"));
    assert_eq!(a.guid("tank/one@first").await, b.guid("tank/copy@first").await);
    assert_ne!(a.guid("tank/one").await, b.guid("tank/copy").await);
    let copy = b.get("tank/copy", &["volsize", "rs.cstor:who"]).await.unwrap();
    assert_eq!(
        (copy.number("volsize"), copy.text("rs.cstor:who")),
        (Some(GIB), Some("us"))
    );
    let second = sent(&a, &since("tank/one@second", "tank/one@first"))
        .await
        .unwrap();
    assert!(second.len() < first.len(), "only the difference");
    b.receive(&volume("copy"), &none, file(&second)).await.unwrap();
    assert_eq!(
        hosts.read("b", "tank/copy@second"),
        hosts.read("a", "tank/one@second")
    );
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn through_a_pipe_both_sides_work_at_once() {
    let (hosts, a, b) = two_hosts().await;
    let (read, write) = std::io::pipe().unwrap();
    let what = whole("tank/one@second");
    let (to, none) = (volume("copy"), BTreeMap::new());
    let (sent, received) = tokio::join!(a.send(&what, write.into()), b.receive(&to, &none, read.into()));
    assert_eq!((sent, received), (Ok(()), Ok(())));
    assert_eq!(hosts.read("b", "tank/copy"), hosts.read("a", "tank/one@second"));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_refused() {
    let (hosts, a, b) = two_hosts().await;
    let none = BTreeMap::new();
    let first = sent(&a, &whole("tank/one@first")).await.unwrap();
    let second = sent(&a, &since("tank/one@second", "tank/one@first"))
        .await
        .unwrap();
    said(sent(&a, &whole("tank/one@none")).await);
    said(sent(&a, &since("tank/one@first", "tank/one@second")).await);
    said(sent(&a, &since("tank/one@second", "tank/one#first")).await);
    said(b.receive(&volume("copy"), &none, file(&second)).await);
    said(b.receive(&volume("copy"), &none, file(b"what is this?\n")).await);
    said(b.receive(&volume("copy"), &none, file(b"")).await);
    b.receive(&volume("copy"), &none, file(&first)).await.unwrap();
    said(b.receive(&volume("copy"), &none, file(&first)).await);
    // Something was written there meanwhile.
    let piece = Piece {
        at: 0,
        bytes: MIB,
        value: 9,
    };
    hosts.write("b", &volume("copy"), piece).unwrap();
    assert!(said(b.receive(&volume("copy"), &none, file(&second)).await).contains("modified"));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_was_broken_off_goes_on_where_it_was() {
    let (hosts, a, b) = two_hosts().await;
    let none = BTreeMap::new();
    for what in [
        whole("tank/one@first"),
        since("tank/one@second", "tank/one@first"),
    ] {
        let all = sent(&a, &what).await.unwrap();
        // In the middle of the line after so many.
        let broken = |bytes: &[u8], lines: usize| {
            let mut ends = (0..bytes.len()).filter(|at| bytes[*at] == b'\n');
            file(&bytes[..ends.nth(lines - 1).unwrap() + 5])
        };
        let lines = all.iter().filter(|byte| **byte == b'\n').count();
        let cut = b.receive(&volume("copy"), &none, broken(&all, 1)).await;
        assert!(said(cut).contains("middle"));
        let rest = sent(&a, &resume(&b).await).await.unwrap();
        let cut = b.receive(&volume("copy"), &none, broken(&rest, lines - 2)).await;
        assert!(said(cut).contains("middle"));
        // From the beginning is not on from there.
        said(b.receive(&volume("copy"), &none, file(&all)).await);
        let rest = sent(&a, &resume(&b).await).await.unwrap();
        assert!(rest.len() < all.len());
        b.receive(&volume("copy"), &none, file(&rest)).await.unwrap();
        assert_eq!(token(&b).await, None);
    }
    assert_eq!(hosts.read("b", "tank/copy"), hosts.read("a", "tank/one@second"));
    let wrong = Send::Resume { token: "1-zz".into() };
    said(sent(&a, &wrong).await);
    sound(&hosts);
}

#[tokio::test(start_paused = true)]
async fn what_arrived_of_a_stream_is_thrown_away() {
    let (hosts, a, b) = two_hosts().await;
    let none = BTreeMap::new();
    let first = sent(&a, &whole("tank/one@first")).await.unwrap();
    said(b.abort_receive(&volume("copy")).await);
    said(
        b.receive(&volume("copy"), &none, file(&first[..first.len() / 2]))
            .await,
    );
    assert!(
        b.get("tank/copy", &[]).await.is_ok(),
        "it is there, if not usable"
    );
    b.abort_receive(&volume("copy")).await.unwrap();
    assert!(b.get("tank/copy", &[]).await.is_err());
    b.receive(&volume("copy"), &none, file(&first)).await.unwrap();
    let second = sent(&a, &since("tank/one@second", "tank/one@first"))
        .await
        .unwrap();
    said(
        b.receive(&volume("copy"), &none, file(&second[..second.len() / 2]))
            .await,
    );
    b.abort_receive(&volume("copy")).await.unwrap();
    assert_eq!(hosts.read("b", "tank/copy"), hosts.read("a", "tank/one@first"));
    sound(&hosts);
}
