//! What the server says of our kinds: names, short names, columns, and that it runs the definitions of the types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use serde_json::{Value, json};

use crate::fixtures;
use crate::kind::Kind;
use crate::support::{client, namespace};

/// Group and version, kind, plural, short name, columns (`*` only with `-o wide`).
const KINDS: [(&str, &str, &str, &str, &str); 16] = [
    (
        "cstor.openebs.io/v1",
        "CStorPoolCluster",
        "cstorpoolclusters",
        "cspc",
        "Name HealthyInstances ProvisionedInstances DesiredInstances Age",
    ),
    (
        "cstor.openebs.io/v1",
        "CStorPoolInstance",
        "cstorpoolinstances",
        "cspi",
        "Name HostName Allocated* Free Capacity ReadOnly ProvisionedReplicas HealthyReplicas Type* Status Age",
    ),
    (
        "cstor.openebs.io/v1",
        "CStorVolumeReplica",
        "cstorvolumereplicas",
        "cvr",
        "Name Allocated Used Status Age",
    ),
    (
        "cstor.openebs.io/v1",
        "CStorVolume",
        "cstorvolumes",
        "cv",
        "Name Capacity Status Age",
    ),
    (
        "cstor.openebs.io/v1",
        "CStorVolumeConfig",
        "cstorvolumeconfigs",
        "cvc",
        "Name Capacity Status Age",
    ),
    (
        "cstor.openebs.io/v1",
        "CStorVolumePolicy",
        "cstorvolumepolicies",
        "cvp",
        "Name Age",
    ),
    (
        "cstor.openebs.io/v1",
        "CStorVolumeAttachment",
        "cstorvolumeattachments",
        "cva",
        "Name Age",
    ),
    (
        "cstor.openebs.io/v1",
        "CStorBackup",
        "cstorbackups",
        "cbackup",
        "Name Volume Backup/Schedule Status",
    ),
    (
        "cstor.openebs.io/v1",
        "CStorCompletedBackup",
        "cstorcompletedbackups",
        "ccompletedbackup",
        "Name Volume Backup/Schedule LastSnap",
    ),
    (
        "cstor.openebs.io/v1",
        "CStorRestore",
        "cstorrestores",
        "crestore",
        "Name Backup Volume Status",
    ),
    (
        "openebs.io/v1alpha1",
        "BlockDevice",
        "blockdevices",
        "bd",
        "Name NodeName Path* FSType* Size ClaimState Status Age",
    ),
    (
        "openebs.io/v1alpha1",
        "BlockDeviceClaim",
        "blockdeviceclaims",
        "bdc",
        "Name BlockDeviceName Phase Age",
    ),
    (
        "dao.mayadata.io/v1alpha1",
        "CStorClusterConfig",
        "cstorclusterconfigs",
        "cscconfig",
        "Name Min Max Raid Status Age",
    ),
    (
        "dao.mayadata.io/v1alpha1",
        "CStorClusterPlan",
        "cstorclusterplans",
        "cscplan",
        "Name Status Age",
    ),
    (
        "dao.mayadata.io/v1alpha1",
        "CStorClusterStorageSet",
        "cstorclusterstoragesets",
        "cscstorageset",
        "Name Node Disks Capacity Status Age",
    ),
    (
        "dao.mayadata.io/v1alpha1",
        "Storage",
        "storages",
        "stor",
        "Name Capacity NodeName Status Age",
    ),
];

#[tokio::test]
async fn names_are_those_users_know() {
    let client = client().await;
    for (group_version, kind, plural, short, _) in KINDS {
        let list = client.list_api_group_resources(group_version).await.unwrap();
        let resource = list
            .resources
            .iter()
            .find(|resource| resource.kind == kind && resource.name == plural)
            .unwrap();
        assert!(resource.namespaced, "{kind}");
        assert_eq!(resource.short_names, Some(vec![short.to_owned()]), "{kind}");
        assert_eq!(resource.singular_name, kind.to_lowercase());
        let has_status = list
            .resources
            .iter()
            .any(|resource| resource.name == format!("{plural}/status"));
        assert!(has_status, "{kind}");
    }
    assert_eq!(KINDS.len(), Kind::all().len());
}

#[tokio::test]
async fn columns_are_those_users_know() {
    let client = client().await;
    let namespace = namespace(&client).await;
    for (_, kind, _, _, expected) in KINDS {
        let kind = Kind::named(kind);
        let (columns, _) = kind.table(&client, &namespace).await;
        let shown: Vec<_> = columns
            .iter()
            .map(|(name, priority)| {
                if *priority == 0 {
                    name.clone()
                } else {
                    format!("{name}*")
                }
            })
            .collect();
        assert_eq!(shown.join(" "), expected, "{}", kind.name());
    }
}

/// The columns find what they are for: no cell of a full object is empty.
#[tokio::test]
async fn columns_show_something() {
    let client = client().await;
    let namespace = namespace(&client).await;
    for kind in Kind::all() {
        let object = fixtures::full(kind.name()).remove(0);
        kind.create_whole(&client, &namespace, &object).await.unwrap();
        let (columns, rows) = kind.table(&client, &namespace).await;
        for ((column, _), cell) in columns.iter().zip(&rows[0]) {
            let bare_status_of_new_restore = kind.name() == "CStorRestore" && column == "Status";
            assert!(
                !cell.is_null() && (cell != "" || bare_status_of_new_restore),
                "{}: {column} is empty",
                kind.name()
            );
        }
    }
}

/// What is installed is what the types say, to the last rule: nothing was lost on the way through YAML.
#[tokio::test]
async fn server_runs_the_definitions_of_the_types() {
    let client = client().await;
    let api: Api<CustomResourceDefinition> = Api::all(client);
    for kind in Kind::all() {
        let installed = api.get(kind.crd.metadata.name.as_deref().unwrap()).await.unwrap();
        assert_eq!(installed.spec.versions, kind.crd.spec.versions, "{}", kind.name());
        assert_eq!(installed.spec.names, kind.crd.spec.names, "{}", kind.name());
        let conditions = installed.status.unwrap().conditions.unwrap_or_default();
        for (type_, status) in [("NamesAccepted", "True"), ("Established", "True")] {
            assert!(
                conditions
                    .iter()
                    .any(|condition| condition.type_ == type_ && condition.status == status)
            );
        }
        // A schema that is not structural is reported, and its rules are not run.
        assert!(
            !conditions
                .iter()
                .any(|condition| condition.type_ == "NonStructuralSchema")
        );
    }
}

/// An agent can ask for what is on its node, and need not look through everything.
#[tokio::test]
async fn objects_are_selected_by_node() {
    let client = client().await;
    let namespace = namespace(&client).await;
    for (kind, pointer, field) in [
        ("CStorPoolInstance", "/spec/hostName", "spec.hostName"),
        (
            "BlockDevice",
            "/spec/nodeAttributes/nodeName",
            "spec.nodeAttributes.nodeName",
        ),
        ("Storage", "/spec/nodeName", "spec.nodeName"),
    ] {
        let kind = Kind::named(kind);
        for node in ["node-a", "node-b"] {
            let mut object = fixtures::old(kind.name()).remove(0);
            object["metadata"]["name"] = json!(node);
            crate::schema::put(&mut object, pointer, node.into());
            kind.create(&client, &namespace, &object, false).await.unwrap();
        }
        let spec = &kind.crd.spec;
        let path = format!(
            "/apis/{}/{}/namespaces/{namespace}/{}?fieldSelector={field}%3Dnode-b",
            spec.group, spec.versions[0].name, spec.names.plural
        );
        let list: Value = client
            .request(http::Request::get(path).body(Vec::new()).unwrap())
            .await
            .unwrap();
        let names: Vec<_> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(crate::kind::name)
            .collect();
        assert_eq!(names, ["node-b"], "{}", kind.name());
    }
}
