//! Data artifacts: a field, rows and columns of a JSON value.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use proto_events::json::{JsonMap, JsonValue as Value};
use proto_events::model::python_json::{
    indented_at, indented_characters, indented_list, indented_object, type_name,
};

use crate::artifacts::error::ArtifactError;
use crate::artifacts::limit::CharacterLimit;
use crate::artifacts::minimize::{MinimizeLimits, MinimizedValue, minimized, shown_text};
use crate::artifacts::path::value_at;
use crate::artifacts::rows::RowSelection;
use crate::artifacts::selection::ColumnSelection;
use crate::artifacts::summary::{table, values_or_summary};

/// The operations on data artifacts.
#[derive(Debug, Clone, Copy)]
pub struct DataArtifacts;

/// A part of a JSON value: the field at a path, and of a list its rows and columns; all of it by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DataSelection {
    /// The keys to enter, separated by dots; a dot inside a key is written `\.`.
    pub json_path: Option<String>,
    /// The rows of a list.
    pub rows: Option<RowSelection>,
    /// The columns of a list of objects.
    pub columns: Option<ColumnSelection>,
}

impl DataArtifacts {
    /// Returns the selected part of a value. A list is tabular if its first item is an object: each row keeps the
    /// columns that it has and that were asked for, and a row that is not an object is shown as it is.
    ///
    /// # Errors
    /// [`ArtifactError`] if a field, row or column does not exist, if rows or columns are asked of a value that has
    /// none, or if the selection as indented JSON has more characters than `limit`.
    pub fn view<'a>(
        data: &'a Value,
        selection: &DataSelection,
        limit: CharacterLimit,
    ) -> Result<Cow<'a, Value>, ArtifactError> {
        let data = value_at(data, selection.json_path.as_deref().unwrap_or_default())?;
        if selection.rows.is_none() && selection.columns.is_none() {
            let characters = indented_characters(data);
            return if characters > limit.get() {
                Err(ArtifactError::DataTooLong { characters, limit: limit.get() })
            } else {
                Ok(Cow::Borrowed(data))
            };
        }
        let Value::Array(items) = data else {
            return Err(ArtifactError::NotAList { kind: type_name(data) });
        };
        let selected = match items.first() {
            None => Err(ArtifactError::EmptyList),
            Some(Value::Object(_)) => rows_and_columns(items, selection, limit),
            Some(_) if selection.columns.is_some() => Err(ArtifactError::ColumnsOfBasicList),
            Some(_) => some_items(items, selection, limit),
        };
        selected.map(Cow::Owned)
    }

    /// Returns a value as it is if its indented JSON has at most as many characters as the limit, else a form that
    /// keeps its structure and summarizes its content, and that never exceeds the cap.
    pub fn minimize<'a>(data: &'a Value, options: &MinimizeLimits<'_>) -> MinimizedValue<'a> {
        minimized(data, options)
    }

    /// Returns statistics of a list's values by type, or the list itself if it is not larger.
    pub fn summarize_values(values: &[Value]) -> Value {
        values_or_summary(values)
    }

    /// Returns statistics of each column of a list of objects, or the list itself if it is not larger.
    pub fn summarize_table(rows: &[Value]) -> Value {
        table(rows)
    }

    /// Returns a value as the text in which it is shown where its structure is too large: JSON on indented lines,
    /// characters beyond ASCII as themselves.
    pub fn text(data: &Value) -> String {
        shown_text(data)
    }
}

fn selected_rows(items: &[Value], selection: &DataSelection) -> Result<Vec<usize>, ArtifactError> {
    selection
        .rows
        .as_ref()
        .map_or_else(|| Ok((0..items.len()).collect()), |rows| rows.row_numbers(items.len()))
}

/// Counts the characters of the selected items as an indented list, without building it: a selection may name a large
/// item a thousand times.
fn selected_characters(rows: &[usize], size: impl Fn(usize) -> usize) -> usize {
    let mut sizes = HashMap::new();
    indented_list(rows.iter().map(|row| *sizes.entry(*row).or_insert_with(|| size(*row))), 0)
}

fn some_items(
    items: &[Value],
    selection: &DataSelection,
    limit: CharacterLimit,
) -> Result<Value, ArtifactError> {
    let rows = selected_rows(items, selection)?;
    let size = |row: usize| items.get(row).map_or(0, |item| indented_at(item, 1));
    let characters = selected_characters(&rows, size);
    if characters > limit.get() {
        return Err(ArtifactError::ItemsTooLong { items: rows.len(), characters, limit: limit.get() });
    }
    Ok(rows.iter().filter_map(|row| items.get(*row)).cloned().collect())
}

fn rows_and_columns(
    items: &[Value],
    selection: &DataSelection,
    limit: CharacterLimit,
) -> Result<Value, ArtifactError> {
    let rows = selected_rows(items, selection)?;
    let available = column_names(items);
    let all = ColumnSelection::All;
    let columns = selection.columns.as_ref().unwrap_or(&all).column_names(&available)?;
    let distinct = Columns::from_names(&columns);
    let size = |row: usize| match items.get(row) {
        Some(Value::Object(fields)) => indented_object(distinct.of_row(fields).into_iter(), 1),
        Some(other) => indented_at(other, 1),
        None => 0,
    };
    let characters = selected_characters(&rows, size);
    if characters > limit.get() {
        let (rows, columns) = (rows.len(), columns.len());
        return Err(ArtifactError::TableTooLong { rows, columns, characters, limit: limit.get() });
    }
    let row = |item: &Value| match item {
        Value::Object(fields) => {
            let kept = distinct.of_row(fields).into_iter();
            Value::from(kept.map(|(name, value)| (name.clone(), value.clone())).collect::<JsonMap>())
        }
        other => other.clone(),
    };
    Ok(rows.iter().filter_map(|at| items.get(*at)).map(row).collect())
}

/// The columns of a selection: each once, in the order in which they were named first.
struct Columns<'a> {
    in_order: Vec<&'a str>,
    at: HashMap<&'a str, usize>,
}

impl<'a> Columns<'a> {
    /// Returns the columns of these names: an object has a column once, however often it is named.
    fn from_names(names: &[&'a str]) -> Self {
        let mut columns = Self { in_order: Vec::new(), at: HashMap::new() };
        for name in names {
            let next = columns.in_order.len();
            if *columns.at.entry(name).or_insert(next) == next {
                columns.in_order.push(name);
            }
        }
        columns
    }

    /// Returns the members of an object that stand in the columns, in the order of the columns. It looks at whichever has
    /// fewer names: each of many rows may have a column of its own.
    fn of_row<'r>(&self, fields: &'r JsonMap) -> Vec<(&'r String, &'r Value)> {
        if self.in_order.len() <= fields.len() {
            return self.in_order.iter().filter_map(|name| fields.get_key_value(name)).collect();
        }
        let place = |(name, value)| Some((*self.at.get(String::as_str(name))?, (name, value)));
        let mut members: Vec<_> = fields.iter().filter_map(place).collect();
        members.sort_unstable_by_key(|(at, _)| *at);
        members.into_iter().map(|(_, member)| member).collect()
    }
}

/// Returns the keys of all objects of a list, in the order in which they come first.
fn column_names(items: &[Value]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let mut seen = HashSet::new();
    for fields in items.iter().filter_map(Value::as_object) {
        for (at, key) in fields.keys().enumerate() {
            // Rows mostly have the same keys in the same order.
            if names.get(at) != Some(&key.as_str()) && seen.insert(key.as_str()) {
                names.push(key);
            }
        }
    }
    names
}
