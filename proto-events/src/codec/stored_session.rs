//! Storage structs of session events.

use serde::{Deserialize, Serialize};

use crate::codec::error::{CodecError, FieldError};
use crate::codec::kind;
use crate::codec::storable::{Payload, Storable};
use crate::codec::stored_compaction::{
    compacted_payload, failed_payload, read_compaction, received_payload, requested_payload,
};
use crate::codec::stored_model::{LlmMessageV1, TurnMessageV1};
use crate::codec::upcast::{first_version, read, write};
use crate::id::Category;
use crate::session::event::SessionEvent;

#[derive(Serialize, Deserialize)]
struct OpenedV1 {
    session_id: String,
}

#[derive(Serialize, Deserialize)]
struct TurnStartedV1 {
    turn_id: String,
    task: String,
}

#[derive(Serialize, Deserialize)]
struct TurnCommittedV1 {
    turn_id: String,
}

#[derive(Serialize, Deserialize)]
struct TurnAbortedV1 {
    turn_id: String,
    reason: String,
}

first_version!(OpenedV1, LlmMessageV1<'a>, TurnStartedV1, TurnCommittedV1, TurnAbortedV1, SessionClearedV1);

#[derive(Serialize, Deserialize)]
struct SessionClearedV1 {
    messages: u32,
}

impl Storable for SessionEvent {
    const CATEGORY: Category = Category::Session;

    fn encode(&self) -> Result<Payload, CodecError> {
        match self {
            Self::Opened { session_id } => write(kind::OPENED, &OpenedV1 { session_id: session_id.clone() }),
            Self::SystemPromptSet(prompt) => {
                write(kind::SYSTEM_PROMPT_SET, &LlmMessageV1::from_message(prompt))
            }
            Self::TurnStarted { turn_id, task } => {
                write(kind::TURN_STARTED, &TurnStartedV1 { turn_id: turn_id.clone(), task: task.clone() })
            }
            Self::MessageAppended(message) => {
                write(kind::SESSION_MESSAGE_APPENDED, &TurnMessageV1::from_message(message))
            }
            Self::TurnCommitted { turn_id } => {
                write(kind::TURN_COMMITTED, &TurnCommittedV1 { turn_id: turn_id.clone() })
            }
            Self::TurnAborted { turn_id, reason } => {
                let stored = TurnAbortedV1 { turn_id: turn_id.clone(), reason: reason.clone() };
                write(kind::TURN_ABORTED, &stored)
            }
            Self::Cleared { messages } => write(kind::CLEARED, &SessionClearedV1 { messages: *messages }),
            Self::HistoryCompacted(compacted) => compacted_payload(compacted),
            Self::SummaryRequested(request) => requested_payload(request),
            Self::SummaryReceived { call_id, reply, usage, dropped } => {
                received_payload(call_id, reply, *usage, dropped.as_deref())
            }
            Self::SummaryFailed { call_id, error_type, message, usage } => {
                failed_payload(call_id, error_type, message, *usage)
            }
        }
    }

    fn decode(kind: u16, schema: u8, body: &[u8]) -> Result<Self, CodecError> {
        let damaged = |error: FieldError| CodecError::Damaged { kind, why: error.to_string() };
        Ok(match kind {
            kind::OPENED => {
                let OpenedV1 { session_id } = read(kind, schema, body)?;
                Self::Opened { session_id }
            }
            kind::SYSTEM_PROMPT_SET => {
                let stored: LlmMessageV1<'_> = read(kind, schema, body)?;
                Self::SystemPromptSet(stored.read().map_err(damaged)?)
            }
            kind::TURN_STARTED => {
                let TurnStartedV1 { turn_id, task } = read(kind, schema, body)?;
                Self::TurnStarted { turn_id, task }
            }
            kind::SESSION_MESSAGE_APPENDED => {
                let stored: TurnMessageV1 = read(kind, schema, body)?;
                Self::MessageAppended(stored.read().map_err(damaged)?)
            }
            kind::TURN_COMMITTED => {
                let TurnCommittedV1 { turn_id } = read(kind, schema, body)?;
                Self::TurnCommitted { turn_id }
            }
            kind::TURN_ABORTED => {
                let TurnAbortedV1 { turn_id, reason } = read(kind, schema, body)?;
                Self::TurnAborted { turn_id, reason }
            }
            kind::CLEARED => {
                let SessionClearedV1 { messages } = read(kind, schema, body)?;
                Self::Cleared { messages }
            }
            kind::HISTORY_COMPACTED
            | kind::SUMMARY_REQUESTED
            | kind::SUMMARY_RECEIVED
            | kind::SUMMARY_FAILED => read_compaction(kind, schema, body)?,
            _ => {
                return Err(CodecError::UnknownKind { kind, category: Self::CATEGORY.as_str() });
            }
        })
    }
}
