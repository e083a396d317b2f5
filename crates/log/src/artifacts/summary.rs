//! Summaries of lists: of their values, and of the columns of their objects.

use std::collections::HashMap;

use proto_events::json::{JsonMap, JsonValue as Value};
use proto_events::model::python_json::{line_characters, text_characters};

use crate::artifacts::column::{Column, STATISTICS_CHARACTERS_MIN, Samples};

/// The characters around the name and the values of a column that stands as it is: `{"name": "n", "values": []}` without both.
const RAW_CHARACTERS: usize = r#"{"name": , "values": }"#.len();

/// The characters between the name and the statistics of a column.
const NAME_CHARACTERS: usize = r#", "name": "#.len();

/// The form in which a list is shown.
#[derive(Debug)]
pub(super) enum ListForm {
    /// The statistics.
    Summary(Value),
    /// The list itself: the statistics are larger.
    List,
    /// Neither: the statistics are larger than may be shown.
    TooLarge,
}

impl ListForm {
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
    let form = values_of(values).form(Samples::Whole);
    form.or(values)
}

/// Returns the statistics of each column, or the rows themselves if they are not larger.
pub(super) fn table(rows: &[Value]) -> Value {
    // The statistics are gone before the rows are copied.
    let form = ListColumns::from_rows(rows).form(rows, Samples::Whole, usize::MAX);
    form.or(rows)
}

fn values_of(values: &[Value]) -> Column<'_> {
    let mut column = Column::default();
    for value in values {
        column.add(value, line_characters(value));
    }
    column
}

/// The statistics of a list, of which several forms can be made.
#[derive(Debug)]
pub(super) enum Statistics<'a> {
    /// The statistics of each column of a list that begins with an object.
    Table(ListColumns<'a>),
    /// The statistics of the values of any other list.
    Values(Column<'a>),
}

impl<'a> Statistics<'a> {
    pub(super) fn from_items(items: &'a [Value]) -> Self {
        if items.first().is_some_and(Value::is_object) {
            Self::Table(ListColumns::from_rows(items))
        } else {
            Self::Values(values_of(items))
        }
    }

    /// Returns the form of the list, if as JSON on one line it has at most `most` characters.
    pub(super) fn form(&self, items: &[Value], samples: Samples, most: usize) -> ListForm {
        match self {
            Self::Table(columns) => columns.form(items, samples, most),
            Self::Values(column) => column.form(samples),
        }
    }
}

impl Column<'_> {
    fn form(&self, samples: Samples) -> ListForm {
        self.summary(samples).map_or(ListForm::List, |(summary, _)| ListForm::Summary(summary.into()))
    }
}

/// The columns of a list, in the order in which the rows name them first.
#[derive(Debug, Default)]
pub(super) struct ListColumns<'a> {
    in_order: Vec<NamedColumn<'a>>,
    at: HashMap<&'a str, usize>,
    /// The characters of the rows as a list on one line.
    rows_characters: usize,
}

/// A column with its name.
#[derive(Debug)]
struct NamedColumn<'a> {
    name: &'a str,
    /// The characters of the name in JSON.
    characters: usize,
    column: Column<'a>,
}

impl<'a> ListColumns<'a> {
    fn from_rows(rows: &'a [Value]) -> Self {
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
            if let Some(NamedColumn { characters, column, .. }) = self.in_order.get_mut(at) {
                column.add(value, size);
                row += *characters + 2 + size;
            }
        }
        row
    }

    fn is_at(&self, name: &str, place: usize) -> bool {
        self.in_order.get(place).is_some_and(|column| column.name == name)
    }

    /// Returns the place of a column; it is looked for first where the row has it, since rows mostly have the same keys
    /// in the same order.
    fn index(&mut self, name: &'a str, expected: usize) -> usize {
        if self.is_at(name, expected) {
            return expected;
        }
        let next = self.in_order.len();
        let at = *self.at.entry(name).or_insert(next);
        if at == next {
            self.in_order.push(NamedColumn {
                name,
                characters: text_characters(name),
                column: Column::default(),
            });
        }
        at
    }

    /// Returns the form of the table. A table may have a column for each row, whose statistics take many times its memory: they
    /// are dropped as soon as they are larger than what may be shown.
    fn form(&self, rows: &[Value], samples: Samples, most: usize) -> ListForm {
        let bound = if samples == Samples::Whole { self.rows_characters.min(most) } else { most };
        match self.summaries(rows, samples, bound) {
            Some(summaries) => ListForm::Summary(Value::Array(summaries)),
            None if samples == Samples::Whole && self.rows_characters <= most => ListForm::List,
            None => ListForm::TooLarge,
        }
    }

    /// Returns the entries of the columns, if together they have at most `most` characters on one line.
    fn summaries(&self, rows: &[Value], samples: Samples, most: usize) -> Option<Vec<Value>> {
        let mut characters = 2 + 2 * self.in_order.len().saturating_sub(1);
        let least = |NamedColumn { characters, column, .. }: &NamedColumn<'_>| {
            characters
                + (NAME_CHARACTERS + STATISTICS_CHARACTERS_MIN).min(RAW_CHARACTERS + column.list_characters())
        };
        if characters + self.in_order.iter().map(least).sum::<usize>() > most {
            return None;
        }
        let mut entries = Vec::with_capacity(self.in_order.len());
        for NamedColumn { name, characters: of_name, column } in &self.in_order {
            let entry = column.summary(samples);
            characters += of_name
                + match &entry {
                    Some((_, own)) => NAME_CHARACTERS + own,
                    None => RAW_CHARACTERS + column.list_characters(),
                };
            if characters > most {
                return None;
            }
            entries.push(match entry {
                Some((mut summary, _)) => {
                    summary.insert("name", (*name).into());
                    ColumnForm::Summary(summary)
                }
                None => ColumnForm::Values(Vec::with_capacity(column.len())),
            });
        }
        self.collect_values(rows, &mut entries);
        let entry = |(NamedColumn { name, .. }, entry): (&NamedColumn<'_>, ColumnForm)| match entry {
            ColumnForm::Summary(summary) => Value::from(summary),
            ColumnForm::Values(values) => {
                JsonMap::from_iter([("name", Value::from(*name)), ("values", values.into())]).into()
            }
        };
        Some(self.in_order.iter().zip(entries).map(entry).collect())
    }

    /// Collects the values of the columns that stand as they are, in one pass over the rows.
    fn collect_values(&self, rows: &[Value], entries: &mut [ColumnForm]) {
        if entries.iter().all(|entry| matches!(entry, ColumnForm::Summary(_))) {
            return;
        }
        for fields in rows.iter().filter_map(Value::as_object) {
            for (expected, (name, value)) in fields.iter().enumerate() {
                let place = if self.is_at(name, expected) {
                    Some(expected)
                } else {
                    self.at.get(name.as_str()).copied()
                };
                if let Some(ColumnForm::Values(values)) = place.and_then(|at| entries.get_mut(at)) {
                    values.push(value.clone());
                }
            }
        }
    }
}

/// The form of a column.
#[derive(Debug)]
enum ColumnForm {
    /// The statistics, with the name of the column.
    Summary(JsonMap),
    /// The values.
    Values(Vec<Value>),
}
