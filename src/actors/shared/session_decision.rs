//! The decisions of the operations on a session's history, by the holder of the session's state.

use proto_events::envelope::Metadata;
use proto_events::id::{Mint as _, Version};
use proto_events::model::{CompactionStrategy, HistoryCompactionRequest, LlmMessage, LlmRole, ModelError};
use proto_events::session::{
    Compaction, EMPTY_SUMMARY, SUPERSEDED, Session, SessionCommand, SessionRejection, SummaryRequested,
};
use taskreel_log::context::{HistoryCompactor, HistoryCut, summary_message};
use taskreel_log::shown::SummaryPrompt;

use crate::actors::entity::Entity;
use crate::actors::shared::parts::Shared;
use crate::actors::shared::session_op::{SessionEffect, SessionOp, SummaryCall, SummaryEnd};
use crate::error::Error;
use crate::run::summary;

/// Decides an operation on a session's history. What is decided is pending in the entity.
pub(crate) fn decide(
    entity: &mut Entity<Session>,
    op: &SessionOp,
    shared: &Shared,
    metadata: &Metadata,
) -> Result<SessionEffect, Error> {
    match op {
        SessionOp::Clear => {
            let messages = entity.state().history().len();
            entity.decide(SessionCommand::Clear, metadata)?;
            let had = messages > 0 || entity.is_pending();
            Ok(if had { SessionEffect::Cleared(messages) } else { SessionEffect::Missing })
        }
        SessionOp::Compact { request, opens, .. } => compact(entity, request, *opens, shared, metadata),
        SessionOp::EndSummary { call_id, end } => match end_summary(entity, call_id, end, shared, metadata) {
            Err(Error::Session(SessionRejection::NoSuchSummary(_))) => {
                Ok(SessionEffect::Dropped(SUPERSEDED.to_owned()))
            }
            other => other,
        },
    }
}

fn compact(
    entity: &mut Entity<Session>,
    request: &HistoryCompactionRequest,
    opens: bool,
    shared: &Shared,
    metadata: &Metadata,
) -> Result<SessionEffect, Error> {
    let has_model = shared.agent.backend.is_some();
    request.check(has_model)?;
    if entity.state().history().is_empty() {
        if !opens {
            return Ok(SessionEffect::Missing);
        }
        let revision = shared.agent.tools.revision();
        let system_prompt = LlmMessage::new(LlmRole::System, &*revision.system, &mut shared.ports.clone());
        let session_id = entity.stream().id();
        entity.decide(SessionCommand::Open { session_id, system_prompt }, metadata)?;
    }
    let session = entity.state();
    let cut = cut_of(session, request, has_model)?;
    let (removed, read_through) = (count(cut.removed()), Version(entity.decided()));
    if cut.needs_summary() {
        let Some(backend) = &shared.agent.backend else {
            return Err(ModelError::Invalid("summary strategy requires a summarizer".to_owned()).into());
        };
        let max_tokens = u64::try_from(request.summary_max_tokens).unwrap_or(0);
        let prompt = SummaryPrompt::new(cut.older(session.history().as_slice()), max_tokens);
        let call_id = shared.ports.clone().id("summary_");
        let intent = SummaryRequested {
            call_id: call_id.clone(),
            target: backend.target(),
            read_through,
            messages: removed,
            max_tokens,
            digest: prompt.digest(),
        };
        let request = summary::request(prompt, &entity.stream().id(), &call_id);
        entity.decide(SessionCommand::RequestSummary(Box::new(intent)), metadata)?;
        return Ok(SessionEffect::Summarize(Box::new(SummaryCall { call_id, request })));
    }
    let command = SessionCommand::Compact(Compaction {
        strategy: request.strategy,
        read_through,
        removed,
        before_tokens: cut.before_tokens(),
        after_tokens: cut.after_tokens(None),
    });
    entity.decide(command, metadata)?;
    Ok(SessionEffect::Compacted(cut.result(None)))
}

/// Computes the cut of a session's history.
fn cut_of(
    session: &Session,
    request: &HistoryCompactionRequest,
    has_model: bool,
) -> Result<HistoryCut, ModelError> {
    let answers = |place| session.is_answer(count(place));
    let compactor = HistoryCompactor::knowing(session.leading().is_some(), &answers);
    compactor.cut(session.history().as_slice(), request, has_model)
}

fn end_summary(
    entity: &mut Entity<Session>,
    call_id: &str,
    end: &SummaryEnd,
    shared: &Shared,
    metadata: &Metadata,
) -> Result<SessionEffect, Error> {
    let call_id = call_id.to_owned();
    match end {
        SummaryEnd::Failed { error_type, message, usage } => {
            let (error_type, message, usage) = (error_type.clone(), message.clone(), *usage);
            let why = message.clone();
            entity.decide(SessionCommand::FailSummary { call_id, error_type, message, usage }, metadata)?;
            Ok(SessionEffect::Failed(why))
        }
        SummaryEnd::Received { reply, usage, summary } => {
            let session = entity.state();
            let superseded = session.open_summary().is_some_and(|open| open.superseded);
            let removed = session.open_summary().map_or(0, |open| open.request.messages);
            let message = summary.as_deref().map(|text| summary_message(text, &mut shared.ports.clone()));
            let removed = usize::try_from(removed).unwrap_or(usize::MAX);
            let history = (session.leading().map_or(&[][..], std::slice::from_ref), session.body());
            let cut = HistoryCut::removing(history, CompactionStrategy::Summary, removed);
            let tokens = (cut.before_tokens(), cut.after_tokens(message.as_ref()));
            let effect = match &message {
                _ if superseded => SessionEffect::Dropped(SUPERSEDED.to_owned()),
                None => SessionEffect::Dropped(EMPTY_SUMMARY.to_owned()),
                Some(_) => SessionEffect::Compacted(cut.result(message.as_ref())),
            };
            let (reply, usage) = (reply.clone(), *usage);
            let summary = message;
            let command = SessionCommand::ReceiveSummary { call_id, reply, usage, summary, tokens };
            entity.decide(command, metadata)?;
            Ok(effect)
        }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
