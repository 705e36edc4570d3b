//! Enums that know their values and do not choke on others.

/// Declares a string enum with a variant per known value and `Other` for the rest.
///
/// A closed enum in a custom resource is a trap: one object with a value of an older or newer release fails
/// to deserialize, and with it the whole list. So the Rust type is always open. Whether the *schema* is
/// closed is said behind the name:
///
/// * `any`: the schema takes every string (status fields, which old controllers wrote);
/// * `listed`: the schema takes the listed values only;
/// * `listed or empty`: as before, and the empty string, which Go programs write for "not set".
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident: $($kind:ident)+ {
            $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
            /// A value this release does not know, kept as it was read.
            Other(String),
        }

        impl $name {
            /// The values this release knows, in the order of declaration.
            pub const KNOWN: &'static [&'static str] = &[$($text),+];

            /// The value as it is written in the object.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)+
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                match text.as_str() {
                    $($text => Self::$variant,)+
                    _ => Self::Other(text),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(Self::from)
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::open_enum::open_enum_schema!(Self, $($kind)+)
            }
        }
    };
}

/// The schema of an open enum; see [`open_enum`].
macro_rules! open_enum_schema {
    ($type:ty, any) => {
        schemars::json_schema!({ "type": "string" })
    };
    ($type:ty, listed) => {
        schemars::json_schema!({ "type": "string", "enum": <$type>::KNOWN })
    };
    ($type:ty, listed or empty) => {{
        let mut values: Vec<&str> = vec![""];
        values.extend(<$type>::KNOWN.iter().filter(|known| !known.is_empty()));
        schemars::json_schema!({ "type": "string", "enum": values })
    }};
}

pub(crate) use {open_enum, open_enum_schema};
