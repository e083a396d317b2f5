//! `transcript`: prints a conversation for people, as Markdown, or as lines of JSON.

use proto_events::id::StreamId;
use taskreel_log::views::{Speaker, TranscriptEntry};
use unicode_width::UnicodeWidthChar as _;

use crate::print::plain::{columns, cut, without_control};
use crate::print::problem::Problem;
use crate::print::screen::Screen;
use crate::print::time;

/// The width of a conversation where stdout is not a terminal, in columns.
const COLUMNS: usize = 100;

/// The most columns of a result that are shown without --full.
const RESULT_COLUMNS_MAX: usize = 2_000;

/// The form of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Talk {
    /// Wrapped lines with times.
    Text,
    /// Markdown.
    Markdown,
    /// Lines of JSON.
    Lines,
}

/// Prints the heading of a conversation in Markdown.
///
/// # Errors
/// [`Problem`] if the reader of the output is gone.
pub(crate) fn title(stream: &StreamId, screen: &mut Screen) -> Result<(), Problem> {
    screen.line(&format!("# {}\n", code(stream.as_str())))
}

/// Prints a message or a note.
///
/// # Errors
/// [`Problem`] if the reader of the output is gone.
pub(crate) fn print_entry(entry: &TranscriptEntry, talk: Talk, screen: &mut Screen) -> Result<(), Problem> {
    match talk {
        Talk::Lines => screen.json_line(&entry.to_json()),
        Talk::Text => text(entry, screen),
        Talk::Markdown => markdown(entry, screen),
    }
}

fn who(entry: &TranscriptEntry) -> String {
    let tool = entry.tool.as_ref().map_or_else(String::new, |tool| format!(" {tool}"));
    format!("{}{tool}", entry.speaker.as_str())
}

/// Returns the words, with long results cut.
fn words(entry: &TranscriptEntry, screen: &Screen) -> String {
    if screen.full || entry.speaker != Speaker::Result {
        return entry.text.clone();
    }
    cut(&entry.text, RESULT_COLUMNS_MAX, screen.end())
}

fn text(entry: &TranscriptEntry, screen: &mut Screen) -> Result<(), Problem> {
    let width = screen.width().unwrap_or(COLUMNS);
    let time = time::of_day(entry.at);
    let who = screen.fit(&who(entry), columns(&time) + 2);
    let head = format!("{}  {}", screen.dim(&time), screen.bold(&who));
    let version = screen.dim(&format!("v{}", entry.version));
    screen.line(&format!("{head}  {version}"))?;
    let room = width.saturating_sub(INDENT.len()).max(1);
    for line in words(entry, screen).split('\n') {
        for piece in wrapped(&screen.plain(line), room) {
            screen.line(format!("{INDENT}{piece}").trim_end())?;
        }
    }
    screen.line("")
}

/// The blanks before the words.
const INDENT: &str = "  ";

/// Breaks a line into pieces of at most this many columns, at blanks where there are some.
fn wrapped(line: &str, room: usize) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), line);
    loop {
        let (mut used, mut blank, mut end) = (0, None, None);
        for (at, letter) in rest.char_indices() {
            used += letter.width().unwrap_or_default();
            let is_over = used > room;
            // A line that is full ends before the blank that follows it; of several blanks the first one counts then.
            let is_break = letter == ' ' && at > 0;
            if is_break && !(is_over && rest.get(..at).is_some_and(|before| before.ends_with(' '))) {
                blank = Some(at);
            }
            if is_over {
                end = Some(at);
                break;
            }
        }
        // A letter that is wider than the room stands alone.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let Some(end) = end.map(|end| blank.unwrap_or(end).max(first)) else {
            pieces.push(rest);
            return pieces;
        };
        let (piece, behind) = rest.split_at(end);
        pieces.push(piece);
        rest = behind.strip_prefix(' ').unwrap_or(behind);
        if rest.is_empty() {
            return pieces;
        }
    }
}

fn markdown(entry: &TranscriptEntry, screen: &mut Screen) -> Result<(), Problem> {
    let tool = entry.tool.as_ref().map_or_else(String::new, |tool| format!(" {}", code(tool)));
    let (who, at) = (entry.speaker.as_str(), time::local(entry.at));
    screen.line(&format!("## {who}{tool} · {at} · v{}\n", entry.version))?;
    let words = words(entry, screen);
    let fence = "`".repeat(longest_run(&words).max(2) + 1);
    screen.line(&format!("{fence}text"))?;
    words.split('\n').try_for_each(|line| screen.line(&without_control(line)))?;
    screen.line(&format!("{fence}\n"))
}

/// Returns a text as code of Markdown, in which nothing is obeyed.
fn code(text: &str) -> String {
    let text = without_control(text);
    let fence = "`".repeat(longest_run(&text) + 1);
    format!("{fence} {text} {fence}")
}

/// Returns the length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_broken_at_blanks_and_loses_no_letter() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("日本日本", 5), ["日本", "日本"]);
        assert_eq!(wrapped("日本", 1), ["日", "本"]);
        assert_eq!(wrapped("", 4), [""]);
        assert_eq!(wrapped(" a  b", 3), [" a", " b"]);
    }

    #[test]
    fn no_text_ends_its_block_of_markdown() {
        assert_eq!(code("a``b`"), "``` a``b` ```");
        assert_eq!(longest_run("a```\n````b"), 4);
    }
}
