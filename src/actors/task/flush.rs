//! The append of pending events of the task, the session and a tool's state, all at once, and the effects
//! that follow once it is durable.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto_events::call::{CallEvent, CallKind, FailureClass};
use proto_events::envelope::{Committed, Metadata};
use proto_events::id::Digest;
use proto_events::model::TaskState;
use proto_events::session::SessionEvent;
use proto_events::task::TaskEvent;
use taskreel_log::api::{Append, Appended};

use crate::actors::entity::SetPart;
use crate::actors::router::delegate;
use crate::actors::shared::messages::{Order, Recall};
use crate::actors::shared::parts::Shared;
use crate::actors::shared::turns::SessionAppended;
use crate::actors::shared::within::Within;
use crate::actors::task::core::TaskCore;
use crate::actors::task::effect::Effect;
use crate::actors::task::step::{PendingWrite, StepWork};
use crate::error::Error;
use crate::run::call_of::CallOf;
use crate::run::child_wait::child_of;
use crate::run::infer_request;

impl TaskCore {
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
                let turn_view = self.turn.as_ref().map(|held| held.view());
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
                    handle: call.handle.clone(),
                    whose: if request.prompt.is_none() {
                        CallOf::from_task(self.task())
                    } else {
                        CallOf::default()
                    },
                    task: is_handler.then(|| self.shared_task()),
                    within: Within::default(),
                })))
            }
            TaskEvent::Call(
                CallEvent::Canceled { call_id, .. } | CallEvent::OutcomeUnknown { call_id, .. },
            ) => Some(Effect::Abort { call_id: call_id.clone() }),
            // It may have ended in the meantime.
            TaskEvent::Call(CallEvent::Asked { call_id, .. }) => {
                let child = child_of(&self.task().calls().get(call_id)?.request)?;
                Some(Effect::LookAtChild { call_id: call_id.clone(), child })
            }
            TaskEvent::ApprovalDecided(decided) => {
                Some(Effect::StopApprover { approval_id: decided.approval_id.clone() })
            }
            _ => None,
        };
        let then = |event: &TaskEvent| match event {
            TaskEvent::Call(event) => [self.evidence(event), self.recall(event, shared).map(Effect::Recall)],
            _ => [None, None],
        };
        let all = |event| first(event).into_iter().chain(then(event).into_iter().flatten());
        self.entity.pending().iter().flat_map(all).collect()
    }

    /// Returns the order to cancel another agent's task, or the work of a tool that can be recalled, when its result is no
    /// longer awaited: its call was given up with its run, or has no attempt left. Where a person will investigate the call,
    /// that work continues.
    fn recall(&self, event: &CallEvent, shared: &Shared) -> Option<Recall> {
        let over = self.task().state().is_terminal();
        let given_up = match event {
            CallEvent::Canceled { .. } => true,
            CallEvent::OutcomeUnknown { .. } => over,
            CallEvent::Failed { failure, .. } => failure.class == FailureClass::Exhausted,
            _ => false,
        };
        let call = self.task().calls().get(event.call_id())?;
        let canceled = self.task().state() == TaskState::Canceled;
        let reason = if canceled { "Parent task was canceled" } else { "Parent task gave it up" };
        let recall = || match call.request.kind {
            CallKind::Delegate => delegate::recall_of(call, reason),
            CallKind::Tool => {
                shared.agent.tools.get(&call.request.target)?.spec().policy.recall()?;
                Some(Recall::Tool(Box::new(self.probe_order(call.request.clone(), call.attempts, false))))
            }
            CallKind::Infer | CallKind::Handler => None,
        };
        (given_up && call.attempts > 0).then(recall).flatten()
    }

    /// Returns an append of what is pending in the session, in a tool's state and in the task, if anything is. The
    /// session's part comes first: an inference's intent then has a later position than the answers that it reads.
    /// `other` is its metadata if they are not the command's.
    pub(super) fn append(
        &mut self,
        shared: &Shared,
        work: &mut StepWork,
        other: Option<Metadata>,
    ) -> Result<Option<Append>, Error> {
        let with_session = self.turn.as_ref().is_some_and(|held| held.session.is_pending());
        let (own, with_tool) = (self.entity.is_pending(), self.tool.is_some());
        let count = u16::from(own) + u16::from(with_session) + u16::from(with_tool);
        if count == 0 {
            return Ok(None);
        }
        let effects = self.effects(shared);
        let (fence, set_id) = (shared.store.fence(), shared.ports.ids.random());
        let set = |part| SetPart { set_id, part, parts: count };
        let content = work.content.as_deref().filter(|_| other.is_none());
        let metadata = other.as_ref().unwrap_or(&work.metadata);
        let mut writing = PendingWrite { effects, ..PendingWrite::default() };
        let mut parts = Vec::with_capacity(usize::from(count));
        if let Some(held) = self.turn.as_mut().filter(|held| held.session.is_pending()) {
            held.lease.in_doubt.store(true, Ordering::Relaxed);
            let content = held.content.take();
            let part = held.session.part(fence, set(0), metadata, content.as_deref())?;
            writing.session = Some(part.record.hash());
            parts.push(part);
        }
        if let Some(held) = &mut self.tool {
            let part = held.entity()?.part(fence, set(u16::from(with_session)), metadata, None)?;
            writing.tool = Some(part.record.hash());
            parts.push(part);
        }
        if own {
            let part = self.entity.part(fence, set(count - 1), metadata, content)?;
            writing.own = Some(part.record.hash());
            parts.push(part);
        }
        writing.other = other.map(Box::new);
        work.writing = writing;
        Ok(Some(Append { fence, set_id, parts }))
    }

    /// Notes that the append is durable; its effects go to the outbox.
    pub(super) fn note_appended(&mut self, work: &mut StepWork, appended: Appended) -> Result<(), Error> {
        let PendingWrite { effects, session, tool, own, other } = std::mem::take(&mut work.writing);
        let metadata = other.as_deref().unwrap_or(&work.metadata);
        let mut ends = appended.parts.into_iter();
        if let Some(hash) = session
            && let Some(committed) = ends.next()
        {
            self.mark_session_committed(committed, hash, metadata);
        }
        if let Some(hash) = tool
            && let Some(committed) = ends.next()
        {
            self.mark_tool_committed(committed, hash, metadata)?;
        }
        if let Some(hash) = own
            && let Some(committed) = ends.next()
        {
            self.entity.mark_committed(committed, hash, metadata);
        }
        self.outbox.extend(effects);
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
        let lease = Arc::clone(&held.lease);
        lease.in_doubt.store(false, Ordering::Relaxed);
        if held.closed {
            // The history must not be shared when the session's actor folds the turn into it.
            drop(held);
        } else {
            held.content = None;
            self.turn = Some(held);
        }
        lease.appended.do_send(SessionAppended {
            after,
            committed,
            hash,
            events,
            metadata: metadata.clone(),
        });
    }
}
