//! The rules of calls that another call asks for in its middle: a tool's or a handler's requests to other agents.

use crate::call::book::CallBook;
use crate::call::command::CallRejection;
use crate::call::event::CallEvent;
use crate::call::fold::Call;
use crate::call::request::{CallKind, CallRequested, ParentCall};
use crate::call::status::CallStatus;

impl CallBook {
    /// Checks the parent of an intent, if it has one: a tool's or a handler's call in flight, whose next number the intent
    /// has.
    pub(super) fn check_parent(&self, request: &CallRequested) -> Result<(), CallRejection> {
        let Some(ParentCall { call_id, ordinal }) = &request.origin.parent else { return Ok(()) };
        let refused = |why| {
            let (child, parent) = (request.call_id.clone(), call_id.clone());
            Err(CallRejection::OfParent { call_id: child, parent, why })
        };
        let Some(parent) = self.get(call_id) else { return refused("it was never requested in this stream") };
        if !matches!(parent.request.kind, CallKind::Tool | CallKind::Handler) {
            return refused("only a tool or a handler asks for calls");
        }
        if request.kind != CallKind::Delegate {
            return refused("a call asks for calls to other agents only");
        }
        if parent.status != CallStatus::Dispatched {
            return refused("it is not in flight");
        }
        if u32::try_from(self.children(call_id).count()).ok().and_then(|before| before.checked_add(1))
            != Some(*ordinal)
        {
            return refused("the number is not the next one");
        }
        Ok(())
    }

    /// Checks that the parent of a call, if it has one, is under way in the process that is about to send an attempt:
    /// nothing is sent for a call that may never hear of it.
    pub(super) fn check_parent_under_way(&self, call: &Call, epoch: u64) -> Result<(), CallRejection> {
        let Some(ParentCall { call_id, .. }) = &call.request.origin.parent else { return Ok(()) };
        if call.status.is_open() && !self.get(call_id).is_some_and(|parent| parent.is_under_way(epoch)) {
            let (child, parent) = (call.request.call_id.clone(), call_id.clone());
            return Err(CallRejection::OfParent { call_id: child, parent, why: "it is not in flight" });
        }
        Ok(())
    }

    /// Adds what closes the open children of a call that these events close, before them: what a call has asked for ends
    /// with it, as the calls of a run end with their run.
    pub(super) fn with_children_closed(&self, events: Vec<CallEvent>) -> Vec<CallEvent> {
        let Some(ended) = events.iter().find(|event| is_outcome(event)).map(CallEvent::call_id) else {
            return events;
        };
        let mut closed = self.cancel_where(|call| call.is_child_of(ended));
        closed.extend(events);
        closed
    }
}

impl Call {
    /// Whether an attempt of the call was sent in this epoch and has not ended.
    pub fn is_under_way(&self, epoch: u64) -> bool {
        self.status == CallStatus::Dispatched && self.epoch == epoch
    }
}

/// Whether the event closes an open call.
const fn is_outcome(event: &CallEvent) -> bool {
    matches!(
        event,
        CallEvent::Succeeded { .. }
            | CallEvent::Failed { .. }
            | CallEvent::OutcomeUnknown { .. }
            | CallEvent::Canceled { .. }
    )
}
