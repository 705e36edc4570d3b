//! Every CEL rule of every schema: something it lets pass, something it refuses, and what it says then.

use std::collections::BTreeMap;

use futures::StreamExt;
use kube::Client;
use serde_json::Value;

use crate::bounds::AMOUNT_RULES;
use crate::kind::{Answer, Kind};
use crate::rule_cases::{Case, cases};
use crate::schema;
use crate::support::{client, namespace};

/// The rules of a kind by where they stand; amounts are checked with the bounds.
fn rules(kind: &Kind) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for (path, schema) in schema::walk(&kind.schema()) {
        for rule in schema["x-kubernetes-validations"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let (rule, message) = (rule["rule"].as_str().unwrap(), rule["message"].as_str().unwrap());
            if !AMOUNT_RULES.iter().any(|start| message.starts_with(start)) {
                found.push((path.to_string(), message.to_owned(), rule.to_owned()));
            }
        }
    }
    found
}

/// The whole message of the rule a case is about.
fn message(case: &Case) -> String {
    let kind = Kind::named(case.kind);
    let mut matching = rules(&kind)
        .into_iter()
        .filter(|(at, message, _)| at == case.at && message.starts_with(case.says));
    let (_, message, _) = matching
        .next()
        .unwrap_or_else(|| panic!("{}: no such rule", case.title()));
    assert!(
        matching.next().is_none(),
        "{}: two rules begin like that",
        case.title()
    );
    message
}

#[test]
fn every_rule_has_a_case() {
    let cases = cases();
    let mut missing = Vec::new();
    for kind in Kind::all() {
        for (at, message, _) in rules(&kind) {
            let of_this =
                |case: &&Case| case.kind == kind.name() && case.at == at && message.starts_with(case.says);
            let covered = cases.iter().filter(of_this).any(|case| !case.accepted.is_empty())
                && cases.iter().filter(of_this).any(|case| !case.refused.is_empty());
            if !covered {
                missing.push(format!("{} at {at}: {message}", kind.name()));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "rules without a case:\n{}",
        missing.join("\n")
    );
    for case in &cases {
        message(case);
    }
}

/// A message is a sentence or two, and says what to do.
#[test]
fn messages_are_sentences() {
    for kind in Kind::all() {
        for (at, message, _) in rules(&kind) {
            let first = message.chars().next().unwrap();
            assert!(
                first.is_uppercase() && message.ends_with('.') && message.contains([':', '.']),
                "{at}: {message}"
            );
        }
    }
}

/// Rules that look at the old object are tried on updates.
#[test]
fn transition_rules_are_tried_on_updates() {
    let by_message: BTreeMap<_, _> = Kind::all()
        .iter()
        .flat_map(|kind| {
            rules(kind)
                .into_iter()
                .map(|(at, message, rule)| ((kind.name().to_owned(), at, message), rule))
        })
        .collect();
    for case in cases() {
        let rule = &by_message[&(case.kind.to_owned(), case.at.to_owned(), message(&case))];
        assert_eq!(
            case.before.is_some(),
            rule.contains("oldSelf"),
            "{}",
            case.title()
        );
    }
}

/// Sends the changed object: as a new one, or in place of the one that was there before.
async fn attempt(
    client: &Client,
    namespace: &str,
    case: &Case,
    made: Option<&Value>,
    edits: &[(&str, Value)],
) -> Answer {
    let kind = Kind::named(case.kind);
    let mut object = made.unwrap_or(&case.base).clone();
    for (pointer, value) in edits {
        schema::put(&mut object, pointer, value.clone());
    }
    match made {
        None => kind.create(client, namespace, &object, true).await,
        Some(_) if edits.iter().all(|(pointer, _)| pointer.starts_with("/status")) && !edits.is_empty() => {
            kind.update_status(client, namespace, &object, true).await
        }
        Some(_) => kind.update(client, namespace, &object, true).await,
    }
}

/// Goes through the examples of a case, and says what was not as it should be.
async fn run(client: &Client, case: &Case) -> Vec<String> {
    let mut problems = Vec::new();
    // A namespace a case, so that objects may have the same name.
    let namespace = namespace(client).await;
    let message = message(case);
    let made = match &case.before {
        None => None,
        Some(edits) => {
            let mut object = case.base.clone();
            for (pointer, value) in edits {
                schema::put(&mut object, pointer, value.clone());
            }
            let made = Kind::named(case.kind)
                .create_whole(client, &namespace, &object)
                .await;
            Some(made.unwrap_or_else(|message| panic!("{}: before: {message}", case.title())))
        }
    };
    for edits in &case.accepted {
        if let Err(message) = attempt(client, &namespace, case, made.as_ref(), edits).await {
            problems.push(format!("{}: {edits:?} was refused: {message}", case.title()));
        }
    }
    for edits in &case.refused {
        match attempt(client, &namespace, case, made.as_ref(), edits).await {
            Ok(_) => problems.push(format!("{}: {edits:?} was accepted", case.title())),
            Err(refusal) if refusal.contains(&message) => {}
            Err(refusal) => problems.push(format!("{}: {edits:?} was refused with: {refusal}", case.title())),
        }
    }
    problems
}

#[tokio::test]
async fn rules_let_pass_and_refuse() {
    let client = client().await;
    let cases = cases();
    let problems = futures::stream::iter(&cases)
        .map(|case| run(&client, case))
        .buffer_unordered(8);
    let problems: Vec<_> = problems.collect::<Vec<_>>().await.concat();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}
