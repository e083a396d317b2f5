//! The entries of a transcript.

use proto_events::envelope::Timestamp;
use proto_events::id::{StreamId, Version};
use proto_events::json::JsonText;

use crate::audit::json::{number, object, text, text_or_null};

/// The speaker of an entry, or what happened to the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Speaker {
    /// The instructions to the model.
    System,
    /// The user.
    User,
    /// The model.
    Model,
    /// A call that the model asked for.
    Call,
    /// The answer to a call.
    Result,
    /// A note on a turn that was aborted, or a history that was shortened or cleared.
    Note,
}

impl Speaker {
    /// Returns its name on screens and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Model => "model",
            Self::Call => "call",
            Self::Result => "result",
            Self::Note => "note",
        }
    }

    /// Whether it belongs to the work of tools.
    pub const fn is_tool(self) -> bool {
        matches!(self, Self::Call | Self::Result)
    }
}

/// A message of a conversation, or a note on what happened to it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TranscriptEntry {
    /// The speaker.
    pub speaker: Speaker,
    /// The tool of a call or of its answer.
    pub tool: Option<String>,
    /// The words: of a model's reply what it says, of a call its arguments.
    pub text: String,
    /// The message as it stands in the log.
    pub raw: String,
    /// The stream with the event.
    pub stream: StreamId,
    /// The version of the event.
    pub version: Version,
    /// The time.
    pub at: Timestamp,
    /// The stream of the task whose turn it is.
    pub task: Option<String>,
}

impl TranscriptEntry {
    /// Returns the entry as JSON.
    pub fn to_json(&self) -> JsonText {
        object([
            ("schema", text("taskreel.transcript/1")),
            ("stream", text(self.stream.as_str())),
            ("version", number(self.version.0)),
            ("at", text(&self.at.to_string())),
            ("task", text_or_null(self.task.as_deref())),
            ("speaker", text(self.speaker.as_str())),
            ("tool", text_or_null(self.tool.as_deref())),
            ("text", text(&self.text)),
            ("raw", text(&self.raw)),
        ])
    }
}
