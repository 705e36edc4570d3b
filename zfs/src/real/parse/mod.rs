//! What ZFS prints, as types.
//!
//! Fields that are not known are passed over: every release adds some. Fields that are needed and are not there, or are
//! not what they must be, make the whole answer one that is not understood, and never a shorter one.

mod dataset;
mod event;
mod holds;
mod pool;
mod scan;
mod status;

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

pub(super) use dataset::{dataset, datasets};
pub(super) use event::{Event, Events};
pub(super) use holds::holds;
pub(super) use pool::{pools, properties};
pub(super) use status::status;

/// What is found, or why it cannot be read.
pub(super) type Parsed<T> = Result<T, String>;

/// Reads a JSON document.
fn json<'a, T: Deserialize<'a>>(text: &'a str) -> Parsed<T> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// The members of an object in the order in which they are printed, which is that of the vdevs in the pool.
#[derive(Debug)]
struct Members<T>(Vec<(String, T)>);

impl<T> Default for Members<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Members<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = Members<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Reader(PhantomData))
    }
}

impl<T> Members<T> {
    /// The one member of this name.
    fn only(self, name: &str) -> Parsed<T> {
        let mut named = self.0.into_iter().filter(|(key, _)| key == name);
        match (named.next(), named.next()) {
            (Some((_, member)), None) => Ok(member),
            (None, _) => Err(format!("there is nothing about {name} in it")),
            _ => Err(format!("there is more than one {name} in it")),
        }
    }
}

/// A number, which ZFS prints as a text: GUIDs are too large for what many programs take for numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Number(u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let number = text.parse().map(Self);
        number.map_err(|_| serde::de::Error::custom(format!("{text:?} is no number")))
    }
}

#[cfg(test)]
mod tests;
