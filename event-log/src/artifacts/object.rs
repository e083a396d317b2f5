//! Minimized objects: all keys stand, long strings are cut, lists are summarized.

use proto_events::json::{JsonMap, JsonValue as Value};
use proto_events::model::python_json::line_characters;

use crate::artifacts::column::Samples;
use crate::artifacts::key::escaped;
use crate::artifacts::shortened::shortened;
use crate::artifacts::summary::{table_with, values_with};

/// The nesting at which an object's values are left out.
const DEPTH_MAX: usize = 10;

/// Returns an object's minimized form.
pub(super) fn minimized_object(fields: &JsonMap, string_length: usize, samples: Samples) -> JsonMap {
    Walk { string_length, samples }.object(fields, 0, Some(""))
}

/// The bytes of the keys from which on a list does not name its path.
const PATH_BYTES_MAX: usize = 4_096;

#[derive(Debug, Clone, Copy)]
struct Walk {
    string_length: usize,
    samples: Samples,
}

impl Walk {
    fn object(self, fields: &JsonMap, depth: usize, path: Option<&str>) -> JsonMap {
        let member = |(key, value): (&String, &Value)| {
            let path = path.and_then(|path| path_of(path, key));
            (key.clone(), self.value(value, depth + 1, path.as_deref()))
        };
        fields.iter().map(member).collect()
    }

    fn value(self, value: &Value, depth: usize, path: Option<&str>) -> Value {
        if depth > DEPTH_MAX {
            return "...".into();
        }
        match value {
            Value::String(text) => {
                shortened(text, self.string_length).map_or_else(|| value.clone(), Value::from)
            }
            Value::Object(fields) => self.object(fields, depth, path).into(),
            Value::Array(items) => self.list(value, items, path),
            other => other.clone(),
        }
    }

    fn list(self, list: &Value, items: &[Value], path: Option<&str>) -> Value {
        let mut summary = match items.first() {
            None => return list.clone(),
            Some(Value::Object(_)) => {
                described("_total_rows", "_columns", items, table_with(items, self.samples))
            }
            Some(_) => described("_total_items", "_summary", items, values_with(items, self.samples)),
        };
        if let Some(path) = path.filter(|path| !path.is_empty()) {
            summary.insert("_json_path", path.into());
        }
        let summary = Value::from(summary);
        if self.samples == Samples::Whole && line_characters(&summary) > line_characters(list) {
            return list.clone();
        }
        summary
    }
}

/// Returns the path of a member of the object at `path`; none if it is too long. Each member has a path of its own: under a
/// key of a megabyte they would fill the memory.
fn path_of(path: &str, key: &str) -> Option<String> {
    let is_short = path.len() + key.len() < PATH_BYTES_MAX;
    is_short.then(|| if path.is_empty() { escaped(key) } else { format!("{path}.{}", escaped(key)) })
}

/// Returns a list's summary with the number of its items.
pub(super) fn described(total: &str, content: &str, items: &[Value], summary: Value) -> JsonMap {
    JsonMap::from_iter([(total, Value::from(items.len())), (content, summary)])
}
