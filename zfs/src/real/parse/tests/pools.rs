//! Lists of pools, and properties.

use super::*;
use crate::{PoolSummary, State};

fn states(name: &str) -> Vec<(String, State)> {
    let state = |pool: PoolSummary| (pool.name.to_string(), pool.state);
    let list = pools(&fixture(&format!("{name}.json"))).unwrap();
    list.into_iter().map(state).collect()
}

#[test]
fn pools_with_their_states() {
    assert_eq!(states("list"), [("fx".to_owned(), State::Online)]);
    assert_eq!(states("list-degraded"), [("fx".to_owned(), State::Degraded)]);
    // A pool that hangs does not keep the others from being listed.
    assert_eq!(
        states("list-suspended"),
        [
            ("fx".to_owned(), State::Suspended),
            ("fxother".to_owned(), State::Online)
        ]
    );
    assert_eq!(pools(&fixture("list.json")).unwrap()[0].guid, read("online").guid);
}

#[test]
fn no_pools_are_nothing_at_all() {
    assert_eq!(fixture("list-none.json"), "");
    assert_eq!(states("list-none"), []);
}

#[test]
fn properties_are_exact_texts() {
    let properties = properties(&fixture("properties.json"), &pool()).unwrap();
    assert_eq!(properties["comment"], "made by a cstor-rs fixture");
    assert_eq!(properties["rs.cstor:owner"], "a text with \"quotes\", 10^3 ä");
    assert_eq!(properties["size"], "251658240");
    assert_eq!(properties["guid"], read("online").guid.to_string());
    assert_eq!(properties["feature@draid"], "enabled");
    assert_eq!(properties["compatibility"], "off");
}

#[test]
fn a_suspended_pool_tells_its_properties() {
    let properties = properties(&fixture("properties-suspended.json"), &pool()).unwrap();
    assert_eq!(properties["health"], "SUSPENDED");
}

#[test]
fn an_answer_about_another_pool_is_none() {
    let other = PoolName::new("other").unwrap();
    assert!(properties(&fixture("properties.json"), &other).is_err());
    assert!(status(&fixture("online.json"), &other).is_err());
}

#[test]
fn words_of_states() {
    use super::super::status::{pool_state, vdev_state};
    for (word, pool, vdev) in [
        ("ONLINE", State::Online, State::Online),
        ("DEGRADED", State::Degraded, State::Degraded),
        ("FAULTED", State::Faulted, State::Faulted),
        ("OFFLINE", State::Offline, State::Offline),
        ("REMOVED", State::Removed, State::Removed),
        ("UNAVAIL", State::Unavailable, State::Unavailable),
        ("SPLIT", State::Split, State::Split),
        ("SUSPENDED", State::Suspended, State::Unknown),
        ("CANT_OPEN", State::Unknown, State::Unavailable),
        ("CLOSED", State::Unknown, State::Closed),
        ("AVAIL", State::Unknown, State::Available),
        ("INUSE", State::Unknown, State::InUse),
        ("UNKNOWN", State::Unknown, State::Unknown),
        ("online", State::Unknown, State::Unknown),
        ("", State::Unknown, State::Unknown),
    ] {
        assert_eq!((pool_state(word), vdev_state(word)), (pool, vdev), "{word}");
    }
}
