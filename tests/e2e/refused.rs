//! What is wrong is told before the work begins, in one sentence that says what to do.

use crate::door::Door;

fn assert_one_sentence(error: &str, expected: &str) {
    assert!(error.contains(expected), "{error}");
    assert_eq!(error.trim().lines().count(), 1, "{error}");
    assert!(error.starts_with("error: "), "{error}");
}

#[tokio::test]
async fn a_port_that_is_taken() {
    let door = Door::new("port");
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = format!("--api-port={}", taken.local_addr().unwrap().port());
    let error = door.refused(door.call(&["up", "--nodes=1", &port])).await;
    assert_one_sentence(&error, "choose another by --api-port");
    assert_eq!(door.left(), [] as [&str; 0]);
}

#[tokio::test]
async fn no_go_and_nothing_built_yet() {
    let door = Door::new("go");
    let empty = door.place.path().with_extension("c");
    let call = door
        .call(&["up"])
        .env("CSTOR_CACHE", empty.as_str())
        .env("PATH", "/usr/bin:/bin");
    let error = door.refused(call).await;
    std::fs::remove_dir_all(&empty).unwrap();
    assert_one_sentence(&error, "install Go 1.26 or newer");
}

#[tokio::test]
async fn a_cache_too_deep_for_sockets() {
    let door = Door::new("deep");
    let deep = format!("{}/{}", door.place.path(), "d".repeat(100));
    let call = door
        .call(&["up"])
        .env("CSTOR_CACHE", &deep)
        .env("CSTOR_UP_BOX", format!("{deep}/up"));
    let error = door.refused(call).await;
    std::fs::remove_dir_all(door.place.path()).unwrap();
    assert_one_sentence(&error, "set CSTOR_CACHE to a shorter directory");
}
