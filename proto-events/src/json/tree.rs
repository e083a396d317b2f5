//! A JSON value as a tree whose numbers keep their text and whose objects keep the order of their keys.
//! `serde_json::Value` does neither unless features are turned on that change it for the whole program, so a
//! library must not rely on it.

use std::ops::{Index, IndexMut};

use indexmap::IndexMap;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::json::number::JsonNumber;

/// A JSON value as a tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum JsonValue {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as its text.
    Number(JsonNumber),
    /// A string, without its escapes.
    String(String),
    /// An array.
    Array(Vec<JsonValue>),
    /// An object.
    Object(JsonMap),
}

impl JsonValue {
    /// Returns the member of an object; `None` if it is absent or the value is not an object.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_object()?.get(key)
    }

    /// Returns a mutable reference to the member of an object.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        self.as_object_mut()?.get_mut(key)
    }

    /// Returns the value at a JSON Pointer (RFC 6901).
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        if pointer.is_empty() {
            return Some(self);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self, |at, token| {
            let token = token.replace("~1", "/").replace("~0", "~");
            match at {
                Self::Object(fields) => fields.get(&token),
                Self::Array(items) => items.get(token.parse::<usize>().ok()?),
                _ => None,
            }
        })
    }

    /// Returns the value at a JSON Pointer (RFC 6901), mutably.
    pub fn pointer_mut(&mut self, pointer: &str) -> Option<&mut Self> {
        if pointer.is_empty() {
            return Some(self);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self, |at, token| {
            let token = token.replace("~1", "/").replace("~0", "~");
            match at {
                Self::Object(fields) => fields.get_mut(&token),
                Self::Array(items) => items.get_mut(token.parse::<usize>().ok()?),
                _ => None,
            }
        })
    }

    /// Whether the value is `null`.
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether the value is a string.
    pub const fn is_string(&self) -> bool {
        matches!(self, Self::String(_))
    }

    /// Whether the value is a number.
    pub const fn is_number(&self) -> bool {
        matches!(self, Self::Number(_))
    }

    /// Whether the value is an array.
    pub const fn is_array(&self) -> bool {
        matches!(self, Self::Array(_))
    }

    /// Whether the value is an object.
    pub const fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// Returns the flag, if the value is one.
    pub const fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(flag) = self { Some(*flag) } else { None }
    }

    /// Returns the string, if the value is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// Returns the number, if the value is one.
    pub const fn as_number(&self) -> Option<&JsonNumber> {
        if let Self::Number(number) = self { Some(number) } else { None }
    }

    /// Returns the number as an unsigned integer, if it is one that fits.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_number()?.as_u64()
    }

    /// Returns the number as a signed integer, if it is one that fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number()?.as_i64()
    }

    /// Returns the number as a float, if the value is a number; it may be rounded.
    pub fn as_f64(&self) -> Option<f64> {
        self.as_number()?.as_f64()
    }

    /// Returns the items of an array.
    pub const fn as_array(&self) -> Option<&Vec<Self>> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// Returns the items of an array, mutably.
    pub const fn as_array_mut(&mut self) -> Option<&mut Vec<Self>> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// Returns the members of an object.
    pub const fn as_object(&self) -> Option<&JsonMap> {
        if let Self::Object(fields) = self { Some(fields) } else { None }
    }

    /// Returns the members of an object, mutably.
    pub const fn as_object_mut(&mut self) -> Option<&mut JsonMap> {
        if let Self::Object(fields) = self { Some(fields) } else { None }
    }

    /// Returns the value and leaves `null` in its place.
    #[must_use]
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

impl Serialize for JsonValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(flag) => serializer.serialize_bool(*flag),
            Self::Number(number) => match number.as_i64() {
                // `-0` is an integer whose sign an `i64` does not keep.
                Some(whole) if whole != 0 || number.as_str() == "0" => serializer.serialize_i64(whole),
                _ => RawValue::from_string(number.as_str().to_owned())
                    .map_err(S::Error::custom)?
                    .serialize(serializer),
            },
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => items.serialize(serializer),
            Self::Object(fields) => fields.serialize(serializer),
        }
    }
}

static NULL: JsonValue = JsonValue::Null;

impl Index<&str> for JsonValue {
    type Output = Self;

    /// Returns the member of an object; `null` without it.
    fn index(&self, key: &str) -> &Self {
        self.get(key).unwrap_or(&NULL)
    }
}

impl Index<usize> for JsonValue {
    type Output = Self;

    /// Returns the item of an array; `null` without it.
    fn index(&self, at: usize) -> &Self {
        self.as_array().and_then(|items| items.get(at)).unwrap_or(&NULL)
    }
}

impl IndexMut<&str> for JsonValue {
    /// Returns the member of an object, which is added as `null` if it is absent; a value that is not an object
    /// becomes one.
    fn index_mut(&mut self, key: &str) -> &mut Self {
        if !self.is_object() {
            *self = Self::Object(JsonMap::new());
        }
        match self {
            Self::Object(fields) => fields.get_or_insert_null(key),
            other => other,
        }
    }
}

/// The members of a JSON object, in the order in which they were set. Two objects are equal if they have the
/// same members in any order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JsonMap(IndexMap<String, JsonValue>);

impl JsonMap {
    /// Returns an object without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<&JsonValue> {
        self.0.get(key)
    }

    /// Returns a key as it is kept, and its value.
    pub fn get_key_value(&self, key: &str) -> Option<(&String, &JsonValue)> {
        self.0.get_key_value(key)
    }

    /// Returns the value of `key`, mutably.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut JsonValue> {
        self.0.get_mut(key)
    }

    /// Returns the value of `key`, which is added as `null` if it is absent.
    pub fn get_or_insert_null(&mut self, key: &str) -> &mut JsonValue {
        self.0.entry(key.to_owned()).or_default()
    }

    /// Whether the object has this key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Sets `key`, in its place if it exists, otherwise at the end; returns the previous value.
    pub fn insert(&mut self, key: impl Into<String>, value: JsonValue) -> Option<JsonValue> {
        self.0.insert(key.into(), value)
    }

    /// Sets `key`, unless the object has it.
    pub fn insert_if_absent(&mut self, key: impl Into<String>, value: impl Into<JsonValue>) {
        self.0.entry(key.into()).or_insert_with(|| value.into());
    }

    /// Removes `key` and returns its value; the other members keep their order.
    pub fn remove(&mut self, key: &str) -> Option<JsonValue> {
        self.0.shift_remove(key)
    }

    /// Keeps the members for which the function returns true.
    pub fn retain(&mut self, keep: impl FnMut(&String, &mut JsonValue) -> bool) {
        self.0.retain(keep);
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the object has no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the members in order.
    pub fn iter(&self) -> indexmap::map::Iter<'_, String, JsonValue> {
        self.0.iter()
    }

    /// Iterates over the keys in order.
    pub fn keys(&self) -> indexmap::map::Keys<'_, String, JsonValue> {
        self.0.keys()
    }

    /// Iterates over the values in order.
    pub fn values(&self) -> indexmap::map::Values<'_, String, JsonValue> {
        self.0.values()
    }

    /// Iterates over the values in order, mutably.
    pub fn values_mut(&mut self) -> indexmap::map::ValuesMut<'_, String, JsonValue> {
        self.0.values_mut()
    }
}

impl Serialize for JsonMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self)
    }
}

impl<K: Into<String>, V: Into<JsonValue>> FromIterator<(K, V)> for JsonMap {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        Self(members.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}

impl Extend<(String, JsonValue)> for JsonMap {
    fn extend<I: IntoIterator<Item = (String, JsonValue)>>(&mut self, members: I) {
        self.0.extend(members);
    }
}

impl IntoIterator for JsonMap {
    type Item = (String, JsonValue);
    type IntoIter = indexmap::map::IntoIter<String, JsonValue>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a JsonMap {
    type Item = (&'a String, &'a JsonValue);
    type IntoIter = indexmap::map::Iter<'a, String, JsonValue>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
