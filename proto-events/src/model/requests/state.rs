//! The requests of the state control plane (describe, reset, compact) and its reports.

use serde::{Serialize, Serializer};

use crate::json::{JsonObject, JsonText};
use crate::model::error::ModelError;
use crate::model::fields::{ModelFields, expected, models};
use crate::model::requests::compaction::CompactionStrategy;

/// An operation of the state control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StateOperation {
    /// Describe the state.
    Describe,
    /// Clear the state.
    Reset,
    /// Compact a conversation.
    Compact,
}

impl StateOperation {
    /// Returns the operation in Protolink's words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Describe => "describe",
            Self::Reset => "reset",
            Self::Compact => "compact",
        }
    }

    /// Returns the operation of that name.
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

/// A request to the state control plane. Its bounds are wider than the bounds of a compaction, which apply too.
///
/// On the wire an object of the fields below in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateOperationRequest {
    /// The session; `None` is all of the agent's state.
    pub session_id: Option<String>,
    /// The requested stores; if empty, the operation chooses.
    pub stores: Vec<String>,
    /// Whether a description includes the data.
    pub include_data: bool,
    /// The strategy of a compaction.
    pub strategy: CompactionStrategy,
    /// The messages to keep, for `recent`.
    pub max_messages: i64,
    /// The estimated tokens to keep, for `tokens`.
    pub max_tokens: i64,
    /// The newest messages that `tokens` and `summary` never change.
    pub preserve_recent: i64,
    /// The requested length of a summary, in tokens.
    pub summary_max_tokens: i64,
    /// Further data of the request.
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
    /// Reads a request: null and `{}` are the default one, a single store may be a bare string, empty names
    /// are dropped.
    ///
    /// # Errors
    /// [`ModelError`] with Protolink's text if the strategy is unknown, or a field is not a number or out of
    /// bounds.
    pub fn from_json(json: &JsonText) -> Result<Self, ModelError> {
        let fields = ModelFields::of_optional(json)?;
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
    /// [`ModelError::Invalid`] with Protolink's text for the first violation.
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

    /// Returns the request as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }
}

/// The report on one store: its content, or the effect of an operation.
///
/// On the wire an object of the fields below in their order.
#[expect(clippy::struct_excessive_bools, reason = "each flag is a key of its own on Protolink's wire")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateStoreReport {
    /// The store: `conversation`, `tools`, `task` or `flow`.
    pub name: String,
    /// Whether the agent has the store.
    pub enabled: bool,
    /// Whether the store has content.
    pub exists: bool,
    /// The number of items, if countable.
    pub item_count: Option<i64>,
    /// The number of messages, if the store holds a conversation.
    pub message_count: Option<i64>,
    /// Whether the store was cleared.
    pub cleared: bool,
    /// Whether the store was compacted.
    pub compacted: bool,
    /// The content, if requested; otherwise null.
    pub data: JsonText,
    /// Further data of the report.
    pub metadata: JsonObject,
    /// The reason why the operation failed.
    pub error: Option<String>,
}

impl StateStoreReport {
    /// Returns an empty report.
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
    /// [`ModelError`] if a count is not a number.
    pub fn from_json(json: &JsonText) -> Result<Self, ModelError> {
        let fields = ModelFields::from_json(json)?;
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

    /// Returns the report as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }
}

/// The result of an operation.
///
/// On the wire an object of the fields below in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateOperationResult {
    /// The operation.
    pub operation: StateOperation,
    /// The requested session.
    pub session_id: Option<String>,
    /// The reports, one for each store.
    pub stores: Vec<StateStoreReport>,
    /// The stores that were cleared.
    pub cleared: Vec<String>,
    /// The stores that were compacted.
    pub compacted: Vec<String>,
    /// The requested stores that do not exist.
    pub missing: Vec<String>,
    /// The errors, each with `store` and `message`; see [`Self::fault`].
    pub errors: Vec<JsonObject>,
    /// Further data of the result.
    pub metadata: JsonObject,
}

impl StateOperationResult {
    /// Returns an empty result.
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

    /// Adds an error of a store.
    pub fn fault(&mut self, store: &str, message: &str) {
        let pairs = [("store", store), ("message", message)];
        let error = pairs.map(|(key, text)| (key.to_owned(), JsonText::string(text)));
        self.errors.push(error.into_iter().collect());
    }

    /// Reads a result.
    ///
    /// # Errors
    /// [`ModelError`] if the operation is unknown or a report is invalid.
    pub fn from_json(json: &JsonText) -> Result<Self, ModelError> {
        let fields = ModelFields::from_json(json)?;
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

    /// Returns the result as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }
}
