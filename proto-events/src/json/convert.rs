//! Conversions of JSON trees: from and to text, to what can be serialised and deserialised, and to the values of
//! `serde_json`; comparisons with plain values.

use std::fmt;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};

use crate::json::error::JsonError;
use crate::json::number::JsonNumber;
use crate::json::parse::parse_valid;
use crate::json::text::JsonText;
use crate::json::tree::{JsonMap, JsonValue};
use crate::json::write::to_raw;
use crate::limits::JSON_DEPTH_MAX;

impl JsonValue {
    /// Parses a text that must be one JSON value.
    ///
    /// # Errors
    /// As for [`JsonText::parse`].
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        JsonText::parse(text).map(|text| text.tree())
    }

    /// Converts a value that can be serialised.
    ///
    /// # Errors
    /// [`JsonError`] if it has no JSON form (a map whose keys are not strings) or nests too deep.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, JsonError> {
        to_raw(value, JSON_DEPTH_MAX).map(|raw| parse_valid(raw.get()))
    }

    /// Converts a piece of a literal of the macro [`json!`](crate::json!), whose own pieces may be trees of any text that
    /// is stored.
    #[doc(hidden)]
    pub fn of_literal<T: Serialize + ?Sized>(value: &T) -> Self {
        to_raw(value, 8 * JSON_DEPTH_MAX).map_or(Self::Null, |raw| parse_valid(raw.get()))
    }

    /// Deserialises the value as `T`.
    ///
    /// # Errors
    /// As for [`JsonText::read`].
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        self.to_text().read()
    }

    /// Returns the value as compact JSON text.
    pub fn to_text(&self) -> JsonText {
        JsonText::of_model(self)
    }
}

impl fmt::Display for JsonValue {
    /// Formats the value as compact JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_text().as_str())
    }
}

impl<'de> Deserialize<'de> for JsonValue {
    /// Reads the value from its text, so that numbers keep theirs. Works with the deserializers of
    /// `serde_json`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        JsonText::deserialize(deserializer).map(|text| text.tree()).map_err(D::Error::custom)
    }
}

macro_rules! from_integers {
    ($($whole:ty),*) => {$(
        impl From<$whole> for JsonValue {
            fn from(number: $whole) -> Self {
                Self::Number(JsonNumber::from(number))
            }
        }

        impl PartialEq<$whole> for JsonValue {
            fn eq(&self, other: &$whole) -> bool {
                self.as_number().is_some_and(|number| number.as_str() == other.to_string())
            }
        }
    )*};
}
from_integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

impl From<bool> for JsonValue {
    fn from(flag: bool) -> Self {
        Self::Bool(flag)
    }
}

impl From<&str> for JsonValue {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for JsonValue {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl<T: Into<Self>> From<Option<T>> for JsonValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<JsonMap> for JsonValue {
    fn from(fields: JsonMap) -> Self {
        Self::Object(fields)
    }
}

impl<T: Into<Self>> From<Vec<T>> for JsonValue {
    fn from(items: Vec<T>) -> Self {
        items.into_iter().collect()
    }
}

impl<T: Into<Self>> FromIterator<T> for JsonValue {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}

impl From<serde_json::Value> for JsonValue {
    /// Converts a value that `serde_json` has read. One that was built and nests deeper than a text may becomes `null`.
    fn from(value: serde_json::Value) -> Self {
        Self::encode(&value).unwrap_or_default()
    }
}

impl From<f64> for JsonValue {
    /// Converts a float; NaN and infinity, which JSON does not have, become `null`.
    fn from(number: f64) -> Self {
        JsonNumber::from_f64(number).map_or(Self::Null, Self::Number)
    }
}

impl From<JsonValue> for serde_json::Value {
    /// Converts the tree for an interface that takes values of `serde_json`. Integers of 64 bits stay exact;
    /// other numbers become floats, those beyond the range of floats the largest ones.
    fn from(value: JsonValue) -> Self {
        match value {
            JsonValue::Null => Self::Null,
            JsonValue::Bool(flag) => Self::Bool(flag),
            JsonValue::Number(number) => number.to_serde(),
            JsonValue::String(text) => Self::String(text),
            JsonValue::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            JsonValue::Object(fields) => {
                Self::Object(fields.into_iter().map(|(key, value)| (key, Self::from(value))).collect())
            }
        }
    }
}

impl From<JsonValue> for JsonText {
    fn from(value: JsonValue) -> Self {
        value.to_text()
    }
}

impl PartialEq<str> for JsonValue {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<&str> for JsonValue {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == Some(*other)
    }
}

impl PartialEq<String> for JsonValue {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<bool> for JsonValue {
    fn eq(&self, other: &bool) -> bool {
        self.as_bool() == Some(*other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn a_tree_prints_as_it_was_read_but_for_spaces_and_escapes() {
        let text = r#"{"z":[1180591620717411303424,1.0,1e16,-0.0,-0,0.10],"a":{"é\n":null},"b":[[],{}]}"#;
        assert_eq!(JsonValue::parse(text).unwrap().to_string(), text);
        let spaced = " { \"a\" : [ 1 , \"\\u00e9\\/\" ] } ";
        assert_eq!(JsonValue::parse(spaced).unwrap().to_string(), r#"{"a":[1,"é/"]}"#);
    }

    #[test]
    fn what_nests_as_deep_as_allowed_is_read_and_one_level_more_is_refused() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert_eq!(JsonValue::parse(&nested(128)).unwrap().to_string(), nested(128));
        assert!(JsonValue::parse(&nested(129)).is_err());
    }

    #[test]
    fn the_macro_builds_what_it_shows() {
        let name = "n".to_owned();
        let built = json!({
            "null": null, "list": [1, true, [], {}], "nested": { "x": name.len() + 1 }, "text": name, (&*name): 2,
        });
        assert_eq!(
            built.to_string(),
            r#"{"null":null,"list":[1,true,[],{}],"nested":{"x":2},"text":"n","n":2}"#
        );
        assert_eq!(json!([]).to_string(), "[]");
        assert_eq!(json!("x"), "x");
    }

    #[test]
    fn a_repeated_key_keeps_its_first_place_and_last_value() {
        assert_eq!(JsonValue::parse(r#"{"a":1,"b":2,"a":3}"#).unwrap().to_string(), r#"{"a":3,"b":2}"#);
    }

    #[test]
    fn a_pointer_finds_members_and_items() {
        let value = json!({"a": [{"b/c": 1}]});
        assert_eq!(*value.pointer("/a/0/b~1c").unwrap(), 1);
        assert_eq!(value.pointer("/a/1"), None);
    }
}
