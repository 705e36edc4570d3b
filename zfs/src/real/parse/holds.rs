//! The holds on a snapshot.

use super::Parsed;
use crate::SnapshotName;

/// The tags in what `zfs holds -H -p` printed: a line each with snapshot, tag and time, and nothing if there are none. They
/// come in no order of any meaning, and are put into one.
pub(in crate::real) fn holds(text: &str, snapshot: &SnapshotName) -> Parsed<Vec<String>> {
    let tag = |line: &str| {
        let rest = line.strip_prefix(snapshot.as_str())?.strip_prefix('\t')?;
        let (tag, time) = rest.rsplit_once('\t')?;
        let whole = !tag.is_empty() && time.parse::<u64>().is_ok();
        whole.then(|| tag.to_owned())
    };
    let read = |line: &str| tag(line).ok_or_else(|| format!("{line:?} is no hold on {snapshot}"));
    let mut tags = text.lines().map(read).collect::<Parsed<Vec<_>>>()?;
    tags.sort();
    Ok(tags)
}
