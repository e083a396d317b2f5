//! The choice of rows: one number, several, all, or a range as text.

use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::model::python;
use proto_events::model::python_json::type_name;

use crate::artifacts::error::ArtifactError;

/// The rows of a list that are shown. Numbers count from 0, negative ones from the end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowSelection {
    /// A single row.
    Row(i64),
    /// Several rows, in the order given, repeated if named twice.
    Rows(Vec<i64>),
    /// `all`, or a range `start-end` whose end is not included; either side may be left out.
    Text(String),
    /// A row with a number that no list has.
    NoSuchRow(String),
    /// A value that selects no rows, by Python's name for its type.
    WrongType(&'static str),
}

impl RowSelection {
    /// Reads an argument as a2a-utils takes it. A value that selects nothing is refused when the rows are selected, in
    /// the order in which a2a-utils checks its arguments.
    pub fn from_json(rows: &Value) -> Self {
        match rows {
            Value::String(text) => Self::Text(text.clone()),
            Value::Number(number) if !number.is_float() => {
                number.as_i64().map_or_else(|| Self::NoSuchRow(number.to_string()), Self::Row)
            }
            Value::Array(items) => several(items),
            other => Self::WrongType(type_name(other)),
        }
    }

    /// Reads an argument of a tool: `all`, a range, a row, or several rows separated by commas.
    pub fn from_text(text: &str) -> Self {
        let text = text.trim();
        let number = |part: &str| part.trim().parse::<i64>().ok();
        if text.contains(',') {
            let rows: Option<Vec<i64>> = text.split(',').map(number).collect();
            return rows.map_or_else(|| Self::Text(text.to_owned()), Self::Rows);
        }
        match number(text) {
            // A leading dash is ambiguous in a text.
            Some(row) if row >= 0 => Self::Row(row),
            _ => Self::Text(text.to_owned()),
        }
    }

    /// Returns the numbers of the selected rows of a list with `total` rows.
    pub(super) fn of(&self, total: usize) -> Result<Vec<usize>, ArtifactError> {
        match self {
            Self::Row(row) => Ok(vec![index(*row, total)?]),
            Self::Rows(rows) => rows.iter().map(|row| index(*row, total)).collect(),
            Self::Text(text) if text == "all" => Ok((0..total).collect()),
            Self::Text(text) => match text.split_once('-') {
                Some((start, end)) => range(text, start, end, total),
                None => Err(ArtifactError::InvalidRows { text: text.clone() }),
            },
            Self::NoSuchRow(row) => Err(ArtifactError::RowOutOfRange { row: row.clone(), total }),
            Self::WrongType(kind) => Err(ArtifactError::InvalidRowsType { kind }),
        }
    }
}

fn several(items: &[Value]) -> RowSelection {
    let mut rows = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Value::Number(number) if !number.is_float() => match number.as_i64() {
                Some(row) => rows.push(row),
                None => return RowSelection::NoSuchRow(number.to_string()),
            },
            other => return RowSelection::WrongType(type_name(other)),
        }
    }
    RowSelection::Rows(rows)
}

fn from_end(row: i64, total: usize) -> i64 {
    if row < 0 { row.saturating_add(i64::try_from(total).unwrap_or(i64::MAX)) } else { row }
}

fn index(row: i64, total: usize) -> Result<usize, ArtifactError> {
    let row = from_end(row, total);
    let found = usize::try_from(row).ok().filter(|row| *row < total);
    found.ok_or_else(|| ArtifactError::RowOutOfRange { row: row.to_string(), total })
}

fn range(text: &str, start: &str, end: &str, total: usize) -> Result<Vec<usize>, ArtifactError> {
    let integer = |side: &str| {
        let json = JsonText::from(Value::from(side));
        python::int(&json, "rows").map_err(|_| ArtifactError::InvalidRange { text: text.to_owned() })
    };
    let all = i64::try_from(total).unwrap_or(i64::MAX);
    let first = if start.is_empty() { 0 } else { from_end(integer(start)?, total) };
    let last = if end.is_empty() { all } else { from_end(integer(end)?, total) };
    if start.is_empty() && end.starts_with(|char: char| char.is_ascii_digit()) {
        let count = usize::try_from(last).unwrap_or(usize::MAX);
        let from = total.saturating_sub(count);
        return Err(ArtifactError::LeadingDash { text: text.to_owned(), count, from, total });
    }
    let within = |at: i64, past: usize| usize::try_from(at).ok().filter(|at| *at < past);
    let from = within(first, total).ok_or(ArtifactError::StartOutOfRange { start: first, total })?;
    let to = within(last, total + 1).ok_or(ArtifactError::EndOutOfRange { end: last, total })?;
    if from > to {
        return Err(ArtifactError::RangeReversed { start: first, end: last });
    }
    Ok((from..to).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leading_dash_is_refused_with_what_to_write_instead() {
        let refused = RowSelection::Text("-1".to_owned()).of(10).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "Invalid row selection: -1. A leading dash is ambiguous: write '9-' for the last 1 of 10 row(s), or \
             '0-1' for the first 1."
        );
        assert_eq!(RowSelection::Text("9-".to_owned()).of(10), Ok(vec![9]));
        assert_eq!(RowSelection::Row(-1).of(10), Ok(vec![9]));
        assert_eq!(RowSelection::from_text("-1").of(10), Err(refused));
    }

    #[test]
    fn a_tools_text_names_rows_as_the_tools_of_a2a_utils_do() {
        assert_eq!(RowSelection::from_text(" 3 ").of(9), Ok(vec![3]));
        assert_eq!(RowSelection::from_text("0, 2,-1").of(9), Ok(vec![0, 2, 8]));
        assert_eq!(RowSelection::from_text("2--1").of(5), Ok(vec![2, 3]));
        assert_eq!(RowSelection::from_text("all").of(2), Ok(vec![0, 1]));
        for text in ["", "x", "1,x", "1.5", "0:2"] {
            assert!(RowSelection::from_text(text).of(9).is_err(), "{text}");
        }
    }

    #[test]
    fn truth_values_and_numbers_that_no_list_has_select_nothing() {
        let of = |text: &str| RowSelection::from_json(&Value::parse(text).unwrap()).of(3);
        assert_eq!(of("true"), Err(ArtifactError::InvalidRowsType { kind: "bool" }));
        assert_eq!(of("[0,true]"), Err(ArtifactError::InvalidRowsType { kind: "bool" }));
        let beyond = "1180591620717411303424";
        assert_eq!(of(beyond), Err(ArtifactError::RowOutOfRange { row: beyond.to_owned(), total: 3 }));
        assert!(of(&format!("\"{}-\"", i64::MIN)).is_err());
        assert!(of(&i64::MIN.to_string()).is_err());
    }
}
