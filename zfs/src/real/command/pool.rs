//! The command lines of `zpool`.

use camino::Utf8Path;

use super::Command;
use crate::{Activity, Guid, Import, Layout, NewPool, Offline, PoolName, Result, ScrubCommand};

pub(in crate::real) fn list() -> Command {
    // Health is asked for since something must be; the state comes with every pool.
    Command::zpool("list", "", "list the pools".to_owned()).words(["-j", "-p", "-o", "name,health"])
}

pub(in crate::real) fn status(pool: &PoolName) -> Command {
    // By their whole paths: two devices whose last parts are equal would be one member of the answer.
    Command::zpool("status", pool, format!("look at the pool {pool}"))
        .words(["-j", "-p", "-P", "-s"])
        .word(pool)
}

pub(in crate::real) fn properties(pool: &PoolName) -> Command {
    Command::zpool("get", pool, format!("read the properties of the pool {pool}"))
        .words(["-j", "-p", "all"])
        .word(pool)
}

pub(in crate::real) fn set(pool: &PoolName, name: &str, value: &str) -> Result<Command> {
    let command = Command::zpool("set", pool, format!("set {name} of the pool {pool}"));
    let assignment = command.assignment(name, value)?;
    Ok(command.word(assignment).word(pool))
}

pub(in crate::real) fn create(new: &NewPool) -> Result<Command> {
    let name = &new.name;
    let command = Command::zpool("create", name, format!("create the pool {name}"));
    // All features are enabled unless told otherwise. Who names those that shall be means these and no others.
    let chosen = new
        .properties
        .iter()
        .any(|(name, value)| name.starts_with("feature@") && value == "enabled");
    let command = command
        .word_if(chosen, "-d")
        .properties("-o", &new.properties)?
        .properties("-O", &new.root)?
        .word(name);
    layout(command, &new.layout)
}

pub(in crate::real) fn import(import: &Import) -> Result<Command> {
    let guid = import.guid;
    let known = match &import.name {
        Some(name) => name.to_string(),
        None => guid.to_string(),
    };
    let mut command = Command::zpool("import", &known, format!("import the pool {known}"));
    if import.devices.is_empty() {
        return Err(command.refused("no device is named, and not all devices of the host are looked at"));
    }
    for device in &import.devices {
        command = command.word("-d").device(device)?;
    }
    let command = command
        .word("-N")
        .properties("-o", &import.properties)?
        .word_if(import.although_in_use, "-f")
        .word_if(import.without_log, "-m");
    let command = match import.read_only {
        true => command.words(["-o", "readonly=on"]),
        false => command,
    };
    Ok(command.word(guid).words(&import.name))
}

pub(in crate::real) fn export(pool: &PoolName) -> Command {
    Command::zpool("export", pool, format!("export the pool {pool}")).word(pool)
}

pub(in crate::real) fn destroy(pool: &PoolName) -> Command {
    Command::zpool("destroy", pool, format!("destroy the pool {pool}")).word(pool)
}

pub(in crate::real) fn add(pool: &PoolName, added: &Layout) -> Result<Command> {
    let command = Command::zpool("add", pool, format!("add devices to the pool {pool}")).word(pool);
    layout(command, added)
}

pub(in crate::real) fn attach(pool: &PoolName, to: Guid, device: &Utf8Path) -> Result<Command> {
    let doing = format!("attach {device} to the vdev {to} of the pool {pool}");
    Command::zpool("attach", pool, doing)
        .word(pool)
        .word(to)
        .device(device)
}

pub(in crate::real) fn detach(pool: &PoolName, device: Guid) -> Command {
    let doing = format!("detach the device {device} from the pool {pool}");
    Command::zpool("detach", pool, doing).word(pool).word(device)
}

pub(in crate::real) fn replace(pool: &PoolName, old: Guid, new: &Utf8Path) -> Result<Command> {
    let doing = format!("replace the device {old} of the pool {pool} by {new}");
    Command::zpool("replace", pool, doing)
        .word(pool)
        .word(old)
        .device(new)
}

pub(in crate::real) fn online(pool: &PoolName, device: Guid) -> Command {
    let doing = format!("switch on the device {device} of the pool {pool}");
    Command::zpool("online", pool, doing).word(pool).word(device)
}

/// By a path: of a device that is named by its number ZFS does not find the disk that has grown.
pub(in crate::real) fn expand(pool: &PoolName, device: &Utf8Path) -> Result<Command> {
    let doing = format!("use all of {device} in the pool {pool}");
    Command::zpool("online", pool, doing)
        .word("-e")
        .word(pool)
        .device(device)
}

pub(in crate::real) fn offline(pool: &PoolName, device: Guid, how: Offline) -> Command {
    let doing = format!("switch off the device {device} of the pool {pool}");
    Command::zpool("offline", pool, doing)
        .word_if(how == Offline::UntilImport, "-t")
        .word(pool)
        .word(device)
}

pub(in crate::real) fn remove(pool: &PoolName, vdev: Guid) -> Command {
    let doing = format!("remove the vdev {vdev} from the pool {pool}");
    Command::zpool("remove", pool, doing).word(pool).word(vdev)
}

pub(in crate::real) fn clear(pool: &PoolName, device: Option<Guid>) -> Command {
    Command::zpool("clear", pool, format!("clear the errors of the pool {pool}"))
        .word(pool)
        .words(device)
}

pub(in crate::real) fn reopen(pool: &PoolName) -> Command {
    let doing = format!("open the devices of the pool {pool} anew");
    // -n: a resilver that runs is not begun anew.
    Command::zpool("reopen", pool, doing).word("-n").word(pool)
}

pub(in crate::real) fn clear_labels(device: &Utf8Path) -> Result<Command> {
    // -f: labels of exported pools count as in use otherwise. Those of imported ones are refused in any case.
    Command::zpool("labelclear", device, format!("clear the ZFS labels of {device}"))
        .word("-f")
        .device(device)
}

pub(in crate::real) fn scrub(pool: &PoolName, what: ScrubCommand) -> Command {
    let (verb, option) = match what {
        ScrubCommand::Start => ("begin", None),
        ScrubCommand::Pause => ("interrupt", Some("-p")),
        ScrubCommand::Stop => ("break off", Some("-s")),
    };
    Command::zpool("scrub", pool, format!("{verb} the scrub of the pool {pool}"))
        .words(option)
        .word(pool)
}

pub(in crate::real) fn trim(pool: &PoolName) -> Command {
    Command::zpool("trim", pool, format!("trim the pool {pool}")).word(pool)
}

pub(in crate::real) fn initialize(pool: &PoolName) -> Command {
    Command::zpool("initialize", pool, format!("initialize the pool {pool}")).word(pool)
}

pub(in crate::real) fn wait(pool: &PoolName, activity: Activity) -> Command {
    let activity = match activity {
        Activity::Resilver => "resilver",
        Activity::Replace => "replace",
        Activity::Scrub => "scrub",
        Activity::Remove => "remove",
        Activity::RaidzExpand => "raidz_expand",
        Activity::Initialize => "initialize",
        Activity::Trim => "trim",
        Activity::Free => "free",
    };
    Command::zpool("wait", pool, format!("wait for {activity} of the pool {pool}"))
        .words(["-t", activity])
        .word(pool)
}

/// The events that are there. With `follow` also those to come, for ever.
pub(in crate::real) fn events(follow: bool) -> Command {
    Command::zpool("events", "", "follow the events".to_owned())
        .words(["-H", "-v"])
        .word_if(follow, "-f")
}

fn layout(command: Command, layout: &Layout) -> Result<Command> {
    for device in layout.devices() {
        command.check_device(device)?;
    }
    if layout.devices().next().is_none() {
        return Err(command.refused("no device is named"));
    }
    Ok(command.words(layout.words()))
}
