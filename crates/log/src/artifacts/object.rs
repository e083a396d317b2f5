//! Minimized objects: all keys stand, long strings are cut, lists are summarized.

use std::cell::Cell;

use proto_events::json::{JsonMap, JsonValue as Value};
use proto_events::model::python_json::line_characters;

use crate::artifacts::column::Samples;
use crate::artifacts::key::escaped;
use crate::artifacts::short_texts::shortened;
use crate::artifacts::summary::{ListForm, Statistics};

/// The nesting at which an object's values are left out.
const DEPTH_MAX: usize = 10;

/// The bytes of the keys from which on a list does not name its path: under a key of a megabyte the paths of many lists would
/// fill the memory.
const PATH_BYTES_MAX: usize = 4_096;

/// Returns an object's minimized form; `None` if the summaries of its lists have more characters than may be shown.
pub(super) fn minimized_object(
    fields: &JsonMap,
    string_length: usize,
    samples: Samples,
    most: usize,
) -> Option<JsonMap> {
    let walk = ObjectWalk { string_length, samples, left: Cell::new(Some(most)) };
    let minimized = walk.object(fields, 0, &Path::Root);
    walk.left.get().map(|_| minimized)
}

#[derive(Debug)]
struct ObjectWalk {
    string_length: usize,
    samples: Samples,
    /// The characters that the summaries of further lists may have; absent once they are exceeded.
    left: Cell<Option<usize>>,
}

/// The keys that lead to a value.
#[derive(Debug)]
enum Path<'a> {
    Root,
    Key(&'a str, &'a Path<'a>),
}

impl Path<'_> {
    /// Returns the path as a view takes it; `None` if it is too long, or if it is that of the empty key alone, since an empty
    /// path is the whole value.
    fn written(&self) -> Option<String> {
        let (mut keys, mut bytes, mut at) = (Vec::new(), 0, self);
        while let Self::Key(key, above) = at {
            bytes += key.len();
            keys.push(*key);
            at = above;
        }
        if bytes >= PATH_BYTES_MAX {
            return None;
        }
        let last = keys.first().copied().unwrap_or_default();
        let mut written = String::new();
        for (at, key) in keys.iter().rev().enumerate() {
            if at > 0 {
                written.push('.');
            }
            written.push_str(&escaped(key));
        }
        let above = written.len() - escaped(last).len() - usize::from(keys.len() > 1);
        Some(written).filter(|written| !written.is_empty() && above + last.len() < PATH_BYTES_MAX)
    }
}

impl ObjectWalk {
    fn object(&self, fields: &JsonMap, depth: usize, path: &Path<'_>) -> JsonMap {
        let member = |(key, value): (&String, &Value)| {
            (key.clone(), self.value(value, depth + 1, &Path::Key(key, path)))
        };
        fields.iter().map(member).collect()
    }

    fn value(&self, value: &Value, depth: usize, path: &Path<'_>) -> Value {
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

    fn list(&self, list: &Value, items: &[Value], path: &Path<'_>) -> Value {
        if items.is_empty() {
            return list.clone();
        }
        let Some(left) = self.left.get() else { return Value::Null };
        let mut summary = match described(items, &Statistics::from_items(items), self.samples, left) {
            ItemsForm::Summary(summary) => summary,
            ItemsForm::List => return list.clone(),
            ItemsForm::TooLarge => {
                self.left.set(None);
                return Value::Null;
            }
        };
        if let Some(path) = path.written() {
            summary.insert("_json_path", path.into());
        }
        let summary = Value::from(summary);
        let characters = line_characters(&summary);
        if self.samples == Samples::Whole && characters > line_characters(list) {
            return list.clone();
        }
        self.left.set(left.checked_sub(characters));
        summary
    }
}

/// The form of a list that has items.
#[derive(Debug)]
pub(super) enum ItemsForm {
    /// The number of the items, and their statistics.
    Summary(JsonMap),
    /// The list itself, since its statistics are larger.
    List,
    /// Neither, since the statistics are larger than may be shown.
    TooLarge,
}

/// Returns a list's summary with the number of its items, if the summary has at most `most` characters.
pub(super) fn described(
    items: &[Value],
    statistics: &Statistics<'_>,
    samples: Samples,
    most: usize,
) -> ItemsForm {
    let (total, content) = match statistics {
        Statistics::Table(_) => ("_total_rows", "_columns"),
        Statistics::Values(_) => ("_total_items", "_summary"),
    };
    match statistics.form(items, samples, most) {
        ListForm::Summary(summary) => {
            ItemsForm::Summary(JsonMap::from_iter([(total, Value::from(items.len())), (content, summary)]))
        }
        ListForm::List => ItemsForm::List,
        ListForm::TooLarge => ItemsForm::TooLarge,
    }
}
