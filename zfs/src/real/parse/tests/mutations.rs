//! Whatever is printed, it is read or it is an error.

use std::path::PathBuf;
use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;

/// All fixtures, whatever they are of.
static FIXTURES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures");
    let printed = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("json" | "tsv" | "txt"))
    };
    let mut paths: Vec<_> = std::fs::read_dir(place)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(printed)
        .collect();
    paths.sort();
    assert!(paths.len() > 50, "{paths:?}");
    let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
    paths.iter().map(read).collect()
});

/// Those of them that are JSON.
static DOCUMENTS: LazyLock<Vec<Json>> = LazyLock::new(|| {
    let documents = FIXTURES.iter().filter_map(|text| serde_json::from_str(text).ok());
    documents.collect()
});

/// How many members this part of a document has, if the text is one.
fn members(text: &str, part: &str) -> Option<usize> {
    let document: Json = serde_json::from_str(text).ok()?;
    document.get(part)?.as_object().map(serde_json::Map::len)
}

/// Reads a text as everything it might be. What is read is as long as what is printed.
fn read_all(text: &str) {
    let snapshot = SnapshotName::new("fx/group/one@first").unwrap();
    if let Ok(status) = status(text, &pool()) {
        assert_eq!(status.name, pool());
        assert!(status.devices().count() > 0);
    }
    if let Ok(properties) = properties(text, &pool()) {
        assert!(!properties.is_empty());
    }
    if let Ok(list) = pools(text) {
        let printed = members(text, "pools");
        assert!(printed.is_some() || text.trim().is_empty());
        assert!(list.len() >= printed.unwrap_or_default());
    }
    if let Ok(list) = datasets(text, &[]) {
        assert!(list.len() >= members(text, "datasets").unwrap());
    }
    if let Ok(one) = dataset(text, "fx/group/one", &["guid"]) {
        assert_eq!(one.name, "fx/group/one");
        assert!(one.properties.contains_key("guid"));
    }
    if let Ok(tags) = holds(text, &snapshot) {
        assert_eq!(tags.len(), text.lines().count());
    }
    let mut events = Events::default();
    let _ = text.lines().filter_map(|line| events.line(line)).count();
}

/// How a text is damaged.
#[derive(Debug, Clone)]
enum Damage {
    Replace(usize, char),
    Remove(usize, usize),
    Double(usize, usize),
}

fn damage(text: &str, damages: &[Damage]) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for damage in damages {
        let length = characters.len().max(1);
        match *damage {
            Damage::Replace(at, by) => {
                if let Some(character) = characters.get_mut(at % length) {
                    *character = by;
                }
            }
            Damage::Remove(at, count) => {
                let at = at % length;
                let end = (at + count).min(characters.len());
                characters.drain(at.min(end)..end);
            }
            Damage::Double(at, count) => {
                let at = at % length;
                let end = (at + count).min(characters.len());
                let copy = characters[at.min(end)..end].to_vec();
                characters.splice(at.min(end)..at.min(end), copy);
            }
        }
    }
    characters.into_iter().collect()
}

fn any_damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (any::<usize>(), any::<char>()).prop_map(|(at, by)| Damage::Replace(at, by)),
        (any::<usize>(), proptest::char::range(' ', '~')).prop_map(|(at, by)| Damage::Replace(at, by)),
        (any::<usize>(), 1..200_usize).prop_map(|(at, count)| Damage::Remove(at, count)),
        (any::<usize>(), 1..200_usize).prop_map(|(at, count)| Damage::Double(at, count)),
    ]
}

/// How many values are in a document.
fn count(json: &Json) -> usize {
    1 + match json {
        Json::Object(members) => members.values().map(count).sum(),
        Json::Array(values) => values.iter().map(count).sum(),
        _ => 0,
    }
}

/// Puts a value in the place of another, or of none; `at` counts the values that are passed.
fn put(json: &mut Json, at: &mut usize, by: &Option<Json>) -> bool {
    if *at == 0 {
        match by {
            Some(by) => *json = by.clone(),
            None => return true,
        }
        *at = usize::MAX;
        return false;
    }
    *at -= 1;
    match json {
        Json::Object(members) => {
            let mut removed = None;
            for (name, member) in members.iter_mut() {
                if put(member, at, by) {
                    removed = Some(name.clone());
                    *at = usize::MAX;
                }
                if *at == usize::MAX {
                    break;
                }
            }
            if let Some(name) = removed {
                members.remove(&name);
            }
        }
        Json::Array(values) => {
            for value in values {
                if put(value, at, by) || *at == usize::MAX {
                    break;
                }
            }
        }
        _ => {}
    }
    false
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        any::<u64>().prop_map(|number| Json::from(number.to_string())),
        ".{0,12}".prop_map(Json::from),
        prop_oneof![
            Just("-"),
            Just(""),
            Just("ONLINE"),
            Just("18446744073709551616"),
            Just("-1")
        ]
        .prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            proptest::collection::btree_map("[a-z_]{1,8}", inner, 0..4)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_text_never_makes_a_reader_panic(
        which in any::<prop::sample::Index>(),
        damages in proptest::collection::vec(any_damage(), 1..4),
    ) {
        read_all(&damage(which.get::<String>(&FIXTURES), &damages));
    }

    #[test]
    fn changed_values_never_make_a_reader_panic(
        which in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), proptest::option::of(any_json())), 1..4),
    ) {
        let mut document = which.get::<Json>(&DOCUMENTS).clone();
        for (at, by) in &changes {
            let mut at = at.index(count(&document));
            put(&mut document, &mut at, by);
        }
        read_all(&document.to_string());
    }
}

#[test]
fn half_an_answer_is_none() {
    for document in DOCUMENTS.iter() {
        let text = document.to_string();
        let beginnings = (1..text.len()).filter(|end| text.is_char_boundary(*end));
        for half in beginnings.step_by(31).map(|end| &text[..end]) {
            assert!(status(half, &pool()).is_err());
            assert!(pools(half).is_err());
            assert!(properties(half, &pool()).is_err());
            assert!(datasets(half, &[]).is_err());
            assert!(dataset(half, "fx/group/one", &[]).is_err());
        }
    }
}

#[test]
fn an_answer_to_another_question_is_none() {
    let asked = |document: &Json| document["output_version"]["command"].as_str().unwrap().to_owned();
    for document in DOCUMENTS.iter() {
        let text = document.to_string();
        let is_of_a_pool = document["pools"]["fx"].is_object();
        match (asked(document).as_str(), is_of_a_pool) {
            ("zpool status", true) => assert!(status(&text, &pool()).is_ok(), "{text}"),
            _ => assert!(status(&text, &pool()).is_err(), "{text}"),
        }
        let is_of_datasets = document["datasets"].is_object();
        assert_eq!(datasets(&text, &[]).is_ok(), is_of_datasets, "{text}");
        assert_eq!(pools(&text).is_ok(), is_of_a_pool, "{text}");
    }
}
