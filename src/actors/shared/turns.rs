//! The turn of a session between its actor and the tasks: the request, the grant with its lease, the events appended under
//! it, and its return.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use actix::{Message, Recipient};
use proto_events::envelope::{Committed, Metadata};
use proto_events::id::{Digest, Position, StreamId, Version};
use proto_events::session::{Session, SessionEvent};
use tokio::sync::oneshot;

use crate::error::Error;

/// The turn of a session, handed to a task.
#[derive(Debug, Clone)]
pub(crate) struct TurnGrant {
    pub(crate) stream: StreamId,
    pub(crate) turn_id: String,
    /// The session as it is on disk; its history is shared, not copied.
    pub(crate) session: Session,
    pub(crate) version: Version,
    pub(crate) position: Position,
    pub(crate) last_hash: Digest,
    /// Gives the turn back when its last holder is gone.
    pub(crate) lease: Arc<TurnLease>,
}

/// The link to the session's actor; gives the reserved turn back when it is dropped.
pub(crate) struct TurnLease {
    pub(crate) turn_id: String,
    pub(crate) release: Recipient<ReleaseTurn>,
    pub(crate) appended: Recipient<SessionAppended>,
    /// Set while the session may have events, appended under this lease, of which its actor was not told.
    pub(crate) in_doubt: AtomicBool,
}

impl std::fmt::Debug for TurnLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnLease").field("turn_id", &self.turn_id).finish_non_exhaustive()
    }
}

impl Drop for TurnLease {
    fn drop(&mut self) {
        // A stopped session has no reservation to give back; a full mailbox cannot refuse this message.
        let (turn_id, in_doubt) = (std::mem::take(&mut self.turn_id), *self.in_doubt.get_mut());
        self.release.do_send(ReleaseTurn { turn_id, in_doubt });
    }
}

/// A task's request for a session's turn. The answer may take as long as other turns take, unless the turn is wanted at once.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct AcquireTurn {
    pub(crate) session: StreamId,
    pub(crate) task: StreamId,
    pub(crate) turn_id: String,
    /// Whether the turn is wanted only if it is free, and the session read. The reply is dropped otherwise, and the session waits
    /// for nothing: a task may wait for this answer in the middle of a command.
    pub(crate) at_once: bool,
    pub(crate) reply: oneshot::Sender<Result<TurnGrant, Error>>,
}

/// The return of a reservation.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ReleaseTurn {
    pub(crate) turn_id: String,
    pub(crate) in_doubt: bool,
}

/// Notice of events that a task has appended to the session's stream, in one append with its own.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct SessionAppended {
    pub(crate) after: Version,
    pub(crate) committed: Committed,
    pub(crate) hash: Digest,
    pub(crate) events: Vec<SessionEvent>,
    pub(crate) metadata: Metadata,
}

/// A request for the session's state.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct LookAtSession {
    pub(crate) stream: StreamId,
    pub(crate) reply: oneshot::Sender<Result<(Session, Committed), Error>>,
}
