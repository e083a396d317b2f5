//! The append of pending events of the task, the session and a tool's state, all at once, and the effects
//! that follow.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto_events::call::{CallEvent, CallKind, FailureClass};
use proto_events::envelope::{Committed, Metadata};
use proto_events::id::Digest;
use proto_events::model::TaskState;
use proto_events::session::SessionEvent;
use proto_events::task::TaskEvent;
use taskreel_log::api::Append;

use crate::actors::entity::{Entity, Seed, SetPart};
use crate::actors::router::delegate;
use crate::actors::shared::messages::{Order, Recall, Within};
use crate::actors::shared::parts::Shared;
use crate::actors::shared::turns::SessionAppended;
use crate::actors::task::core::{HeldTurn, TaskCore};
use crate::actors::task::effect::Effect;
use crate::error::Error;
use crate::run::infer_request;

impl TaskCore {
    /// Writes what is pending; its effects go to the outbox once it is durable.
    pub(crate) async fn flush(&mut self, shared: &Shared, metadata: &Metadata) -> Result<(), Error> {
        let effects = self.effects(shared);
        self.append(shared, metadata).await?;
        self.outbox.extend(effects);
        Ok(())
    }

    /// Returns the size in bytes of the largest record that would be written now.
    pub(crate) fn pending_bytes(&self) -> usize {
        let session = self.turn.as_ref().map_or(0, |held| held.session.pending_bytes());
        let tool = self.tool.as_ref().map_or(0, |held| held.pending().1);
        self.entity.pending_bytes().max(session).max(tool)
    }

    /// Returns the effects of the pending events.
    fn effects(&self, shared: &Shared) -> Vec<Effect> {
        let first = |event: &TaskEvent| match event {
            TaskEvent::Call(CallEvent::Dispatched { call_id, attempt, .. }) => {
                let call = self.task().calls().get(call_id)?;
                let (request, is_handler) = (&call.request, call.request.kind == CallKind::Handler);
                let turn_view = self.turn.as_ref().map(HeldTurn::view);
                let infer = request.prompt.as_ref().map(|_| {
                    infer_request::infer_request(&shared.agent, self.task(), turn_view, request, *attempt)
                });
                Some(Effect::Dispatch(Box::new(Order {
                    stream: self.entity.stream().clone(),
                    task_id: self.task().id().to_owned(),
                    request: request.clone(),
                    attempt: *attempt,
                    permit: self.outside.permit(call_id),
                    infer,
                    questions: call.questions.clone(),
                    task: is_handler.then(|| self.shared_task()),
                    within: Within::default(),
                })))
            }
            TaskEvent::Call(
                CallEvent::Canceled { call_id, .. } | CallEvent::OutcomeUnknown { call_id, .. },
            ) => Some(Effect::Abort { call_id: call_id.clone() }),
            TaskEvent::ApprovalDecided(decided) => {
                Some(Effect::StopApprover { approval_id: decided.approval_id.clone() })
            }
            _ => None,
        };
        let then = |event: &TaskEvent| match event {
            TaskEvent::Call(event) => [self.evidence(event), self.recall(event).map(Effect::Recall)],
            _ => [None, None],
        };
        let all = |event| first(event).into_iter().chain(then(event).into_iter().flatten());
        self.entity.pending().iter().flat_map(all).collect()
    }

    /// Returns the order to cancel another agent's task when its result is no longer awaited: its call was
    /// given up with its run, or has no attempt left. Where a person will investigate the call, that task
    /// continues.
    fn recall(&self, event: &CallEvent) -> Option<Recall> {
        let over = self.task().state().is_terminal();
        let given_up = match event {
            CallEvent::Canceled { .. } => true,
            CallEvent::OutcomeUnknown { .. } => over,
            CallEvent::Failed { failure, .. } => failure.class == FailureClass::Exhausted,
            _ => false,
        };
        let call = self.task().calls().get(event.call_id())?;
        let sent = call.request.kind == CallKind::Delegate && call.attempts > 0;
        let canceled = self.task().state() == TaskState::Canceled;
        let reason = if canceled { "Parent task was canceled" } else { "Parent task gave it up" };
        (given_up && sent).then(|| delegate::recall_of(&call.request, reason)).flatten()
    }

    /// Writes what is pending in the session, in a tool's state and in the task, as one append. The session's
    /// part comes first: an inference's intent then has a later position than the answers that it reads.
    async fn append(&mut self, shared: &Shared, metadata: &Metadata) -> Result<(), Error> {
        let fence = shared.store.fence();
        let seed = Seed::draw(&shared.ports);
        let set_id = seed.set_id();
        let session = self.turn.as_mut().filter(|held| !held.session.pending().is_empty());
        let own = !self.entity.pending().is_empty();
        let with_session = session.is_some();
        let with_tool = self.tool.is_some();
        let parts = u16::from(own) + u16::from(with_session) + u16::from(with_tool);
        if parts == 0 {
            return Ok(());
        }
        let mut encoded = Vec::with_capacity(usize::from(parts));
        if let Some(held) = session {
            held.lease.in_doubt.store(true, Ordering::Relaxed);
            encoded.push(held.session.part(fence, SetPart { seed, part: 0, parts }, metadata, None)?);
        }
        if let Some(held) = &mut self.tool {
            let part = u16::from(with_session);
            encoded.push(held.entity()?.part(fence, SetPart { seed, part, parts }, metadata, None)?);
        }
        if own {
            let set = SetPart { seed, part: parts - 1, parts };
            encoded.push(self.entity.part(fence, set, metadata, self.content.as_deref())?);
        }
        let hashes: Vec<_> = encoded.iter().map(|part| part.record.hash()).collect();
        let append = Append { fence, set_id, parts: encoded };
        let appended = shared.append(append, &metadata.command_id).await?;
        let mut committed_parts = appended.parts.into_iter().zip(hashes);
        if with_session && let Some((committed, hash)) = committed_parts.next() {
            self.mark_session_committed(committed, hash, metadata);
        }
        if with_tool && let Some((committed, hash)) = committed_parts.next() {
            self.mark_tool_committed(committed, hash, metadata)?;
        }
        if let Some((committed, hash)) = committed_parts.next() {
            self.entity.mark_committed(committed, hash, metadata);
        }
        Ok(())
    }

    /// Makes the append to a tool's state visible to calls, and releases the state.
    fn mark_tool_committed(
        &mut self,
        committed: Committed,
        hash: Digest,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        self.tool.take().map_or(Ok(()), |mut held| held.mark_committed(committed, hash, metadata))
    }

    /// Sends the session's actor the events appended to its stream; releases a closed turn.
    fn mark_session_committed(&mut self, committed: Committed, hash: Digest, metadata: &Metadata) {
        let Some(mut held) = self.turn.take() else { return };
        let after = held.session.version();
        let events: Vec<SessionEvent> = held.session.mark_committed(committed, hash, metadata);
        let HeldTurn { turn_id, session, closed, lease } = held;
        let tell = lease.appended.clone();
        lease.in_doubt.store(false, Ordering::Relaxed);
        if closed {
            // The history must not be shared when the session's actor folds the turn into it.
            drop(session);
        } else {
            self.turn = Some(HeldTurn { turn_id, session, closed, lease: Arc::clone(&lease) });
        }
        tell.do_send(SessionAppended { after, committed, hash, events, metadata: metadata.clone() });
    }

    /// Drops events that could not be written, by reading the streams again.
    pub(crate) async fn drop_draft(&mut self, shared: &Shared) -> Result<(), Error> {
        if let Some(held) = self.tool.take() {
            held.forget();
        }
        if !self.entity.pending().is_empty() {
            let stream = self.entity.stream().clone();
            self.entity = Entity::recover(&shared.store, stream, Seed::draw(&shared.ports)).await?;
        }
        if let Some(held) = self.turn.as_mut().filter(|held| !held.session.pending().is_empty()) {
            let stream = held.session.stream().clone();
            held.session = Entity::recover(&shared.store, stream, Seed::draw(&shared.ports)).await?;
            held.closed = false;
        }
        Ok(())
    }
}
