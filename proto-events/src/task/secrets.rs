//! Secret values that a task may still need: its calls and webhooks name them by reference, and their values stand
//! outside the log until nothing will send them any more.

use std::collections::HashSet;

use crate::call::{Call, CallKind, CallStatus, Verdict};
use crate::model::Part;
use crate::secret::{KeptSecret, kept_in};
use crate::task::state::Task;
use crate::task::webhook::WebhookRegistration;

impl Task {
    /// Returns the kept values with which a call or a delivery of this task may still be sent, or sent again.
    ///
    /// They are those that an open call names or one whose outcome is unknown, a call that waits for an approval, a
    /// `tool_call` part of the run that has no output yet, any such part while a handler works on the task, and what a
    /// model asked for as long as its run goes on, because the model may ask again. The values of a webhook are needed until its
    /// registration is removed, given up, or over.
    pub fn secrets_needed(&self) -> HashSet<KeptSecret> {
        let open = self.webhooks().iter().filter(|known| known.is_open());
        let mut needed: HashSet<_> = open.flat_map(WebhookRegistration::secrets).collect();
        if !self.exists() || self.state().is_terminal() {
            return needed;
        }
        for call in self.calls().iter() {
            if !is_settled(&call.status) {
                needed.extend(kept_in(call.request.args.as_str()));
            }
            if let Some(reply) = self.reply_of_run(call) {
                needed.extend(kept_in(reply));
            }
        }
        for approval in self.approvals().iter() {
            let denied = approval.verdict().is_some_and(|decided| !decided.approved);
            let mut named = kept_in(approval.request.args.as_str()).peekable();
            if named.peek().is_some() && !denied && !self.is_used(approval) {
                needed.extend(named);
            }
        }
        let parts = self.parts_left().filter(|part| part.kind() == "tool_call");
        needed.extend(parts.flat_map(|part| kept_in(part.content().as_str())));
        needed
    }

    /// Returns the parts that may still become calls.
    fn parts_left(&self) -> Box<dyn Iterator<Item = &Part> + '_> {
        let run = self.run().or_else(|| self.paused());
        // What the task does next begins with a part that is in it already.
        let Some(run) = run.filter(|_| !self.has_open_handler()) else {
            let items = self.messages().iter().map(|message| &message.parts);
            return Box::new(items.chain(self.artifacts().iter().map(|artifact| &artifact.parts)).flatten());
        };
        let parts = run.item.map_or(&[][..], |item| self.parts(item));
        let left = usize::try_from(run.next_part).ok().and_then(|next| parts.get(next..));
        Box::new(left.unwrap_or_default().iter())
    }

    /// Whether a handler works on the task, or waits for an answer: it sees all parts, and may repeat what they name.
    fn has_open_handler(&self) -> bool {
        self.calls().open().any(|call| call.request.kind == CallKind::Handler)
    }

    /// Returns the reply of a model in the run that goes on.
    fn reply_of_run<'a>(&self, call: &'a Call) -> Option<&'a str> {
        self.run().filter(|_| call.request.origin.run == self.runs())?;
        match &call.status {
            CallStatus::Succeeded(reply) if call.request.prompt.is_some() => Some(reply.as_str()),
            _ => None,
        }
    }
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
