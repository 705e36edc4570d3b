//! Events, line by line.

use std::str::FromStr;

use crate::{Guid, PoolEvent, PoolName};

/// An event and its number. Numbers grow from one event to the next for as long as the module is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::real) struct Event {
    /// The number.
    pub(in crate::real) number: u64,
    /// What happened.
    pub(in crate::real) event: PoolEvent,
}

/// Puts the lines together that `zpool events -H -v` prints of each event.
///
/// An event begins with a line that is not indented, and ends with an empty one. What does not look like an event, such
/// as the note that events were dropped, is none.
#[derive(Debug, Default)]
pub(in crate::real) struct Events {
    class: Option<String>,
    pool: Option<PoolName>,
    vdev: Option<Guid>,
    number: Option<u64>,
}

impl Events {
    /// Takes a line, and gives an event if it is the last line of one.
    pub(in crate::real) fn line(&mut self, line: &str) -> Option<Event> {
        if !line.starts_with(char::is_whitespace) {
            let Self {
                class,
                pool,
                vdev,
                number,
            } = std::mem::take(self);
            let event = PoolEvent {
                class: class?,
                pool,
                vdev,
            };
            return Some(Event {
                number: number?,
                event,
            });
        }
        // Lists inside an event are indented further, and have names like its own.
        let line = line.strip_prefix(INDENT).filter(|rest| !rest.starts_with(' '))?;
        let (name, value) = line.split_once(" = ")?;
        match name {
            "class" => self.class = text(value).map(str::to_owned),
            "pool" => self.pool = text(value).and_then(|name| name.parse().ok()),
            "vdev_guid" => self.vdev = number(value).map(Guid),
            "eid" => self.number = number(value),
            _ => {}
        }
        None
    }
}

/// How far what belongs to an event is indented.
const INDENT: &str = "        ";

fn text(value: &str) -> Option<&str> {
    value.strip_prefix('"')?.strip_suffix('"')
}

fn number(value: &str) -> Option<u64> {
    let digits = value.trim();
    match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => u64::from_str(digits).ok(),
    }
}
