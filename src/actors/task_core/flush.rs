//! Writing what was decided, here, in the session and in a tool's state, as one append; and what it asks of the outside.

use std::sync::Arc;

use proto_events::call::{CallEvent, CallKind, FailureClass};
use proto_events::envelope::{Committed, Metadata};
use proto_events::id::Digest;
use proto_events::model::TaskState;
use proto_events::session::SessionEvent;
use proto_events::task::TaskEvent;

use super::{Effect, Held, TaskCore};
use crate::actors::delegate;
use crate::actors::entity::{Entity, Seed, SetPlace};
use crate::actors::messages::{Order, Recall, Settled};
use crate::actors::shared::Shared;
use crate::actors::spans::Within;
use crate::agent::plan;
use crate::error::Error;
use crate::store::Append;

impl TaskCore {
    /// Writes what is pending; what it asks of the outside goes to the outbox when it is durable.
    pub(super) async fn flush(&mut self, shared: &Shared, metadata: &Metadata) -> Result<(), Error> {
        let effects = self.effects(shared);
        self.append(shared, metadata).await?;
        self.outbox.extend(effects);
        Ok(())
    }

    /// Bytes of the largest of the records that would be written now.
    pub(super) fn pending_bytes(&self) -> usize {
        let session = self.seat.as_ref().map_or(0, |held| held.session.pending_bytes());
        let tool = self.tool.as_ref().map_or(0, |held| held.pending().1);
        self.entity.pending_bytes().max(session).max(tool)
    }

    /// What the pending events ask of the outside.
    fn effects(&self, shared: &Shared) -> Vec<Effect> {
        let first = |event: &TaskEvent| match event {
            TaskEvent::Call(CallEvent::Dispatched { call_id, attempt, delay_ms, .. }) => {
                let request = &self.task().calls().get(call_id)?.request;
                let seat = self.seat.as_ref().map(Held::seat);
                let infer = request
                    .prompt
                    .as_ref()
                    .map(|_| plan::infer_request(&shared.agent, self.task(), seat, request, *attempt));
                Some(Effect::Dispatch(Box::new(Order {
                    stream: self.entity.stream().clone(),
                    task_id: self.task().id().to_owned(),
                    request: request.clone(),
                    attempt: *attempt,
                    delay_ms: *delay_ms,
                    place: self.outside.place(call_id),
                    infer,
                    within: Within::default(),
                })))
            }
            TaskEvent::Call(
                CallEvent::Canceled { call_id, .. } | CallEvent::OutcomeUnknown { call_id, .. },
            ) => Some(Effect::Abort { call_id: call_id.clone() }),
            TaskEvent::ApprovalDecided(decided) => {
                Some(Effect::StopAsking { approval_id: decided.approval_id.clone() })
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

    /// An agent that was asked for something which nobody waits for any more is told so: the call was given up with its
    /// run, or has no attempt left. Where a person will look into it, it goes on.
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

    /// Writes what is pending, here, in the session and in a tool's state, as one append. The session's part comes
    /// first: an inference's intent then stands behind the answers that it reads, by position too.
    async fn append(&mut self, shared: &Shared, metadata: &Metadata) -> Result<(), Error> {
        let fence = shared.store.fence();
        let seed = Seed(shared.ports.ids.random());
        let set_id = seed.set_id();
        let session = self.seat.as_mut().filter(|held| !held.session.pending().is_empty());
        let own = !self.entity.pending().is_empty();
        let with_session = session.is_some();
        let with_tool = self.tool.is_some();
        let parts = u16::from(own) + u16::from(with_session) + u16::from(with_tool);
        if parts == 0 {
            return Ok(());
        }
        let mut encoded = Vec::with_capacity(usize::from(parts));
        if let Some(held) = session {
            encoded.push(held.session.part(fence, SetPlace { seed, part: 0, parts }, metadata)?);
        }
        if let Some(held) = &mut self.tool {
            let part = u16::from(with_session);
            encoded.push(held.entity()?.part(fence, SetPlace { seed, part, parts }, metadata)?);
        }
        if own {
            encoded.push(self.entity.part(fence, SetPlace { seed, part: parts - 1, parts }, metadata)?);
        }
        let hashes: Vec<_> = encoded.iter().map(|part| part.record.hash()).collect();
        let append = Append { fence, set_id, parts: encoded };
        let appended = shared.append(append, &metadata.command_id).await?;
        let mut places = appended.parts.into_iter().zip(hashes);
        if with_session && let Some((committed, hash)) = places.next() {
            self.settle_session(committed, hash, metadata);
        }
        if with_tool && let Some((committed, hash)) = places.next() {
            self.settle_tool(shared, committed, hash, metadata)?;
        }
        if let Some((committed, hash)) = places.next() {
            let before = self.entity.version();
            self.entity.settle(committed, hash, metadata);
            shared.keep(&self.entity, before);
        }
        Ok(())
    }

    /// Lets calls see what was appended to their tool's state, and lets go of it.
    fn settle_tool(
        &mut self,
        shared: &Shared,
        committed: Committed,
        hash: Digest,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let Some(mut held) = self.tool.take() else { return Ok(()) };
        let before = held.settle(committed, hash, metadata)?;
        shared.keep(held.entity()?, before);
        Ok(())
    }

    /// Tells the session's actor what was appended to its stream; lets go of a closed turn.
    fn settle_session(&mut self, committed: Committed, hash: Digest, metadata: &Metadata) {
        let Some(mut held) = self.seat.take() else { return };
        let after = held.session.version();
        let events: Vec<SessionEvent> = held.session.settle(committed, hash, metadata);
        let Held { turn_id, session, closed, lease } = held;
        let tell = lease.settled.clone();
        if closed {
            // The history must not be shared when the session's actor folds the turn into it.
            drop(session);
        } else {
            self.seat = Some(Held { turn_id, session, closed, lease: Arc::clone(&lease) });
        }
        tell.do_send(Settled { after, committed, hash, events, metadata: metadata.clone() });
    }

    /// Forgets what could not be written, by reading the streams again.
    pub(super) async fn drop_draft(&mut self, shared: &Shared) -> Result<(), Error> {
        if let Some(held) = self.tool.take() {
            held.forget();
        }
        if !self.entity.pending().is_empty() {
            let stream = self.entity.stream().clone();
            self.entity = Entity::recover(&shared.store, stream).await?;
        }
        if let Some(held) = self.seat.as_mut().filter(|held| !held.session.pending().is_empty()) {
            let stream = held.session.stream().clone();
            held.session = Entity::recover(&shared.store, stream).await?;
            held.closed = false;
        }
        Ok(())
    }
}
