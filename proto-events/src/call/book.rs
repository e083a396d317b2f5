//! The calls of one stream, folded: which are open, and what became of the others.

use super::{
    CallCommand, CallEvent, CallFailure, CallKind, CallRejection, CallRequested, CancelStage, FailureClass,
    Recovery, TokenUsage, Verdict, VerdictBy,
};
use crate::envelope::Timestamp;
use crate::id::Digest;
use crate::json::JsonText;

/// What is known of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallStatus {
    /// Intended, not sent.
    Requested,
    /// In flight.
    Dispatched,
    /// Its last attempt took too long; what follows is not decided yet.
    TimedOut,
    /// Its last attempt had no effect, as was found out: it may be sent again.
    Unsent,
    /// It worked.
    Succeeded(JsonText),
    /// It did not.
    Failed(CallFailure),
    /// Given up with its task.
    Canceled,
    /// Nobody can say.
    Unknown(String),
    /// It was unknown, and has been looked into.
    Reconciled(Verdict),
    /// It was unknown, and stays so: nobody looks any further, and why.
    Abandoned(String),
}

impl CallStatus {
    /// Whether the call still owes an outcome.
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Requested | Self::Dispatched | Self::TimedOut | Self::Unsent)
    }

    /// The word for it on screens.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Dispatched => "in-flight",
            Self::TimedOut => "timed-out",
            Self::Unsent => "not-landed",
            Self::Succeeded(_) => "succeeded",
            Self::Failed(_) => "failed",
            Self::Canceled => "canceled",
            Self::Unknown(_) => "unknown",
            Self::Reconciled(verdict) => verdict.as_str(),
            Self::Abandoned(_) => "abandoned",
        }
    }
}

/// One call and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The intent.
    pub request: CallRequested,
    /// Attempts sent so far.
    pub attempts: u32,
    /// The log's epoch in which the last attempt was sent: in a later one, its process has ended.
    pub epoch: u64,
    /// When the intent was written.
    pub requested_at: Timestamp,
    /// When its first attempt was sent.
    pub first_sent_at: Option<Timestamp>,
    /// When its last attempt was sent, back-off apart.
    pub sent_at: Option<Timestamp>,
    /// Back-off of the last attempt, in milliseconds.
    pub delay_ms: u64,
    /// What is known.
    pub status: CallStatus,
    /// What the provider counted, once it answered.
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

    /// Whether an answer of this attempt is the call's: an attempt that took too long, or was followed by another, has
    /// been given up, and what it still says is late (R6).
    fn awaits(&self, attempt: u32) -> bool {
        self.status == CallStatus::Dispatched && self.attempts == attempt
    }

    /// Whether a failure is the call's: one that its attempt reports, or with which recovery gives an open call up.
    fn awaits_failure(&self, attempt: u32, class: FailureClass) -> bool {
        let given_up = matches!(class, FailureClass::BeforeEffect | FailureClass::Exhausted);
        self.awaits(attempt) || (given_up && self.status.is_open() && self.attempts == attempt)
    }

    /// Folds a verdict in: of an open call an outcome follows, unless it may be sent again; a canceled call stays
    /// canceled; an unknown one is unknown no more, unless nobody could say.
    fn found(&mut self, verdict: &Verdict) {
        match (&self.status, verdict) {
            (CallStatus::Dispatched | CallStatus::TimedOut, Verdict::DidNotHappen) => {
                self.status = CallStatus::Unsent;
            }
            (CallStatus::Unknown(_), Verdict::Landed(_) | Verdict::DidNotHappen) => {
                self.status = CallStatus::Reconciled(verdict.clone());
            }
            _ => {}
        }
    }
}

/// All calls of one stream, in the order of their intents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallBook(pub(crate) Vec<Call>);

impl CallBook {
    /// The call with this id.
    pub fn get(&self, call_id: &str) -> Option<&Call> {
        self.0.iter().rev().find(|call| call.request.call_id == call_id)
    }

    /// All calls, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Call> {
        self.0.iter()
    }

    /// The calls that still owe an outcome.
    pub fn open(&self) -> impl Iterator<Item = &Call> {
        self.0.iter().filter(|call| call.status.is_open())
    }

    /// The events that follow from a command. `over` says that the stream takes no new intents (R14).
    ///
    /// # Errors
    /// [`CallRejection`], when the call's own life does not allow it.
    pub fn decide(&self, command: CallCommand, over: bool) -> Result<Vec<CallEvent>, CallRejection> {
        match command {
            CallCommand::Request(request) => self.request(request, over),
            CallCommand::Dispatch { call_id, epoch, delay_ms, cause } => {
                let call = self.known(&call_id)?;
                match call.status {
                    CallStatus::Requested | CallStatus::Unsent => {}
                    CallStatus::TimedOut if call.request.recovery.may_repeat() => {}
                    // A crash or a passing failure ends an attempt without an event: only the first
                    // attempt needs no cause, so a cause is what tells a retry from a slip.
                    CallStatus::Dispatched if !cause.is_empty() && call.request.recovery.may_repeat() => {}
                    CallStatus::Dispatched | CallStatus::TimedOut => {
                        return Err(CallRejection::InFlight(call_id));
                    }
                    _ => return Err(CallRejection::Closed(call_id)),
                }
                Ok(vec![CallEvent::Dispatched {
                    attempt: call.attempts + 1,
                    call_id,
                    epoch,
                    delay_ms,
                    cause,
                }])
            }
            CallCommand::Succeed { call_id, attempt, result, usage } => {
                if self.known(&call_id)?.awaits(attempt) {
                    return Ok(vec![CallEvent::Succeeded { call_id, attempt, result, usage }]);
                }
                let digest = Digest::of(result.as_str().as_bytes());
                Ok(vec![CallEvent::LateResultIgnored { call_id, attempt, succeeded: true, digest }])
            }
            CallCommand::Fail { call_id, attempt, failure } => {
                if self.known(&call_id)?.awaits_failure(attempt, failure.class) {
                    return Ok(vec![CallEvent::Failed { call_id, attempt, failure }]);
                }
                let digest = Digest::of(failure.message.as_bytes());
                Ok(vec![CallEvent::LateResultIgnored { call_id, attempt, succeeded: false, digest }])
            }
            CallCommand::TimeOut { call_id, attempt, after_ms } => Ok(match self.known(&call_id)? {
                call if call.status == CallStatus::Dispatched && call.attempts == attempt => {
                    vec![CallEvent::TimedOut { call_id, attempt, after_ms }]
                }
                _ => Vec::new(),
            }),
            CallCommand::MarkUnknown { call_id, why } => {
                let call = self.known(&call_id)?;
                if !call.status.is_open() {
                    return Err(CallRejection::Closed(call_id));
                }
                Ok(vec![CallEvent::OutcomeUnknown { attempt: call.attempts, call_id, why }])
            }
            CallCommand::Reconcile { call_id, verdict, by } => self.reconcile(&call_id, &verdict, by),
            CallCommand::Abandon { call_id, reason, by } => {
                let call = self.known(&call_id)?;
                match &call.status {
                    CallStatus::Unknown(_) => Ok(vec![CallEvent::Abandoned { call_id, reason, by }]),
                    CallStatus::Abandoned(_) => Ok(Vec::new()),
                    CallStatus::Reconciled(verdict) => {
                        Err(CallRejection::Settled { call_id, before: verdict.as_str() })
                    }
                    other => Err(CallRejection::NotUnknown { call_id, status: other.as_str() }),
                }
            }
        }
    }

    /// What a verdict leads to, which depends on where the call stands.
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
        match &call.status {
            // The system's own probe closes a lost call, or lets it be sent again.
            CallStatus::Dispatched | CallStatus::TimedOut if probed => {
                let then = match verdict.clone() {
                    Verdict::Landed(result) => {
                        Some(CallEvent::Succeeded { call_id: id(), attempt, result, usage: None })
                    }
                    Verdict::DidNotHappen => None,
                    Verdict::Inconclusive(why) => {
                        Some(CallEvent::OutcomeUnknown { call_id: id(), attempt, why })
                    }
                };
                Ok(std::iter::once(found).chain(then).collect())
            }
            CallStatus::Unknown(_) => Ok(vec![found]),
            // Evidence, kept once.
            CallStatus::Canceled if attempt > 0 => Ok(vec![found]),
            CallStatus::Reconciled(before) if before == verdict => Ok(Vec::new()),
            CallStatus::Reconciled(before) => {
                Err(CallRejection::Settled { call_id: id(), before: before.as_str() })
            }
            CallStatus::Abandoned(_) => Err(CallRejection::Settled { call_id: id(), before: "abandoned" }),
            other => Err(CallRejection::NotUnknown { call_id: id(), status: other.as_str() }),
        }
    }

    /// What the end of a run does to every open call: what is Manual and in flight becomes unknown, all else is
    /// canceled.
    pub fn cancel(&self) -> Vec<CallEvent> {
        self.open()
            .map(|call| {
                let call_id = call.request.call_id.clone();
                let sent = call.attempts > 0;
                if sent && call.request.recovery == Recovery::Manual && call.request.kind != CallKind::Infer {
                    let why = "its run was ended while the call was in flight".to_owned();
                    return CallEvent::OutcomeUnknown { call_id, attempt: call.attempts, why };
                }
                let stage = if sent { CancelStage::InFlight } else { CancelStage::Requested };
                CallEvent::Canceled { call_id, stage }
            })
            .collect()
    }

    /// Folds one event in, which was decided at this moment.
    pub fn evolve(&mut self, event: &CallEvent, at: Timestamp) {
        if let CallEvent::Requested(request) = event {
            self.0.push(Call::new(CallRequested::clone(request), at));
            return;
        }
        let Some(call) = self.0.iter_mut().rev().find(|call| call.request.call_id == event.call_id()) else {
            return;
        };
        match event {
            CallEvent::Dispatched { attempt, epoch, delay_ms, .. } => {
                call.attempts = *attempt;
                call.epoch = *epoch;
                call.delay_ms = *delay_ms;
                call.sent_at = Some(at);
                call.first_sent_at.get_or_insert(at);
                call.status = CallStatus::Dispatched;
            }
            CallEvent::Succeeded { result, usage, .. } => {
                call.status = CallStatus::Succeeded(result.clone());
                call.usage = *usage;
            }
            CallEvent::Failed { failure, .. } => call.status = CallStatus::Failed(failure.clone()),
            CallEvent::TimedOut { .. } => call.status = CallStatus::TimedOut,
            CallEvent::Canceled { .. } => call.status = CallStatus::Canceled,
            CallEvent::OutcomeUnknown { why, .. } => call.status = CallStatus::Unknown(why.clone()),
            CallEvent::Reconciled { verdict, .. } => call.found(verdict),
            CallEvent::Abandoned { reason, .. } => call.status = CallStatus::Abandoned(reason.clone()),
            CallEvent::Requested(_) | CallEvent::LateResultIgnored { .. } => {}
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
