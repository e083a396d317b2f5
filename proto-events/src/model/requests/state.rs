//! The state control plane's requests (describe, reset, compact) and what it reports.

use serde::{Serialize, Serializer};

use crate::json::{JsonObject, JsonText};
use crate::model::ModelError;
use crate::model::fields::{Fields, expected, models};
use crate::model::requests::compaction::CompactionStrategy;

/// What the state control plane can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StateOperation {
    /// Tell what is there.
    Describe,
    /// Clear it.
    Reset,
    /// Compact a conversation.
    Compact,
}

impl StateOperation {
    /// The operation in Protolink's words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Describe => "describe",
            Self::Reset => "reset",
            Self::Compact => "compact",
        }
    }

    /// The operation of that name.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] with Protolink's text.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        [Self::Describe, Self::Reset, Self::Compact]
            .into_iter()
            .find(|operation| operation.as_str() == text)
            .ok_or_else(|| {
                ModelError::Invalid("operation must be one of: describe, reset, compact".to_owned())
            })
    }
}

impl Serialize for StateOperation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A request to the state control plane. Its bounds are wider than a compaction's own, which holds as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateOperationRequest {
    /// The session; all of the agent's state if none.
    pub session_id: Option<String>,
    /// The stores meant; empty leaves the choice to the operation.
    pub stores: Vec<String>,
    /// Whether a description shows the data too.
    pub include_data: bool,
    /// How to compact.
    pub strategy: CompactionStrategy,
    /// Messages to keep, for `recent`.
    pub max_messages: i64,
    /// Estimated tokens to keep, for `tokens`.
    pub max_tokens: i64,
    /// Newest messages that `tokens` and `summary` never touch.
    pub preserve_recent: i64,
    /// Length that a summary is asked to have, in tokens.
    pub summary_max_tokens: i64,
    /// Whatever belongs to the request.
    pub metadata: JsonObject,
}

impl Default for StateOperationRequest {
    fn default() -> Self {
        Self {
            session_id: None,
            stores: Vec::new(),
            include_data: false,
            strategy: CompactionStrategy::Tokens,
            max_messages: 20,
            max_tokens: 4_000,
            preserve_recent: 6,
            summary_max_tokens: 512,
            metadata: JsonObject::new(),
        }
    }
}

impl StateOperationRequest {
    /// Reads a request: null and `{}` are the default one, one store may be a bare string, names that are
    /// empty are dropped.
    ///
    /// # Errors
    /// [`ModelError`] with Protolink's text if the strategy is unknown, a number is none or out of its bounds.
    pub fn from_json(json: &JsonText) -> Result<Self, ModelError> {
        let fields = Fields::of_optional(json)?;
        let default = Self::default();
        let strategy = match fields.coerced_truthy("strategy") {
            None => default.strategy,
            Some(given) => CompactionStrategy::parse(&given)?,
        };
        let stores = fields.texts("stores")?;
        let request = Self {
            session_id: fields.coerced("session_id"),
            stores: stores.into_iter().filter(|store| !store.is_empty()).collect(),
            include_data: fields.flag("include_data"),
            strategy,
            max_messages: fields.int_or("max_messages", default.max_messages)?,
            max_tokens: fields.int_or("max_tokens", default.max_tokens)?,
            preserve_recent: fields.int_or("preserve_recent", default.preserve_recent)?,
            summary_max_tokens: fields.int_or("summary_max_tokens", default.summary_max_tokens)?,
            metadata: fields.object("metadata")?,
        };
        request.check().map(|()| request)
    }

    /// Checks the bounds.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] with Protolink's text for the first that does not hold.
    pub fn check(&self) -> Result<(), ModelError> {
        let rules = [
            (self.max_messages >= 1, "max_messages must be at least 1"),
            (self.max_tokens >= 1, "max_tokens must be at least 1"),
            (self.preserve_recent >= 0, "preserve_recent must be non-negative"),
            (self.summary_max_tokens >= 1, "summary_max_tokens must be at least 1"),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, text)) => Err(ModelError::Invalid(text.to_owned())),
            None => Ok(()),
        }
    }

    /// The request as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }
}

/// What an operation found in one store, or did to it.
#[expect(clippy::struct_excessive_bools, reason = "each flag is a key of its own on Protolink's wire")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateStoreReport {
    /// The store: `conversation`, `tools`, `task` or `flow`.
    pub name: String,
    /// Whether the agent has it.
    pub enabled: bool,
    /// Whether something is in it.
    pub exists: bool,
    /// How many items, if they can be counted.
    pub item_count: Option<i64>,
    /// How many messages, if it holds a conversation.
    pub message_count: Option<i64>,
    /// Whether it was cleared.
    pub cleared: bool,
    /// Whether it was compacted.
    pub compacted: bool,
    /// What is in it, if that was asked; else null.
    pub data: JsonText,
    /// Whatever else is to be said.
    pub metadata: JsonObject,
    /// Why it could not be done.
    pub error: Option<String>,
}

impl StateStoreReport {
    /// A report that says nothing yet.
    pub fn new(name: &str, enabled: bool) -> Self {
        Self {
            name: name.to_owned(),
            enabled,
            exists: false,
            item_count: None,
            message_count: None,
            cleared: false,
            compacted: false,
            data: JsonText::null(),
            metadata: JsonObject::new(),
            error: None,
        }
    }

    /// Reads a report.
    ///
    /// # Errors
    /// [`ModelError`] if a count is no number.
    pub fn from_json(json: &JsonText) -> Result<Self, ModelError> {
        let fields = Fields::of(json)?;
        Ok(Self {
            name: fields.coerced_truthy("name").unwrap_or_else(|| "unknown".to_owned()),
            enabled: fields.flag("enabled"),
            exists: fields.flag("exists"),
            item_count: fields.optional_int("item_count")?,
            message_count: fields.optional_int("message_count")?,
            cleared: fields.flag("cleared"),
            compacted: fields.flag("compacted"),
            data: fields.any("data"),
            metadata: fields.object("metadata")?,
            error: fields.coerced("error"),
        })
    }

    /// The report as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }
}

/// What an operation did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateOperationResult {
    /// The operation.
    pub operation: StateOperation,
    /// The session that was meant.
    pub session_id: Option<String>,
    /// One report for each store.
    pub stores: Vec<StateStoreReport>,
    /// The stores that were cleared.
    pub cleared: Vec<String>,
    /// The stores that were compacted.
    pub compacted: Vec<String>,
    /// The stores that were asked for and are not there.
    pub missing: Vec<String>,
    /// What went wrong, each with `store` and `message`; see [`Self::fault`].
    pub errors: Vec<JsonObject>,
    /// Whatever else is to be said.
    pub metadata: JsonObject,
}

impl StateOperationResult {
    /// A result that says nothing yet.
    pub fn new(operation: StateOperation, session_id: Option<&str>) -> Self {
        Self {
            operation,
            session_id: session_id.map(str::to_owned),
            stores: Vec::new(),
            cleared: Vec::new(),
            compacted: Vec::new(),
            missing: Vec::new(),
            errors: Vec::new(),
            metadata: JsonObject::new(),
        }
    }

    /// Adds what went wrong with a store.
    pub fn fault(&mut self, store: &str, message: &str) {
        let pairs = [("store", store), ("message", message)];
        let error = pairs.map(|(key, text)| (key.to_owned(), JsonText::string(text)));
        self.errors.push(error.into_iter().collect());
    }

    /// Reads a result.
    ///
    /// # Errors
    /// [`ModelError`] if the operation is unknown or a report is none.
    pub fn from_json(json: &JsonText) -> Result<Self, ModelError> {
        let fields = Fields::of(json)?;
        let operation = match fields.coerced_truthy("operation") {
            None => StateOperation::Describe,
            Some(given) => StateOperation::parse(&given)?,
        };
        let error = |error: &JsonText| match error.read() {
            Ok(object) => Ok(object),
            Err(_) => Err(expected("", "an object", error)),
        };
        Ok(Self {
            operation,
            session_id: fields.coerced("session_id"),
            stores: models("stores", &fields.optional_list("stores")?, StateStoreReport::from_json)?,
            cleared: fields.texts("cleared")?,
            compacted: fields.texts("compacted")?,
            missing: fields.texts("missing")?,
            errors: models("errors", &fields.optional_list("errors")?, error)?,
            metadata: fields.object("metadata")?,
        })
    }

    /// The result as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }
}
