//! What may follow a crash for one call: the first three rows of R7.

use proto_events::call::{Call, CallEvent, CallKind, CallStatus, FailureClass, Recovery, Verdict, VerdictBy};
use proto_events::envelope::Recorded;
use proto_events::task::TaskEvent;

use super::{Row, same_append};
use crate::testing::ledger::Execution;

/// What followed for one call after a cut.
pub(super) struct Follows<'a> {
    pub(super) call: &'a Call,
    pub(super) events: Vec<&'a Recorded<TaskEvent>>,
    pub(super) executions: Vec<&'a Execution>,
    /// Where its task was given up or failed.
    pub(super) ends: Option<&'a Recorded<TaskEvent>>,
}

type Judged = Result<(), String>;

impl Follows<'_> {
    /// Where the log of the call ended.
    pub(super) fn row(&self) -> Row {
        match self.call.status {
            CallStatus::Requested | CallStatus::Unsent => Row::RequestedOnly,
            CallStatus::Dispatched | CallStatus::TimedOut => Row::InFlight,
            _ => Row::OutcomePresent,
        }
    }

    fn event(&self, at: usize) -> Option<&CallEvent> {
        self.events.get(at).and_then(|recorded| match &recorded.event {
            TaskEvent::Call(event) => Some(event),
            _ => None,
        })
    }

    /// Whether what followed is what the row and the mode allow.
    pub(super) fn judge(&self, row: Row) -> Judged {
        if self.executions.iter().any(|execution| execution.attempt <= self.call.attempts) {
            return Err("an attempt that had been sent before was carried out".to_owned());
        }
        match row {
            Row::OutcomePresent | Row::CanceledInFlight => self.nothing(),
            // Its run may be over for a reason of its own before anything is sent.
            _ if self.given_up() => self.not_carried_out(),
            Row::RequestedOnly => self.sent(0),
            Row::InFlight => match self.call.request.recovery {
                Recovery::ReadOnly | Recovery::Reissue => self.sent(0),
                Recovery::Idempotent if self.within_window() => self.sent(0),
                Recovery::Idempotent | Recovery::Manual => self.unknown(0),
                Recovery::Reconcile => self.probed(),
            },
        }
    }

    /// Nothing, ever; but evidence may still come.
    fn nothing(&self) -> Judged {
        self.not_carried_out()?;
        let is_evidence = |at| {
            matches!(
                self.event(at),
                Some(
                    CallEvent::LateResultIgnored { .. }
                        | CallEvent::Reconciled { .. }
                        | CallEvent::Abandoned { .. }
                )
            )
        };
        if (0..self.events.len()).all(is_evidence) { Ok(()) } else { Err("it had its outcome".to_owned()) }
    }

    fn not_carried_out(&self) -> Judged {
        match self.executions.first() {
            None => Ok(()),
            Some(execution) => Err(format!("it was carried out again, as attempt {}", execution.attempt)),
        }
    }

    /// The next attempt, or that there is none any more.
    fn sent(&self, at: usize) -> Judged {
        let next = self.call.attempts + 1;
        match self.event(at) {
            Some(CallEvent::Dispatched { attempt, .. }) if *attempt == next => self.carried_out(next, at + 1),
            Some(CallEvent::Failed { failure, .. }) => self.too_late(at, failure.class),
            _ => Err(format!("attempt {next} was due")),
        }
    }

    /// What was sent reached its tool, unless nobody let it.
    fn carried_out(&self, attempt: u32, after: usize) -> Judged {
        let refused = matches!(self.event(after), Some(CallEvent::Failed { failure, .. }) if failure.class == FailureClass::BeforeEffect)
            || matches!(self.event(after), Some(CallEvent::Dispatched { .. } | CallEvent::Canceled { .. }));
        let is_infer = self.call.request.kind == CallKind::Infer;
        if is_infer || refused || self.executions.iter().any(|execution| execution.attempt == attempt) {
            return Ok(());
        }
        Err(format!("attempt {attempt} was sent, but never carried out"))
    }

    /// Without another attempt only if none is left, or if it is past the call's deadline.
    fn too_late(&self, at: usize, class: FailureClass) -> Judged {
        let request = &self.call.request;
        let now = self.events.get(at).map(|recorded| recorded.metadata.at);
        let past = request.deadline.zip(now).is_some_and(|(deadline, now)| deadline <= now);
        let none_left = self.call.attempts >= request.max_attempts && class == FailureClass::Exhausted;
        if past || none_left {
            return self.not_carried_out();
        }
        Err("it was given up while another attempt was due".to_owned())
    }

    fn unknown(&self, at: usize) -> Judged {
        self.not_carried_out()?;
        match self.event(at) {
            Some(CallEvent::OutcomeUnknown { .. }) => Ok(()),
            _ => Err("its outcome is unknown, and that was not written".to_owned()),
        }
    }

    /// What the target says decides.
    fn probed(&self) -> Judged {
        match self.event(0) {
            Some(CallEvent::Reconciled { verdict, by: VerdictBy::Probe, .. }) => match verdict {
                Verdict::Landed(found) => {
                    self.not_carried_out()?;
                    match self.event(1) {
                        Some(CallEvent::Succeeded { result, .. }) if result == found => Ok(()),
                        _ => Err("it landed, and that is not its result".to_owned()),
                    }
                }
                Verdict::DidNotHappen => self.sent(1),
                Verdict::Inconclusive(_) => self.unknown(1),
            },
            _ => Err("its target was not asked".to_owned()),
        }
    }

    /// Whether the target still knew the key when something followed.
    fn within_window(&self) -> bool {
        let now = self.events.first().map(|recorded| recorded.metadata.at);
        match (self.call.request.window_ms, self.call.first_sent_at, now) {
            (Some(window), Some(first), Some(now)) => now.millis_since(first) < window,
            _ => true,
        }
    }

    /// Whether its task ended before anything followed for it: a run whose time was up, say.
    fn given_up(&self) -> bool {
        let closed = match self.event(0) {
            Some(CallEvent::Canceled { .. }) => true,
            Some(CallEvent::OutcomeUnknown { .. }) => self.call.request.recovery == Recovery::Manual,
            _ => false,
        };
        closed && self.ends.zip(self.events.first()).is_some_and(|(end, first)| same_append(first, end))
    }
}
