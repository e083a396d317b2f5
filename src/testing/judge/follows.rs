//! The events that may follow a crash for one call: the first three rows of R7.

use std::time::Duration;

use proto_events::call::{Call, CallEvent, CallKind, CallStatus, FailureClass, Recovery, Verdict, VerdictBy};
use proto_events::envelope::RecordedEvent;
use proto_events::id::Position;
use proto_events::task::TaskEvent;

use crate::testing::judge::row::{Row, same_append};
use crate::testing::judge::setting::Setting;
use crate::testing::ledger::Execution;

/// The events and executions of one call after a cut.
pub(crate) struct Follows<'a> {
    pub(crate) call: &'a Call,
    /// The position of its intent.
    pub(crate) intended_at: Position,
    pub(crate) events: Vec<&'a RecordedEvent<TaskEvent>>,
    pub(crate) executions: Vec<&'a Execution>,
    /// The event at which its task was canceled or failed.
    pub(crate) ends: Option<&'a RecordedEvent<TaskEvent>>,
    /// The outcome of the call that asked for it, if another call did.
    pub(crate) parent_ends: Option<&'a RecordedEvent<TaskEvent>>,
    /// Whether another call of its kind took its place, or its run ended.
    pub(crate) taken_over: bool,
    pub(crate) setting: Setting,
}

type Judged = Result<(), String>;

impl Follows<'_> {
    /// Returns the row for the call's status at the cut.
    pub(crate) fn row(&self) -> Row {
        match self.call.status {
            CallStatus::Requested
            | CallStatus::Unsent
            | CallStatus::RetryScheduled(..)
            | CallStatus::Answered => Row::RequestedOnly,
            CallStatus::Dispatched | CallStatus::TimedOut => Row::InFlight,
            CallStatus::Asked(_) => Row::Asked,
            _ => Row::OutcomePresent,
        }
    }

    fn event(&self, at: usize) -> Option<&CallEvent> {
        self.events.get(at).and_then(|recorded| match &recorded.event {
            TaskEvent::Call(event) => Some(event),
            _ => None,
        })
    }

    /// Checks what followed against the row and the mode.
    pub(crate) fn judge(&self, row: Row) -> Judged {
        if self.executions.iter().any(|execution| execution.attempt <= self.call.attempts) {
            return Err("an attempt dispatched before the cut was executed".to_owned());
        }
        match row {
            Row::OutcomePresent | Row::CanceledInFlight => self.nothing(),
            Row::Asked => self.check(),
            // The run may end for another reason before anything is sent.
            _ if self.given_up() => self.not_carried_out(),
            Row::RequestedOnly => self.sent(0),
            Row::InFlight => match self.call.request.recovery {
                Recovery::ReadOnly | Recovery::Reissue => self.sent(0),
                Recovery::Idempotent if self.is_unknown() && self.may_be_forgotten() => self.unknown(0),
                Recovery::Idempotent if self.within_window() => self.sent(0),
                Recovery::Idempotent | Recovery::Manual => self.unknown(0),
                Recovery::Reconcile => self.probed(),
            },
        }
    }

    /// Checks that a question was given up, or that the next attempt was sent with its answer, and none without it.
    fn check(&self) -> Judged {
        match self.event(0) {
            None | Some(CallEvent::Canceled { .. }) => self.not_carried_out(),
            Some(CallEvent::Answered { .. }) => match self.event(1) {
                Some(CallEvent::Canceled { .. }) => self.not_carried_out(),
                _ => self.sent(1),
            },
            _ => Err("it went on without an answer to its question".to_owned()),
        }
    }

    /// Checks that nothing followed, except evidence.
    fn nothing(&self) -> Judged {
        self.not_carried_out()?;
        self.evidence_from(0).map_err(|()| "its outcome was already recorded".to_owned())
    }

    /// Checks that only evidence followed from this event on: late results, and what people find out.
    fn evidence_from(&self, at: usize) -> Result<(), ()> {
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
        if (at..self.events.len()).all(is_evidence) { Ok(()) } else { Err(()) }
    }

    fn not_carried_out(&self) -> Judged {
        match self.executions.first() {
            None => Ok(()),
            Some(execution) => Err(format!("it was executed again, as attempt {}", execution.attempt)),
        }
    }

    /// Checks that the next attempt was sent, or none was left.
    fn sent(&self, at: usize) -> Judged {
        let next = self.call.attempts + 1;
        match self.event(at) {
            Some(CallEvent::Dispatched { .. }) if self.is_outdated() => {
                Err("it was sent although its agent was changed".to_owned())
            }
            Some(CallEvent::Dispatched { attempt, .. }) if *attempt == next => {
                self.when_due(at)?;
                self.carried_out(next, at + 1)
            }
            Some(CallEvent::Failed { failure, .. }) if failure.class == FailureClass::Superseded => {
                self.superseded()
            }
            Some(CallEvent::Failed { failure, .. }) => self.too_late(at, failure.class),
            _ => Err(format!("attempt {next} was expected")),
        }
    }

    /// Checks that a scheduled retry was not sent before its back-off was over: a restart waits the rest.
    fn when_due(&self, at: usize) -> Judged {
        let CallStatus::RetryScheduled(due, _) = &self.call.status else { return Ok(()) };
        match self.events.get(at).map(|recorded| recorded.metadata.at) {
            // A clock that was set back since shows an earlier time.
            Some(sent) if sent.plus(self.setting.set_back) < *due => {
                Err(format!("it was sent at {sent}, before its back-off ended at {due}"))
            }
            _ => Ok(()),
        }
    }

    fn is_outdated(&self) -> bool {
        let is_before = self.setting.changed_at.is_some_and(|changed_at| self.intended_at <= changed_at);
        self.call.request.kind == CallKind::Infer && is_before
    }

    /// Checks that an inference was given up for another one, because its agent was changed: the setting rewrites no
    /// conversation.
    fn superseded(&self) -> Judged {
        if !self.is_outdated() {
            return Err("it was superseded, but its agent is the same".to_owned());
        }
        if self.taken_over { Ok(()) } else { Err("no other inference took its place".to_owned()) }
    }

    /// Checks that an attempt that was sent reached its tool, unless it was refused or ended before that.
    fn carried_out(&self, attempt: u32, after: usize) -> Judged {
        let refused = matches!(self.event(after),
            Some(CallEvent::Failed { failure, .. } | CallEvent::RetryScheduled { failure, .. })
                if failure.class == FailureClass::BeforeEffect)
            || matches!(self.event(after), Some(CallEvent::Dispatched { .. } | CallEvent::Canceled { .. }));
        // The task may be canceled before the attempt comes to its tool.
        let closes = |end| self.events.get(after).is_some_and(|event| same_append(event, end));
        let refused = refused
            || (self.ends.is_some_and(closes)
                && matches!(self.event(after), Some(CallEvent::OutcomeUnknown { .. })));
        // The ledger has the executions of tools and handlers.
        let is_seen = matches!(self.call.request.kind, CallKind::Tool | CallKind::Handler);
        if !is_seen
            || refused
            || self.setting.may_break
            || self.executions.iter().any(|execution| execution.attempt == attempt)
        {
            return Ok(());
        }
        Err(format!("attempt {attempt} was dispatched but never executed"))
    }

    /// Checks a failure without another attempt: none is left, or the call's deadline has passed.
    fn too_late(&self, at: usize, class: FailureClass) -> Judged {
        let request = &self.call.request;
        let now = self.events.get(at).map(|recorded| recorded.metadata.at);
        let past = request.deadline.zip(now).is_some_and(|(deadline, now)| deadline <= now);
        let none_left = self.call.attempts >= request.max_attempts && class == FailureClass::Exhausted;
        // A target forgets a key during a back-off, and while a person thinks about a question.
        let waited = matches!(
            self.call.status,
            CallStatus::RetryScheduled(..) | CallStatus::Asked(_) | CallStatus::Answered
        );
        if past || none_left || (waited && self.may_be_forgotten()) {
            return self.not_carried_out();
        }
        Err("it failed although attempts were left".to_owned())
    }

    fn unknown(&self, at: usize) -> Judged {
        self.not_carried_out()?;
        match self.event(at) {
            Some(CallEvent::OutcomeUnknown { .. }) => self
                .evidence_from(at + 1)
                .map_err(|()| "its outcome was recorded as unknown, and then it went on".to_owned()),
            _ => Err("its unknown outcome was not recorded".to_owned()),
        }
    }

    /// Checks what followed by the target's verdict.
    fn probed(&self) -> Judged {
        match self.event(0) {
            Some(CallEvent::Reconciled { verdict, by: VerdictBy::Probe, .. }) => match verdict {
                Verdict::Landed(found) => {
                    self.not_carried_out()?;
                    match self.event(1) {
                        Some(CallEvent::Succeeded { result, .. }) if result == found => Ok(()),
                        _ => Err("it landed, but another result was recorded".to_owned()),
                    }
                }
                Verdict::DidNotHappen => self.sent(1),
                Verdict::Inconclusive(_) => self.unknown(1),
            },
            _ => Err("its target was not probed".to_owned()),
        }
    }

    /// Whether the first event that followed says that the outcome is unknown.
    fn is_unknown(&self) -> bool {
        matches!(self.event(0), Some(CallEvent::OutcomeUnknown { .. }))
    }

    /// Whether the target still knew the key at the first event that followed, by the clock.
    fn within_window(&self) -> bool {
        self.is_remembered_after(Duration::ZERO)
    }

    /// Whether the target may have forgotten the key by the first event that followed: a clock that was set back since shows
    /// an earlier time, and the system goes by the later one.
    fn may_be_forgotten(&self) -> bool {
        !self.is_remembered_after(self.setting.set_back)
    }

    /// Whether the target still knew the key when this time had passed since the first event that followed.
    fn is_remembered_after(&self, passed: Duration) -> bool {
        let now = self.events.first().map(|recorded| recorded.metadata.at.plus(passed));
        match (self.call.request.window_ms, self.call.first_sent_at, now) {
            (Some(window), Some(first), Some(now)) => now.millis_since(first) < window,
            _ => true,
        }
    }

    /// Whether the task, or the call that asked for this one, ended before anything else followed for the call, for example at
    /// the run's deadline.
    fn given_up(&self) -> bool {
        let closed = match self.event(0) {
            Some(CallEvent::Canceled { .. }) => true,
            Some(CallEvent::OutcomeUnknown { .. }) => self.call.request.recovery == Recovery::Manual,
            _ => false,
        };
        let with =
            |end: &RecordedEvent<TaskEvent>| self.events.first().is_some_and(|first| same_append(first, end));
        closed && (self.ends.is_some_and(with) || self.parent_ends.is_some_and(with))
    }
}
