//! Free-form JSON as its own text: numbers are not reformatted, keys are not reordered.

use std::fmt;
use std::sync::{Arc, LazyLock};

use indexmap::IndexMap;
use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::json::error::JsonError;
use crate::json::finite::holds_no_number;
use crate::json::parse::parse_valid;
use crate::json::tree::JsonValue;
use crate::json::write::{syntax, to_raw};
use crate::limits::JSON_DEPTH_MAX;

/// A JSON value as text. Cheap to clone; parsed only on demand.
#[derive(Clone)]
pub struct JsonText(Arc<RawValue>);

impl JsonText {
    /// Parses a text that must be one JSON value.
    ///
    /// # Errors
    /// [`JsonError`] with line and column, or with the depth that exceeds the limit.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        Self::within(text, JSON_DEPTH_MAX)
    }

    /// Parses a text that was stored before. A value combined from pieces, each within the limit, may nest
    /// deeper than any of them.
    ///
    /// # Errors
    /// As for [`JsonText::parse`].
    pub fn parse_stored(text: &str) -> Result<Self, JsonError> {
        // The calls of most messages: shared, and not parsed anew for each of thousands.
        if text == "{}" {
            return Ok(Self::empty_object());
        }
        Self::within(text, 2 * JSON_DEPTH_MAX)
    }

    fn within(text: &str, depth_max: usize) -> Result<Self, JsonError> {
        check(text, depth_max)?;
        let raw: Box<RawValue> = serde_json::from_str(text).map_err(|error| syntax(&error))?;
        Ok(Self(raw.into()))
    }

    /// Serialises a value as JSON.
    ///
    /// # Errors
    /// [`JsonError`] if the value has no JSON form (a map whose keys are not strings, NaN or infinity) or nests
    /// too deep.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, JsonError> {
        let raw = to_raw(value, JSON_DEPTH_MAX)?;
        check(raw.get(), JSON_DEPTH_MAX)?;
        // Written as `null`, which few values hold: only those are walked again.
        if raw.get().contains("null") && holds_no_number(value) {
            return Err(JsonError::NotFinite);
        }
        Ok(Self(raw.into()))
    }

    /// Returns the JSON of a string.
    pub fn string(text: &str) -> Self {
        Self::of_model(text)
    }

    /// Returns `null`.
    pub fn null() -> Self {
        Self(RawValue::NULL.to_owned().into())
    }

    /// Returns `{}`.
    pub fn empty_object() -> Self {
        static EMPTY: LazyLock<JsonText> = LazyLock::new(|| JsonText::of_model(&JsonObject::new()));
        EMPTY.clone()
    }

    /// Returns the text itself.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Whether the value is `null`.
    pub fn is_null(&self) -> bool {
        self.as_str() == "null"
    }

    /// Whether the value is an object.
    pub fn is_object(&self) -> bool {
        self.as_str().starts_with('{')
    }

    /// Returns the value as a tree, with numbers of any size and precision.
    pub fn tree(&self) -> JsonValue {
        parse_valid(self.as_str())
    }

    /// Returns the value as a tree of `serde_json`, in which integers of 64 bits are exact and other numbers are
    /// floats. [`JsonText::tree`] loses nothing.
    pub fn to_value(&self) -> serde_json::Value {
        self.tree().into()
    }

    /// Returns the string, if the value is one.
    pub fn to_str(&self) -> Option<String> {
        serde_json::from_str(self.as_str()).ok()
    }

    /// Deserialises the value as `T`. A `T` that reads all levels itself can be 127 levels deep, which is the
    /// limit of `serde_json`; members of type [`JsonText`] or [`JsonValue`] may be deeper.
    ///
    /// # Errors
    /// [`JsonError::Syntax`] with the expectation that failed.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        serde_json::from_str(self.as_str()).map_err(|error| syntax(&error))
    }

    /// Serialises one of our own models, whose free-form pieces were each checked when they were accepted.
    /// The whole is not checked again: the content of a task must be printable, however it was composed.
    pub fn of_model<T: Serialize + ?Sized>(value: &T) -> Self {
        serde_json::value::to_raw_value(value).map_or_else(|_| Self::null(), |raw| Self(raw.into()))
    }
}

/// Limits nesting without recursion, so that a hostile text cannot exhaust the stack, and refuses half a
/// surrogate pair, which passes as text here but is not a string for a later reader.
fn check(text: &str, depth_max: usize) -> Result<(), JsonError> {
    let bytes = text.as_bytes();
    let opening = count(bytes, |byte| byte | 0x20 == b'{');
    if opening <= depth_max && count(bytes, |byte| byte == b'\\') == 0 {
        // The common case: the text cannot nest deeper, and nothing is escaped.
        return Ok(());
    }
    let (mut depth, mut in_string, mut at) = (0_usize, false, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' if in_string => at += check_escape(text, at)?,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > depth_max {
                    return Err(JsonError::TooDeep { depth });
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// Counts the bytes of a kind, in pieces whose count fits a byte, so that many bytes are compared at once.
fn count(bytes: &[u8], kind: impl Fn(u8) -> bool) -> usize {
    let pieces = bytes.chunks(usize::from(u8::MAX));
    pieces.map(|piece| usize::from(piece.iter().map(|byte| u8::from(kind(*byte))).sum::<u8>())).sum()
}

/// Returns the number of bytes after the backslash at `at` that belong to its escape.
fn check_escape(text: &str, at: usize) -> Result<usize, JsonError> {
    let unit = |from: usize| {
        let digits = text.get(from..from + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    match unit(at) {
        Some(0xD800..=0xDBFF) if matches!(unit(at + 6), Some(0xDC00..=0xDFFF)) => Ok(11),
        Some(0xD800..=0xDFFF) => Err(JsonError::Syntax(format!("unpaired surrogate at byte {at}"))),
        Some(_) => Ok(5),
        None => Ok(1),
    }
}

impl From<serde_json::Value> for JsonText {
    fn from(value: serde_json::Value) -> Self {
        Self::of_model(&value)
    }
}

impl Default for JsonText {
    fn default() -> Self {
        Self::null()
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for JsonText {}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        check(raw.get(), 2 * JSON_DEPTH_MAX).map_err(D::Error::custom)?;
        Ok(Self(raw.into()))
    }
}

/// A JSON object whose keys keep their order and whose values keep their text. A repeated key keeps its first
/// place and its last value, as in Python.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JsonObject(IndexMap<String, JsonText>);

impl JsonObject {
    /// Returns an object without keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<&JsonText> {
        self.0.get(key)
    }

    /// Sets `key`, in its place if it exists, otherwise at the end.
    pub fn set(&mut self, key: impl Into<String>, value: JsonText) {
        self.0.insert(key.into(), value);
    }

    /// Removes `key` and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<JsonText> {
        self.0.shift_remove(key)
    }

    /// Sets every key of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (key, value) in &other.0 {
            self.set(key.clone(), value.clone());
        }
    }

    /// Iterates over keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &JsonText)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the object has no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Serialises the object as text.
    pub fn to_text(&self) -> JsonText {
        JsonText::of_model(self)
    }
}

impl FromIterator<(String, JsonText)> for JsonObject {
    fn from_iter<I: IntoIterator<Item = (String, JsonText)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl Serialize for JsonObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = JsonObject;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonObject, A::Error> {
                let mut object = JsonObject::new();
                while let Some((key, value)) = map.next_entry::<String, JsonText>()? {
                    object.set(key, value);
                }
                Ok(object)
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keys_and_spaces_come_back_as_they_went_in() {
        let text = r#"{"z": 1180591620717411303424, "a":1.0,"e":1e16 , "m":[-0.0]}"#;
        assert_eq!(JsonText::parse(text).unwrap().as_str(), text);
        let object: JsonObject = serde_json::from_str(text).unwrap();
        assert_eq!(
            serde_json::to_string(&object).unwrap(),
            r#"{"z":1180591620717411303424,"a":1.0,"e":1e16,"m":[-0.0]}"#
        );
    }

    #[test]
    fn nesting_is_bounded_at_128_levels_and_brackets_in_strings_do_not_count() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(JsonText::parse(&nested(128)).is_ok());
        assert_eq!(JsonText::parse(&nested(129)), Err(JsonError::TooDeep { depth: 129 }));
        assert!(JsonText::parse(&format!("\"{}\\\"{}\"", "[".repeat(300), "{".repeat(300))).is_ok());
    }

    #[test]
    fn half_a_surrogate_pair_is_refused_and_a_whole_one_is_read() {
        for half in [r#""\ud83d""#, r#""\ude00""#, r#""\ud83dx""#, r#"["\ud83d\u0041"]"#] {
            assert!(matches!(JsonText::parse(half), Err(JsonError::Syntax(_))), "{half}");
        }
        assert_eq!(JsonText::parse(r#""\ud83d\ude00""#).unwrap().to_str().unwrap(), "😀");
        assert_eq!(JsonText::parse(r#""\\ud83d""#).unwrap().to_str().unwrap(), "\\ud83d");
    }

    #[test]
    fn what_nests_as_deep_as_allowed_is_read_too() {
        let deep = JsonText::parse(&format!("{}{}", "[".repeat(128), "]".repeat(128))).unwrap();
        assert_eq!(deep.tree().to_string(), deep.as_str());
        assert!(deep.read::<JsonValue>().is_ok());
    }

    #[test]
    fn a_repeated_key_keeps_its_first_place_and_last_value() {
        let object: JsonObject = serde_json::from_str(r#"{"a":1,"b":2,"a":3}"#).unwrap();
        assert_eq!(serde_json::to_string(&object).unwrap(), r#"{"a":3,"b":2}"#);
    }
}
