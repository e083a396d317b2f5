//! The message by which an operation on a session's history reaches the session's actor.

use actix::Message;
use proto_events::id::StreamId;
use tokio::sync::oneshot;

use crate::actors::shared::messages::Cause;
use crate::actors::shared::session_op::{SessionEffect, SessionOp};
use crate::error::Error;

/// The reply to an operation on a session's history.
pub(crate) type SessionReply = oneshot::Sender<Result<SessionEffect, Error>>;

/// An operation sent to a session's actor.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ToSession {
    pub(crate) stream: StreamId,
    pub(crate) op: SessionOp,
    pub(crate) cause: Cause,
    pub(crate) reply: Option<SessionReply>,
}
