//! An event of a causation graph.

use proto_events::envelope::Timestamp;
use proto_events::id::{StreamId, Version};
use proto_events::json::JsonText;

use crate::audit::json::{number, object, text};

/// An event of a causation graph.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CausedEvent {
    /// The version.
    pub version: Version,
    /// The time.
    pub at: Timestamp,
    /// The name of the event's kind.
    pub kind: &'static str,
    /// The event in words, cut.
    pub text: String,
    /// Whether it tells of a failure.
    pub is_failed: bool,
    /// The number of the event that caused it: of the same stream, and earlier.
    pub cause: Option<usize>,
    /// The cause where it lies outside of these events: an id, or empty for a caller.
    pub outside: String,
}

impl CausedEvent {
    /// Returns the event as JSON; `cause` is the one that caused it.
    pub fn to_json(&self, stream: &StreamId, cause: Option<&Self>) -> JsonText {
        object([
            ("schema", text("taskreel.cause/1")),
            ("stream", text(stream.as_str())),
            ("version", number(self.version.0)),
            ("at", text(&self.at.to_string())),
            ("kind", text(self.kind)),
            ("text", text(&self.text)),
            ("failed", JsonText::of_model(&self.is_failed)),
            ("caused_by", cause.map_or_else(JsonText::null, |cause| number(cause.version.0))),
            ("outside", text(&self.outside)),
        ])
    }
}
