//! The statistics of a list of values, taken in one pass and grouped by type.

use proto_events::json::{JsonMap, JsonValue as Value};
use proto_events::model::python_json::python_json;

use crate::artifacts::characters::characters;
use crate::artifacts::shortened::shortened;
use crate::artifacts::spread::{Spread, rounded};
use crate::artifacts::unique::Unique;

/// The characters that a sample keeps where samples are shortened.
const SAMPLE_CHARACTERS: usize = 100;

/// The detail of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Samples {
    /// Samples stand whole, and a list stands instead of its summary if it is not larger.
    Whole,
    /// Samples are shortened, and a summary always stands.
    Short,
}

/// The values of one type.
#[derive(Debug)]
struct Group<'a> {
    kind: &'static str,
    count: usize,
    sample: &'a Value,
    spread: Spread<'a>,
}

/// The statistics of the values added so far.
#[derive(Debug, Default)]
pub(super) struct Column<'a> {
    count: usize,
    /// The characters of the values as items of a list on one line, without brackets and separators.
    characters: usize,
    unique: Unique<'a>,
    groups: Vec<Group<'a>>,
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_float() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

impl<'a> Column<'a> {
    /// Adds a value whose JSON on one line has this number of characters.
    pub(super) fn add(&mut self, value: &'a Value, line_characters: usize) {
        self.count += 1;
        self.characters += line_characters;
        self.unique.add(value);
        let kind = kind(value);
        let at = self.groups.iter().position(|group| group.kind == kind).unwrap_or(self.groups.len());
        if at == self.groups.len() {
            self.groups.push(Group { kind, count: 0, sample: value, spread: Spread::default() });
        }
        let group = self.groups.get_mut(at).expect("the group was found or added above");
        group.count += 1;
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => group.spread.add_number(number),
            Value::String(text) => group.spread.add_count(characters(text)),
            Value::Array(items) => group.spread.add_count(items.len()),
            Value::Object(_) => group.spread.add_count(line_characters),
        }
    }

    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Returns the characters of the values as a list on one line.
    pub(super) fn list_characters(&self) -> usize {
        2 + self.characters + 2 * self.count.saturating_sub(1)
    }

    /// Returns the statistics.
    pub(super) fn summary(&self, samples: Samples) -> JsonMap {
        let mut summary = JsonMap::new();
        summary.insert("count", self.count.into());
        if self.count == 0 {
            summary.insert("types", Value::Array(Vec::new()));
            return summary;
        }
        summary.insert("unique_count", self.unique.count().into());
        let mut groups: Vec<&Group<'_>> = self.groups.iter().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        let types = groups.into_iter().map(|group| Value::from(group.entry(self.count, samples)));
        summary.insert("types", types.collect());
        summary
    }
}

impl Group<'_> {
    fn entry(&self, of: usize, samples: Samples) -> JsonMap {
        let mut entry = JsonMap::new();
        entry.insert("name", self.kind.into());
        entry.insert("count", self.count.into());
        if let Some(percentage) = rounded(percentage(self.count, of), 1) {
            entry.insert("percentage", Value::Number(percentage));
        }
        entry.insert("sample_value", sample(self.sample, samples));
        let prefix = match self.kind {
            "object" => "json_length_",
            "int" | "float" => "",
            _ => "length_",
        };
        self.spread.write(&mut entry, prefix);
        entry
    }
}

#[allow(clippy::cast_precision_loss, reason = "a count of values is far below 2^53")]
fn percentage(count: usize, of: usize) -> f64 {
    (count as f64 / of as f64) * 100.0
}

fn sample(value: &Value, samples: Samples) -> Value {
    if samples == Samples::Whole {
        return value.clone();
    }
    let text = match value {
        Value::String(text) => text.clone(),
        other => python_json(other),
    };
    match shortened(&text, SAMPLE_CHARACTERS) {
        Some(short) => short.into(),
        None => value.clone(),
    }
}
