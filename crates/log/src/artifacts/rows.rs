//! The choice of rows: one number, several, all, or a range as text.

use proto_events::json::JsonValue as Value;
use proto_events::model::python_json::type_name;

use crate::artifacts::error::ArtifactError;
use crate::artifacts::integer::Integer;

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
    /// Rows of which one has a number that no list has: its digits, after the rows before it.
    NoSuchRow(Vec<i64>, String),
    /// Rows of which one is not valid, by Python's name for its type, after the rows before it.
    WrongType(Vec<i64>, &'static str),
}

impl RowSelection {
    /// Reads an argument as a2a-utils takes it. A value that selects nothing is refused when the rows are selected, in
    /// the order in which a2a-utils checks its arguments.
    pub fn from_json(rows: &Value) -> Self {
        match rows {
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(items) => match several(items.iter().map(Row::from_value)) {
                Ok(rows) => Self::Rows(rows),
                Err(refused) => refused,
            },
            other => match Row::from_value(other) {
                Row::Number(row) => Self::Row(row),
                Row::Beyond(digits) => Self::NoSuchRow(Vec::new(), digits),
                Row::Other(kind) => Self::WrongType(Vec::new(), kind),
            },
        }
    }

    /// Reads an argument of a tool: `all`, a range, a row, or several rows separated by commas.
    pub fn from_text(text: &str) -> Self {
        let text = text.trim();
        if text.contains(',') {
            let rows: Option<Vec<Row>> =
                text.split(',').map(|part| Integer::parse(part).map(Row::from)).collect();
            let Some(rows) = rows else { return Self::Text(text.to_owned()) };
            return several(rows.into_iter()).map_or_else(|refused| refused, Self::Rows);
        }
        // A leading dash is ambiguous in a text.
        match Integer::parse(text).filter(|_| !text.starts_with('-')).map(Row::from) {
            Some(Row::Number(row)) => Self::Row(row),
            Some(Row::Beyond(digits)) => Self::NoSuchRow(Vec::new(), digits),
            _ => Self::Text(text.to_owned()),
        }
    }

    /// Returns the numbers of the selected rows of a list with `total` rows.
    pub(super) fn row_numbers(&self, total: usize) -> Result<Vec<usize>, ArtifactError> {
        let known = |rows: &[i64]| rows.iter().map(|row| index(*row, total)).collect::<Result<Vec<_>, _>>();
        match self {
            Self::Row(row) => Ok(vec![index(*row, total)?]),
            Self::Rows(rows) => known(rows),
            Self::Text(text) if text == "all" => Ok((0..total).collect()),
            Self::Text(text) => match text.split_once('-') {
                Some((start, end)) => range(text, start, end, total),
                None => Err(ArtifactError::InvalidRows { text: text.clone() }),
            },
            Self::NoSuchRow(before, digits) => {
                let row = Integer::parse(digits)
                    .map_or_else(|| digits.clone(), |row| row.counted_from_end(total).printed());
                known(before).and(Err(ArtifactError::RowOutOfRange { row, total }))
            }
            Self::WrongType(before, kind) => known(before).and(Err(ArtifactError::InvalidRowsType { kind })),
        }
    }
}

/// A value in the place of a row.
enum Row {
    Number(i64),
    /// An integer that no list has as a row.
    Beyond(String),
    /// No integer, by Python's name for its type.
    Other(&'static str),
}

impl Row {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::Number(number) if !number.is_float() => {
                number.as_i64().map_or_else(|| Self::Beyond(number.to_string()), Self::Number)
            }
            other => Self::Other(type_name(other)),
        }
    }
}

impl From<Integer> for Row {
    fn from(integer: Integer) -> Self {
        integer.as_i64().map_or_else(|| Self::Beyond(integer.printed()), Self::Number)
    }
}

fn several(items: impl Iterator<Item = Row>) -> Result<Vec<i64>, RowSelection> {
    let mut rows = Vec::new();
    for item in items {
        match item {
            Row::Number(row) => rows.push(row),
            Row::Beyond(digits) => return Err(RowSelection::NoSuchRow(rows, digits)),
            Row::Other(kind) => return Err(RowSelection::WrongType(rows, kind)),
        }
    }
    Ok(rows)
}

fn index(row: i64, total: usize) -> Result<usize, ArtifactError> {
    let row = Integer::Small(row.into()).counted_from_end(total);
    row.within(total).ok_or_else(|| ArtifactError::RowOutOfRange { row: row.printed(), total })
}

fn range(text: &str, start: &str, end: &str, total: usize) -> Result<Vec<usize>, ArtifactError> {
    let integer = |side: &str| {
        Integer::parse(side).ok_or_else(|| ArtifactError::InvalidRange { text: text.to_owned() })
    };
    let first = if start.is_empty() { Integer::with_limbs(0) } else { integer(start)? };
    let last = if end.is_empty() { Integer::with_limbs(total) } else { integer(end)? };
    if start.is_empty() && !end.is_empty() && !last.is_negative() {
        // What the error says to write selects something, whatever was asked for.
        let count = last.within(total + 1).unwrap_or(total).clamp(1, total.max(1));
        let from = total.saturating_sub(count);
        return Err(ArtifactError::LeadingDash { text: text.to_owned(), count, from, total });
    }
    let (first, last) = (first.counted_from_end(total), last.counted_from_end(total));
    let from = first
        .within(total)
        .ok_or_else(|| ArtifactError::StartOutOfRange { start: first.printed(), total })?;
    let to =
        last.within(total + 1).ok_or_else(|| ArtifactError::EndOutOfRange { end: last.printed(), total })?;
    if from > to {
        return Err(ArtifactError::RangeReversed { start: from, end: to });
    }
    Ok((from..to).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leading_dash_is_refused_with_what_to_write_instead() {
        let refused = RowSelection::Text("-1".to_owned()).row_numbers(10).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "Invalid row selection: -1. A leading dash is ambiguous: write '9-' for the last 1 of 10 row(s), or \
             '0-1' for the first 1."
        );
        assert_eq!(RowSelection::Text("9-".to_owned()).row_numbers(10), Ok(vec![9]));
        assert_eq!(RowSelection::Row(-1).row_numbers(10), Ok(vec![9]));
        assert_eq!(RowSelection::from_text("-1").row_numbers(10), Err(refused));
    }

    #[test]
    fn no_spelling_of_a_number_after_a_dash_walks_around_the_refusal_and_its_advice_works() {
        for text in ["-1", "- 1", "-+1", "-0", "-1_0", "-1 ", "-99", "-10", "--0", "-99999999999999999999999"]
        {
            for total in [1, 5, 10] {
                for rows in [RowSelection::Text(text.to_owned()), RowSelection::from_text(text)] {
                    let refused = rows.row_numbers(total).unwrap_err();
                    let ArtifactError::LeadingDash { count, from, .. } = &refused else {
                        panic!("{text}: {refused}")
                    };
                    let select = |text: String| RowSelection::Text(text).row_numbers(total).unwrap();
                    assert_eq!(
                        select(format!("{from}-")),
                        (total - count..total).collect::<Vec<_>>(),
                        "{text}"
                    );
                    assert_eq!(select(format!("0-{count}")), (0..*count).collect::<Vec<_>>(), "{text}");
                    let said = refused.to_string();
                    assert!(
                        said.contains(&format!("'{from}-'")) && said.contains(&format!("'0-{count}'")),
                        "{said}"
                    );
                }
            }
        }
        assert_eq!(
            RowSelection::Text("--1".to_owned()).row_numbers(3),
            Ok(vec![0, 1]),
            "two dashes say which end is meant"
        );
        assert_eq!(RowSelection::Text("-".to_owned()).row_numbers(2), Ok(vec![0, 1]));
    }

    #[test]
    fn integers_of_any_size_are_named_as_they_are_counted() {
        let said = |rows: RowSelection| rows.row_numbers(3).unwrap_err().to_string();
        let text = |text: &str| said(RowSelection::Text(text.to_owned()));
        let json = |text: &str| said(RowSelection::from_json(&Value::parse(text).unwrap()));
        assert_eq!(text("0-99999999999999999999"), "End index 99999999999999999999 is out of range");
        assert_eq!(text("99999999999999999999-"), "Start index 99999999999999999999 is out of range");
        assert_eq!(text("0--99999999999999999999"), "End index -99999999999999999996 is out of range");
        let googol = format!("1{}", "0".repeat(100));
        assert_eq!(text(&format!("0--{googol}")), format!("End index -{}7 is out of range", "9".repeat(99)));
        assert_eq!(
            json("-1180591620717411303424"),
            "Row index -1180591620717411303421 is out of range for dataset with 3 rows"
        );
        assert_eq!(json("[99,true]"), "Row index 99 is out of range for dataset with 3 rows");
        assert_eq!(json("[0,true,99]"), "Invalid row selection type: <class 'bool'>");
        assert_eq!(
            said(RowSelection::from_text("1,-99999999999999999999")),
            json("[1,-99999999999999999999]")
        );
        assert_eq!(said(RowSelection::from_text("99999999999999999999")), json("99999999999999999999"));
    }

    #[test]
    fn a_tools_text_names_rows_as_the_tools_of_a2a_utils_do() {
        assert_eq!(RowSelection::from_text(" 3 ").row_numbers(9), Ok(vec![3]));
        assert_eq!(RowSelection::from_text("0, 2,-1").row_numbers(9), Ok(vec![0, 2, 8]));
        assert_eq!(RowSelection::from_text("2--1").row_numbers(5), Ok(vec![2, 3]));
        assert_eq!(RowSelection::from_text("all").row_numbers(2), Ok(vec![0, 1]));
        for text in ["", "x", "1,x", "1.5", "0:2"] {
            assert!(RowSelection::from_text(text).row_numbers(9).is_err(), "{text}");
        }
    }

    #[test]
    fn truth_values_and_numbers_that_no_list_has_select_nothing() {
        let of = |text: &str| RowSelection::from_json(&Value::parse(text).unwrap()).row_numbers(3);
        assert_eq!(of("true"), Err(ArtifactError::InvalidRowsType { kind: "bool" }));
        assert_eq!(of("[0,true]"), Err(ArtifactError::InvalidRowsType { kind: "bool" }));
        let beyond = "1180591620717411303424";
        assert_eq!(of(beyond), Err(ArtifactError::RowOutOfRange { row: beyond.to_owned(), total: 3 }));
        assert!(of(&format!("\"{}-\"", i64::MIN)).is_err());
        assert!(of(&i64::MIN.to_string()).is_err());
    }
}
