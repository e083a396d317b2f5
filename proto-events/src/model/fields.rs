//! Reading of a model's keys from an object, with the defaults and coercions of Protolink's `from_dict`.

use crate::json::{JsonObject, JsonText};
use crate::model::error::ModelError;
use crate::model::python;

/// The keys of an object from which a model is read.
pub(crate) struct ModelFields(JsonObject);

impl ModelFields {
    /// Reads the keys of an object.
    pub(crate) fn from_json(json: &JsonText) -> Result<Self, ModelError> {
        if !json.is_object() {
            return Err(expected("", "an object", json));
        }
        Ok(Self(json.read()?))
    }

    /// Reads the keys of an object; a value that is false in Python has no keys.
    pub(crate) fn of_optional(json: &JsonText) -> Result<Self, ModelError> {
        if python::truthy(json) { Self::from_json(json) } else { Ok(Self(JsonObject::new())) }
    }

    /// Returns the value of `key`, null included.
    pub(crate) fn get(&self, key: &str) -> Option<&JsonText> {
        self.0.get(key)
    }

    /// Returns the value of `key`, unless it is false in Python.
    pub(crate) fn truthy(&self, key: &str) -> Option<&JsonText> {
        self.get(key).filter(|value| python::truthy(value))
    }

    /// Returns the value of `key`; null if absent.
    pub(crate) fn any(&self, key: &str) -> JsonText {
        self.get(key).cloned().unwrap_or_default()
    }

    /// Returns the value of a required key.
    pub(crate) fn required(&self, key: &str) -> Result<&JsonText, ModelError> {
        self.get(key).ok_or_else(|| ModelError::Missing { key: key.to_owned() })
    }

    /// Reads a string; `default` if absent.
    pub(crate) fn text_or(&self, key: &str, default: impl FnOnce() -> String) -> Result<String, ModelError> {
        self.get(key).map_or_else(|| Ok(default()), |value| string(key, value))
    }

    /// Reads a string or null; `default` if absent, `None` for an explicit null.
    pub(crate) fn nullable_or(
        &self,
        key: &str,
        default: impl FnOnce() -> String,
    ) -> Result<Option<String>, ModelError> {
        match self.get(key) {
            None => Ok(Some(default())),
            Some(value) if value.is_null() => Ok(None),
            Some(value) => string(key, value).map(Some),
        }
    }

    /// Returns Python's `str` of the value; `None` if absent or null.
    pub(crate) fn coerced(&self, key: &str) -> Option<String> {
        self.get(key).filter(|value| !value.is_null()).map(python::text)
    }

    /// Returns Python's `str` of the value; `None` if it is false in Python.
    pub(crate) fn coerced_truthy(&self, key: &str) -> Option<String> {
        self.truthy(key).map(python::text)
    }

    /// Returns Python's `bool` of the value; false if absent.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.truthy(key).is_some()
    }

    /// Returns Python's `int` of the value; `default` if absent.
    pub(crate) fn int_or(&self, key: &str, default: i64) -> Result<i64, ModelError> {
        self.get(key).map_or(Ok(default), |value| python::int(value, key))
    }

    /// Returns Python's `int` of the value; `None` if absent or null.
    pub(crate) fn optional_int(&self, key: &str) -> Result<Option<i64>, ModelError> {
        self.get(key).filter(|value| !value.is_null()).map(|value| python::int(value, key)).transpose()
    }

    /// Reads an object; empty if absent or false in Python.
    pub(crate) fn object(&self, key: &str) -> Result<JsonObject, ModelError> {
        match self.truthy(key) {
            None => Ok(JsonObject::new()),
            Some(value) if value.is_object() => Ok(value.read()?),
            Some(value) => Err(expected(key, "an object", value)),
        }
    }

    /// Reads the items of an array; empty if absent.
    pub(crate) fn list(&self, key: &str) -> Result<Vec<JsonText>, ModelError> {
        self.get(key).map_or_else(|| Ok(Vec::new()), |value| items(key, value))
    }

    /// Reads the items of an array; empty if absent or false in Python.
    pub(crate) fn optional_list(&self, key: &str) -> Result<Vec<JsonText>, ModelError> {
        self.truthy(key).map_or_else(|| Ok(Vec::new()), |value| items(key, value))
    }

    /// Reads the texts of an array; a string is read as an array of one.
    pub(crate) fn texts(&self, key: &str) -> Result<Vec<String>, ModelError> {
        match self.truthy(key) {
            Some(value) if value.as_str().starts_with('"') => Ok(vec![string(key, value)?]),
            _ => Ok(self.optional_list(key)?.iter().map(python::text).collect()),
        }
    }

    /// Reads the models of an array with `read`; errors name the item.
    pub(crate) fn models<T>(
        &self,
        key: &str,
        read: impl FnMut(&JsonText) -> Result<T, ModelError>,
    ) -> Result<Vec<T>, ModelError> {
        models(key, &self.list(key)?, read)
    }

    /// Returns every key except those in `known`, in order.
    pub(crate) fn others<'a>(&'a self, known: &'a [&str]) -> impl Iterator<Item = (&'a str, &'a JsonText)> {
        self.0.iter().filter(|(key, _)| !known.contains(key))
    }
}

/// Reads every item of an array; errors name the item.
pub(crate) fn models<T>(
    key: &str,
    items: &[JsonText],
    mut read: impl FnMut(&JsonText) -> Result<T, ModelError>,
) -> Result<Vec<T>, ModelError> {
    items
        .iter()
        .enumerate()
        .map(|(at, item)| read(item).map_err(|error| error.within(&format!("{key}[{at}]"))))
        .collect()
}

/// Reads `value`, which must be a string.
pub(crate) fn string(key: &str, value: &JsonText) -> Result<String, ModelError> {
    value.to_str().ok_or_else(|| {
        // A string that does not parse can only hold half of a surrogate pair.
        let valid = if python::kind(value) == "a string" {
            "a string without unpaired surrogates"
        } else {
            "a string"
        };
        expected(key, valid, value)
    })
}

fn items(key: &str, value: &JsonText) -> Result<Vec<JsonText>, ModelError> {
    if value.as_str().starts_with('[') { Ok(value.read()?) } else { Err(expected(key, "an array", value)) }
}

/// Returns the error for a value of another type.
pub(crate) fn expected(field: &str, expected: &'static str, found: &JsonText) -> ModelError {
    ModelError::Expected { field: field.to_owned(), expected, found: python::kind(found) }
}
