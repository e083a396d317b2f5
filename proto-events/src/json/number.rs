//! A JSON number as its text, of any size and precision.

use std::fmt;
use std::str::FromStr;

/// A JSON number as its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonNumber(Box<str>);

impl JsonNumber {
    /// Takes the text of a number that a parser has accepted.
    pub(super) fn of_valid(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the text has a fraction or an exponent.
    pub fn is_float(&self) -> bool {
        self.0.contains(['.', 'e', 'E'])
    }

    /// Returns the number as an unsigned integer, if it is written as one and fits.
    pub fn as_u64(&self) -> Option<u64> {
        self.0.parse().ok()
    }

    /// Returns the number as a signed integer, if it is written as one and fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }

    /// Returns the number as a float, which may be rounded; `None` if it is beyond the range of floats.
    pub fn as_f64(&self) -> Option<f64> {
        self.0.parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// Returns the number as a value of `serde_json`; see [`JsonValue`](super::JsonValue).
    pub(super) fn to_serde(&self) -> serde_json::Value {
        if let Some(whole) = self.as_i64() {
            return whole.into();
        }
        if let Some(whole) = self.as_u64() {
            return whole.into();
        }
        let float: f64 = self.0.parse().unwrap_or_default();
        float.clamp(f64::MIN, f64::MAX).into()
    }

    /// Returns a float as a number; `None` for NaN and infinity, which JSON does not have.
    pub fn from_f64(number: f64) -> Option<Self> {
        serde_json::Number::from_f64(number).map(|number| Self(number.to_string().into()))
    }
}

impl fmt::Display for JsonNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is not a JSON number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a JSON number")]
pub struct NotANumber;

impl FromStr for JsonNumber {
    type Err = NotANumber;

    fn from_str(text: &str) -> Result<Self, NotANumber> {
        let starts = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        let ends = text.ends_with(|c: char| c.is_ascii_digit());
        if starts && ends && serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok() {
            Ok(Self(text.into()))
        } else {
            Err(NotANumber)
        }
    }
}

macro_rules! from_integers {
    ($($whole:ty),*) => {$(
        impl From<$whole> for JsonNumber {
            fn from(number: $whole) -> Self {
                Self(number.to_string().into())
            }
        }
    )*};
}
from_integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_numbers_are_read() {
        for text in ["0", "-0", "1.50", "1e16", "1180591620717411303424", "-1E+5"] {
            assert_eq!(text.parse::<JsonNumber>().unwrap().as_str(), text);
        }
        for text in ["", "-", "01", "1.", ".5", "+1", "1e", "NaN", " 1", "1 ", "\"1\"", "[1]"] {
            assert!(text.parse::<JsonNumber>().is_err(), "{text}");
        }
    }

    #[test]
    fn integers_that_do_not_fit_and_floats_are_no_integers() {
        let number = |text: &str| text.parse::<JsonNumber>().unwrap();
        assert_eq!(number("18446744073709551615").as_u64(), Some(u64::MAX));
        assert_eq!(number("18446744073709551616").as_u64(), None);
        assert_eq!(number("1.0").as_i64(), None);
        assert_eq!(number("1e999").as_f64(), None);
    }
}
