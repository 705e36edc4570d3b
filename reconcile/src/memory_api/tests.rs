//! The server keeps the rules that our code leans on.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::policy::v1::PodDisruptionBudget as Budget;
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchEvent, WatchParams,
};
use serde_json::{Value, json};

use super::{Faults, MemoryApi};

fn api() -> MemoryApi {
    let api = MemoryApi::new(1);
    api.serve::<Budget>();
    api.serve::<ConfigMap>();
    api
}

fn budgets(api: &MemoryApi) -> Api<Budget> {
    Api::namespaced(api.admin(), "ns")
}

fn budget(name: &str) -> Budget {
    serde_json::from_value(
        json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": {"minAvailable": 1}}),
    )
    .unwrap()
}

fn code<T>(result: Result<T, kube::Error>) -> u16 {
    match result {
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{error}"),
        Ok(_) => 200,
    }
}

async fn patch(budgets: &Api<Budget>, patch: Value) -> Result<Budget, kube::Error> {
    budgets
        .patch("a", &PatchParams::default(), &Patch::Merge(patch))
        .await
}

#[tokio::test(start_paused = true)]
async fn versions_generations_and_conflicts() {
    let budgets = budgets(&api());
    let made = budgets
        .create(&PostParams::default(), &budget("a"))
        .await
        .unwrap();
    assert_eq!(
        (
            made.metadata.generation,
            made.metadata.resource_version.as_deref()
        ),
        (Some(1), Some("1"))
    );
    assert_eq!(
        code(budgets.create(&PostParams::default(), &budget("a")).await),
        409
    );

    let labelled = patch(&budgets, json!({"metadata": {"labels": {"x": "y"}}}))
        .await
        .unwrap();
    assert_eq!(
        (
            labelled.metadata.generation,
            labelled.metadata.resource_version.as_deref()
        ),
        (Some(1), Some("2"))
    );
    let same = patch(&budgets, json!({"metadata": {"labels": {"x": "y"}}}))
        .await
        .unwrap();
    assert_eq!(
        same.metadata.resource_version.as_deref(),
        Some("2"),
        "no change, no version"
    );
    let stale = json!({"metadata": {"resourceVersion": "1"}, "spec": {"minAvailable": 2}});
    assert_eq!(code(patch(&budgets, stale).await), 409);
    assert_eq!(
        code(budgets.replace("a", &PostParams::default(), &made).await),
        409
    );
    let changed = patch(&budgets, json!({"spec": {"minAvailable": 2}}))
        .await
        .unwrap();
    assert_eq!(changed.metadata.generation, Some(2));
    assert_eq!(code(budgets.get("b").await), 404);
}

#[tokio::test(start_paused = true)]
async fn the_status_is_written_by_its_own_door_alone() {
    let budgets = budgets(&api());
    let mut with_status = budget("a");
    with_status.status = Some(serde_json::from_value(json!({"currentHealthy": 9})).unwrap());
    assert_eq!(
        budgets
            .create(&PostParams::default(), &with_status)
            .await
            .unwrap()
            .status,
        None
    );
    assert_eq!(
        patch(&budgets, json!({"status": {"currentHealthy": 9}}))
            .await
            .unwrap()
            .status,
        None
    );
    let both = json!({"status": {"currentHealthy": 9}, "spec": {"minAvailable": 7}, "metadata": {"labels": {"no": "no"}}});
    let told = budgets
        .patch_status("a", &PatchParams::default(), &Patch::Merge(both))
        .await
        .unwrap();
    assert_eq!(told.status.unwrap().current_healthy, 9);
    assert_eq!(
        (told.metadata.generation, told.metadata.labels.unwrap().len()),
        (Some(1), 1)
    );
    assert_eq!(told.spec.unwrap(), budget("a").spec.unwrap());
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold() {
    let budgets = budgets(&api());
    budgets
        .create(&PostParams::default(), &budget("a"))
        .await
        .unwrap();
    patch(&budgets, json!({"metadata": {"finalizers": ["x/y"]}}))
        .await
        .unwrap();
    let other = Preconditions {
        uid: Some("another".into()),
        resource_version: None,
    };
    assert_eq!(
        code(
            budgets
                .delete("a", &DeleteParams::default().preconditions(other))
                .await
        ),
        409
    );
    budgets.delete("a", &DeleteParams::default()).await.unwrap();
    let dying = budgets.get("a").await.unwrap();
    assert!(dying.metadata.deletion_timestamp.is_some());
    assert_eq!(
        code(patch(&budgets, json!({"metadata": {"finalizers": ["x/y", "new/one"]}})).await),
        422
    );
    patch(&budgets, json!({"metadata": {"finalizers": []}}))
        .await
        .unwrap();
    assert_eq!(code(budgets.get("a").await), 404);
}

#[tokio::test(start_paused = true)]
async fn a_list_has_selectors_and_pages() {
    let budgets = budgets(&api());
    for name in ["a", "b", "c", "d", "e"] {
        budgets
            .create(&PostParams::default(), &budget(name))
            .await
            .unwrap();
    }
    let one = budgets
        .list(&ListParams::default().labels("app in (b, c),app!=c"))
        .await
        .unwrap();
    assert_eq!(one.items.len(), 1);
    let named = budgets
        .list(&ListParams::default().fields("metadata.name=d"))
        .await
        .unwrap();
    assert_eq!(named.items[0].metadata.name.as_deref(), Some("d"));
    let first = budgets.list(&ListParams::default().limit(3)).await.unwrap();
    let token = first.metadata.continue_.unwrap();
    let rest = budgets
        .list(&ListParams::default().limit(3).continue_token(&token))
        .await
        .unwrap();
    assert_eq!(
        (
            first.items.len(),
            rest.items.len(),
            rest.metadata.continue_.unwrap_or_default()
        ),
        (3, 2, String::new())
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_what_comes_to_match_and_what_ceases_to() {
    let api = api();
    let budgets = budgets(&api);
    let params = WatchParams::default().labels("app=a").timeout(60);
    let mut events = std::pin::pin!(budgets.watch(&params, "0").await.unwrap());
    budgets
        .create(&PostParams::default(), &budget("b"))
        .await
        .unwrap();
    budgets
        .create(&PostParams::default(), &budget("a"))
        .await
        .unwrap();
    patch(&budgets, json!({"spec": {"minAvailable": 5}}))
        .await
        .unwrap();
    patch(&budgets, json!({"metadata": {"labels": {"app": "other"}}}))
        .await
        .unwrap();
    patch(&budgets, json!({"metadata": {"labels": {"app": "a"}}}))
        .await
        .unwrap();
    let mut kinds = Vec::new();
    while let Some(event) = events.next().await {
        kinds.push(match event.unwrap() {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            WatchEvent::Bookmark(mark) => {
                assert_eq!(mark.metadata.resource_version, "5");
                "bookmark"
            }
            WatchEvent::Error(error) => panic!("{error:?}"),
        });
    }
    assert_eq!(
        kinds,
        ["added", "modified", "deleted", "added", "bookmark"],
        "and it ends when its time is over"
    );

    api.compact();
    budgets
        .create(&PostParams::default(), &budget("c"))
        .await
        .unwrap();
    assert_eq!(code(budgets.watch(&params, "2").await.map(drop)), 410);
}

#[tokio::test(start_paused = true)]
async fn faults_are_as_they_say() {
    let api = api();
    let faulty: Api<Budget> = Api::namespaced(api.client("test"), "ns");
    api.set_faults(Faults {
        lost_response: 1.0,
        ..Faults::default()
    });
    assert!(matches!(
        faulty.create(&PostParams::default(), &budget("a")).await,
        Err(kube::Error::Service(_))
    ));
    assert_eq!(
        budgets(&api)
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        1,
        "applied all the same"
    );
    api.set_faults(Faults {
        write_error: 1.0,
        ..Faults::default()
    });
    assert_eq!(
        code(faulty.create(&PostParams::default(), &budget("b")).await),
        500
    );
    assert_eq!(code(faulty.get("b").await), 404, "not applied");
    api.set_faults(Faults {
        silence: 1.0,
        ..Faults::default()
    });
    let unanswered = tokio::time::timeout(Duration::from_secs(3600), faulty.get("a")).await;
    assert!(unanswered.is_err());
    let writes: Vec<_> = api
        .writes()
        .into_iter()
        .map(|request| (request.client, request.verb, request.code))
        .collect();
    assert_eq!(
        writes,
        [("test".into(), "create", 201), ("test".into(), "create", 500)]
    );
}
