//! The fold of one call: its status, and what its last attempt came to.

use std::time::Duration;

use crate::call::event::CallEvent;
use crate::call::outcome::{CallQuestion, TimeLimit, TokenUsage};
use crate::call::price::Cost;
use crate::call::request::{CallKind, CallRequested};
use crate::call::status::CallStatus;
use crate::envelope::Timestamp;
use crate::json::{JsonObject, JsonText};
use crate::memo::Memo;
use crate::model::run_budget::BudgetUsage;

/// The character between the id of a call and the number of a question in [`Call::question_id`].
pub(super) const QUESTION_SEPARATOR: char = ':';

/// A call and its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The intent.
    pub request: CallRequested,
    /// The number of attempts sent so far.
    pub attempts: u32,
    /// The log's epoch in which the last attempt was sent. In a later epoch, the process that sent it has
    /// ended.
    pub epoch: u64,
    /// The time at which the intent was written.
    pub requested_at: Timestamp,
    /// The time at which the first attempt was sent.
    pub first_sent_at: Option<Timestamp>,
    /// The time at which the last attempt was sent.
    pub sent_at: Option<Timestamp>,
    /// The time at which the last attempt failed, where another one is scheduled.
    pub failed_at: Option<Timestamp>,
    /// The limit that ended the newest attempt that timed out.
    pub timed_out: Option<TimeLimit>,
    /// The current status.
    pub status: CallStatus,
    /// The tokens that the provider counted for all attempts together. Of a request to another agent, the tokens of a task of its
    /// that failed, or whose answer came too late; the answer of one that ended names them itself.
    pub usage: Option<TokenUsage>,
    /// The questions to a person, each of which ended an attempt, with their answers.
    pub questions: Vec<CallQuestion>,
    /// The id that another agent, elsewhere, gave the task of the call; `None` until it is known.
    pub handle: Option<String>,
    /// The number of attempts that took such a task up after the process of the attempt before had ended.
    pub(super) taken_up: u32,
    /// The time of the last question.
    pub asked_at: Option<Timestamp>,
    /// The time for which the call has waited for answers.
    pub waited: Duration,
    /// The tokens of the reply, once they were estimated.
    pub(super) reply_tokens: Memo<u64>,
    /// The usage that another agent's answer names, once it was read.
    pub(super) child_usage: Memo<BudgetUsage>,
}

impl Call {
    /// Returns an estimate of the tokens of the reply, which `estimate` makes at its first use: a budget is checked at each
    /// step against all calls of the task.
    pub fn reply_tokens(&self, estimate: impl FnOnce() -> u64) -> u64 {
        *self.reply_tokens.get(estimate)
    }

    /// Returns the usage that the answer of another agent names, which `read` reads at its first use.
    pub fn child_usage(&self, read: impl FnOnce() -> BudgetUsage) -> BudgetUsage {
        *self.child_usage.get(read)
    }

    pub(super) fn new(request: CallRequested, at: Timestamp) -> Self {
        Self {
            request,
            attempts: 0,
            epoch: 0,
            requested_at: at,
            first_sent_at: None,
            sent_at: None,
            failed_at: None,
            timed_out: None,
            status: CallStatus::Requested,
            usage: None,
            questions: Vec::new(),
            handle: None,
            taken_up: 0,
            asked_at: None,
            waited: Duration::ZERO,
            reply_tokens: Memo::default(),
            child_usage: Memo::default(),
        }
    }

    /// Returns the number of questions that the call has asked.
    pub fn asked(&self) -> u32 {
        u32::try_from(self.questions.len()).unwrap_or(u32::MAX)
    }

    /// Returns the name of the last question: the id of the call, and the number of the question behind a colon. An
    /// answer under this name never answers a later question.
    pub fn question_id(&self) -> String {
        format!("{}{QUESTION_SEPARATOR}{}", self.request.call_id, self.asked())
    }

    /// Returns the number of attempts that count: one that ended with a question to a person did not fail, and one that
    /// takes up a task which another agent has, after the end of a process, does not repeat anything.
    pub fn counted_attempts(&self) -> u32 {
        self.attempts.saturating_sub(self.asked()).saturating_sub(self.taken_up)
    }

    /// Whether an attempt that is sent in an epoch takes up the task of one whose process has ended.
    pub(super) fn is_taken_up(&self, epoch: u64) -> bool {
        self.handle.is_some() && self.status == CallStatus::Dispatched && self.epoch < epoch
    }

    /// Whether the call was made by this part of this run, and not asked for by another call.
    pub(super) fn is_of_part(&self, run: u32, part: u32) -> bool {
        let origin = &self.request.origin;
        origin.run == run && origin.part == part && origin.parent.is_none()
    }

    /// Whether this call was asked for by another one.
    pub fn is_child_of(&self, call_id: &str) -> bool {
        self.request.origin.parent.as_ref().is_some_and(|parent| parent.call_id == call_id)
    }

    /// Returns the deadline: the intent's, later by the time for which the call waited for a person.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.request.deadline.map(|deadline| deadline.plus(self.waited))
    }

    /// Returns the open question.
    pub fn open_question(&self) -> Option<&str> {
        match &self.status {
            CallStatus::Asked(question) => Some(question),
            _ => None,
        }
    }

    /// Returns what all attempts together cost; `None` if no price or no usage is known.
    pub fn cost(&self) -> Option<Cost> {
        Some(self.request.price.as_ref()?.cost(self.usage?))
    }

    /// Adds the time since the open question was asked. Any times may stand in a log, so that the sum may not overflow.
    pub(super) fn note_answered(&mut self, at: Timestamp) {
        let waited = self.asked_at.map(|asked| at.since(asked)).unwrap_or_default();
        self.waited = self.waited.saturating_add(waited);
    }

    /// Takes the tokens that another agent names in an answer that came too late: they were paid all the same.
    pub(super) fn note_late_answer(&mut self, said: &str) {
        if self.request.kind != CallKind::Delegate {
            return;
        }
        let answer = JsonText::parse(said).ok().and_then(|said| said.read::<JsonObject>().ok());
        if let Some(used) = answer.as_ref().and_then(|answer| answer.get("used")) {
            let BudgetUsage { input_tokens, output_tokens, .. } = BudgetUsage::from_json(used);
            self.add_usage(Some(TokenUsage { input_tokens, output_tokens }));
        }
    }

    /// Adds the tokens of an attempt. Every attempt of a request to another agent asks for the same task, whose tokens so far
    /// it names: of these the highest count.
    pub(super) fn add_usage(&mut self, more: Option<TokenUsage>) {
        let Some(more) = more else { return };
        let total = self.usage.get_or_insert_default();
        if self.request.kind == CallKind::Delegate {
            total.input_tokens = total.input_tokens.max(more.input_tokens);
            total.output_tokens = total.output_tokens.max(more.output_tokens);
            return;
        }
        total.input_tokens = total.input_tokens.saturating_add(more.input_tokens);
        total.output_tokens = total.output_tokens.saturating_add(more.output_tokens);
    }

    /// Whether this event may happen to the call now.
    pub(super) fn allows(&self, event: &CallEvent) -> bool {
        self.status.after(event).is_some()
    }

    /// Whether what an attempt came to is the call's: an attempt that was followed by another has been given
    /// up, and what it still says is late (R6).
    pub(super) fn takes(&self, attempt: u32, event: &CallEvent) -> bool {
        self.attempts == attempt && self.allows(event)
    }

    /// Whether an attempt was sent, has no outcome, and may not be followed by another.
    pub(super) fn keeps_attempt(&self, cause: &str) -> bool {
        let may_repeat = self.request.recovery.may_repeat() || self.handle.is_some();
        match self.status {
            // A crash or a transient failure ends an attempt without an event. Only the first attempt
            // needs no cause, so the cause distinguishes a retry from a mistake.
            CallStatus::Dispatched => cause.is_empty() || !may_repeat,
            CallStatus::TimedOut => !may_repeat,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{CallKind, NewCall, Recovery};
    use crate::json::JsonText;

    #[test]
    fn the_time_for_which_a_call_waited_does_not_overflow() {
        let request = CallRequested::new(NewCall {
            call_id: "call_1".to_owned(),
            kind: CallKind::Tool,
            target: "pay".to_owned(),
            args: JsonText::null(),
            idempotency_key: "key".to_owned(),
            recovery: Recovery::Manual,
            recovery_source: "tool".to_owned(),
            timeout_ms: 1,
            max_attempts: 1,
        });
        let mut call = Call::new(request, Timestamp(0));
        (call.asked_at, call.waited) = (Some(Timestamp(0)), Duration::MAX);
        call.note_answered(Timestamp(i64::MAX));
        assert_eq!(call.waited, Duration::MAX);
    }
}
