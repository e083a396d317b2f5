//! Events as bytes and back. [`record`] is the commit record that hashes and carries event bodies;
//! [`kind`] numbers the events; `payload` is the only file that names bincode; `upcast` brings old schema
//! versions up to date, step by step, while reading; the `stored_*` files are the storage structs; [`state`] keeps
//! whole states for snapshots.

pub mod kind;
mod payload;
pub mod record;
pub mod state;
mod stored_approval;
mod stored_call;
mod stored_model;
mod stored_session;
mod stored_state;
mod stored_task;
mod stored_tool_store;
mod upcast;

pub use stored_task::state_after;

use crate::json::JsonError;
use crate::session::SessionEvent;
use crate::task::TaskEvent;
use crate::tool_store::ToolStoreEvent;

/// An event's body with what is needed to read it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// Which event.
    pub kind: u16,
    /// Which schema version of it.
    pub schema: u8,
    /// Its body.
    pub body: Vec<u8>,
}

/// Why bytes are no event, or an event cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The kind does not belong to this stream's category.
    #[error("event kind {kind} is not one of a {category} stream that this version knows")]
    UnknownKind {
        /// The kind found.
        kind: u16,
        /// The stream's category.
        category: &'static str,
    },
    /// A newer program wrote it.
    #[error(
        "event kind {kind} has schema version {found}; this version knows up to {known}: use a newer one"
    )]
    UnknownSchema {
        /// The kind.
        kind: u16,
        /// The version found.
        found: u8,
        /// The newest known.
        known: u8,
    },
    /// The body is damaged.
    #[error("the body of event kind {kind} cannot be read: {why}")]
    Damaged {
        /// The kind.
        kind: u16,
        /// What the decoder met.
        why: String,
    },
    /// The body is over the limit.
    #[error("the event has {bytes} bytes; the limit is {limit}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
}

/// Why a stored field is not what it must be.
#[derive(Debug, thiserror::Error)]
enum FieldError {
    #[error("JSON: {0}")]
    Json(#[from] JsonError),
    #[error("{0} is not one of the known codes")]
    Code(u8),
    #[error("{0}")]
    Model(#[from] crate::model::ModelError),
}

/// An event that can be written to a log and read back.
pub trait Storable: Sized {
    /// The category of the streams it stands in.
    const CATEGORY: &'static str;

    /// Its bytes, in the newest schema version.
    ///
    /// # Errors
    /// [`CodecError::TooLarge`] if they are over the limit.
    fn encode(&self) -> Result<Payload, CodecError>;

    /// Reads it back, whatever version it was written in.
    ///
    /// # Errors
    /// [`CodecError`] if the kind or version is unknown or the body damaged.
    fn decode(kind: u16, schema: u8, body: &[u8]) -> Result<Self, CodecError>;
}

/// An event of any stream, for readers that go through a whole log.
#[derive(Debug, Clone, PartialEq)]
pub enum AnyEvent {
    /// Of a task.
    Task(TaskEvent),
    /// Of a session.
    Session(SessionEvent),
    /// Of a tool's store.
    Tool(ToolStoreEvent),
}

impl AnyEvent {
    /// Reads an event of a stream of this category.
    ///
    /// # Errors
    /// [`CodecError`] as [`Storable::decode`]; an unknown category knows no kind.
    pub fn decode(category: &str, kind: u16, schema: u8, body: &[u8]) -> Result<Self, CodecError> {
        match category {
            TaskEvent::CATEGORY => TaskEvent::decode(kind, schema, body).map(Self::Task),
            SessionEvent::CATEGORY => SessionEvent::decode(kind, schema, body).map(Self::Session),
            ToolStoreEvent::CATEGORY => ToolStoreEvent::decode(kind, schema, body).map(Self::Tool),
            _ => Err(CodecError::UnknownKind { kind, category: "unknown" }),
        }
    }
}
