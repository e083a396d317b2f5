//! The reasons why a view cannot be given: what is wrong, with what, and how to ask instead. The text is rendered last, so that
//! nobody has to search it for words.

use thiserror::Error;

use crate::artifacts::characters::first_characters;
use crate::artifacts::error_kind::ArtifactErrorKind;
use crate::artifacts::key::escaped;
use crate::artifacts::names::{FILE_PART, VIEW_DATA_ARTIFACT, VIEW_TEXT_ARTIFACT};
use crate::artifacts::short_texts::{QUOTED_CHARACTERS, grouped, listed, quoted, reason};

/// The reason why an artifact cannot be read, viewed or minimized as asked.
///
/// [`Display`](std::fmt::Display) gives a2a-utils' text; [`with_hint`](Self::with_hint) adds the advice. Neither has more than
/// 2,000 characters, whatever was asked for and however many names there are: what is left out is counted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ArtifactError {
    /// A limit is too small for a minimized form.
    #[error("{name} must be >= {min} (got {got})")]
    LimitTooSmall {
        /// The name of the setting.
        name: &'static str,
        /// The smallest value.
        min: usize,
        /// The value that was given.
        got: usize,
    },
    /// Lines and characters were asked for at once.
    #[error("Cannot use both line and character selection")]
    LinesAndCharacters,
    /// The first line lies before the text.
    #[error("line_start must be >= 1 (got {got})")]
    LineStartTooLow {
        /// The line, counted from the start of the text.
        got: i64,
    },
    /// The last line lies after the text.
    #[error("line_end ({end}) exceeds total lines ({total})")]
    LineEndPastTotal {
        /// The line, counted from the start of the text.
        end: i64,
        /// The number of lines.
        total: i64,
    },
    /// The first line comes after the last one.
    #[error("line_start ({start}) must be <= line_end ({end})")]
    LinesReversed {
        /// The first line, counted from the start of the text.
        start: i64,
        /// The last line, counted from the start of the text.
        end: i64,
    },
    /// The selected text is too long.
    #[error(
        "Selected text ({} characters) exceeds the maximum output size of {} characters. Try selecting a smaller range.",
        grouped(*characters), grouped(*limit)
    )]
    TextTooLong {
        /// The characters that were selected.
        characters: usize,
        /// The characters that may be shown.
        limit: usize,
    },
    /// A path enters a value that has no fields.
    #[error(
        "Cannot access field '{}' on {kind}. Use rows/columns parameters to filter list data.",
        quoted(field)
    )]
    NoFields {
        /// The field of the path.
        field: String,
        /// Python's name for the type of the value.
        kind: &'static str,
    },
    /// A field of a path does not exist.
    #[error("Field '{}' not found. Available fields: {}", quoted(field), or_empty(available))]
    FieldMissing {
        /// The field of the path.
        field: String,
        /// The fields that exist.
        available: Vec<String>,
    },
    /// The selected data is too long.
    #[error(
        "Data output ({} characters) exceeds the maximum size of {} characters. Try using json_path to access \
         specific fields, or rows/columns to filter list data.",
        grouped(*characters), grouped(*limit)
    )]
    DataTooLong {
        /// The characters of the data as indented JSON.
        characters: usize,
        /// The characters that may be shown.
        limit: usize,
    },
    /// The selected rows and columns are too long.
    #[error(
        "The selection ({rows} row(s) and {columns} column(s)) resulted in {} characters, which exceeds the limit of \
         {} characters. Try selecting fewer rows or columns.",
        grouped(*characters), grouped(*limit)
    )]
    TableTooLong {
        /// The number of rows that were selected.
        rows: usize,
        /// The number of columns that were selected.
        columns: usize,
        /// The characters of the selection as indented JSON.
        characters: usize,
        /// The characters that may be shown.
        limit: usize,
    },
    /// The selected items are too long.
    #[error(
        "The selection ({items} item(s)) resulted in {} characters, which exceeds the limit of {} characters. Try \
         selecting fewer items.",
        grouped(*characters), grouped(*limit)
    )]
    ItemsTooLong {
        /// The number of items that were selected.
        items: usize,
        /// The characters of the selection as indented JSON.
        characters: usize,
        /// The characters that may be shown.
        limit: usize,
    },
    /// The selected data nests too deeply for an answer.
    #[error("The selection nests {levels} levels deep, and {most} can be shown.")]
    TooDeep {
        /// The levels of the data.
        levels: usize,
        /// The levels that may be shown.
        most: usize,
    },
    /// Rows or columns of a value that is not a list.
    #[error(
        "rows/columns parameters require list data. The data at this path is a {kind}. Use json_path to navigate to \
         a list field first."
    )]
    NotAList {
        /// Python's name for the type of the value.
        kind: &'static str,
    },
    /// Rows or columns of an empty list.
    #[error("Cannot filter empty list.")]
    EmptyList,
    /// Columns of a list whose items are no objects.
    #[error(
        "columns parameter is only valid for lists of objects. This list contains basic values. Use rows parameter only."
    )]
    ColumnsOfBasicList,
    /// A row that the list does not have.
    #[error("Row index {} is out of range for dataset with {total} rows", quoted(row))]
    RowOutOfRange {
        /// The row, counted from the start of the list.
        row: String,
        /// The number of rows.
        total: usize,
    },
    /// A text that selects no rows.
    #[error(
        "Invalid row selection: {}. Must be an integer, list of integers, 'all', or a range like '0-10'",
        quoted(text)
    )]
    InvalidRows {
        /// The text.
        text: String,
    },
    /// A number after a dash, which reads as the last rows and as the first ones.
    #[error(
        "Invalid row selection: {}. A leading dash is ambiguous: write '{from}-' for the last {count} of {total} \
         row(s), or '0-{count}' for the first {count}.",
        quoted(text)
    )]
    LeadingDash {
        /// The text.
        text: String,
        /// The number after the dash.
        count: usize,
        /// The row at which the last `count` rows begin.
        from: usize,
        /// The number of rows.
        total: usize,
    },
    /// A value that selects no rows.
    #[error("Invalid row selection type: <class '{kind}'>")]
    InvalidRowsType {
        /// Python's name for the type of the value.
        kind: &'static str,
    },
    /// A range of rows whose ends are no integers.
    #[error("Invalid range format: {}. Expected integers in 'start-end' format.", quoted(text))]
    InvalidRange {
        /// The text.
        text: String,
    },
    /// The start of a range lies outside of the list.
    #[error("Start index {} is out of range", quoted(start))]
    StartOutOfRange {
        /// The start, counted from the start of the list.
        start: String,
        /// The number of rows.
        total: usize,
    },
    /// The end of a range lies outside of the list.
    #[error("End index {} is out of range", quoted(end))]
    EndOutOfRange {
        /// The end, counted from the start of the list.
        end: String,
        /// The number of rows.
        total: usize,
    },
    /// The start of a range comes after its end.
    #[error("Start index {start} is greater than end index {end}")]
    RangeReversed {
        /// The start, counted from the start of the list.
        start: usize,
        /// The end, counted from the start of the list.
        end: usize,
    },
    /// A column that no row has.
    #[error("Column '{}' not found. Available columns: {}", quoted(column), listed(available))]
    ColumnMissing {
        /// The column that was asked for.
        column: String,
        /// The columns that exist.
        available: Vec<String>,
    },
    /// A value that selects no columns.
    #[error("Invalid column selection type: <class '{kind}'>")]
    InvalidColumnsType {
        /// Python's name for the type of the value.
        kind: &'static str,
    },
    /// The task has no such artifact and no such call, or the caller may not see it.
    #[error("Artifact '{}' not found in task '{}'.", quoted(artifact), quoted(task))]
    NoSuchArtifact {
        /// The id that was asked for.
        artifact: String,
        /// The id of the task.
        task: String,
    },
    /// A call without a result.
    #[error("The call '{}' has no result: {}.", quoted(call), reason(why))]
    NoResult {
        /// The id of the call.
        call: String,
        /// The state of the call, and why it has no result.
        why: String,
    },
    /// An artifact that has no content of the kind that was asked for.
    #[error("Artifact '{}' does not contain {wanted} content. Found part types: {}", quoted(artifact), found.join(", "))]
    WrongContent {
        /// The id of the artifact.
        artifact: String,
        /// The kind of content that was asked for: `text` or `data`.
        wanted: &'static str,
        /// The kinds of its parts, sorted, by the names of A2A's types.
        found: Vec<&'static str>,
    },
    /// A value that does not have the form of A2A.
    #[error("{what} does not have the form of A2A: {}", reason(why))]
    NotA2a {
        /// The kind of value that was read.
        what: &'static str,
        /// The first fault.
        why: String,
    },
}

impl ArtifactError {
    /// Returns the kind of the error.
    pub fn kind(&self) -> ArtifactErrorKind {
        use ArtifactErrorKind as Kind;
        match self {
            Self::LimitTooSmall { .. } => Kind::Setting,
            Self::LinesAndCharacters
            | Self::InvalidRows { .. }
            | Self::LeadingDash { .. }
            | Self::InvalidRowsType { .. }
            | Self::InvalidRange { .. }
            | Self::InvalidColumnsType { .. } => Kind::Selection,
            Self::LineStartTooLow { .. }
            | Self::LineEndPastTotal { .. }
            | Self::LinesReversed { .. }
            | Self::RowOutOfRange { .. }
            | Self::StartOutOfRange { .. }
            | Self::EndOutOfRange { .. }
            | Self::RangeReversed { .. } => Kind::Range,
            Self::FieldMissing { .. } | Self::ColumnMissing { .. } | Self::NoSuchArtifact { .. } => {
                Kind::NotFound
            }
            Self::NoFields { .. }
            | Self::NotAList { .. }
            | Self::EmptyList
            | Self::ColumnsOfBasicList
            | Self::WrongContent { .. } => Kind::WrongType,
            Self::NoResult { .. } => Kind::NoResult,
            Self::TextTooLong { .. }
            | Self::DataTooLong { .. }
            | Self::TableTooLong { .. }
            | Self::ItemsTooLong { .. }
            | Self::TooDeep { .. } => Kind::TooLarge,
            Self::NotA2a { .. } => Kind::Malformed,
        }
    }

    /// Returns the name of the argument, field or column that is wrong: its first 200 characters.
    pub fn subject(&self) -> &str {
        first_characters(self.whole_subject(), QUOTED_CHARACTERS)
    }

    fn whole_subject(&self) -> &str {
        match self {
            Self::LimitTooSmall { name, .. } => name,
            Self::LinesAndCharacters | Self::TextTooLong { .. } => "text selection",
            Self::LineStartTooLow { .. } | Self::LinesReversed { .. } => "line_start",
            Self::LineEndPastTotal { .. } => "line_end",
            Self::NoFields { field, .. } | Self::FieldMissing { field, .. } => field,
            Self::DataTooLong { .. } | Self::TooDeep { .. } => "json_path",
            Self::RowOutOfRange { .. }
            | Self::InvalidRows { .. }
            | Self::LeadingDash { .. }
            | Self::InvalidRowsType { .. }
            | Self::InvalidRange { .. }
            | Self::StartOutOfRange { .. }
            | Self::EndOutOfRange { .. }
            | Self::RangeReversed { .. }
            | Self::TableTooLong { .. }
            | Self::ItemsTooLong { .. } => "rows",
            Self::NotAList { .. } | Self::EmptyList => "rows/columns",
            Self::ColumnsOfBasicList | Self::InvalidColumnsType { .. } => "columns",
            Self::ColumnMissing { column, .. } => column,
            Self::NoSuchArtifact { artifact, .. } | Self::WrongContent { artifact, .. } => artifact,
            Self::NoResult { call, .. } => call,
            Self::NotA2a { what, .. } => what,
        }
    }

    /// Returns advice that the text of the error does not give already; empty if it says all there is to say.
    pub fn hint(&self) -> String {
        match self {
            Self::LimitTooSmall { name, .. } if *name != "cap" => {
                "A minimized text shows at least one character from each end.".to_owned()
            }
            Self::LinesAndCharacters => {
                "Use line_start and line_end, or character_start and character_end.".to_owned()
            }
            Self::LineStartTooLow { .. } | Self::LineEndPastTotal { .. } | Self::LinesReversed { .. } => {
                "Lines are counted from 1; -1 is the last line.".to_owned()
            }
            Self::NoSuchArtifact { .. } => {
                "Check the task's artifacts list for valid artifact IDs.".to_owned()
            }
            Self::WrongContent { wanted, found, .. } if found.iter().any(|found| *found != FILE_PART) => {
                let other = if *wanted == "text" { VIEW_DATA_ARTIFACT } else { VIEW_TEXT_ARTIFACT };
                format!("Use {other}.")
            }
            Self::TooDeep { .. } => {
                format!("Use json_path to enter it, or {VIEW_TEXT_ARTIFACT}, which shows data as text.")
            }
            Self::FieldMissing { field, available } => dotted(field, available),
            Self::RowOutOfRange { total, .. }
            | Self::StartOutOfRange { total, .. }
            | Self::EndOutOfRange { total, .. } => {
                format!("The list has {total} rows, counted from 0; the end of a range is not included.")
            }
            Self::InvalidRowsType { .. } | Self::InvalidRange { .. } => {
                "Examples: '0-10' (the first ten rows), '5-' (from row 5 on), 'all'.".to_owned()
            }
            _ => String::new(),
        }
    }

    /// Returns the text of the error, followed by the advice if there is some.
    pub fn with_hint(&self) -> String {
        let hint = self.hint();
        if hint.is_empty() { self.to_string() } else { format!("{self} {hint}") }
    }
}

/// Returns how to reach a key that holds dots, if the field that is missing begins one.
fn dotted(field: &str, available: &[String]) -> String {
    let begins = |key: &&String| key.strip_prefix(field).is_some_and(|rest| rest.starts_with('.'));
    let Some(key) = available.iter().find(begins) else { return String::new() };
    let written = escaped(key);
    // A path that is cut leads nowhere.
    if first_characters(&written, QUOTED_CHARACTERS) == written {
        format!("The dots of a key are escaped: write {written}.")
    } else {
        "The dots of a key are escaped: write a backslash before each.".to_owned()
    }
}

fn or_empty(available: &[String]) -> String {
    if available.is_empty() { "(empty)".to_owned() } else { listed(available) }
}
