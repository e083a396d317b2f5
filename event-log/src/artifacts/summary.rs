//! Summaries of lists: of their values, and of the columns of their objects.

use std::collections::HashMap;

use proto_events::json::{JsonMap, JsonValue as Value};
use proto_events::model::python_json::{line_characters, text_characters};

use crate::artifacts::column::{Column, Samples};

/// The characters around the name and the values of a column that stands as it is: `{"name": "n", "values": []}` without both.
const RAW_CHARACTERS: usize = r#"{"name": , "values": }"#.len();

/// The characters between the name and the statistics of a column.
const NAME_CHARACTERS: usize = r#", "name": "#.len();

/// The form in which a list is shown.
#[derive(Debug)]
pub(super) enum Form {
    /// The statistics.
    Summary(Value),
    /// The list itself: the statistics are larger.
    List,
    /// Neither: the statistics are larger than may be shown.
    TooLarge,
}

impl Form {
    /// Returns the statistics, or a copy of the list.
    fn or(self, list: &[Value]) -> Value {
        match self {
            Self::Summary(summary) => summary,
            Self::List | Self::TooLarge => Value::Array(list.to_vec()),
        }
    }
}

/// Returns the statistics of a list's values, or the list itself if it is not larger.
pub(super) fn values_or_summary(values: &[Value]) -> Value {
    values_with(values, Samples::Whole).or(values)
}

/// Returns the statistics of a list's values.
pub(super) fn values_with(values: &[Value], samples: Samples) -> Form {
    let mut column = Column::default();
    for value in values {
        column.add(value, line_characters(value));
    }
    column.summary(samples).map_or(Form::List, |(summary, _)| Form::Summary(summary.into()))
}

/// Returns the statistics of each column, or the rows themselves if they are not larger.
pub(super) fn table(rows: &[Value]) -> Value {
    table_with(rows, Samples::Whole, usize::MAX).or(rows)
}

/// Returns the statistics of each column, if they have at most `most` characters. A table may have a column for each row, whose
/// statistics take many times its memory: they are dropped as soon as they are larger than what may be shown.
pub(super) fn table_with(rows: &[Value], samples: Samples, most: usize) -> Form {
    let columns = Columns::of(rows);
    let bound = if samples == Samples::Whole { columns.rows_characters.min(most) } else { most };
    match columns.summaries(rows, samples, bound) {
        Some(summaries) => Form::Summary(Value::Array(summaries)),
        None if samples == Samples::Whole && columns.rows_characters <= most => Form::List,
        None => Form::TooLarge,
    }
}

/// The columns of a list, in the order in which the rows name them first.
#[derive(Debug, Default)]
struct Columns<'a> {
    in_order: Vec<Named<'a>>,
    at: HashMap<&'a str, usize>,
    /// The characters of the rows as a list on one line.
    rows_characters: usize,
}

/// A column with its name.
#[derive(Debug)]
struct Named<'a> {
    name: &'a str,
    /// The characters of the name in JSON.
    characters: usize,
    column: Column<'a>,
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
            if let Some(Named { characters, column, .. }) = self.in_order.get_mut(at) {
                column.add(value, size);
                row += *characters + 2 + size;
            }
        }
        row
    }

    /// Returns the place of a column; it is looked for first where the row has it, since rows mostly have the same keys
    /// in the same order.
    fn index(&mut self, name: &'a str, expected: usize) -> usize {
        if self.in_order.get(expected).is_some_and(|column| column.name == name) {
            return expected;
        }
        let next = self.in_order.len();
        let at = *self.at.entry(name).or_insert(next);
        if at == next {
            self.in_order.push(Named { name, characters: text_characters(name), column: Column::default() });
        }
        at
    }

    /// Returns the entries of the columns, if together they have at most `most` characters on one line.
    fn summaries(&self, rows: &[Value], samples: Samples, most: usize) -> Option<Vec<Value>> {
        let mut characters = 2 + 2 * self.in_order.len().saturating_sub(1);
        let mut entries = Vec::new();
        let mut raw: HashMap<&str, Vec<Value>> = HashMap::new();
        for Named { name, characters: of_name, column } in &self.in_order {
            let summary = column.summary(samples);
            characters += of_name + match &summary {
                Some((_, own)) => NAME_CHARACTERS + own,
                None => RAW_CHARACTERS + column.list_characters(),
            };
            if characters > most {
                return None;
            }
            if summary.is_none() {
                raw.insert(name, Vec::new());
            }
            entries.push(summary.map(|(mut summary, _)| {
                summary.insert("name", (*name).into());
                summary
            }));
        }
        collect_values(rows, &mut raw);
        let with_values = |name: &str, raw: &mut HashMap<&str, Vec<Value>>| {
            let values = raw.remove(name).unwrap_or_default();
            JsonMap::from_iter([("name", Value::from(name)), ("values", Value::Array(values))])
        };
        let mut all = Vec::with_capacity(entries.len());
        for (Named { name, .. }, entry) in self.in_order.iter().zip(entries) {
            all.push(Value::from(entry.unwrap_or_else(|| with_values(name, &mut raw))));
        }
        Some(all)
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
