//! Amounts of bytes, exactly.
//!
//! [`Quantity`] is what stands in an object: a number or a text, kept as written. [`Bytes`] is what it means.
//!
//! ```
//! use cstor_api::{Bytes, Quantity};
//!
//! let size: Quantity = "1.5Gi".into();
//! assert_eq!(size.bytes()?, Bytes(1_610_612_736));
//! assert_eq!(size.to_string(), "1.5Gi");
//! assert_eq!(size.bytes()?.to_string(), "1536Mi");
//! # Ok::<(), cstor_api::quantity::Error>(())
//! ```

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::schema::Rule;

/// Whether a text is an amount of bytes whose sign is as `$sign` says.
///
/// Thousandths, millionths and billionths are refused, as [`Bytes`] refuses them. The API server takes whatever is 8Ei
/// or more for one byte less than that, so this is where it can still tell a size from nonsense.
macro_rules! is_size {
    ($text:literal, $sign:literal) => {
        concat!(
            "isQuantity(",
            $text,
            ") && !",
            $text,
            ".matches('[mun]$') && sign(quantity(",
            $text,
            ")) ",
            $sign,
            " && quantity(",
            $text,
            ").isLessThan(quantity('8Ei'))"
        )
    };
}

/// The rule of a field that holds an amount of bytes.
///
/// Zero is allowed: Go programs write it for "not set".
pub(crate) const IS_QUANTITY: Rule = (
    is_size!("string(self)", ">= 0"),
    "This is not a size: write a number of bytes, or one with a suffix such as 100Gi, and less than 8Ei.",
);

/// The rule of a text that holds such an amount. Go programs write the empty text for "not set".
///
/// The text is not made one again: the API server would no longer know its length, nor what the rule costs.
pub(crate) const IS_QUANTITY_OR_EMPTY: Rule = (
    concat!("self == '' || (", is_size!("self", ">= 0"), ")"),
    IS_QUANTITY.1,
);

/// The rule of a map of such amounts.
pub(crate) const ARE_QUANTITIES: Rule = (
    concat!("self.all(k, ", is_size!("string(self[k])", ">= 0"), ")"),
    "One of these is not a size: write a number of bytes, or one with a suffix such as 100Gi, and less than 8Ei.",
);

/// The rule of the size of a disk.
pub(crate) const IS_DISK_SIZE: Rule = (
    is_size!("string(self)", "> 0"),
    "This is not the size of a disk: write a number of bytes above 0, or one with a suffix such as 100Gi, and less than 8Ei.",
);

/// The rule of an amount that cannot shrink.
pub(crate) const ONLY_GROWS: Rule = (
    "quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",
    "A disk can grow and not shrink: write a size that is not less than before.",
);

/// The rule of a map of amounts of which that under `storage` cannot shrink.
pub(crate) const STORAGE_ONLY_GROWS: Rule = (
    "!('storage' in oldSelf) || ('storage' in self && \
     quantity(string(self['storage'])).compareTo(quantity(string(oldSelf['storage']))) >= 0)",
    "A volume can grow and not shrink: write a storage size that is not less than before.",
);

/// Why a text is not an amount of bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not in the grammar of quantities.
    #[error("{0:?} is not a quantity: write a number of bytes, or one with a suffix such as 100Gi")]
    Syntax(String),
    /// Less than nothing.
    #[error("{0:?} is negative: an amount of bytes is zero or more")]
    Negative(String),
    /// Counted in thousandths, millionths or billionths of a byte.
    #[error(
        "{0:?} counts fractions of a byte: drop the suffix, or use one of Ki, Mi, Gi, Ti, Pi, Ei, k, M, G, T, P, E"
    )]
    SubByte(String),
    /// More than 2^64 - 1 bytes.
    #[error("{0:?} is more than 16Ei, which nothing can hold")]
    TooLarge(String),
}

/// A number of bytes.
///
/// Displays in the largest binary unit that divides it, so the text is short and loses nothing: `1536Mi`, `5000000000`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

const BINARY: [(&str, u32); 6] = [
    ("Ei", 60),
    ("Pi", 50),
    ("Ti", 40),
    ("Gi", 30),
    ("Mi", 20),
    ("Ki", 10),
];

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = BINARY
            .iter()
            .find(|(_, shift)| self.0 != 0 && self.0.trailing_zeros() >= *shift);
        match unit {
            Some((suffix, shift)) => write!(f, "{}{suffix}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for Bytes {
    type Err = Error;

    /// Reads a Kubernetes quantity as bytes.
    ///
    /// A fraction of a byte is rounded up, as Kubernetes does (`0.3Ki` is 308). The suffixes `m`, `u` and `n` are
    /// refused: for bytes they are always a slip, and rounding `100m` up to 1 would hide it.
    fn from_str(text: &str) -> Result<Self, Error> {
        let syntax = || Error::Syntax(text.to_owned());
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, text.get(1..).unwrap_or_default()),
            Some(b'+') => (false, text.get(1..).unwrap_or_default()),
            _ => (false, text),
        };
        let number_end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return Err(syntax());
        }
        let unit = Unit::parse(suffix).ok_or_else(syntax)?;
        if whole.bytes().chain(fraction.bytes()).all(|digit| digit == b'0') {
            return Ok(Self(0));
        }
        if negative {
            return Err(Error::Negative(text.to_owned()));
        }
        let too_large = || Error::TooLarge(text.to_owned());
        let (binary_shift, decimal_exponent) = match unit {
            Unit::Binary(shift) => (shift, 0),
            Unit::Decimal(exponent) => (0, exponent),
            Unit::SubByte => return Err(Error::SubByte(text.to_owned())),
        };
        // The decimal exponent moves the point; what is left of it is whole units, what is right of it a fraction.
        let digits = || {
            whole
                .bytes()
                .chain(fraction.bytes())
                .map(|digit| u128::from(digit - b'0'))
        };
        let point = i64::try_from(whole.len())
            .unwrap_or(i64::MAX)
            .saturating_add(decimal_exponent);
        let point = usize::try_from(point).unwrap_or(0);
        let mut units: u128 = 0;
        for digit in digits().chain(std::iter::repeat(0)).take(point) {
            units = units * 10 + digit;
            if units > u128::from(u64::MAX) {
                return Err(too_large());
            }
        }
        // From the last digit to the first: floor((a + floor(x)) / 10) = floor((a + x) / 10) for a whole a, so
        // cutting off at each step loses nothing but the fact that something was cut off.
        let mut part: u128 = 0;
        let mut inexact = false;
        for digit in digits()
            .rev()
            .take((whole.len() + fraction.len()).saturating_sub(point))
        {
            let sum = (digit << binary_shift) + part;
            inexact |= !sum.is_multiple_of(10);
            part = sum / 10;
        }
        let value = (units << binary_shift) + part + u128::from(inexact);
        u64::try_from(value).map(Self).map_err(|_| too_large())
    }
}

/// What the letters behind the number mean.
enum Unit {
    Binary(u32),
    Decimal(i64),
    SubByte,
}

impl Unit {
    fn parse(suffix: &str) -> Option<Self> {
        if let Some((_, shift)) = BINARY.iter().find(|(name, _)| *name == suffix) {
            return Some(Self::Binary(*shift));
        }
        let exponent = match suffix {
            "" => 0,
            "k" => 3,
            "M" => 6,
            "G" => 9,
            "T" => 12,
            "P" => 15,
            "E" => 18,
            "m" | "u" | "n" => return Some(Self::SubByte),
            _ => {
                let digits = suffix.strip_prefix(['e', 'E'])?;
                let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(digits);
                if unsigned.is_empty() || !unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
                    return None;
                }
                // Any exponent beyond these overflows, or rounds up to 1, in the same way.
                let magnitude = unsigned
                    .parse::<i64>()
                    .unwrap_or(i64::from(i32::MAX))
                    .min(i64::from(i32::MAX));
                if digits.starts_with('-') {
                    -magnitude
                } else {
                    magnitude
                }
            }
        };
        Some(Self::Decimal(exponent))
    }
}

/// A quantity as it stands in an object.
///
/// Kept as written, number or text, so that passing through us never rewrites what a user typed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quantity(Written);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Written {
    Number(serde_json::Number),
    Text(String),
}

impl Quantity {
    /// What it means in bytes.
    ///
    /// # Errors
    ///
    /// If it is not an amount of bytes; see [`Error`].
    pub fn bytes(&self) -> Result<Bytes, Error> {
        match &self.0 {
            Written::Number(number) => number.to_string().parse(),
            Written::Text(text) => text.parse(),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Written::Number(number) => number.fmt(f),
            Written::Text(text) => text.fmt(f),
        }
    }
}

impl From<Bytes> for Quantity {
    fn from(bytes: Bytes) -> Self {
        Self(Written::Text(bytes.to_string()))
    }
}

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self(Written::Text(text.to_owned()))
    }
}

impl From<&Quantity> for k8s_openapi::apimachinery::pkg::api::resource::Quantity {
    fn from(quantity: &Quantity) -> Self {
        Self(quantity.to_string())
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Written::Number(number) => number.serialize(serializer),
            Written::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrText;

        impl Visitor<'_> for NumberOrText {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a text")
            }

            fn visit_i64<E>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity(Written::Number(number.into())))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity(Written::Number(number.into())))
            }

            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Quantity, E> {
                let number = serde_json::Number::from_f64(number).ok_or_else(|| E::custom("not a number"))?;
                Ok(Quantity(Written::Number(number)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Quantity, E> {
                Ok(text.into())
            }
        }

        deserializer
            .deserialize_any(NumberOrText)
            .map_err(|error| D::Error::custom(format!("quantity: {error}")))
    }
}

impl JsonSchema for Quantity {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    /// A number or a short text. That the text is a quantity is a rule of its own, where it matters: the
    /// regular expression that other projects put here answers a typing error with a riddle.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true, "maxLength": 64 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(text: &str) -> Result<u64, Error> {
        text.parse::<Bytes>().map(|bytes| bytes.0)
    }

    #[test]
    fn what_kubernetes_writes() {
        for (text, expected) in [
            ("0", 0),
            ("-0", 0),
            ("1", 1),
            ("+7", 7),
            ("1.5Gi", 1_610_612_736),
            (".5Ki", 512),
            ("5.", 5),
            ("1e9", 1_000_000_000),
            ("1E9", 1_000_000_000),
            ("1E", 1_000_000_000_000_000_000),
            ("12e-1", 2),
            ("100M", 100_000_000),
            ("5G", 5_000_000_000),
            ("9630143k", 9_630_143_000),
            ("0.3Ki", 308),
            ("10Gi", 10 << 30),
            ("15Ei", 15 << 60),
            ("18446744073709551615", u64::MAX),
            (
                "18446744073709551614.000000000000000000000000000000000000000001",
                u64::MAX,
            ),
            ("0.000000000000000000000000000000000000000000001Ki", 1),
            ("1e-400000000000", 1),
            ("0e400000000000", 0),
            ("0000000000000000000000000000000000000000000000000005", 5),
            ("1.00000000000000000000000000000000000000000000000000Gi", 1 << 30),
            ("0000000000000000000000000.5Ki", 512),
            ("1.2345678901234567899Ei", 1_423_359_869_420_436_339),
            ("0.00000001e9", 10),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_refused() {
        for text in [
            "", "-", ".", "Gi", "1.2.3", "1gi", "1KB", "1 Gi", "0x10", "1e", "1e+", "٣", "1i", "--1",
        ] {
            assert_eq!(bytes(text), Err(Error::Syntax(text.into())), "{text}");
        }
        assert_eq!(bytes("-5Gi"), Err(Error::Negative("-5Gi".into())));
        assert_eq!(bytes("100m"), Err(Error::SubByte("100m".into())));
        for text in [
            "16Ei",
            "18446744073709551616",
            "1e20",
            "1e400000000000",
            "99999999999999999999999999999999999999999E",
        ] {
            assert_eq!(bytes(text), Err(Error::TooLarge(text.into())), "{text}");
        }
    }

    #[test]
    fn printed_in_the_largest_unit_that_fits() {
        for (number, text) in [
            (0, "0"),
            (1, "1"),
            (1000, "1000"),
            (1024, "1Ki"),
            (1536, "1536"),
            (1_610_612_736, "1536Mi"),
            (5_000_000_000, "5000000000"),
            (1 << 60, "1Ei"),
            (u64::MAX, "18446744073709551615"),
        ] {
            assert_eq!(Bytes(number).to_string(), text);
        }
    }

    #[test]
    fn an_object_keeps_its_text() {
        for written in [
            serde_json::json!("1.5Gi"),
            serde_json::json!("5G"),
            serde_json::json!(1_073_741_824),
        ] {
            let quantity: Quantity = serde_json::from_value(written.clone()).unwrap();
            assert_eq!(serde_json::to_value(&quantity).unwrap(), written);
        }
    }

    proptest! {
        #[test]
        fn print_then_parse_is_identity(number in any::<u64>(), shift in 0u32..64) {
            let number = number >> shift << shift;
            prop_assert_eq!(bytes(&Bytes(number).to_string()), Ok(number));
        }

        #[test]
        fn parse_then_print_is_canonical(text in "[0-9]{1,7}(\\.[0-9]{0,6})?([KMGT]i|[kMGT])?") {
            let first: Bytes = text.parse().unwrap();
            let printed = first.to_string();
            let second: Bytes = printed.parse().unwrap();
            prop_assert_eq!(first, second);
            prop_assert_eq!(second.to_string(), printed);
        }

        #[test]
        fn never_panics(text in "\\PC*") {
            let _ = bytes(&text);
        }

        #[test]
        fn never_panics_on_what_looks_like_one(text in "[+-]?[0-9]{0,50}\\.?[0-9]{0,50}([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{0,20})?") {
            let _ = bytes(&text);
        }

        #[test]
        fn agrees_with_exact_arithmetic(whole in 0u64..1 << 30, fraction in 0u32..1000, unit in 0usize..6) {
            let (suffix, shift) = BINARY[unit];
            let thousandths = (u128::from(whole) * 1000 + u128::from(fraction)) << shift;
            let expected = u64::try_from(thousandths.div_ceil(1000));
            let parsed = bytes(&format!("{whole}.{fraction:03}{suffix}"));
            prop_assert_eq!(parsed.ok(), expected.ok());
        }

        #[test]
        fn order_is_preserved(a in 0u64..1 << 40, b in 0u64..1 << 40, fraction in 0u32..1000) {
            let (low, high) = (a.min(b), a.max(b));
            let read = |number: u64| bytes(&format!("{number}.{fraction:03}Ki")).unwrap();
            prop_assert!(read(low) <= read(high));
            prop_assert_eq!(Bytes(low) <= Bytes(high), low <= high);
        }
    }
}
