//! Which features of this ZFS a pool does not have.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use camino::Utf8Path;

use crate::{Error, PoolName, Result};

/// Where ZFS looks for sets of features, the first that has one wins.
pub(super) const PLACES: [&str; 2] = ["/etc/zfs/compatibility.d", "/usr/share/zfs/compatibility.d"];

/// What the name of a feature begins with among the properties of a pool.
const FEATURE: &str = "feature@";

/// Whether features are disabled that an upgrade of the pool would enable.
///
/// An upgrade enables what is in all sets that the pool's property compatibility names, and no more.
pub(super) fn are_missing(
    properties: &BTreeMap<String, String>,
    places: [&str; 2],
    pool: &PoolName,
) -> Result<bool> {
    let mut disabled: BTreeSet<&str> = properties
        .iter()
        .filter(|(_, value)| value.as_str() == "disabled")
        .filter_map(|(name, _)| name.strip_prefix(FEATURE))
        .collect();
    let sets = match properties.get("compatibility").map(String::as_str) {
        None | Some("off" | "-" | "") => return Ok(!disabled.is_empty()),
        Some("legacy") => return Ok(false),
        Some(sets) => sets,
    };
    for set in sets.split(',') {
        let text = read(set, places).map_err(|error| Error::Unparsable {
            doing: format!("find out whether the pool {pool} can be upgraded"),
            why: format!("its set of features {set}: {error}"),
        })?;
        let members = members(&text);
        disabled.retain(|feature| members.contains(feature));
    }
    Ok(!disabled.is_empty())
}

/// The words of a set, without its remarks.
fn members(text: &str) -> BTreeSet<&str> {
    let lines = text
        .lines()
        .map(|line| line.split_once('#').map_or(line, |(words, _)| words));
    lines
        .flat_map(|line| line.split([',', ' ', '\t']))
        .filter(|word| !word.is_empty())
        .collect()
}

fn read(set: &str, places: [&str; 2]) -> io::Result<String> {
    if set.starts_with('/') {
        return std::fs::read_to_string(set);
    }
    let mut missing = io::Error::from(io::ErrorKind::NotFound);
    for place in places {
        match std::fs::read_to_string(Utf8Path::new(place).join(set)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing = error,
            outcome => return outcome,
        }
    }
    Err(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_can_be_upgraded_as_far_as_its_sets_allow() {
        let places = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(places.path().join(name), text).unwrap();
        write("narrow", "# a remark\nlz4_compress, large_blocks # draid\n");
        write("wide", "draid\nlz4_compress\nlarge_blocks");
        let place = places.path().to_str().unwrap();
        let pool = PoolName::new("tank").unwrap();
        let missing = |compatibility: &str, disabled: &[&str]| {
            let properties = disabled
                .iter()
                .map(|name| (format!("{FEATURE}{name}"), "disabled".to_owned()));
            let others = [
                ("compatibility", compatibility),
                ("feature@lz4_compress", "active"),
                ("comment", "disabled"),
            ];
            let others = others.map(|(name, value)| (name.to_owned(), value.to_owned()));
            are_missing(
                &properties.chain(others).collect(),
                ["/nonexistent", place],
                &pool,
            )
        };
        assert_eq!(missing("off", &[]), Ok(false));
        assert_eq!(missing("off", &["draid"]), Ok(true));
        assert_eq!(missing("legacy", &["draid"]), Ok(false));
        assert_eq!(missing("wide", &["draid"]), Ok(true));
        assert_eq!(missing("narrow", &["draid"]), Ok(false));
        assert_eq!(missing("narrow", &["large_blocks"]), Ok(true));
        assert_eq!(missing("wide,narrow", &["draid"]), Ok(false));
        assert_eq!(missing(&format!("{place}/wide"), &["draid"]), Ok(true));
        assert!(matches!(
            missing("none", &["draid"]),
            Err(Error::Unparsable { .. })
        ));
    }
}
