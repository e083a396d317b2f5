//! Free-form JSON, kept and given back as its own text: no number is re-printed, no key is moved.

use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;
use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::limits::JSON_DEPTH_MAX;

/// Why a text is not JSON that we take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// It does not parse.
    #[error("{0}")]
    Syntax(String),
    /// It nests too deep.
    #[error("the JSON nests {depth} levels deep; the limit is {JSON_DEPTH_MAX}")]
    TooDeep {
        /// The level at which reading stopped.
        depth: usize,
    },
}

/// One JSON value as text. Cheap to clone; parsed only when somebody looks.
#[derive(Clone)]
pub struct JsonText(Arc<RawValue>);

impl JsonText {
    /// Takes a text that must be one JSON value.
    ///
    /// # Errors
    /// [`JsonError`] with line and column, or with the depth that is over the limit.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        check_depth(text)?;
        let raw: Box<RawValue> =
            serde_json::from_str(text).map_err(|error| JsonError::Syntax(error.to_string()))?;
        Ok(Self(raw.into()))
    }

    /// The JSON of a value.
    ///
    /// # Errors
    /// [`JsonError`] if the value has no JSON form (a map whose keys are no strings) or nests too deep.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, JsonError> {
        let raw =
            serde_json::value::to_raw_value(value).map_err(|error| JsonError::Syntax(error.to_string()))?;
        check_depth(raw.get())?;
        Ok(Self(raw.into()))
    }

    /// The JSON of a string.
    pub fn string(text: &str) -> Self {
        Self::from(Value::String(text.to_owned()))
    }

    /// `null`.
    pub fn null() -> Self {
        Self(RawValue::NULL.to_owned().into())
    }

    /// `{}`.
    pub fn empty_object() -> Self {
        Self::from(Value::Object(serde_json::Map::new()))
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        self.as_str() == "null"
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        self.as_str().starts_with('{')
    }

    /// Parsed, with numbers of any size and precision.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(self.as_str()).unwrap_or(Value::Null)
    }

    /// The string, if it is one.
    pub fn to_str(&self) -> Option<String> {
        serde_json::from_str(self.as_str()).ok()
    }

    /// Read as `T`.
    ///
    /// # Errors
    /// [`JsonError::Syntax`] saying what was expected.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        serde_json::from_str(self.as_str()).map_err(|error| JsonError::Syntax(error.to_string()))
    }

    /// The JSON of one of our own models, whose free-form pieces were each bounded when they came in. The
    /// whole is not bounded again: what a task holds must be printable, however it was put together.
    pub fn of_model<T: Serialize + ?Sized>(value: &T) -> Self {
        serde_json::value::to_raw_value(value).map_or_else(|_| Self::null(), |raw| Self(raw.into()))
    }
}

/// Bounds nesting without recursion, so that a hostile text cannot exhaust a stack.
fn check_depth(text: &str) -> Result<(), JsonError> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > JSON_DEPTH_MAX {
                    return Err(JsonError::TooDeep { depth });
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

impl From<Value> for JsonText {
    fn from(value: Value) -> Self {
        let text = value.to_string();
        RawValue::from_string(text).map_or_else(|_| Self::null(), |raw| Self(raw.into()))
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
        check_depth(raw.get()).map_err(D::Error::custom)?;
        Ok(Self(raw.into()))
    }
}

/// A JSON object whose keys keep their order and whose values keep their text. A repeated key keeps its
/// first place and its last value, as Python's does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JsonObject(IndexMap<String, JsonText>);

impl JsonObject {
    /// No key.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&JsonText> {
        self.0.get(key)
    }

    /// Sets `key`, in its place if it has one, else at the end.
    pub fn set(&mut self, key: impl Into<String>, value: JsonText) {
        self.0.insert(key.into(), value);
    }

    /// Takes `key` out.
    pub fn remove(&mut self, key: &str) -> Option<JsonText> {
        self.0.shift_remove(key)
    }

    /// Sets every key of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (key, value) in &other.0 {
            self.set(key.clone(), value.clone());
        }
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &JsonText)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// How many keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As text.
    pub fn to_text(&self) -> JsonText {
        JsonText::of(self).unwrap_or_else(|_| JsonText::empty_object())
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
        assert_eq!(
            JsonText::parse(&nested(129)),
            Err(JsonError::TooDeep { depth: 129 })
        );
        assert!(JsonText::parse(&format!("\"{}\\\"{}\"", "[".repeat(300), "{".repeat(300))).is_ok());
    }

    #[test]
    fn a_repeated_key_keeps_its_first_place_and_last_value() {
        let object: JsonObject = serde_json::from_str(r#"{"a":1,"b":2,"a":3}"#).unwrap();
        assert_eq!(serde_json::to_string(&object).unwrap(), r#"{"a":3,"b":2}"#);
    }
}
