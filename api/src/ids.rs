//! Identities as types, so that one is not passed for another.
//!
//! Objects carry plain text (an odd one must still be readable); code that acts on an identity takes one of these,
//! and so has checked it.

use std::fmt;
use std::str::FromStr;

/// Why a text is not the identity it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a GUID.
    #[error("{0:?} is not a ZFS GUID: expected a whole number between 1 and 18446744073709551615")]
    Guid(String),
    /// Not an object's name.
    #[error(
        "{0:?} is not an object name: expected at most 253 of a-z, 0-9, '-' and '.', with a letter or digit at both ends"
    )]
    Name(String),
    /// Not an object's UID.
    #[error("{0:?} is not an object UID: expected letters, digits and '-'")]
    Uid(String),
}

macro_rules! guid {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u64);

        impl $name {
            /// The number, for talking to ZFS.
            pub fn get(self) -> u64 {
                self.0
            }
        }

        impl TryFrom<u64> for $name {
            type Error = Error;

            fn try_from(number: u64) -> Result<Self, Error> {
                if number == 0 { Err(Error::Guid("0".to_owned())) } else { Ok(Self(number)) }
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
                let number = if plain { text.parse().ok() } else { None };
                number.map(Self).ok_or_else(|| Error::Guid(text.to_owned()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

guid! {
    /// The GUID of a pool. Objects carry it as text: it does not fit the numbers of JSON.
    PoolGuid
}

guid! {
    /// The GUID of a vdev.
    VdevGuid
}

macro_rules! text {
    ($(#[$meta:meta])* $name:ident, $error:ident, $check:expr) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                if $check(text) { Ok(Self(text.to_owned())) } else { Err(Error::$error(text.to_owned())) }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

text! {
    /// The name of a BlockDevice.
    BlockDeviceName, Name, is_object_name
}

text! {
    /// The name of a CStorPoolInstance.
    CspiName, Name, is_object_name
}

text! {
    /// The UID of a CStorPoolInstance: what a pool carries to say whose it is.
    CspiUid, Uid, is_uid
}

impl CspiUid {
    /// The name of the pool of this instance, if we create it. An existing pool keeps its name.
    pub fn pool_name(&self) -> String {
        format!("{}{}", crate::names::POOL_NAME_PREFIX, self.0)
    }
}

/// Whether a text is a DNS subdomain, which names of objects are.
fn is_object_name(text: &str) -> bool {
    let label = |label: &str| {
        let alphanumeric = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = label.as_bytes();
        alphanumeric(bytes.first())
            && alphanumeric(bytes.last())
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// Whether a text can be a UID. They are UUIDs in practice; the API promises no more than uniqueness,
/// and we put them into pool names, so the alphabet is what matters.
fn is_uid(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guids() {
        assert_eq!(
            "18446744073709551615".parse::<PoolGuid>().unwrap().get(),
            u64::MAX
        );
        for text in ["", "0", "-1", "+5", "007", "18446744073709551616", "0x1f", "12 "] {
            assert_eq!(text.parse::<VdevGuid>(), Err(Error::Guid(text.into())));
        }
        assert!(PoolGuid::try_from(0).is_err());
    }

    #[test]
    fn names() {
        for text in ["blockdevice-0123", "a", "sparse-1.node-2"] {
            assert_eq!(text.parse::<BlockDeviceName>().unwrap().as_str(), text);
        }
        for text in ["", "A", "a_b", "-a", "a-", "a..b", "a/b", &"a".repeat(254)] {
            assert!(text.parse::<BlockDeviceName>().is_err(), "{text}");
        }
    }

    #[test]
    fn uids() {
        let uid: CspiUid = "f2420c98-ce02-4bc8-b3c0-8266c0b62b69".parse().unwrap();
        assert_eq!(uid.pool_name(), "cstor-f2420c98-ce02-4bc8-b3c0-8266c0b62b69");
        for text in ["", "a b", "a/b", "a@b"] {
            assert!(text.parse::<CspiUid>().is_err());
        }
    }
}
