//! The command lines of `zfs`.

use std::collections::BTreeMap;

use super::{Command, Named};
use crate::{DatasetKind, DatasetName, NewVolume, PoolName, Result, Send, SnapshotName};

type Properties = BTreeMap<String, String>;

pub(in crate::real) fn list(pool: &PoolName, kinds: &[DatasetKind], properties: &[&str]) -> Result<Command> {
    let command = Command::zfs("list", pool, format!("list the datasets of the pool {pool}"));
    if kinds.is_empty() {
        return Err(command.refused("no kind of dataset is named"));
    }
    let kinds: Vec<_> = kinds.iter().map(|kind| word(*kind)).collect();
    let mut columns = vec!["name"];
    for property in properties {
        command.check_property(property)?;
        columns.push(property);
    }
    let command = command.words(["-j", "-p", "-r", "-t"]).word(kinds.join(","));
    Ok(command.word("-o").word(columns.join(",")).word(pool))
}

pub(in crate::real) fn get(name: &str, properties: &[&str]) -> Result<Command> {
    let doing = format!("read properties of {name}");
    let command = Command::zfs("get", Named::new(name, &doing)?.pool(), doing);
    for property in properties {
        command.check_property(property)?;
    }
    // Something must be asked for, and everything has a type.
    let asked = match properties {
        [] => "type".to_owned(),
        properties => properties.join(","),
    };
    Ok(command.words(["-j", "-p"]).word(asked).word(name))
}

pub(in crate::real) fn set(name: &DatasetName, properties: &Properties) -> Result<Command> {
    let mut command = Command::zfs("set", name.pool(), format!("set properties of {name}"));
    if properties.is_empty() {
        return Err(command.refused("no property is named"));
    }
    for (property, value) in properties {
        let assignment = command.assignment(property, value)?;
        command = command.word(assignment);
    }
    Ok(command.word(name))
}

pub(in crate::real) fn inherit(name: &DatasetName, property: &str) -> Result<Command> {
    let command = Command::zfs("inherit", name.pool(), format!("take back {property} of {name}"));
    command.check_property(property)?;
    Ok(command.word(property).word(name))
}

pub(in crate::real) fn create_volume(new: &NewVolume) -> Result<Command> {
    let name = &new.name;
    let command = Command::zfs("create", name.pool(), format!("create the volume {name}"))
        .word_if(new.thin, "-s")
        .word("-V")
        .word(new.bytes)
        .properties("-o", &new.properties)?;
    Ok(command.word(name))
}

pub(in crate::real) fn create_file_system(name: &DatasetName, properties: &Properties) -> Result<Command> {
    // -u: it would be mounted where this process sees it, and nobody else.
    let command = Command::zfs("create", name.pool(), format!("create the file system {name}"))
        .word("-u")
        .properties("-o", properties)?;
    Ok(command.word(name))
}

pub(in crate::real) fn grow(name: &DatasetName, bytes: u64) -> Command {
    let doing = format!("grow the volume {name} to {bytes} bytes");
    Command::zfs("set", name.pool(), doing)
        .word(format!("volsize={bytes}"))
        .word(name)
}

pub(in crate::real) fn destroy(name: &str) -> Result<Command> {
    let doing = format!("destroy {name}");
    let pool = Named::new(name, &doing)?.pool();
    Ok(Command::zfs("destroy", pool, doing).word(name))
}

pub(in crate::real) fn snapshot(snapshots: &[SnapshotName], properties: &Properties) -> Result<Command> {
    let names: Vec<_> = snapshots.iter().map(SnapshotName::as_str).collect();
    let doing = format!("take the snapshots {}", names.join(", "));
    let pool = snapshots.first().map(|first| first.dataset().pool());
    let pool_text = pool.as_ref().map_or("", PoolName::as_str);
    let command = Command::zfs("snapshot", pool_text, doing);
    let mut pools = snapshots.iter().map(|snapshot| snapshot.dataset().pool());
    if !pools.all(|other| Some(other) == pool) {
        return Err(command.refused("they are not in one pool"));
    }
    if pool.is_none() {
        return Err(command.refused("none is named"));
    }
    Ok(command.properties("-o", properties)?.words(names))
}

pub(in crate::real) fn clone(
    snapshot: &SnapshotName,
    to: &DatasetName,
    properties: &Properties,
) -> Result<Command> {
    let command = Command::zfs("clone", to.pool(), format!("clone {snapshot} to {to}"));
    Ok(command.properties("-o", properties)?.word(snapshot).word(to))
}

pub(in crate::real) fn promote(clone: &DatasetName) -> Command {
    Command::zfs("promote", clone.pool(), format!("promote {clone}")).word(clone)
}

pub(in crate::real) fn rename(from: &str, to: &str) -> Result<Command> {
    let doing = format!("rename {from} to {to}");
    let (old, new) = (Named::new(from, &doing)?, Named::new(to, &doing)?);
    let command = Command::zfs("rename", old.pool(), doing);
    let same_kind = std::mem::discriminant(&old) == std::mem::discriminant(&new);
    if !same_kind || matches!(old, Named::Bookmark(_)) {
        return Err(command.refused("only a dataset to a dataset, or a snapshot to a snapshot"));
    }
    Ok(command.word(from).word(to))
}

pub(in crate::real) fn hold(snapshot: &SnapshotName, tag: &str) -> Result<Command> {
    tagged("hold", snapshot, tag, format!("hold {snapshot}"))
}

pub(in crate::real) fn release(snapshot: &SnapshotName, tag: &str) -> Result<Command> {
    tagged("release", snapshot, tag, format!("end the hold of {snapshot}"))
}

pub(in crate::real) fn holds(snapshot: &SnapshotName) -> Command {
    let doing = format!("list the holds of {snapshot}");
    Command::zfs("holds", snapshot.dataset().pool(), doing)
        .words(["-H", "-p"])
        .word(snapshot)
}

pub(in crate::real) fn send(what: &Send) -> Result<Command> {
    match what {
        Send::Snapshot { snapshot, since, raw } => {
            let doing = format!("send {snapshot}");
            if let Some(since) = since {
                let named = Named::new(since, &doing)?;
                if matches!(named, Named::Dataset(_)) {
                    let command = Command::zfs("send", "", doing);
                    return Err(command.refused(format!("{since} is neither a snapshot nor a bookmark")));
                }
            }
            let command = Command::zfs("send", snapshot.dataset().pool(), doing).word_if(*raw, "-w");
            let command = match since {
                Some(since) => command.word("-i").word(since),
                None => command,
            };
            Ok(command.word(snapshot))
        }
        Send::Resume { token } => {
            // Which pool it is of is inside of the token.
            let command = Command::zfs("send", "", "send the rest of a stream".to_owned());
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            if token.is_empty() || token.starts_with('-') || !token.bytes().all(allowed) {
                return Err(command.refused("what is to tell where it was broken off does not"));
            }
            Ok(command.word("-t").word(token))
        }
    }
}

pub(in crate::real) fn receive(to: &DatasetName, properties: &Properties) -> Result<Command> {
    // -s keeps what arrived of an interrupted stream, -u mounts nothing.
    let command = Command::zfs("receive", to.pool(), format!("receive {to}")).words(["-s", "-u"]);
    Ok(command.properties("-o", properties)?.word(to))
}

pub(in crate::real) fn abort_receive(to: &DatasetName) -> Command {
    let doing = format!("throw away what arrived of {to}");
    Command::zfs("receive", to.pool(), doing).word("-A").word(to)
}

fn tagged(verb: &str, snapshot: &SnapshotName, tag: &str, doing: String) -> Result<Command> {
    let command = Command::zfs(verb, snapshot.dataset().pool(), doing);
    if tag.is_empty() || tag.starts_with('-') || tag.contains(char::is_control) {
        return Err(command.refused(format!("{tag:?} is no tag of a hold")));
    }
    Ok(command.word(tag).word(snapshot))
}

fn word(kind: DatasetKind) -> &'static str {
    match kind {
        DatasetKind::FileSystem => "filesystem",
        DatasetKind::Volume => "volume",
        DatasetKind::Snapshot => "snapshot",
        DatasetKind::Bookmark => "bookmark",
    }
}
