//! Objects of cStor 3.6 are accepted unchanged, kept unchanged and pass through our types unchanged.

use serde_json::Value;

use crate::fixtures::{self, without_nulls};
use crate::kind::{Kind, name};
use crate::support::{client, namespace};

/// What of an object its owner wrote.
fn written(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.retain(|key, _| ["name", "labels", "annotations", "finalizers"].contains(&key.as_str()));
    object
}

async fn comes_back_unchanged(objects: fn(&str) -> Vec<Value>) {
    let client = client().await;
    let namespace = namespace(&client).await;
    for kind in Kind::all() {
        for object in objects(kind.name()) {
            kind.create_whole(&client, &namespace, &object)
                .await
                .unwrap_or_else(|message| panic!("{} was refused: {message}", kind.name()));
            let read = kind.get(&client, &namespace, name(&object)).await;
            assert_eq!(written(&read), object, "{} on the server", kind.name());
            assert_eq!(
                kind.through_rust(&read),
                without_nulls(&read),
                "{} through its Rust type",
                kind.name()
            );
        }
    }
}

#[tokio::test]
async fn old_objects_come_back_unchanged() {
    comes_back_unchanged(fixtures::old).await;
}

#[tokio::test]
async fn full_objects_come_back_unchanged() {
    comes_back_unchanged(fixtures::full).await;
}

/// There is an old object of every kind that cStor 3.6 had, and every field of every kind is in some fixture.
#[test]
fn fixtures_have_every_field() {
    let mut missing = Vec::new();
    for kind in Kind::all() {
        let objects = fixtures::full(kind.name());
        for (path, _) in crate::schema::walk(&kind.schema()) {
            if !objects
                .iter()
                .any(|object| crate::schema::locate(&path, object).is_some())
            {
                missing.push(format!("{}: {path}", kind.name()));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

/// An update of an old object that changes nothing but a label passes, whatever the object lacks.
#[tokio::test]
async fn old_objects_can_be_updated() {
    let client = client().await;
    let namespace = namespace(&client).await;
    for kind in Kind::all() {
        for object in fixtures::old(kind.name()) {
            kind.create_whole(&client, &namespace, &object).await.unwrap();
            let mut read = kind.get(&client, &namespace, name(&object)).await;
            read["metadata"]["annotations"]["touched"] = "yes".into();
            kind.update(&client, &namespace, &read, false)
                .await
                .unwrap_or_else(|message| panic!("{} was refused: {message}", kind.name()));
            // And the controllers' half, written back as it was.
            let read = kind.get(&client, &namespace, name(&object)).await;
            if kind.has_status() {
                kind.update_status(&client, &namespace, &read, false)
                    .await
                    .unwrap();
            }
        }
    }
}

/// The texts cStor 3.6 wrote into `status.phase` and the like, and one nobody knows, are all taken.
#[tokio::test]
async fn status_texts_are_free() {
    let client = client().await;
    let namespace = namespace(&client).await;
    for (kind, pointer, texts) in [
        (
            "CStorPoolInstance",
            "/status/phase",
            vec![
                "",
                "Pending",
                "ONLINE",
                "SUSPENDED",
                "DeletionFailed",
                "NeverHeardOf",
            ],
        ),
        (
            "CStorVolumeReplica",
            "/status/phase",
            vec!["", "Init", "Recreate", "ReconstructingNewReplica", "NeverHeardOf"],
        ),
        (
            "CStorVolume",
            "/status/phase",
            vec!["Init", "Healthy", "Error", "NeverHeardOf"],
        ),
        (
            "CStorVolumeConfig",
            "/status/phase",
            vec!["Pending", "Bound", "NeverHeardOf"],
        ),
        (
            "CStorVolumeAttachment",
            "/status",
            vec!["", "WaitingForCVCBound", "NeverHeardOf"],
        ),
        (
            "CStorBackup",
            "/status",
            vec!["", "Pending", "Done", "NeverHeardOf"],
        ),
        ("CStorRestore", "/status", vec!["", "Invalid", "NeverHeardOf"]),
        (
            "BlockDeviceClaim",
            "/status/phase",
            vec!["", "Invalid Capacity Request", "NeverHeardOf"],
        ),
    ] {
        let kind = Kind::named(kind);
        let object = fixtures::old(kind.name()).remove(0);
        let mut made = kind.create_whole(&client, &namespace, &object).await.unwrap();
        for text in texts {
            crate::schema::put(&mut made, pointer, text.into());
            made = kind
                .update_status(&client, &namespace, &made, false)
                .await
                .unwrap();
            let read = kind.get(&client, &namespace, name(&object)).await;
            assert_eq!(read.pointer(pointer).unwrap(), text, "{}", kind.name());
            assert_eq!(
                kind.through_rust(&read).pointer(pointer).unwrap(),
                text,
                "{}",
                kind.name()
            );
        }
    }
}

/// A status that is a bare text works as a subresource: creation drops it, an update of the object leaves it alone, and it
/// does not count as a new generation.
#[tokio::test]
async fn bare_text_as_status_subresource() {
    let client = client().await;
    let namespace = namespace(&client).await;
    for kind in ["CStorBackup", "CStorRestore", "CStorVolumeAttachment"].map(Kind::named) {
        let mut object = fixtures::old(kind.name()).remove(0);
        object["status"] = "Pending".into();
        let mut made = kind.create(&client, &namespace, &object, false).await.unwrap();
        assert_eq!(made["status"], Value::Null, "{}", kind.name());
        made["status"] = "Init".into();
        let mut made = kind
            .update_status(&client, &namespace, &made, false)
            .await
            .unwrap();
        assert_eq!(
            (&made["status"], &made["metadata"]["generation"]),
            (&"Init".into(), &1.into())
        );
        made["status"] = "Done".into();
        made["metadata"]["annotations"]["touched"] = "yes".into();
        let made = kind.update(&client, &namespace, &made, false).await.unwrap();
        assert_eq!(made["status"], "Init", "{}", kind.name());
    }
}
