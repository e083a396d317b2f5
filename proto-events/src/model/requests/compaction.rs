//! The request to compact a conversation, and its result.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::json::{JsonObject, JsonText};
use crate::model::error::ModelError;
use crate::model::fields::ModelFields;

/// The strategy by which a conversation is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompactionStrategy {
    /// Keep the newest messages.
    Recent,
    /// Keep the newest messages that fit a number of tokens.
    Tokens,
    /// Replace the older messages by a summary.
    Summary,
}

impl CompactionStrategy {
    /// Returns the strategy in Protolink's words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recent => "recent",
            Self::Tokens => "tokens",
            Self::Summary => "summary",
        }
    }

    /// Returns the strategy of that name.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] with Protolink's text.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        [Self::Recent, Self::Tokens, Self::Summary]
            .into_iter()
            .find(|strategy| strategy.as_str() == text)
            .ok_or_else(|| ModelError::Invalid("strategy must be one of: recent, tokens, summary".to_owned()))
    }
}

impl Serialize for CompactionStrategy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A request to compact a conversation. Numbers are as posted; [`Self::check`] checks their bounds.
///
/// On the wire an object of the fields below in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HistoryCompactionRequest {
    /// The strategy.
    pub strategy: CompactionStrategy,
    /// The messages to keep, for `recent`.
    pub max_messages: i64,
    /// The estimated tokens to keep, for `tokens`.
    pub max_tokens: i64,
    /// The newest messages that `tokens` and `summary` never change.
    pub preserve_recent: i64,
    /// The requested length of a summary, in tokens.
    pub summary_max_tokens: i64,
    /// The session; `None` is the agent's own history.
    pub session_id: Option<String>,
    /// Further data of the request.
    pub metadata: JsonObject,
}

impl Default for HistoryCompactionRequest {
    fn default() -> Self {
        Self {
            strategy: CompactionStrategy::Recent,
            max_messages: 20,
            max_tokens: 4_000,
            preserve_recent: 6,
            summary_max_tokens: 512,
            session_id: None,
            metadata: JsonObject::new(),
        }
    }
}

impl HistoryCompactionRequest {
    /// Reads a request; numbers may be strings.
    ///
    /// # Errors
    /// [`ModelError`] if the strategy is unknown or a field is not a number.
    pub fn from_json(json: &JsonText) -> Result<Self, ModelError> {
        let fields = ModelFields::from_json(json)?;
        let default = Self::default();
        let strategy = match fields.get("strategy") {
            None => default.strategy,
            Some(given) => CompactionStrategy::parse(&given.to_str().unwrap_or_default())?,
        };
        Ok(Self {
            strategy,
            max_messages: fields.int_or("max_messages", default.max_messages)?,
            max_tokens: fields.int_or("max_tokens", default.max_tokens)?,
            preserve_recent: fields.int_or("preserve_recent", default.preserve_recent)?,
            summary_max_tokens: fields.int_or("summary_max_tokens", default.summary_max_tokens)?,
            session_id: fields.coerced("session_id"),
            metadata: fields.object("metadata")?,
        })
    }

    /// Returns the request as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }

    /// Checks the bounds, which apply to every strategy, and that a summary has a summarizer.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] with Protolink's text for the first violation.
    pub fn check(&self, has_summarizer: bool) -> Result<(), ModelError> {
        let summary = self.strategy == CompactionStrategy::Summary;
        let rules = [
            (self.max_messages >= 2, "max_messages must be >= 2"),
            (self.max_tokens >= 1, "max_tokens must be >= 1"),
            (self.preserve_recent >= 1, "preserve_recent must be >= 1"),
            (self.summary_max_tokens >= 1, "summary_max_tokens must be >= 1"),
            (has_summarizer || !summary, "summary strategy requires a summarizer"),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, text)) => Err(ModelError::Invalid(text.to_owned())),
            None => Ok(()),
        }
    }
}

/// The result of a compaction.
///
/// On the wire an object of the fields below in their order, and `changed` after them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryCompactionResult {
    /// The strategy; not checked, because a newer agent may know more.
    pub strategy: String,
    /// The number of messages before.
    pub before_messages: i64,
    /// The number of messages after.
    pub after_messages: i64,
    /// The number of messages removed.
    pub removed_messages: i64,
    /// The estimated tokens before.
    pub before_tokens: i64,
    /// The estimated tokens after.
    pub after_tokens: i64,
    /// Whether a summary replaces the removed messages.
    pub summary_created: bool,
}

impl HistoryCompactionResult {
    /// Whether the conversation was changed.
    pub const fn changed(&self) -> bool {
        self.removed_messages > 0 || self.summary_created
    }

    /// Reads a result.
    ///
    /// # Errors
    /// [`ModelError`] if a field is not a number.
    pub fn from_json(json: &JsonText) -> Result<Self, ModelError> {
        let fields = ModelFields::from_json(json)?;
        Ok(Self {
            strategy: fields.text_or("strategy", || "recent".to_owned())?,
            before_messages: fields.int_or("before_messages", 0)?,
            after_messages: fields.int_or("after_messages", 0)?,
            removed_messages: fields.int_or("removed_messages", 0)?,
            before_tokens: fields.int_or("before_tokens", 0)?,
            after_tokens: fields.int_or("after_tokens", 0)?,
            summary_created: fields.flag("summary_created"),
        })
    }

    /// Returns the result as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }
}

impl Serialize for HistoryCompactionResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut result = serializer.serialize_struct("HistoryCompactionResult", 8)?;
        result.serialize_field("strategy", &self.strategy)?;
        result.serialize_field("before_messages", &self.before_messages)?;
        result.serialize_field("after_messages", &self.after_messages)?;
        result.serialize_field("removed_messages", &self.removed_messages)?;
        result.serialize_field("before_tokens", &self.before_tokens)?;
        result.serialize_field("after_tokens", &self.after_tokens)?;
        result.serialize_field("summary_created", &self.summary_created)?;
        result.serialize_field("changed", &self.changed())?;
        result.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_is_checked_for_every_strategy_and_named_in_protolinks_words() {
        let request = HistoryCompactionRequest::default();
        assert_eq!(request.check(false), Ok(()));
        let said = |request: HistoryCompactionRequest| request.check(false).unwrap_err().to_string();
        let base = || HistoryCompactionRequest::default();
        assert_eq!(said(HistoryCompactionRequest { max_messages: 1, ..base() }), "max_messages must be >= 2");
        assert_eq!(said(HistoryCompactionRequest { max_tokens: 0, ..base() }), "max_tokens must be >= 1");
        assert_eq!(
            said(HistoryCompactionRequest { preserve_recent: 0, ..base() }),
            "preserve_recent must be >= 1"
        );
        assert_eq!(
            said(HistoryCompactionRequest { summary_max_tokens: 0, ..base() }),
            "summary_max_tokens must be >= 1"
        );
        let summary = HistoryCompactionRequest { strategy: CompactionStrategy::Summary, ..base() };
        assert_eq!(summary.check(true), Ok(()));
        assert_eq!(said(summary), "summary strategy requires a summarizer");
    }
}
