//! The calls of one stream, folded: the open ones, and the outcomes of the others.

use crate::call::command::{CallCommand, CallRejection};
use crate::call::event::CallEvent;
use crate::call::outcome::{CancelStage, TokenUsage, Verdict, VerdictBy};
use crate::call::request::{CallKind, CallRequested, Recovery};
use crate::call::status::CallStatus;
use crate::envelope::Timestamp;
use crate::limits::LATE_RESULT_BYTES_MAX;

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
    /// The time at which the last attempt was sent, without its back-off.
    pub sent_at: Option<Timestamp>,
    /// The back-off of the last attempt, in milliseconds.
    pub delay_ms: u64,
    /// The current status.
    pub status: CallStatus,
    /// The token counts reported by the provider, after a successful call.
    pub usage: Option<TokenUsage>,
}

impl Call {
    fn new(request: CallRequested, at: Timestamp) -> Self {
        Self {
            request,
            attempts: 0,
            epoch: 0,
            requested_at: at,
            first_sent_at: None,
            sent_at: None,
            delay_ms: 0,
            status: CallStatus::Requested,
            usage: None,
        }
    }

    /// Whether this event may happen to the call now.
    fn allows(&self, event: &CallEvent) -> bool {
        self.status.after(event).is_some()
    }

    /// Whether what an attempt came to is the call's: an attempt that was followed by another has been given
    /// up, and what it still says is late (R6).
    fn takes(&self, attempt: u32, event: &CallEvent) -> bool {
        self.attempts == attempt && self.allows(event)
    }

    /// Whether an attempt was sent, has no outcome, and may not be followed by another.
    fn keeps_attempt(&self, cause: &str) -> bool {
        let may_repeat = self.request.recovery.may_repeat();
        match self.status {
            // A crash or a transient failure ends an attempt without an event. Only the first attempt
            // needs no cause, so the cause distinguishes a retry from a mistake.
            CallStatus::Dispatched => cause.is_empty() || !may_repeat,
            CallStatus::TimedOut => !may_repeat,
            _ => false,
        }
    }
}

/// All calls of one stream, in the order of their intents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallBook(pub(crate) Vec<Call>);

impl CallBook {
    /// Returns the call with this id.
    pub fn get(&self, call_id: &str) -> Option<&Call> {
        self.0.iter().rev().find(|call| call.request.call_id == call_id)
    }

    /// Returns all calls, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Call> {
        self.0.iter()
    }

    /// Returns the calls that have no outcome yet.
    pub fn open(&self) -> impl Iterator<Item = &Call> {
        self.0.iter().filter(|call| call.status.is_open())
    }

    /// Returns the events that follow from a command. With `over`, the stream takes no new intents (R14).
    ///
    /// # Errors
    /// [`CallRejection`], when the call's status does not allow the command.
    pub fn decide(&self, command: CallCommand, over: bool) -> Result<Vec<CallEvent>, CallRejection> {
        match command {
            CallCommand::Request(request) => self.request(request, over),
            CallCommand::Dispatch { call_id, epoch, delay_ms, cause } => {
                let call = self.known(&call_id)?;
                let keeps_attempt = call.keeps_attempt(&cause);
                let (attempt, id) = (call.attempts + 1, call_id.clone());
                let sent = CallEvent::Dispatched { call_id, attempt, epoch, delay_ms, cause };
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
                Ok(vec![if in_time && call.takes(attempt, &succeeded) { succeeded } else { late(succeeded) }])
            }
            CallCommand::Fail { call_id, attempt, failure } => {
                let call = self.known(&call_id)?;
                let failed = CallEvent::Failed { call_id, attempt, failure };
                Ok(vec![if call.takes(attempt, &failed) { failed } else { late(failed) }])
            }
            CallCommand::TimeOut { call_id, attempt, after_ms } => {
                let call = self.known(&call_id)?;
                let timed_out = CallEvent::TimedOut { call_id, attempt, after_ms };
                Ok(if call.takes(attempt, &timed_out) { vec![timed_out] } else { Vec::new() })
            }
            CallCommand::MarkUnknown { call_id, why } => {
                let call = self.known(&call_id)?;
                let unknown = CallEvent::OutcomeUnknown { attempt: call.attempts, call_id, why };
                if call.allows(&unknown) {
                    return Ok(vec![unknown]);
                }
                Err(CallRejection::Closed(call.request.call_id.clone()))
            }
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

    /// Returns the events that follow from a verdict, depending on the call's status.
    fn reconcile(
        &self,
        call_id: &str,
        verdict: &Verdict,
        by: VerdictBy,
    ) -> Result<Vec<CallEvent>, CallRejection> {
        let call = self.known(call_id)?;
        let (id, attempt) = (|| call_id.to_owned(), call.attempts);
        let probed = by == VerdictBy::Probe;
        let found = CallEvent::Reconciled { call_id: id(), attempt, verdict: verdict.clone(), by };
        // Only the system's own probe closes a lost call, or lets it be sent again.
        let guarded = match call.status {
            CallStatus::Dispatched | CallStatus::TimedOut => probed,
            CallStatus::Canceled => attempt > 0,
            _ => true,
        };
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
        self.open()
            .map(|call| {
                let call_id = call.request.call_id.clone();
                let sent = call.attempts > 0;
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
            self.0.push(Call::new(CallRequested::clone(request), at));
            return;
        }
        let Some(call) = self.0.iter_mut().rev().find(|call| call.request.call_id == event.call_id()) else {
            return;
        };
        if let Some(status) = call.status.after(event).or_else(|| CallStatus::named_by(event)) {
            call.status = status;
        }
        match event {
            CallEvent::Dispatched { attempt, epoch, delay_ms, .. } => {
                call.attempts = *attempt;
                call.epoch = *epoch;
                call.delay_ms = *delay_ms;
                call.sent_at = Some(at);
                call.first_sent_at.get_or_insert(at);
            }
            CallEvent::Succeeded { usage, .. } => call.usage = *usage,
            _ => {}
        }
    }

    fn request(&self, request: Box<CallRequested>, over: bool) -> Result<Vec<CallEvent>, CallRejection> {
        if over {
            return Err(CallRejection::TaskOver(request.call_id));
        }
        if self.get(&request.call_id).is_some() {
            return Err(CallRejection::AlreadyRequested(request.call_id));
        }
        Ok(vec![CallEvent::Requested(request)])
    }

    fn known(&self, call_id: &str) -> Result<&Call, CallRejection> {
        self.get(call_id).ok_or_else(|| CallRejection::NotRequested(call_id.to_owned()))
    }
}

/// An answer that is not the call's, kept as evidence.
fn late(answer: CallEvent) -> CallEvent {
    let ignored = |call_id, attempt, succeeded, said: &str| {
        let end = said.char_indices().map(|(at, letter)| at + letter.len_utf8());
        let end = end.take_while(|end| *end <= LATE_RESULT_BYTES_MAX).last().unwrap_or_default();
        let said = said.get(..end).unwrap_or_default().to_owned();
        CallEvent::LateResultIgnored { call_id, attempt, succeeded, said }
    };
    match answer {
        CallEvent::Succeeded { call_id, attempt, result, .. } => {
            ignored(call_id, attempt, true, result.as_str())
        }
        CallEvent::Failed { call_id, attempt, failure } => ignored(call_id, attempt, false, &failure.message),
        other => other,
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
