//! Minimized data: as it is, with its lists summarized and its strings cut, or as the head and the tail of its text.

use proto_events::json::{JsonMap, JsonValue as Value};
use proto_events::model::python_json::{
    Style, indented_at, indented_characters, indented_list, indented_object, written,
};

use crate::artifacts::characters::{characters, shown_tip};
use crate::artifacts::column::Samples;
use crate::artifacts::limit::{ArtifactSettings, CAP_ROOM, CharacterLimit, STRING_LENGTH_DEFAULT};
use crate::artifacts::object::{ItemsForm, described, minimized_object};
use crate::artifacts::summary::Statistics;
use crate::artifacts::text::MinimizedText;
use crate::artifacts::text_bounds::{TextBounds, WRAPPER_CHARACTERS};

/// The characters that a string keeps where the first minimized form is too large.
const SHORT_STRING_CHARACTERS: usize = 200;

/// The limits of a minimized form, and the tip that it carries.
#[derive(Debug, Clone, Copy)]
pub struct MinimizeLimits<'a> {
    limit: CharacterLimit,
    string_length: usize,
    cap: usize,
    /// Whether a host chose the cap, which then does not follow from the limit.
    is_own_cap: bool,
    /// Whether the cap bounds the form as JSON, with its escapes and what is around it. The forms of prompts do not count
    /// these: they follow from an event, and must stay what they were when it was written.
    is_of_json: bool,
    tip: Option<&'a str>,
}

impl<'a> MinimizeLimits<'a> {
    /// Returns the limits of the settings, without a tip.
    pub fn new(settings: &ArtifactSettings) -> Self {
        Self {
            limit: settings.send_message_character_limit(),
            string_length: settings.minimized_object_string_length(),
            cap: settings.cap(),
            is_own_cap: settings.has_own_cap(),
            is_of_json: true,
            tip: None,
        }
    }

    /// Returns the limits of a result that a prompt shows: they follow from the one limit that the inference's intent
    /// holds, and the form exceeds it by no more than a tip and ranges need.
    pub(crate) fn of_output(limit: CharacterLimit, tip: &'a str) -> Self {
        let string_length = limit.get().min(STRING_LENGTH_DEFAULT);
        let cap = limit.get().saturating_add(CAP_ROOM);
        let tip = Some(shown_tip(tip)).filter(|tip| !tip.is_empty());
        Self { limit, string_length, cap, is_own_cap: true, is_of_json: false, tip }
    }

    /// Sets the characters above which a value is minimized. A cap that the settings do not hold themselves follows.
    #[must_use]
    pub fn limit(self, limit: CharacterLimit) -> Self {
        Self { limit, cap: if self.is_own_cap { self.cap } else { limit.cap() }, ..self }
    }

    /// Sets the characters that a string inside an object keeps; 0 keeps none.
    #[must_use]
    pub fn string_length(self, characters: usize) -> Self {
        Self { string_length: characters, ..self }
    }

    /// Sets what a minimized form says about how to see the rest. Of a tip for which the cap has no room its first 500
    /// characters are shown.
    #[must_use]
    pub fn tip(self, tip: Option<&'a str>) -> Self {
        Self { tip, ..self }
    }

    fn bounds(&self) -> TextBounds<'a> {
        TextBounds { limit: self.limit, cap: self.cap, is_of_json: self.is_of_json, tip: self.tip }
    }

    /// Returns the characters that the indented JSON of a form may have.
    fn most(&self) -> usize {
        if self.is_of_json { self.cap.saturating_sub(WRAPPER_CHARACTERS) } else { self.cap }
    }

    /// Whether the form of a list or object keeps to the cap.
    fn is_met_by(&self, form: &MinimizedValue<'_>) -> bool {
        match form {
            MinimizedValue::Whole(value) => indented_characters(value) <= self.most(),
            MinimizedValue::Summary(value) => indented_characters(value) <= self.most(),
            MinimizedValue::Text(_) => false,
        }
    }
}

/// A JSON value as a model is shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MinimizedValue<'a> {
    /// The whole value.
    Whole(&'a Value),
    /// A value that says what the whole one holds.
    Summary(Value),
    /// The head and the tail of a string, or of the indented JSON of any other value.
    Text(MinimizedText<'a>),
}

impl MinimizedValue<'_> {
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
pub(super) fn minimized<'a>(data: &'a Value, options: &MinimizeLimits<'_>) -> MinimizedValue<'a> {
    if let Value::String(text) = data {
        return match options.bounds().minimized(text) {
            MinimizedText::Whole(_) => MinimizedValue::Whole(data),
            cut @ MinimizedText::Cut(_) => MinimizedValue::Text(cut),
        };
    }
    let characters = indented_characters(data);
    if characters <= options.limit.get() && characters <= options.most() {
        return MinimizedValue::Whole(data);
    }
    let statistics =
        data.as_array().filter(|items| !items.is_empty()).map(|items| Statistics::from_items(items));
    for (string_length, samples) in [
        (options.string_length, Samples::Whole),
        (options.string_length.min(SHORT_STRING_CHARACTERS), Samples::Short),
    ] {
        let form = structured(data, statistics.as_ref(), (characters, string_length, samples), options);
        if let Some(form) = form.filter(|form| options.is_met_by(form)) {
            return form;
        }
    }
    let text = shown_text(data);
    match options.bounds().minimized(&text) {
        MinimizedText::Cut(cut) => MinimizedValue::Text(MinimizedText::Cut(cut)),
        MinimizedText::Whole(_) => MinimizedValue::Text(MinimizedText::Whole(text.into())),
    }
}

/// Returns a value as text: JSON on indented lines, characters beyond ASCII as themselves.
pub(super) fn shown_text(data: &Value) -> String {
    written(data, Style { unicode: true, indented: true, sorted: false })
}

/// Returns the summary of a list or object, or the whole value if that is smaller; `None` if the summary is larger than may be
/// shown.
fn structured<'a>(
    data: &'a Value,
    statistics: Option<&Statistics<'_>>,
    (characters, string_length, samples): (usize, usize, Samples),
    options: &MinimizeLimits<'_>,
) -> Option<MinimizedValue<'a>> {
    let is_guarded = samples == Samples::Whole;
    // A summary that is larger than the cap is of no use: it is larger than the value too, or the value is itself too large.
    let most = options.most();
    let mut summary = match (data, statistics) {
        (Value::Array(items), Some(statistics)) => match described(items, statistics, samples, most) {
            ItemsForm::Summary(summary) => summary,
            ItemsForm::List => return Some(MinimizedValue::Whole(data)),
            ItemsForm::TooLarge if is_guarded => return Some(MinimizedValue::Whole(data)),
            ItemsForm::TooLarge => return None,
        },
        (Value::Object(fields), _) => match minimized_object(fields, string_length, samples, most) {
            Some(minimized) => minimized,
            None if is_guarded => return Some(MinimizedValue::Whole(data)),
            None => return None,
        },
        _ => return Some(MinimizedValue::Whole(data)),
    };
    if let Some(tip) = options.tip {
        summary.insert("_tip", tip.into());
        let summary_is_large = indented_object(summary.iter(), 0) > options.most();
        if summary_is_large {
            summary.insert("_tip", shown_tip(tip).into());
        }
    }
    let summary = Value::from(summary);
    if is_guarded && wrapped_characters(&summary) > characters {
        return Some(MinimizedValue::Whole(data));
    }
    Some(MinimizedValue::Summary(summary))
}

/// Counts the characters of a value under the key `data`, as a2a-utils compares it with the whole one.
fn wrapped_characters(value: &Value) -> usize {
    const KEY: usize = r#""data": "#.len();
    indented_list(std::iter::once(KEY + indented_at(value, 1)), 0)
}
