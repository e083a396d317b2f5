//! The arguments of `artifact`.

use std::path::PathBuf;

use clap::Args;

use crate::args::point::AtArgs;
use crate::args::source::ReadFrom;

#[derive(Debug, Args)]
pub(crate) struct ArtifactArgs {
    /// A task: its id, a unique prefix of the id (4 characters or more), the name of its stream, or @last for the task that
    /// changed last
    pub(crate) id: String,
    /// The artifact: its id or that of a call, or a unique beginning or end of a listed id (4 characters or more)
    ///
    /// Without it the artifacts of the task are listed, and the results of calls of 1,000 characters and more.
    pub(crate) artifact: Option<String>,
    /// Print these lines of the text, counted from 1: 1-40, 40- (to the end), or 40
    #[arg(long, value_name = "RANGE", value_parser = parse_lines, requires = "artifact")]
    #[arg(allow_negative_numbers = true)]
    #[arg(conflicts_with_all = ["characters", "path", "rows", "columns", "summary", "save"])]
    pub(crate) lines: Option<Range>,
    /// Print these characters of the text, counted from 0, without the last: 0-100, or 100- (to the end)
    #[arg(long, value_name = "RANGE", value_parser = parse_characters, requires = "artifact")]
    #[arg(allow_negative_numbers = true)]
    #[arg(conflicts_with_all = ["path", "rows", "columns", "summary", "save"])]
    pub(crate) characters: Option<Range>,
    /// Print the field of the data at this path: keys separated by dots, a dot inside a key written as `\.`
    #[arg(long, value_name = "PATH", requires = "artifact", conflicts_with_all = ["summary", "save"])]
    pub(crate) path: Option<String>,
    /// Print these rows of a list, counted from 0: 0-10 (without the last), 5- (to the end), 0,2,5, or all
    #[arg(long, value_name = "ROWS", requires = "artifact", conflicts_with_all = ["summary", "save"])]
    #[arg(allow_negative_numbers = true)]
    pub(crate) rows: Option<String>,
    /// Print these columns of a list of objects: name,age, or all; a name with a comma in double quotes
    #[arg(long, value_name = "COLUMNS", requires = "artifact", conflicts_with_all = ["summary", "save"])]
    pub(crate) columns: Option<String>,
    /// Print the form in which a model is shown a long artifact: its beginning and end, or figures about its data
    #[arg(long, requires = "artifact", conflicts_with = "save")]
    pub(crate) summary: bool,
    /// Save the artifact in this folder: its text, its data and its files, each under a cleaned name
    ///
    /// No file is replaced: of the same name and content it is the same file, else the new one gets the beginning of its SHA-256. What cannot be
    /// saved, such as a file of which the artifact has the address only, is told at the end (exit 1), and all else is saved.
    #[arg(long, value_name = "DIR", requires = "artifact")]
    pub(crate) save: Option<PathBuf>,
    /// Take the files that stand beside the log from the file store in this folder; may be given more than once
    #[arg(long, value_name = "DIR", requires = "save")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) point: AtArgs,
    #[command(flatten)]
    pub(crate) from: ReadFrom,
}

/// A range whose ends were typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: i64,
    /// The end; none for all that is there.
    pub(crate) end: Option<i64>,
}

fn parse_lines(text: &str) -> Result<Range, String> {
    match text.split_once('-') {
        None => number(text).map(|line| Range { start: line, end: Some(line) }),
        Some(_) => parse_range(text),
    }
    .filter(|range| range.start >= 1 && range.end.is_none_or(|end| end >= range.start))
    .ok_or_else(|| "it is not a range of lines from 1, such as 1-40, 40- or 40".to_owned())
}

fn parse_characters(text: &str) -> Result<Range, String> {
    parse_range(text)
        .filter(|range| range.end.is_none_or(|end| end >= range.start))
        .ok_or_else(|| "it is not a range of characters from 0, such as 0-100 or 100-".to_owned())
}

fn parse_range(text: &str) -> Option<Range> {
    let (start, end) = text.split_once('-')?;
    let end = if end.is_empty() { None } else { Some(number(end)?) };
    Some(Range { start: number(start)?, end })
}

/// Reads a number without a sign.
fn number(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_typed_with_a_dash() {
        let range = |start, end| Ok(Range { start, end });
        assert_eq!(parse_lines("1-40"), range(1, Some(40)));
        assert_eq!(parse_lines("7"), range(7, Some(7)));
        assert_eq!(parse_lines("7-"), range(7, None));
        assert_eq!(parse_characters("0-100"), range(0, Some(100)));
        assert_eq!(parse_characters("5-"), range(5, None));
        for wrong in ["", "-", "-3", "0-3", "3-2", "a-b", "1-2-3", "+1", "1.5", "99999999999999999999"] {
            assert!(parse_lines(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "5", "-5", "9-2", "0x1-2"] {
            assert!(parse_characters(wrong).is_err(), "{wrong}");
        }
    }
}
