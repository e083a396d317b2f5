//! The values of conditions, and their comparison with values of JSON.

use std::cmp::Ordering;

use proto_events::json::{JsonNumber, JsonValue};

/// The shortest text that is a time with its offset.
const TIME_CHARACTERS_MIN: usize = 17;

/// A value that a field is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Literal {
    text: String,
    /// Whether it stood in quotes, so that it is a text only.
    is_quoted: bool,
    number: Option<JsonNumber>,
    time: Option<jiff::Timestamp>,
}

impl Literal {
    pub(super) fn new(text: String, is_quoted: bool) -> Self {
        let number = if is_quoted { None } else { text.parse().ok() };
        let time = time(&text).or_else(|| day(&text));
        Self { text, is_quoted, number, time }
    }

    pub(super) fn is_equal(&self, value: &JsonValue) -> bool {
        match value {
            JsonValue::String(said) => {
                *said == self.text || self.time.is_some_and(|asked| time(said) == Some(asked))
            }
            JsonValue::Number(number) => {
                self.number.as_ref().is_some_and(|asked| compare(number, asked) == Some(Ordering::Equal))
            }
            JsonValue::Bool(said) => !self.is_quoted && self.text == if *said { "true" } else { "false" },
            JsonValue::Null => !self.is_quoted && self.text == "null",
            JsonValue::Array(_) | JsonValue::Object(_) => false,
        }
    }

    /// Returns the order of a value and this one; none if they cannot be compared.
    pub(super) fn order(&self, value: &JsonValue) -> Option<Ordering> {
        match value {
            JsonValue::Number(number) => compare(number, self.number.as_ref()?),
            JsonValue::String(said) => Some(match (self.time, time(said)) {
                (Some(asked), Some(said)) => said.cmp(&asked),
                _ => said.as_str().cmp(&self.text),
            }),
            _ => None,
        }
    }
}

/// Compares two numbers: whole ones exactly, others as floats.
fn compare(a: &JsonNumber, b: &JsonNumber) -> Option<Ordering> {
    let whole = |number: &JsonNumber| number.as_str().parse::<i128>().ok();
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

fn time(text: &str) -> Option<jiff::Timestamp> {
    let is_like = text.len() >= TIME_CHARACTERS_MIN && text.starts_with(|first: char| first.is_ascii_digit());
    is_like.then(|| text.parse().ok()).flatten()
}

/// Returns the beginning of a day, in UTC as the times of JSON are.
fn day(text: &str) -> Option<jiff::Timestamp> {
    (text.len() == 10).then(|| format!("{text}T00:00:00Z").parse().ok()).flatten()
}
