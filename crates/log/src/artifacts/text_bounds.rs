//! Texts that are minimized so that their form fits a cap with all that is said about them.

use proto_events::model::python_json::text_characters;

use crate::artifacts::characters::{TIP_CHARACTERS_MAX, characters, shown_tip};
use crate::artifacts::limit::{CAP_ROOM, CharacterLimit, LIMIT_MIN};
use crate::artifacts::text::{MinimizedText, TextArtifacts};

/// The characters that JSON writes around a text.
const QUOTES: usize = 2;

/// The room for the marker and the ranges of a text that is cut, in characters.
const RANGES_ROOM: usize = CAP_ROOM - TIP_CHARACTERS_MAX;

/// The characters that stand around a minimized form, at most: `{"kind":"data","data":{"data":}}`.
pub(super) const WRAPPER_CHARACTERS: usize = 40;

/// The bounds of a minimized text, and its tip.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextBounds<'a> {
    pub(super) limit: CharacterLimit,
    pub(super) cap: usize,
    /// Whether the cap bounds the form as JSON, with its escapes and what is around it.
    pub(super) is_of_json: bool,
    pub(super) tip: Option<&'a str>,
}

impl<'a> TextBounds<'a> {
    /// Returns a text whole, or its head and tail.
    pub(super) fn minimized<'t>(&self, text: &'t str) -> MinimizedText<'t> {
        let whole = self.limit.within(self.cap, CAP_ROOM);
        let is_short = text.len() <= whole.get() || characters(text) <= whole.get();
        if is_short && (!self.is_of_json || self.is_met_by_whole(text)) {
            return MinimizedText::Whole(text.into());
        }
        let (limit, tip) = self.fitting();
        if !self.is_of_json {
            return TextArtifacts::minimize(text, limit, tip);
        }
        let said = WRAPPER_CHARACTERS + RANGES_ROOM + tip.map_or(0, text_characters);
        TextArtifacts::minimize(text, within(text, limit, self.cap.saturating_sub(said)), tip)
    }

    fn is_met_by_whole(&self, text: &str) -> bool {
        let room = self.cap.saturating_sub(WRAPPER_CHARACTERS + QUOTES);
        // An escape has at most six characters.
        text.len().saturating_mul(6) <= room || text.chars().map(json_characters).sum::<usize>() <= room
    }

    /// Returns the limit and the tip with which a text, its ranges and the tip fit the cap: a tip counts as JSON writes it, where a
    /// character may take twelve. A tip is cut, and with it the text, only where the cap has no room for it beside a text of the
    /// whole limit.
    fn fitting(&self) -> (CharacterLimit, Option<&'a str>) {
        let around = RANGES_ROOM + if self.is_of_json { WRAPPER_CHARACTERS } else { 0 };
        let has_room = |tip: &str| {
            let beside = self.limit.get().saturating_add(around);
            beside.saturating_add(text_characters(tip)) <= self.cap
        };
        if let Some(tip) = self.tip.filter(|tip| self.is_of_json && has_room(tip)) {
            return (self.limit, Some(tip));
        }
        let most = self.cap.saturating_sub(around + LIMIT_MIN);
        let tip = self.tip.map(|tip| written_within(shown_tip(tip), most));
        let said = RANGES_ROOM + tip.map_or(0, text_characters);
        (self.limit.within(self.cap, said.max(CAP_ROOM)), tip)
    }
}

/// Returns the characters of a character in JSON, where those beyond ASCII stand as themselves.
fn json_characters(char: char) -> usize {
    match char {
        '"' | '\\' | '\u{8}' | '\u{9}' | '\u{a}' | '\u{c}' | '\u{d}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => 1,
    }
}

/// Returns the largest limit up to `limit` whose head and tail have at most `room` characters as JSON.
fn within(text: &str, limit: CharacterLimit, room: usize) -> CharacterLimit {
    let mut used = 0;
    let ends = text.chars().zip(text.chars().rev()).take(limit.get() / 2);
    let halves = ends.take_while(|(first, last)| {
        used += json_characters(*first) + json_characters(*last);
        used <= room
    });
    let half = halves.count();
    if half == limit.get() / 2 { limit } else { CharacterLimit::of_half(half) }
}

/// Returns the beginning of a text that JSON writes in at most this many characters.
fn written_within(text: &str, most: usize) -> &str {
    let mut written = QUOTES;
    for (at, letter) in text.char_indices() {
        written += text_characters(letter.encode_utf8(&mut [0; 4])) - QUOTES;
        if written > most {
            return text.get(..at).unwrap_or_default();
        }
    }
    text
}
