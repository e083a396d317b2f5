//! Writing what was decided, here and in the session, as one append; and what it asks of the outside.

use std::sync::Arc;

use proto_events::call::CallEvent;
use proto_events::envelope::{Committed, Metadata};
use proto_events::id::Digest;
use proto_events::session::SessionEvent;
use proto_events::task::TaskEvent;

use super::{Effect, Held, TaskCore};
use crate::actors::entity::{Entity, Seed, SetPlace};
use crate::actors::messages::{Order, Settled};
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

    /// Bytes of the larger of the two records that would be written now.
    pub(super) fn pending_bytes(&self) -> usize {
        let session = self.seat.as_ref().map_or(0, |held| held.session.pending_bytes());
        self.entity.pending_bytes().max(session)
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
            TaskEvent::Call(event) => self.evidence(event),
            _ => None,
        };
        self.entity.pending().iter().flat_map(|event| first(event).into_iter().chain(then(event))).collect()
    }

    /// Writes what is pending, here and in the session, as one append. The session's part comes first: an
    /// inference's intent then stands behind the answers that it reads, by position too.
    async fn append(&mut self, shared: &Shared, metadata: &Metadata) -> Result<(), Error> {
        let fence = shared.store.fence();
        let seed = Seed(shared.ports.ids.random());
        let set_id = seed.set_id();
        let session = self.seat.as_mut().filter(|held| !held.session.pending().is_empty());
        let own = !self.entity.pending().is_empty();
        let with_session = session.is_some();
        let parts = u16::from(own) + u16::from(with_session);
        if parts == 0 {
            return Ok(());
        }
        let mut encoded = Vec::with_capacity(usize::from(parts));
        if let Some(held) = session {
            encoded.push(held.session.part(fence, SetPlace { seed, part: 0, parts }, metadata)?);
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
        if let Some((committed, hash)) = places.next() {
            let before = self.entity.version();
            self.entity.settle(committed, hash, metadata);
            shared.keep(&self.entity, before);
        }
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
