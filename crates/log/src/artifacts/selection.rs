//! The choice of columns: one name, several, or all.

use std::collections::HashSet;

use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::model::python;
use proto_events::model::python_json::type_name;

use crate::artifacts::error::ArtifactError;

/// The columns of a list of objects that are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColumnSelection {
    /// All columns, in the order in which the rows name them first.
    All,
    /// Columns by name, in the order given.
    Names(Vec<String>),
    /// Columns of which one is not a text: its printed form, after the names before it.
    NoSuchColumn(Vec<String>, String),
    /// A value that selects no columns, by Python's name for its type.
    WrongType(&'static str),
}

impl ColumnSelection {
    /// Reads an argument as a2a-utils takes it. A value that selects nothing is refused when the columns are selected.
    pub fn from_json(columns: &Value) -> Self {
        match columns {
            Value::String(name) if name == "all" => Self::All,
            Value::String(name) => Self::Names(vec![name.clone()]),
            Value::Array(items) => {
                let names = items.iter().map_while(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
                match items.get(names.len()) {
                    Some(other) => Self::NoSuchColumn(names, python::text(&JsonText::from(other.clone()))),
                    None => Self::Names(names),
                }
            }
            other => Self::WrongType(type_name(other)),
        }
    }

    /// Reads an argument of a tool: `all`, a name, or several names separated by commas. A name with a comma is put in
    /// double quotes, as in JSON.
    pub fn from_text(text: &str) -> Self {
        let text = text.trim();
        if text == "all" {
            return Self::All;
        }
        if text.starts_with('"') {
            let names = Value::parse(&format!("[{text}]")).ok();
            if let Some(names @ Value::Array(_)) = names {
                return Self::from_json(&names);
            }
        }
        Self::Names(text.split(',').map(|name| name.trim().to_owned()).collect())
    }

    /// Returns the names of the selected columns.
    pub(super) fn column_names<'a>(&'a self, available: &[&'a str]) -> Result<Vec<&'a str>, ArtifactError> {
        let missing = |column: &str| ArtifactError::ColumnMissing {
            column: column.to_owned(),
            available: available.iter().map(|&name| name.to_owned()).collect(),
        };
        let known = |names: &'a [String]| {
            let set: HashSet<&str> = available.iter().copied().collect();
            let name = |name: &'a String| set.get(name.as_str()).copied().ok_or(name);
            names.iter().map(name).collect::<Result<Vec<&str>, _>>().map_err(|name| missing(name))
        };
        match self {
            Self::All => Ok(available.to_vec()),
            Self::Names(names) => known(names),
            Self::NoSuchColumn(names, other) => known(names).and(Err(missing(other))),
            Self::WrongType(kind) => Err(ArtifactError::InvalidColumnsType { kind }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tools_text_names_columns() {
        let names =
            |names: &[&str]| ColumnSelection::Names(names.iter().map(|&name| name.to_owned()).collect());
        assert_eq!(ColumnSelection::from_text(" all "), ColumnSelection::All);
        assert_eq!(ColumnSelection::from_text("name, age"), names(&["name", "age"]));
        assert_eq!(ColumnSelection::from_text(r#""last, first", "b""#), names(&["last, first", "b"]));
        assert_eq!(ColumnSelection::from_text(r#""open"#), names(&["\"open"]));
    }
}
