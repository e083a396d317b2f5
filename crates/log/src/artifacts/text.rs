//! Text artifacts: a range of lines or characters, and a head and a tail that fit a limit.

use std::borrow::Cow;

use proto_events::json::{JsonMap, JsonValue};
use proto_events::model::python_json::text_characters;

use crate::artifacts::characters::{
    after_newline, at_newline, characters, characters_and_newlines, first_characters, last_characters,
    newlines, split_at_character,
};
use crate::artifacts::error::ArtifactError;
use crate::artifacts::limit::CharacterLimit;
use crate::artifacts::short_texts::grouped;

/// The operations on text artifacts.
#[derive(Debug, Clone, Copy)]
pub struct TextArtifacts;

/// A range of a text: by lines or by characters, never both; all of it by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextSelection {
    /// The first line, from 1; negative numbers count from the end.
    pub line_start: Option<i64>,
    /// The last line, included; negative numbers count from the end.
    pub line_end: Option<i64>,
    /// The first character, from 0; negative numbers count from the end.
    pub character_start: Option<i64>,
    /// The character after the last one; negative numbers count from the end.
    pub character_end: Option<i64>,
}

impl TextArtifacts {
    /// Returns the selected range of a text. Lines end at line feeds only; a range of characters is cut to the text.
    ///
    /// # Errors
    /// [`ArtifactError`] if lines and characters are mixed, if the lines do not exist, or if the selection has more
    /// characters than `limit`.
    pub fn view<'a>(
        text: &'a str,
        selection: &TextSelection,
        limit: CharacterLimit,
    ) -> Result<&'a str, ArtifactError> {
        let by_line = selection.line_start.is_some() || selection.line_end.is_some();
        let by_character = selection.character_start.is_some() || selection.character_end.is_some();
        let selected = match (by_line, by_character) {
            (true, true) => return Err(ArtifactError::LinesAndCharacters),
            (true, false) => lines(text, selection.line_start, selection.line_end)?,
            (false, true) => character_range(text, selection.character_start, selection.character_end),
            (false, false) => text,
        };
        // A text has at most as many characters as bytes.
        if selected.len() > limit.get() {
            let characters = characters(selected);
            if characters > limit.get() {
                return Err(ArtifactError::TextTooLong { characters, limit: limit.get() });
            }
        }
        Ok(selected)
    }

    /// Returns a text whole if it has at most `limit` characters, else its first and last halves of the limit, with the
    /// ranges that they are, and a tip about how to see the rest.
    pub fn minimize<'a>(text: &'a str, limit: CharacterLimit, tip: Option<&str>) -> MinimizedText<'a> {
        if text.len() <= limit.get() {
            return MinimizedText::Whole(text.into());
        }
        let (total, line_feeds) = characters_and_newlines(text);
        if total <= limit.get() {
            return MinimizedText::Whole(text.into());
        }
        let half = limit.get() / 2;
        let (head, tail) = (first_characters(text, half), last_characters(text, half));
        let omitted = total - 2 * half;
        let total_lines = line_feeds + 1;
        // Python walks the lines and counts a line feed for each, the last one too: the head ends in the first line
        // whose end it does not pass, and the tail begins in the last line that leaves it at least half the limit.
        let head_line = 1 + newlines(first_characters(head, half - 1));
        let tail_line = total_lines - newlines(tail) + newlines(first_characters(tail, 1));
        let omission = grouped(omitted);
        MinimizedText::Cut(TextCut {
            text: format!("{head}\n\n[... {omission} characters omitted ...]\n\n{tail}"),
            total_lines,
            total_characters: total,
            head_line,
            tail_line,
            half,
            tip: tip.map(str::to_owned),
        })
    }
}

fn lines(text: &str, start: Option<i64>, end: Option<i64>) -> Result<&str, ArtifactError> {
    let total = i64::try_from(newlines(text)).unwrap_or(i64::MAX - 1) + 1;
    let from_end = |line: i64| if line < 0 { total.saturating_add(line).saturating_add(1) } else { line };
    let (start, end) = (from_end(start.unwrap_or(1)), from_end(end.unwrap_or(total)));
    if start < 1 {
        return Err(ArtifactError::LineStartTooLow { got: start });
    }
    if end > total {
        return Err(ArtifactError::LineEndPastTotal { end, total });
    }
    if start > end {
        return Err(ArtifactError::LinesReversed { start, end });
    }
    let before = |line: i64| usize::try_from(line - 2).ok();
    let from = before(start).map_or(0, |newline| after_newline(text, newline));
    let rest = text.get(from..).unwrap_or_default();
    let last = usize::try_from(end - start).unwrap_or(usize::MAX);
    Ok(rest.get(..at_newline(rest, last)).unwrap_or_default())
}

fn character_range(text: &str, start: Option<i64>, end: Option<i64>) -> &str {
    let is_from_end = |at: Option<i64>| at.is_some_and(|at| at < 0);
    // Only a position from the end needs the number of characters.
    let total = if is_from_end(start) || is_from_end(end) { characters(text) } else { usize::MAX };
    let position = |at: i64| {
        let distance = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
        if at < 0 { total.saturating_sub(distance) } else { distance }
    };
    let (start, end) = (start.map_or(0, position), end.map_or(usize::MAX, position));
    let rest = split_at_character(text, start).1;
    first_characters(rest, end.saturating_sub(start))
}

/// A text as a model is shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MinimizedText<'a> {
    /// The whole text.
    Whole(Cow<'a, str>),
    /// The head and the tail of a text that is longer than the limit.
    Cut(TextCut),
}

/// The head and the tail of a text, with what is left out between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextCut {
    text: String,
    total_lines: usize,
    total_characters: usize,
    head_line: usize,
    tail_line: usize,
    half: usize,
    tip: Option<String>,
}

impl MinimizedText<'_> {
    /// Returns the text that is shown.
    pub fn text(&self) -> &str {
        match self {
            Self::Whole(text) => text,
            Self::Cut(cut) => cut.text(),
        }
    }

    /// Returns the number of characters of the text and of what is said about it.
    pub fn characters(&self) -> usize {
        match self {
            Self::Whole(text) => characters(text),
            Self::Cut(cut) => cut.characters(),
        }
    }

    /// Returns the object that a2a-utils answers: the text, and for a text that was cut its ranges and tip.
    pub fn to_json(&self) -> JsonValue {
        let mut object = JsonMap::new();
        object.insert("text", self.text().into());
        if let Self::Cut(cut) = self {
            object.extend(cut.metadata());
        }
        object.into()
    }
}

impl TextCut {
    /// Returns the text that is shown: head, marker and tail.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the characters that are left out, as the selection that shows exactly them.
    pub fn omitted(&self) -> TextSelection {
        let position = |characters: usize| i64::try_from(characters).ok();
        TextSelection {
            character_start: position(self.half),
            character_end: position(self.total_characters - self.half),
            ..TextSelection::default()
        }
    }

    /// Returns the number of characters of the whole text.
    pub fn total_characters(&self) -> usize {
        self.total_characters
    }

    /// Returns the number of characters of the text and of what is said about it.
    pub fn characters(&self) -> usize {
        let said = |(key, value): &(String, JsonValue)| {
            let value = match value {
                JsonValue::String(text) => text_characters(text),
                other => other.as_number().map_or(0, |number| number.as_str().len()),
            };
            key.len() + value + 8
        };
        characters(&self.text) + self.metadata().iter().map(said).sum::<usize>()
    }

    /// Returns the ranges and the tip, by a2a-utils' names.
    pub fn metadata(&self) -> Vec<(String, JsonValue)> {
        let Self { total_lines, total_characters, head_line, tail_line, half, .. } = self;
        let mut members: Vec<(String, JsonValue)> = vec![
            ("_total_lines".to_owned(), (*total_lines).into()),
            ("_total_characters".to_owned(), (*total_characters).into()),
            ("_start_line_range".to_owned(), format!("1-{head_line}").into()),
            ("_end_line_range".to_owned(), format!("{tail_line}-{total_lines}").into()),
            ("_start_character_range".to_owned(), format!("0-{half}").into()),
            (
                "_end_character_range".to_owned(),
                format!("{}-{total_characters}", total_characters - half).into(),
            ),
        ];
        members.extend(self.tip.iter().map(|tip| ("_tip".to_owned(), tip.as_str().into())));
        members
    }
}
