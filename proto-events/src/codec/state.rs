//! A whole state as bytes and back: what a snapshot holds.

use super::stored_state::{StoredSession, StoredTask};
use super::stored_tool_store::StoredToolStore;
use super::{FieldError, payload};
use crate::decider::Decider;
use crate::session::Session;
use crate::task::Task;
use crate::tool_store::ToolStore;

/// Why a state cannot be written, or bytes are none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a snapshot's state: {0}")]
pub struct StateError(String);

impl From<FieldError> for StateError {
    fn from(error: FieldError) -> Self {
        Self(error.to_string())
    }
}

/// A fold that can be kept beside its stream as a cache, so that not all events need to be folded again.
///
/// Whoever changes what [`Decider::evolve`] makes of events, or these bytes, raises [`Kept::REVISION`]: snapshots of
/// another revision are ignored.
pub trait Kept: Decider {
    /// Which `evolve` and which bytes made a snapshot.
    const REVISION: u32;

    /// The state as bytes.
    ///
    /// # Errors
    /// [`StateError`] if it cannot be written.
    fn keep(&self) -> Result<Vec<u8>, StateError>;

    /// The state of these bytes, whatever they are.
    ///
    /// # Errors
    /// [`StateError`] if they are no state.
    fn kept(bytes: &[u8]) -> Result<Self, StateError>;
}

impl Kept for Task {
    const REVISION: u32 = 3;

    fn keep(&self) -> Result<Vec<u8>, StateError> {
        payload::write(&StoredTask::of(self)).map_err(StateError)
    }

    fn kept(bytes: &[u8]) -> Result<Self, StateError> {
        Ok(payload::read::<StoredTask>(bytes).map_err(StateError)?.read()?)
    }
}

impl Kept for Session {
    const REVISION: u32 = 1;

    fn keep(&self) -> Result<Vec<u8>, StateError> {
        payload::write(&StoredSession::of(self)).map_err(StateError)
    }

    fn kept(bytes: &[u8]) -> Result<Self, StateError> {
        Ok(payload::read::<StoredSession>(bytes).map_err(StateError)?.read()?)
    }
}

impl Kept for ToolStore {
    const REVISION: u32 = 1;

    fn keep(&self) -> Result<Vec<u8>, StateError> {
        payload::write(&StoredToolStore::of(self)).map_err(StateError)
    }

    fn kept(bytes: &[u8]) -> Result<Self, StateError> {
        Ok(payload::read::<StoredToolStore<'_>>(bytes).map_err(StateError)?.read()?)
    }
}
