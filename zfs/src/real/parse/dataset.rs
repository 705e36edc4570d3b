//! Datasets and their properties.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Members, Parsed, json};
use crate::{Dataset, DatasetKind, Source, Value};

#[derive(Deserialize)]
struct Document {
    datasets: Members<Record>,
}

#[derive(Deserialize)]
struct Record {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    properties: Members<Property>,
}

#[derive(Deserialize)]
struct Property {
    value: String,
    source: Origin,
}

#[derive(Deserialize)]
struct Origin {
    #[serde(rename = "type")]
    kind: String,
    data: Option<String>,
}

/// What `zfs list -j` printed when asked for these properties.
pub(in crate::real) fn datasets(text: &str, asked: &[&str]) -> Parsed<Vec<Dataset>> {
    let Document { datasets } = json(text)?;
    datasets
        .0
        .into_iter()
        .map(|(_, record)| read(record, asked))
        .collect()
}

/// What `zfs get -j` printed of this one when asked for these properties.
pub(in crate::real) fn dataset(text: &str, name: &str, asked: &[&str]) -> Parsed<Dataset> {
    let Document { datasets } = json(text)?;
    let dataset = read(datasets.only(name)?, asked)?;
    if dataset.name != name {
        return Err(format!("it is about {}", dataset.name));
    }
    Ok(dataset)
}

fn read(record: Record, asked: &[&str]) -> Parsed<Dataset> {
    let kind = match record.kind.as_str() {
        "FILESYSTEM" => DatasetKind::FileSystem,
        "VOLUME" => DatasetKind::Volume,
        "SNAPSHOT" => DatasetKind::Snapshot,
        "BOOKMARK" => DatasetKind::Bookmark,
        other => return Err(format!("{} is of the kind {other:?}", record.name)),
    };
    let properties = record.properties.0.into_iter().map(|(name, property)| {
        let value = value(property).map_err(|why| format!("{name} of {}: {why}", record.name))?;
        Ok((name, value))
    });
    let properties: BTreeMap<_, _> = properties.collect::<Parsed<_>>()?;
    // ZFS prints everything it is asked for, with a dash where there is nothing. Only the name `zfs list` prints elsewhere.
    let missing = |property: &&&str| **property != "name" && !properties.contains_key(**property);
    if let Some(property) = asked.iter().find(missing) {
        return Err(format!("it does not tell {property} of {}", record.name));
    }
    Ok(Dataset {
        kind,
        properties,
        name: record.name,
    })
}

fn value(property: Property) -> Parsed<Value> {
    let Property { value: text, source } = property;
    // `zfs list` prints what is not there with the source of the property before it.
    if text == "-" {
        return Ok(Value {
            text,
            source: Source::None,
        });
    }
    let source = match (source.kind.as_str(), source.data) {
        ("LOCAL", _) => Source::Local,
        ("DEFAULT", _) => Source::Default,
        ("RECEIVED", _) => Source::Received,
        ("TEMPORARY", _) => Source::Temporary,
        ("NONE", _) => Source::None,
        ("INHERITED", Some(from)) => Source::Inherited(from),
        (other, _) => return Err(format!("its source is {other:?}")),
    };
    Ok(Value { text, source })
}
