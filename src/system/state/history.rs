//! Operations on the history of a conversation: each goes to the session's actor, under the caller's command id.

use proto_events::decider::Decider as _;
use proto_events::envelope::Committed;
use proto_events::id::{StreamId, Version};
use proto_events::model::{
    CompactionStrategy, ConversationHistory, HistoryCompactionRequest, HistoryCompactionResult, LlmMessage,
    LlmRole, ModelError,
};
use proto_events::session::{EMPTY_SUMMARY, HistoryCompacted, Session, SessionEvent};
use taskreel_log::context::HistoryCompactor;
use taskreel_log::read::{decode_record, fold_stream};

use crate::actors::shared::session_op::{SessionEffect, SessionOp};
use crate::actors::shared::to_session::ToSession;
use crate::error::Error;
use crate::system::command_id::SentId;
use crate::system::handle::System;
use crate::system::running_system::Actors;
use crate::system::state::authorise::AuthorisedOperation;

impl System {
    /// Compacts a conversation by a strategy, as Protolink's `compact_history` does. A conversation without a history is opened
    /// with the agent's system prompt. Without a session, or where the agent keeps no conversations, the history is the
    /// agent's own, which is its system prompt alone. A call and its answers are removed together or kept together.
    ///
    /// For a summary the agent's model is asked: the intent of that call is on disk before, and its outcome after.
    ///
    /// # Errors
    /// [`Error::ActionDenied`], [`Error::ApprovalRequired`] or [`Error::ApprovalUndecided`] by the agent's policy, [`Error::NoModel`] if the agent has no
    /// model, [`Error::Model`] if the request is out of bounds or the summary is empty, [`Error::Summary`] if the summary
    /// could not be had or came too late.
    pub async fn compact_history(
        &self,
        request: &HistoryCompactionRequest,
    ) -> Result<HistoryCompactionResult, Error> {
        let capabilities = ["llm.history.compact"];
        let (session_id, args) = (request.session_id.as_deref(), request.to_json());
        let operation =
            AuthorisedOperation { action: "compact_history", capabilities: &capabilities, session_id, args };
        let approved = self.authorise(operation).await?;
        let agent = &self.own_agent().agent;
        if agent.backend.is_none() {
            return Err(Error::NoModel);
        }
        let session = request.session_id.as_deref().filter(|_| agent.conversation);
        let Some(session) = session else {
            let system = LlmMessage::new(
                LlmRole::System,
                &*agent.tools.revision().system,
                &mut self.inner.ports.clone(),
            );
            return Ok(HistoryCompactor::new().cut(&[system], request, true)?.result(None));
        };
        let compacted = approved.compact_session(session, request, true).await?;
        Ok(compacted.unwrap_or_else(|| unchanged(request.strategy, 0, 0)))
    }

    /// Compacts the history of a session. Returns nothing if it has none.
    pub(crate) async fn compact_session(
        &self,
        id: &str,
        request: &HistoryCompactionRequest,
        opens: bool,
    ) -> Result<Option<HistoryCompactionResult>, Error> {
        request.check(true)?;
        let stream = StreamId::session(self.agent_name(), id)?;
        let op = SessionOp::Compact { request: Box::new(request.clone()), opens, attempt: 1 };
        match self.change_session(&stream, op).await? {
            SessionEffect::Compacted(result) => Ok(Some(result)),
            SessionEffect::Missing => Ok(None),
            SessionEffect::Answered(end) => {
                let (log, strategy) = (self.log(), request.strategy);
                self.on_pool(move || Ok(Some(earlier(log.as_ref(), &stream, end, strategy)?))).await
            }
            SessionEffect::Dropped(why) => Err(dropped(why)),
            SessionEffect::Failed(why) => Err(Error::Summary(why)),
            other => Err(Error::Internal(format!("a compaction ended as {other:?}"))),
        }
    }

    /// Clears the history of a session. Returns the number of messages that it had; 0 too if this very command had cleared it
    /// before.
    pub(crate) async fn clear_session(&self, stream: &StreamId) -> Result<usize, Error> {
        match self.change_session(stream, SessionOp::Clear).await? {
            SessionEffect::Cleared(messages) => Ok(messages),
            SessionEffect::Missing | SessionEffect::Answered(_) => Ok(0),
            other => Err(Error::Internal(format!("the clearing of a session ended as {other:?}"))),
        }
    }

    /// Sends an operation to a session's actor and waits for its end. A caller that goes away cancels nothing.
    async fn change_session(&self, stream: &StreamId, op: SessionOp) -> Result<SessionEffect, Error> {
        let mut cause = self.cause()?;
        let id = SentId::new(&mut cause, &self.inner.ports);
        let mut kept = Some(op);
        let send = |actors: &Actors, reply| {
            let taken = || Error::Internal("the operation was already taken from its message".to_owned());
            let op = kept.take().ok_or_else(taken)?;
            let supervisor = actors.supervisor_of(stream).ok_or(Error::Stopped)?;
            let (stream, cause) = (stream.clone(), cause.clone());
            supervisor.do_send(ToSession { stream, op, cause, reply: Some(reply) });
            Ok(())
        };
        let done = self.exchange(stream, Some(&id), send).await?;
        done.map_err(|error| self.of_sent(error, Some(&id)))
    }
}

/// Returns the result of a compaction that an earlier sending of the same command made.
fn earlier(
    log: &dyn taskreel_log::api::EventReader,
    stream: &StreamId,
    end: Committed,
    strategy: CompactionStrategy,
) -> Result<HistoryCompactionResult, Error> {
    let page = log.read_stream(stream, end.version, 1)?;
    let Some(stored) = page.first() else {
        return Err(Error::Internal(format!("{stream} has no version {}", end.version)));
    };
    let first = stored.record.first_version;
    let mut session = fold_stream::<Session>(log, stream, Some(Version(first.0.saturating_sub(1))))?.state;
    for recorded in decode_record::<SessionEvent>(stored)? {
        if let SessionEvent::SummaryReceived { dropped: Some(why), .. } = &recorded.event {
            return Err(dropped(why.clone()));
        }
        if let SessionEvent::HistoryCompacted(compacted) = &recorded.event {
            let HistoryCompacted { strategy, removed, summary, before_tokens, after_tokens, .. } =
                &**compacted;
            let before = number(session.history().len());
            let (removed, summary_created) = (i64::from(*removed), summary.is_some());
            return Ok(HistoryCompactionResult {
                strategy: strategy.as_str().to_owned(),
                before_messages: before,
                after_messages: before - removed + i64::from(summary_created),
                removed_messages: removed,
                before_tokens: i64::try_from(*before_tokens).unwrap_or(i64::MAX),
                after_tokens: i64::try_from(*after_tokens).unwrap_or(i64::MAX),
                summary_created,
            });
        }
        session.evolve(&recorded.event, &recorded.metadata);
    }
    Ok(unchanged(strategy, number(session.history().len()), tokens_of(session.history())))
}

/// Returns the error of a compaction whose summary was not put in place.
fn dropped(why: String) -> Error {
    if why == EMPTY_SUMMARY { ModelError::Invalid(why).into() } else { Error::Summary(why) }
}

/// Returns the estimated tokens of a history.
fn tokens_of(history: &ConversationHistory) -> i64 {
    let mut estimate = taskreel_log::context::MessagesEstimate::default();
    for message in history.as_slice() {
        estimate.add(message.role.as_str(), &message.content, message.name.as_deref());
    }
    i64::try_from(estimate.tokens()).unwrap_or(i64::MAX)
}

fn unchanged(strategy: CompactionStrategy, messages: i64, tokens: i64) -> HistoryCompactionResult {
    HistoryCompactionResult {
        strategy: strategy.as_str().to_owned(),
        before_messages: messages,
        after_messages: messages,
        removed_messages: 0,
        before_tokens: tokens,
        after_tokens: tokens,
        summary_created: false,
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
