//! The calls of one stream, folded: the open ones, and the outcomes of the others.

use crate::call::command::{CallCommand, CallRejection};
use crate::call::event::CallEvent;
use crate::call::fold::{Call, QUESTION_SEPARATOR};
use crate::call::index::{CallIndex, INDEXED_FROM};
use crate::call::late::{late, late_answer};
use crate::call::outcome::{Answer, CallQuestion, CancelStage, TimeLimit, Verdict, VerdictBy};
use crate::call::request::{CallKind, CallRequested, Recovery};
use crate::call::status::CallStatus;
use crate::envelope::Timestamp;
use crate::growing_list::GrowingList;
use crate::limits::HANDLE_BYTES_MAX;
use crate::memo::Memo;
use crate::secret::in_clear;

/// All calls of one stream, in the order of their intents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallBook {
    pub(super) calls: GrowingList<Call>,
    /// The index of a long list; none for a short one.
    pub(super) index: Option<Box<CallIndex>>,
}

impl CallBook {
    /// Returns the call at this place in the order of the intents.
    pub(crate) fn call_at(&self, place: usize) -> Option<&Call> {
        self.calls.get(place)
    }

    /// Returns the call and the number of the question that a text names: the id of a call, or a
    /// [`Call::question_id`]. A text that is the id of a call names that call.
    pub fn question_named(&self, named: &str) -> (String, Option<u32>) {
        let is_known = |(call_id, number): (&str, &str)| {
            let number = number.parse().ok()?;
            self.get(call_id).map(|call| (call.request.call_id.clone(), Some(number)))
        };
        let whole = || (named.to_owned(), None);
        match self.get(named) {
            Some(_) => whole(),
            None => named.rsplit_once(QUESTION_SEPARATOR).and_then(is_known).unwrap_or_else(whole),
        }
    }

    /// Returns the call with this id.
    pub fn get(&self, call_id: &str) -> Option<&Call> {
        self.calls.get(self.position(call_id)?)
    }

    pub(crate) fn position(&self, call_id: &str) -> Option<usize> {
        match &self.index {
            Some(index) => index.position(call_id),
            None => self.calls.rposition(|call| call.request.call_id == call_id),
        }
    }

    /// Returns all calls, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Call> {
        self.calls.iter()
    }

    /// Returns the calls of a list that is too short for an index; nothing of a longer one.
    fn short(&self) -> impl DoubleEndedIterator<Item = &Call> {
        self.index.is_none().then(|| self.calls.iter()).into_iter().flatten()
    }

    /// Returns the calls that have no outcome yet.
    pub fn open(&self) -> impl Iterator<Item = &Call> {
        let indexed = self.index.as_deref().map(CallIndex::open);
        let indexed = indexed.into_iter().flatten().filter_map(|at| self.calls.get(at));
        let short = self.short();
        indexed.chain(short.filter(|call| call.status.is_open()))
    }

    /// Returns the calls of one part of one run, oldest first, without those that another call asked for.
    pub fn of_part(&self, run: u32, part: u32) -> impl DoubleEndedIterator<Item = &Call> {
        let places = self.index.as_deref().map_or(&[][..], |index| index.of_part(run, part));
        let short = self.short();
        let here = move |call: &&Call| call.is_of_part(run, part);
        places.iter().filter_map(|at| self.calls.get(*at)).chain(short.filter(here))
    }

    /// Returns the newest call of a run, without those that another call asked for. No call of an earlier run stands behind it.
    pub fn newest_of_run(&self, run: u32) -> Option<&Call> {
        let of_run = self.calls.iter().rev().take_while(|call| call.request.origin.run >= run);
        { of_run }.find(|call| call.request.origin.run == run && call.request.origin.parent.is_none())
    }

    /// Returns the calls that a call has asked for, in the order of their numbers.
    pub fn children(&self, call_id: &str) -> impl DoubleEndedIterator<Item = &Call> {
        let places = self.index.as_deref().map_or(&[][..], |index| index.of_parent(call_id));
        let short = self.short();
        let its = move |call: &&Call| call.is_child_of(call_id);
        places.iter().filter_map(|at| self.calls.get(*at)).chain(short.filter(its))
    }

    /// Whether a call was made under this approval.
    pub fn uses_approval(&self, approval_id: &str) -> bool {
        match &self.index {
            Some(index) => index.uses_approval(approval_id),
            None => self.calls.iter().any(|call| call.request.approval.as_deref() == Some(approval_id)),
        }
    }

    /// Returns the events that follow from a command. With `over`, the stream takes no new intents (R14). The outcome of
    /// a call closes the calls that it has asked for.
    ///
    /// # Errors
    /// [`CallRejection`], when the call's status does not allow the command.
    pub fn decide(&self, command: CallCommand, over: bool) -> Result<Vec<CallEvent>, CallRejection> {
        Ok(self.with_children_closed(self.decide_alone(command, over)?))
    }

    fn decide_alone(&self, command: CallCommand, over: bool) -> Result<Vec<CallEvent>, CallRejection> {
        match command {
            CallCommand::Request(request) => self.request(request, over),
            CallCommand::Dispatch { call_id, epoch, cause } => {
                let call = self.known(&call_id)?;
                self.check_parent_under_way(call, epoch)?;
                let keeps_attempt = call.keeps_attempt(&cause);
                let (attempt, id) = (call.attempts + 1, call_id.clone());
                let sent = CallEvent::Dispatched { call_id, attempt, epoch, cause };
                if !call.allows(&sent) {
                    return Err(CallRejection::Closed(id));
                }
                if keeps_attempt { Err(CallRejection::InFlight(id)) } else { Ok(vec![sent]) }
            }
            CallCommand::Succeed { call_id, attempt, result, usage } => {
                let call = self.known(&call_id)?;
                let succeeded = CallEvent::Succeeded { call_id, attempt, result, usage };
                // An attempt whose time is up has been given up: only its probe's verdict lets it succeed.
                let in_time = call.status != CallStatus::TimedOut;
                let is_its = in_time && call.takes(attempt, &succeeded);
                Ok(vec![if is_its { succeeded } else { late_answer(call, succeeded) }])
            }
            CallCommand::Fail { call_id, attempt, failure } => {
                let call = self.known(&call_id)?;
                let failed = CallEvent::Failed { call_id, attempt, failure };
                Ok(vec![if call.takes(attempt, &failed) { failed } else { late(failed) }])
            }
            CallCommand::ScheduleRetry { call_id, attempt, failure, due } => {
                let call = self.known(&call_id)?;
                let CallRequested { recovery, max_attempts, .. } = call.request;
                let may_repeat = recovery.may_repeat() || call.handle.is_some();
                let is_left = may_repeat && call.counted_attempts() < max_attempts;
                let scheduled = CallEvent::RetryScheduled { call_id, attempt, failure, due };
                Ok(vec![if is_left && call.takes(attempt, &scheduled) { scheduled } else { late(scheduled) }])
            }
            CallCommand::TimeOut { call_id, attempt, after_ms, limit } => {
                let call = self.known(&call_id)?;
                let has_limit = limit != TimeLimit::Heartbeat || call.request.heartbeat_ms.is_some();
                let timed_out = CallEvent::TimedOut { call_id, attempt, after_ms, limit };
                Ok(if has_limit && call.takes(attempt, &timed_out) { vec![timed_out] } else { Vec::new() })
            }
            CallCommand::MarkUnknown { call_id, why } => {
                let call = self.known(&call_id)?;
                let unknown = CallEvent::OutcomeUnknown { attempt: call.attempts, call_id, why };
                if call.allows(&unknown) {
                    return Ok(vec![unknown]);
                }
                Err(CallRejection::Closed(call.request.call_id.clone()))
            }
            CallCommand::Ask { call_id, attempt, question } => {
                let call = self.known(&call_id)?;
                let may_ask = call.request.kind != CallKind::Infer;
                let asked = CallEvent::Asked { call_id, attempt, question };
                Ok(vec![if may_ask && call.takes(attempt, &asked) { asked } else { late(asked) }])
            }
            CallCommand::Accept { call_id, attempt, handle } => self.accept(call_id, attempt, handle),
            CallCommand::Answer { call_id, question, answer } => self.answer(call_id, question, answer),
            CallCommand::Reconcile { call_id, verdict, by } => self.reconcile(&call_id, &verdict, by),
            CallCommand::Abandon { call_id, reason, by } => {
                let call = self.known(&call_id)?;
                let id = call_id.clone();
                let abandoned = CallEvent::Abandoned { call_id, reason, by };
                match &call.status {
                    status if status.after(&abandoned).is_some() => Ok(vec![abandoned]),
                    CallStatus::Abandoned(_) => Ok(Vec::new()),
                    CallStatus::Reconciled(verdict) => {
                        Err(CallRejection::Settled { call_id: id, before: verdict.as_str() })
                    }
                    other => Err(CallRejection::NotUnknown { call_id: id, status: other.as_str() }),
                }
            }
        }
    }

    /// Returns the event of a task that another agent took.
    fn accept(&self, call_id: String, attempt: u32, handle: String) -> Result<Vec<CallEvent>, CallRejection> {
        let call = self.known(&call_id)?;
        if handle.is_empty() || handle.len() > HANDLE_BYTES_MAX {
            return Err(CallRejection::Handle { call_id, bytes: handle.len(), most: HANDLE_BYTES_MAX });
        }
        let is_known = call.handle.as_deref() == Some(handle.as_str());
        let accepted = CallEvent::Accepted { call_id: call_id.clone(), attempt, handle };
        if call.request.kind != CallKind::Delegate || !call.takes(attempt, &accepted) {
            return Err(CallRejection::NotAwaited { call_id, status: call.status.as_str() });
        }
        Ok(if is_known { Vec::new() } else { vec![accepted] })
    }

    /// Returns the event of an answer. The same answer to the same question again adds nothing.
    fn answer(
        &self,
        call_id: String,
        question: Option<u32>,
        answer: Answer,
    ) -> Result<Vec<CallEvent>, CallRejection> {
        let call = self.known(&call_id)?;
        let (id, status, asked) = (call_id.clone(), call.status.as_str(), call.asked());
        // An answer that comes twice must not answer what the call has asked since.
        let number = match question {
            None if asked > 1 => return Err(CallRejection::WhichQuestion { call_id, asked }),
            None => asked,
            Some(question) if question == 0 || question > asked => {
                return Err(CallRejection::NoSuchQuestion { call_id, question, asked });
            }
            Some(question) => question,
        };
        let named = usize::try_from(number).unwrap_or(usize::MAX).checked_sub(1);
        let before = named.and_then(|at| call.questions.get(at)).and_then(|asked| asked.answer.as_ref());
        let is_same = before == Some(&answer);
        let answered = CallEvent::Answered { call_id, answer };
        match before {
            _ if number == asked && call.allows(&answered) => Ok(vec![answered]),
            Some(_) if is_same => Ok(Vec::new()),
            Some(_) if call.status.is_open() => Err(CallRejection::AlreadyAnswered(id)),
            _ => Err(CallRejection::NotAsked { call_id: id, status }),
        }
    }

    /// Returns the events that follow from a verdict, depending on the call's status.
    fn reconcile(
        &self,
        call_id: &str,
        verdict: &Verdict,
        by: VerdictBy,
    ) -> Result<Vec<CallEvent>, CallRejection> {
        let call = self.known(call_id)?;
        let (id, attempt) = (|| call_id.to_owned(), call.attempts);
        let by_probe = by == VerdictBy::Probe;
        let has_probe = call.request.recovery == Recovery::Reconcile;
        let found = CallEvent::Reconciled { call_id: id(), attempt, verdict: verdict.clone(), by };
        // Only the system's own probe closes a lost call, or lets it be sent again.
        let guarded = match call.status {
            CallStatus::Dispatched | CallStatus::TimedOut => by_probe,
            CallStatus::Canceled => attempt > 0,
            _ => true,
        };
        // The other modes have no probe that could say it.
        let guarded = guarded && (has_probe || !by_probe);
        if guarded && call.allows(&found) {
            let then = if call.status.is_open() { outcome_found(call_id, attempt, verdict) } else { None };
            return Ok(std::iter::once(found).chain(then).collect());
        }
        match &call.status {
            CallStatus::Reconciled(before) if before == verdict => Ok(Vec::new()),
            CallStatus::Reconciled(before) => {
                Err(CallRejection::Settled { call_id: id(), before: before.as_str() })
            }
            CallStatus::Abandoned(_) => Err(CallRejection::Settled { call_id: id(), before: "abandoned" }),
            other => Err(CallRejection::NotUnknown { call_id: id(), status: other.as_str() }),
        }
    }

    /// Closes every open call at the end of a run: a call in flight in mode Manual becomes unknown, any other
    /// is canceled.
    pub fn cancel(&self) -> Vec<CallEvent> {
        self.cancel_where(|_| true)
    }

    /// Closes the open calls that a condition names, as [`CallBook::cancel`] does.
    pub(crate) fn cancel_where(&self, is_closed: impl Fn(&Call) -> bool) -> Vec<CallEvent> {
        self.open()
            .filter(|call| is_closed(call))
            .map(|call| {
                let call_id = call.request.call_id.clone();
                // Between two attempts nothing is in flight.
                let sent = call.attempts > 0 && !call.status.is_between_attempts();
                if sent && call.request.recovery == Recovery::Manual && call.request.kind != CallKind::Infer {
                    let why = "its run ended while the call was in flight".to_owned();
                    return CallEvent::OutcomeUnknown { call_id, attempt: call.attempts, why };
                }
                let stage = if sent { CancelStage::InFlight } else { CancelStage::Requested };
                CallEvent::Canceled { call_id, stage }
            })
            .collect()
    }

    /// Folds one event in, which was decided at this moment. An event that may not happen to its call
    /// ([`CallStatus::after`]) is a fact all the same: its call takes the status that the event names.
    pub fn evolve(&mut self, event: &CallEvent, at: Timestamp) {
        if let CallEvent::Requested(request) = event {
            self.push(Call::new(CallRequested::clone(request), at));
            return;
        }
        let Some(place) = self.position(event.call_id()) else { return };
        let Some(call) = self.calls.get_mut(place) else { return };
        if let CallEvent::Dispatched { epoch, .. } = event
            && call.is_taken_up(*epoch)
        {
            call.taken_up = call.taken_up.saturating_add(1);
        }
        if let Some(status) = call.status.after(event).or_else(|| CallStatus::named_by(event)) {
            call.status = status;
            (call.reply_tokens, call.child_usage) = (Memo::default(), Memo::default());
        }
        match event {
            CallEvent::Dispatched { attempt, epoch, .. } => {
                call.attempts = *attempt;
                call.epoch = *epoch;
                call.sent_at = Some(at);
                call.first_sent_at.get_or_insert(at);
            }
            CallEvent::Succeeded { usage, .. } => call.add_usage(*usage),
            CallEvent::Failed { failure, .. } => call.add_usage(failure.usage),
            CallEvent::LateResultIgnored { succeeded: true, said, .. } => call.note_late_answer(said),
            CallEvent::TimedOut { limit, .. } => call.timed_out = Some(*limit),
            CallEvent::RetryScheduled { failure, .. } => {
                call.failed_at = Some(at);
                call.add_usage(failure.usage);
            }
            CallEvent::Accepted { handle, .. } => call.handle = Some(handle.clone()),
            CallEvent::Asked { question, .. } => {
                call.asked_at = Some(at);
                call.questions.push(CallQuestion { question: question.clone(), answer: None });
            }
            CallEvent::Answered { answer, .. } => {
                call.note_answered(at);
                if let Some(asked) = call.questions.last_mut() {
                    asked.answer = Some(answer.clone());
                }
            }
            _ => {}
        }
        if let Some(index) = &mut self.index {
            index.record(place, call);
        }
    }

    fn push(&mut self, call: Call) {
        if let Some(index) = &mut self.index {
            index.add(self.calls.len(), &call);
        }
        self.calls.push(call);
        if self.index.is_none() && self.calls.len() >= INDEXED_FROM {
            self.index = Some(Box::new(CallIndex::from_calls(self.calls.iter())));
        }
    }

    fn request(&self, request: Box<CallRequested>, over: bool) -> Result<Vec<CallEvent>, CallRejection> {
        if over {
            return Err(CallRejection::TaskOver(request.call_id));
        }
        if self.get(&request.call_id).is_some() {
            return Err(CallRejection::AlreadyRequested(request.call_id));
        }
        if let Some(argument) = in_clear(&request.args, &request.secrets) {
            let (call_id, argument) = (request.call_id.clone(), argument.to_owned());
            return Err(CallRejection::SecretInClear { call_id, argument });
        }
        self.check_parent(&request)?;
        Ok(vec![CallEvent::Requested(request)])
    }

    fn known(&self, call_id: &str) -> Result<&Call, CallRejection> {
        self.get(call_id).ok_or_else(|| CallRejection::NotRequested(call_id.to_owned()))
    }
}

/// The outcome that a probe's verdict gives an open call; none where it may be sent again.
fn outcome_found(call_id: &str, attempt: u32, verdict: &Verdict) -> Option<CallEvent> {
    let call_id = call_id.to_owned();
    match verdict.clone() {
        Verdict::Landed(result) => Some(CallEvent::Succeeded { call_id, attempt, result, usage: None }),
        Verdict::DidNotHappen => None,
        Verdict::Inconclusive(why) => Some(CallEvent::OutcomeUnknown { call_id, attempt, why }),
    }
}
