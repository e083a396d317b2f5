//! Summaries of lists: of their values, and of the columns of their objects.

use std::collections::HashMap;

use proto_events::json::{JsonMap, JsonValue as Value};
use proto_events::model::python_json::{line_characters, text_characters};

use crate::artifacts::column::{Column, Samples};

/// Returns the statistics of a list's values, or the list itself if it is not larger.
pub(super) fn values_or_summary(values: &[Value]) -> Value {
    values_with(values, Samples::Whole)
}

/// Returns the statistics of a list's values.
pub(super) fn values_with(values: &[Value], samples: Samples) -> Value {
    let mut column = Column::default();
    for value in values {
        column.add(value, line_characters(value));
    }
    let summary = Value::from(column.summary(samples));
    let guarded = samples == Samples::Whole && !values.is_empty();
    if guarded && line_characters(&summary) > column.list_characters() {
        return Value::Array(values.to_vec());
    }
    summary
}

/// Returns the statistics of each column, or the rows themselves if they are not larger.
pub(super) fn table(rows: &[Value]) -> Value {
    table_with(rows, Samples::Whole)
}

/// Returns the statistics of each column.
pub(super) fn table_with(rows: &[Value], samples: Samples) -> Value {
    let columns = Columns::of(rows);
    let summary = Value::Array(columns.summaries(rows, samples));
    if samples == Samples::Whole && line_characters(&summary) > columns.rows_characters {
        return Value::Array(rows.to_vec());
    }
    summary
}

/// The columns of a list, in the order in which the rows name them first.
#[derive(Debug, Default)]
struct Columns<'a> {
    in_order: Vec<(&'a str, Column<'a>)>,
    at: HashMap<&'a str, usize>,
    /// The characters of the rows as a list on one line.
    rows_characters: usize,
}

impl<'a> Columns<'a> {
    fn of(rows: &'a [Value]) -> Self {
        let mut columns = Self { rows_characters: 2 * rows.len().max(1), ..Self::default() };
        for row in rows {
            columns.rows_characters += match row {
                Value::Object(fields) => columns.add(fields),
                other => line_characters(other),
            };
        }
        columns
    }

    /// Adds a row and returns the characters of its JSON on one line.
    fn add(&mut self, fields: &'a JsonMap) -> usize {
        let mut row = 2 + 2 * fields.len().saturating_sub(1);
        for (expected, (name, value)) in fields.iter().enumerate() {
            let at = self.index(name, expected);
            let size = line_characters(value);
            if let Some((_, column)) = self.in_order.get_mut(at) {
                column.add(value, size);
            }
            row += text_characters(name) + 2 + size;
        }
        row
    }

    /// Returns the place of a column; it is looked for first where the row has it, since rows mostly have the same keys
    /// in the same order.
    fn index(&mut self, name: &'a str, expected: usize) -> usize {
        if self.in_order.get(expected).is_some_and(|(found, _)| *found == name) {
            return expected;
        }
        let next = self.in_order.len();
        let at = *self.at.entry(name).or_insert(next);
        if at == next {
            self.in_order.push((name, Column::default()));
        }
        at
    }

    fn summaries(&self, rows: &[Value], samples: Samples) -> Vec<Value> {
        let summaries = self.in_order.iter().map(|(name, column)| (*name, column, column.summary(samples)));
        let mut raw: HashMap<&str, Vec<Value>> = HashMap::new();
        let mut entries = Vec::with_capacity(self.in_order.len());
        for (name, column, summary) in summaries {
            let mut summary = Value::from(summary);
            if samples == Samples::Whole && line_characters(&summary) > column.list_characters() {
                raw.insert(name, Vec::with_capacity(column.len()));
            } else if let Some(entry) = summary.as_object_mut() {
                entry.insert("name", name.into());
            }
            entries.push((name, summary));
        }
        collect_values(rows, &mut raw);
        let entry = |(name, summary): (&str, Value)| match raw.remove(name) {
            Some(values) => {
                JsonMap::from_iter([("name", Value::from(name)), ("values", values.into())]).into()
            }
            None => summary,
        };
        entries.into_iter().map(entry).collect()
    }
}

/// Collects the values of the columns that stand as they are, in one pass over the rows.
fn collect_values(rows: &[Value], columns: &mut HashMap<&str, Vec<Value>>) {
    if columns.is_empty() {
        return;
    }
    for (name, value) in rows.iter().filter_map(Value::as_object).flatten() {
        if let Some(values) = columns.get_mut(name.as_str()) {
            values.push(value.clone());
        }
    }
}
