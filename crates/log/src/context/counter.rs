//! Counters of tokens, and the size of a message for a counter.

use std::fmt;
use std::sync::Arc;

use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::model::python_json::python_json;

use crate::context::error::SettingError;
use crate::context::transcript::{Content, ContentPart, MessageView};

/// A counter of the tokens of a text. Its results decide only what is sent and stand in the intent as figures: nothing
/// that reads the log needs the counter again.
pub trait TokenCounter: Send + Sync + 'static {
    /// Returns the name under which the figures are recorded, such as `heuristic/4`.
    fn name(&self) -> String;

    /// Returns the tokens of a text; 0 for an empty one.
    fn tokens(&self, text: &str) -> u64;
}

/// The default counter: a fixed number of characters for each token, rounded up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeuristicTokens {
    chars_per_token: f64,
}

impl HeuristicTokens {
    /// Returns a counter with as many characters for each token; the default is 4.
    ///
    /// # Errors
    /// [`SettingError::CharsPerToken`] if the number is not above 0.
    pub fn new(chars_per_token: f64) -> Result<Self, SettingError> {
        if chars_per_token > 0.0 { Ok(Self { chars_per_token }) } else { Err(SettingError::CharsPerToken) }
    }
}

impl Default for HeuristicTokens {
    fn default() -> Self {
        Self { chars_per_token: 4.0 }
    }
}

impl TokenCounter for HeuristicTokens {
    fn name(&self) -> String {
        format!("heuristic/{}", self.chars_per_token)
    }

    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a text has less than 2^53 characters, and the quotient of two positive numbers is positive"
    )]
    fn tokens(&self, text: &str) -> u64 {
        (text.chars().count() as f64 / self.chars_per_token).ceil() as u64
    }
}

/// Protolink's estimate of the tokens of a text: four characters for each, as [`estimate_tokens`] says it for any value.
///
/// [`estimate_tokens`]: crate::context::estimate_tokens
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProtolinkTokens;

impl TokenCounter for ProtolinkTokens {
    fn name(&self) -> String {
        "protolink".to_owned()
    }

    fn tokens(&self, text: &str) -> u64 {
        crate::context::tokens::estimate_text(text)
    }
}

/// The tokens that a message costs by default beside its texts.
const OVERHEAD: i64 = 4;

/// The tokens of a part that is not a text, by default.
const MEDIA: u64 = 600;

/// The way in which messages are measured: a counter of texts, and what a message costs beside its texts.
#[derive(Clone)]
pub struct MessageMeasure {
    counter: Arc<dyn TokenCounter>,
    per_message_overhead: i64,
    tokens_per_media: u64,
}

impl MessageMeasure {
    /// Measures texts with this counter, with 4 tokens for each message and 600 for each part that is not a text.
    pub fn with(counter: impl TokenCounter) -> Self {
        Self { counter: Arc::new(counter), per_message_overhead: OVERHEAD, tokens_per_media: MEDIA }
    }

    /// Sets the tokens that each message costs beside its texts.
    #[must_use]
    pub fn per_message_overhead(self, tokens: i64) -> Self {
        Self { per_message_overhead: tokens, ..self }
    }

    /// Sets the tokens of each part that is not a text.
    #[must_use]
    pub fn tokens_per_media(self, tokens: u64) -> Self {
        Self { tokens_per_media: tokens, ..self }
    }

    /// Returns the name of the counter.
    pub fn name(&self) -> String {
        self.counter.name()
    }

    /// Returns the settings that are not the default ones, for the name of a strategy.
    pub(crate) fn beside_texts(&self) -> String {
        let Self { per_message_overhead: overhead, tokens_per_media: media, .. } = self;
        let overhead = (*overhead != OVERHEAD).then(|| format!(", {overhead} a message"));
        let media = (*media != MEDIA).then(|| format!(", {media} a media part"));
        overhead.into_iter().chain(media).collect()
    }

    /// Returns what tells this way of measuring from others in a cache.
    pub(crate) fn key(&self) -> String {
        format!("{} {} {}", self.counter.name(), self.per_message_overhead, self.tokens_per_media)
    }

    /// Returns the tokens of a text.
    pub fn text(&self, text: &str) -> i64 {
        i64::try_from(self.counter.tokens(text)).unwrap_or(i64::MAX)
    }

    /// Returns the tokens of a system message that stands in front of the numbered ones.
    pub fn system(&self, text: &str) -> i64 {
        self.per_message_overhead.saturating_add(self.text(text))
    }

    /// Returns the tokens of a message: its texts, its media, the calls that it asks for, and the overhead.
    pub fn message(&self, message: &MessageView<'_>) -> i64 {
        let content = match message.content {
            Content::Text(text) => self.text(text),
            Content::Parts(parts) => {
                parts.iter().fold(0, |sum: i64, part| sum.saturating_add(self.part(part)))
            }
        };
        let calls = message.calls.map_or(0, |calls| self.calls(calls));
        self.per_message_overhead.saturating_add(content).saturating_add(calls)
    }

    fn part(&self, part: &ContentPart) -> i64 {
        match part {
            ContentPart::Text(text) => self.text(text),
            ContentPart::Media => i64::try_from(self.tokens_per_media).unwrap_or(i64::MAX),
        }
    }

    /// Returns the tokens of calls: the name and the arguments of each.
    fn calls(&self, calls: &JsonText) -> i64 {
        let calls = calls.tree();
        let call = |call: &Value| {
            let function = call.get("function")?;
            let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
            let args = match function.get("arguments") {
                Some(Value::String(text)) => {
                    JsonText::parse(text).map_or_else(|_| text.clone(), |args| python_json(&args.tree()))
                }
                Some(other) => python_json(other),
                None => String::new(),
            };
            Some(self.text(name).saturating_add(self.text(&args)))
        };
        calls.as_array().into_iter().flatten().filter_map(call).fold(0, i64::saturating_add)
    }
}

impl Default for MessageMeasure {
    fn default() -> Self {
        Self::with(HeuristicTokens::default())
    }
}

impl fmt::Debug for MessageMeasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MessageMeasure").field(&self.key()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_counters_of_four_characters_agree_on_texts() {
        for text in ["", "a", "abcd", "abcde", "zoë!", "😀😀😀😀😀"] {
            assert_eq!(HeuristicTokens::default().tokens(text), ProtolinkTokens.tokens(text), "{text}");
        }
    }
}
