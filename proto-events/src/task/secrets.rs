//! Secret values that a task may still need: its calls name them by reference, and their values stand outside
//! the log until nothing will send them any more.

use crate::call::{Call, CallKind, CallStatus, Verdict};
use crate::model::Part;
use crate::task::state::Task;

impl Task {
    /// Whether a call of this task may still be sent, or sent again, with the value of this reference.
    ///
    /// That is so for an open call and one whose outcome is unknown, for a call that waits for an approval, for a
    /// `tool_call` part of the run that has no output yet, for any such part while a handler works on the task, and for
    /// what a model asked for as long as its run goes on, because the model may ask again.
    pub fn needs_secret(&self, reference: &str) -> bool {
        if !self.exists() || self.state().is_terminal() {
            return false;
        }
        let named = |text: &str| text.contains(reference);
        let waits = |call: &Call| named(call.request.args.as_str()) && !is_settled(&call.status);
        if self.calls().iter().any(waits) || self.awaits_approval(reference) {
            return true;
        }
        if self.run().is_some() && self.was_asked_for(reference) {
            return true;
        }
        let run = self.run().or_else(|| self.paused());
        // What the task does next begins with a part that is in it already.
        let Some(run) = run.filter(|_| !self.has_open_handler()) else {
            let items = self.messages().iter().map(|message| &message.parts);
            let items = items.chain(self.artifacts().iter().map(|artifact| &artifact.parts));
            return items.flatten().any(|part| names(part, reference));
        };
        let parts = run.item.map_or(&[][..], |item| self.parts(item));
        let left = usize::try_from(run.next_part).ok().and_then(|next| parts.get(next..)).unwrap_or_default();
        left.iter().any(|part| names(part, reference))
    }

    /// Whether a handler works on the task, or waits for an answer: it sees all parts, and may repeat what they name.
    fn has_open_handler(&self) -> bool {
        self.calls().open().any(|call| call.request.kind == CallKind::Handler)
    }

    /// Whether an approval that names the reference is undecided, or permits a call that was not made yet.
    fn awaits_approval(&self, reference: &str) -> bool {
        self.approvals().iter().any(|approval| {
            let denied = approval.verdict().is_some_and(|decided| !decided.approved);
            approval.request.args.as_str().contains(reference) && !denied && !self.is_used(approval)
        })
    }

    /// Whether a model's reply of this run names the reference.
    fn was_asked_for(&self, reference: &str) -> bool {
        let here = self.calls().iter().filter(|call| call.request.origin.run == self.runs());
        { here }.any(|call| match &call.status {
            CallStatus::Succeeded(reply) => {
                call.request.prompt.is_some() && reply.as_str().contains(reference)
            }
            _ => false,
        })
    }
}

/// Whether the part asks for a call with this reference.
fn names(part: &Part, reference: &str) -> bool {
    part.kind() == "tool_call" && part.content().as_str().contains(reference)
}

/// Whether the call itself is not sent again. One that did not happen is followed by another call of its part.
fn is_settled(status: &CallStatus) -> bool {
    match status {
        CallStatus::Succeeded(_)
        | CallStatus::Failed(_)
        | CallStatus::Canceled
        | CallStatus::Abandoned(_)
        | CallStatus::Reconciled(Verdict::Landed(_) | Verdict::DidNotHappen) => true,
        CallStatus::Requested
        | CallStatus::Dispatched
        | CallStatus::TimedOut
        | CallStatus::RetryScheduled(..)
        | CallStatus::Unsent
        | CallStatus::Asked(_)
        | CallStatus::Answered
        | CallStatus::Unknown(_)
        | CallStatus::Reconciled(Verdict::Inconclusive(_)) => false,
    }
}
