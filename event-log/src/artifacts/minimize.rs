//! Minimized data: as it is, with its lists summarized and its strings cut, or as the head and the tail of its text.

use proto_events::json::{JsonMap, JsonValue as Value};
use proto_events::model::python_json::{
    Style, indented_at, indented_characters, indented_list, text_characters, written,
};

use crate::artifacts::characters::{TIP_CHARACTERS_MAX, characters, shown_tip};
use crate::artifacts::column::Samples;
use crate::artifacts::limit::{ArtifactSettings, CAP_ROOM, CharacterLimit, LIMIT_MIN, STRING_LENGTH_DEFAULT};
use crate::artifacts::object::{described, minimized_object};
use crate::artifacts::summary::{table_with, values_with};
use crate::artifacts::text::{MinimizedText, TextArtifacts};

/// The characters that a string keeps where the first minimized form is too large.
const SHORT_STRING_CHARACTERS: usize = 200;

/// The characters that JSON writes around a text.
const QUOTES: usize = 2;

/// The limits of a minimized form, and the tip that it carries.
#[derive(Debug, Clone, Copy)]
pub struct Minimizing<'a> {
    limit: CharacterLimit,
    string_length: usize,
    cap: usize,
    tip: Option<&'a str>,
}

impl<'a> Minimizing<'a> {
    /// Returns the limits of the settings, without a tip.
    pub fn new(settings: &ArtifactSettings) -> Self {
        Self {
            limit: settings.send_message_character_limit(),
            string_length: settings.minimized_object_string_length(),
            cap: settings.cap(),
            tip: None,
        }
    }

    /// Returns the limits of a result that a prompt shows: they follow from the one limit that the inference's intent
    /// holds, and the form exceeds it by no more than a tip and ranges need.
    pub(crate) fn of_output(limit: CharacterLimit, tip: &'a str) -> Self {
        let string_length = limit.get().min(STRING_LENGTH_DEFAULT);
        let cap = limit.get().saturating_add(CAP_ROOM);
        Self { limit, string_length, cap, tip: Some(shown_tip(tip)).filter(|tip| !tip.is_empty()) }
    }

    /// Sets the characters above which a value is minimized, and the cap that belongs to them.
    #[must_use]
    pub fn limit(self, limit: CharacterLimit) -> Self {
        Self { limit, cap: limit.cap(), ..self }
    }

    /// Sets the characters that a string inside an object keeps; 0 keeps none.
    #[must_use]
    pub fn string_length(self, characters: usize) -> Self {
        Self { string_length: characters, ..self }
    }

    /// Sets what a minimized form says about how to see the rest; its first 500 characters are shown.
    #[must_use]
    pub fn tip(self, tip: Option<&'a str>) -> Self {
        Self { tip: tip.map(shown_tip), ..self }
    }

    fn with_tip(&self, mut object: JsonMap) -> JsonMap {
        if let Some(tip) = self.tip {
            object.insert("_tip", tip.into());
        }
        object
    }
}

/// A JSON value as a model is shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Minimized<'a> {
    /// The whole value.
    Whole(&'a Value),
    /// A value that says what the whole one holds.
    Summary(Value),
    /// The head and the tail of a string, or of the indented JSON of any other value.
    Text(MinimizedText<'a>),
}

impl Minimized<'_> {
    /// Returns the number of characters that are shown: of a string itself, of a value its indented JSON with
    /// everything beyond ASCII escaped.
    pub fn characters(&self) -> usize {
        match self {
            Self::Whole(Value::String(text)) => characters(text),
            Self::Whole(value) => indented_characters(value),
            Self::Summary(value) => indented_characters(value),
            Self::Text(text) => text.characters(),
        }
    }

    /// Whether something of the value is left out.
    pub fn is_cut(&self) -> bool {
        !matches!(self, Self::Whole(_))
    }

    /// Returns the object that a2a-utils answers: the value under `data`, or the text under `text` with its ranges.
    pub fn to_json(&self) -> Value {
        let data = match self {
            Self::Whole(value) => (*value).clone(),
            Self::Summary(value) => value.clone(),
            Self::Text(text) => return text.to_json(),
        };
        JsonMap::from_iter([("data", data)]).into()
    }
}

/// Returns the form of a value that fits the options.
pub(super) fn minimized<'a>(data: &'a Value, options: &Minimizing<'_>) -> Minimized<'a> {
    let (limit, tip) = fitting(options.limit, options.cap, options.tip);
    if let Value::String(text) = data {
        if characters(text) <= options.limit.within(options.cap, CAP_ROOM).get() {
            return Minimized::Whole(data);
        }
        return match TextArtifacts::minimize(text, limit, tip) {
            MinimizedText::Whole(_) => Minimized::Whole(data),
            cut @ MinimizedText::Cut(_) => Minimized::Text(cut),
        };
    }
    let characters = indented_characters(data);
    if characters <= options.limit.get() && characters <= options.cap {
        return Minimized::Whole(data);
    }
    for (string_length, samples) in [
        (options.string_length, Samples::Whole),
        (options.string_length.min(SHORT_STRING_CHARACTERS), Samples::Short),
    ] {
        let form = structured(data, characters, string_length, samples, options);
        if form.characters() <= options.cap {
            return form;
        }
    }
    let text = shown_text(data);
    match TextArtifacts::minimize(&text, limit, tip) {
        MinimizedText::Cut(cut) => Minimized::Text(MinimizedText::Cut(cut)),
        MinimizedText::Whole(_) => Minimized::Text(MinimizedText::Whole(text.into())),
    }
}

/// Returns the limit and the tip with which a text, its ranges and the tip fit the cap: a tip counts as JSON writes it, where a
/// character may take twelve.
pub(super) fn fitting(
    limit: CharacterLimit,
    cap: usize,
    tip: Option<&str>,
) -> (CharacterLimit, Option<&str>) {
    let room = CAP_ROOM - TIP_CHARACTERS_MAX;
    let tip = tip.map(|tip| written_within(shown_tip(tip), cap.saturating_sub(room + LIMIT_MIN)));
    let said = room + tip.map_or(0, text_characters);
    (limit.within(cap, said.max(CAP_ROOM)), tip)
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

/// Returns a value as text: JSON on indented lines, characters beyond ASCII as themselves.
pub(super) fn shown_text(data: &Value) -> String {
    written(data, Style { unicode: true, indented: true, sorted: false })
}

/// Returns the summary of a list or object, or the whole value if that is smaller.
fn structured<'a>(
    data: &'a Value,
    characters: usize,
    string_length: usize,
    samples: Samples,
    options: &Minimizing<'_>,
) -> Minimized<'a> {
    let summary = match data {
        Value::Array(items) => match items.first() {
            None => return Minimized::Whole(data),
            Some(Value::Object(_)) => described("_total_rows", "_columns", items, table_with(items, samples)),
            Some(_) => described("_total_items", "_summary", items, values_with(items, samples)),
        },
        Value::Object(fields) => minimized_object(fields, string_length, samples),
        _ => return Minimized::Whole(data),
    };
    let summary = Value::from(options.with_tip(summary));
    if samples == Samples::Whole && wrapped_characters(&summary) > characters {
        return Minimized::Whole(data);
    }
    Minimized::Summary(summary)
}

/// Counts the characters of a value under the key `data`, as a2a-utils compares it with the whole one.
fn wrapped_characters(value: &Value) -> usize {
    const KEY: usize = r#""data": "#.len();
    indented_list(std::iter::once(KEY + indented_at(value, 1)), 0)
}
