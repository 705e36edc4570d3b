//! The names of what is on a device, by libblkid.

use std::time::Duration;

use camino::Utf8Path;
use cstor_exec::{Error, Invocation, Program};
use serde::Deserialize;

use super::Signature;

/// The signatures of a device fit into far less.
const LIMIT: usize = 1 << 20;

/// What `wipefs` wrote could not be understood.
#[derive(Debug, thiserror::Error)]
#[error("wipefs wrote something unexpected about {path}: {detail}")]
pub(super) struct Unexpected {
    path: String,
    detail: String,
}

#[derive(Deserialize)]
struct Document {
    signatures: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    offset: String,
    #[serde(rename = "type")]
    kind: String,
    usage: Option<String>,
    uuid: Option<String>,
    label: Option<String>,
}

/// The call that lists the signatures on `path`. `wipefs` writes when it is told what to erase, which it never is here,
/// and never when it is told not to act.
pub(super) fn call(path: &Utf8Path, deadline: Duration) -> Result<Invocation, Error> {
    let call = Program::find("wipefs")?
        .call()
        .args([
            "--no-act",
            "--json",
            "--output=OFFSET,TYPE,USAGE,UUID,LABEL",
            "--",
        ])
        .arg(path.as_str());
    Ok(call.deadline(deadline).limit(LIMIT))
}

/// What `wipefs` said. A device without signatures gives an empty list; an empty answer is an error.
pub(super) fn parse(path: &Utf8Path, text: &str) -> Result<Vec<Signature>, Unexpected> {
    let unexpected = |detail: String| Unexpected {
        path: path.to_string(),
        detail,
    };
    let document: Document = serde_json::from_str(text).map_err(|error| unexpected(error.to_string()))?;
    let signature = |row: Row| {
        let digits = row.offset.strip_prefix("0x").unwrap_or_default();
        let offset = u64::from_str_radix(digits, 16)
            .map_err(|_| unexpected(format!("{:?} is not an offset", row.offset)))?;
        let said = |text: Option<String>| text.filter(|text| !text.is_empty());
        Ok(Signature {
            kind: row.kind,
            usage: said(row.usage),
            offset,
            uuid: said(row.uuid),
            label: said(row.label),
        })
    };
    let mut signatures: Vec<Signature> = document
        .signatures
        .into_iter()
        .map(signature)
        .collect::<Result<_, _>>()?;
    signatures.sort_by_key(|signature| signature.offset);
    Ok(signatures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_wipefs_writes() {
        let text = r#"{ "signatures": [
            {"offset": "0x200", "type": "gpt", "usage": "partition-table", "uuid": null, "label": null},
            {"offset": "0x1fe", "type": "PMBR", "usage": "partition-table", "uuid": "", "label": "d\"ä"}
        ] }"#;
        let signature = |kind: &str, offset, label: Option<&str>| Signature {
            kind: kind.into(),
            usage: Some("partition-table".into()),
            offset,
            uuid: None,
            label: label.map(Into::into),
        };
        let expected = [
            signature("PMBR", 0x1fe, Some("d\"ä")),
            signature("gpt", 0x200, None),
        ];
        assert_eq!(parse("/dev/x".into(), text).unwrap(), expected);
        assert_eq!(parse("/dev/x".into(), "{\"signatures\": [\n\n]}").unwrap(), []);
    }

    #[test]
    fn what_cannot_be_understood_is_an_error_and_not_an_empty_list() {
        let texts = [
            "",
            "{}",
            "[]",
            "wipefs: permission denied",
            r#"{"signatures": null}"#,
            r#"{"signatures": [{"offset": "0x0"}]}"#,
            r#"{"signatures": [{"type": "ext4"}]}"#,
            r#"{"signatures": [{"type": "ext4", "offset": "438"}]}"#,
            r#"{"signatures": [{"type": "ext4", "offset": "0x"}]}"#,
            r#"{"signatures": [{"type": "ext4", "offset": "0x-1"}]}"#,
            r#"{"signatures": [{"type": "ext4", "offset": "0x10000000000000000"}]}"#,
            r#"{"signatures": []} and more"#,
        ];
        for text in texts {
            assert!(parse("/dev/x".into(), text).is_err(), "{text}");
        }
    }

    #[test]
    fn nothing_is_ever_asked_to_be_erased() {
        let line = call("/dev/sdb".into(), Duration::from_secs(1))
            .unwrap()
            .command_line();
        assert_eq!(
            line,
            "wipefs --no-act --json --output=OFFSET,TYPE,USAGE,UUID,LABEL -- /dev/sdb"
        );
    }
}
