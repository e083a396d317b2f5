//! The status of a call, and the table of its transitions.

use crate::call::event::CallEvent;
use crate::call::outcome::{CallFailure, FailureClass, Verdict};
use crate::envelope::Timestamp;
use crate::json::JsonText;

/// The status of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallStatus {
    /// The call was requested and not yet sent.
    Requested,
    /// An attempt is in flight.
    Dispatched,
    /// The last attempt timed out; the next step is not decided yet.
    TimedOut,
    /// The last attempt failed; the next one is sent at this time, for this reason.
    RetryScheduled(Timestamp, String),
    /// The last attempt is known to have had no effect: the call may be resent.
    Unsent,
    /// The last attempt ended with this question; the call waits for a person's answer.
    Asked(String),
    /// The question of the last attempt is answered: the call may be sent with the answer.
    Answered,
    /// The call succeeded, with this result.
    Succeeded(JsonText),
    /// The call failed.
    Failed(CallFailure),
    /// The call was canceled with its task.
    Canceled,
    /// The outcome is unknown, for this reason.
    Unknown(String),
    /// The outcome was unknown; an investigation gave this verdict.
    Reconciled(Verdict),
    /// The outcome stays unknown: the investigation was stopped, for this reason.
    Abandoned(String),
}

impl CallStatus {
    /// Whether the call has no outcome yet.
    pub const fn is_open(&self) -> bool {
        matches!(
            self,
            Self::Requested
                | Self::Dispatched
                | Self::TimedOut
                | Self::RetryScheduled(..)
                | Self::Unsent
                | Self::Asked(_)
                | Self::Answered
        )
    }

    /// Whether no attempt is under way or lost between two attempts: the last one ended by itself, and the next one
    /// was not sent.
    pub const fn is_between_attempts(&self) -> bool {
        matches!(self, Self::RetryScheduled(..) | Self::Asked(_) | Self::Answered)
    }

    /// Returns the status's name in printed output.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Dispatched => "in-flight",
            Self::TimedOut => "timed-out",
            Self::RetryScheduled(..) => "retry-scheduled",
            Self::Unsent => "not-landed",
            Self::Asked(_) => "asked",
            Self::Answered => "answered",
            Self::Succeeded(_) => "succeeded",
            Self::Failed(_) => "failed",
            Self::Canceled => "canceled",
            Self::Unknown(_) => "unknown",
            Self::Reconciled(verdict) => verdict.as_str(),
            Self::Abandoned(_) => "abandoned",
        }
    }

    /// Returns the status after an event, or `None` if the event is not allowed in this status.
    ///
    /// This table is the only definition of a call's lifecycle: `decide`, `evolve` and `verify` use it, and
    /// `tests/call_lifecycle.txt` lists all of its pairs. A call begins as [`CallStatus::Requested`]; a
    /// second intent with the same id is refused. [`CallBook::decide`](super::CallBook::decide) checks the
    /// conditions that depend on more than status and event:
    /// - `Requested`: the task is not over (R14).
    /// - `Dispatched`: the attempt is one more than the last. After a timeout or in flight,
    ///   [`Recovery::may_repeat`] must hold, or the other agent have taken the task; in flight, a cause is required too.
    /// - `Succeeded`, `Failed`: the attempt is the last one. A call that timed out succeeds only together
    ///   with its probe's verdict. Any other result is recorded as `LateResultIgnored` (R6).
    /// - `RetryScheduled`: the attempt is the last one, another one is left, and [`Recovery::may_repeat`] holds or
    ///   the other agent has taken the task.
    /// - `TimedOut`: the attempt is the last one.
    /// - `Asked`: the attempt is the last one, and the call is not an inference. A request to another agent asks when that
    ///   agent's task waits for a person.
    /// - `Accepted`: the attempt is the last one, and the call asks another agent.
    /// - `Canceled`, `OutcomeUnknown`: kind, recovery mode and attempts decide which of the two ends an open
    ///   call at the end of its run ([`CallBook::cancel`](super::CallBook::cancel)).
    /// - `Reconciled`: an open call only by its probe, a canceled call only if it was sent. The same decision
    ///   records the outcome of an open call whose effect took place or whose probe is inconclusive.
    ///
    /// [`Recovery::may_repeat`]: super::Recovery::may_repeat
    #[must_use]
    pub fn after(&self, event: &CallEvent) -> Option<Self> {
        use CallEvent as E;
        use CallStatus as S;
        match (self, event) {
            (S::Asked(_) | S::Answered, _) => self.after_question(event),
            (
                S::Requested | S::Dispatched | S::TimedOut | S::Unsent,
                E::Dispatched { .. } | E::Canceled { .. } | E::OutcomeUnknown { .. },
            )
            | (S::RetryScheduled(..), E::Dispatched { .. } | E::Canceled { .. })
            | (S::Dispatched | S::TimedOut, E::Succeeded { .. })
            | (
                S::Dispatched,
                E::Failed { .. } | E::RetryScheduled { .. } | E::TimedOut { .. } | E::Asked { .. },
            )
            | (S::Unknown(_), E::Abandoned { .. }) => Self::named_by(event),
            // No attempt is in flight: the call fails before any effect, or because no further attempt of this
            // intent is possible.
            (S::Requested | S::TimedOut | S::RetryScheduled(..) | S::Unsent, E::Failed { failure, .. }) => {
                Self::named_by(event).filter(|_| is_given_up(failure.class))
            }
            (S::Dispatched | S::TimedOut, E::Reconciled { verdict: Verdict::DidNotHappen, .. }) => {
                Some(S::Unsent)
            }
            (
                S::Unknown(_),
                E::Reconciled { verdict: verdict @ (Verdict::Landed(_) | Verdict::DidNotHappen), .. },
            ) => Some(S::Reconciled(verdict.clone())),
            // An attempt goes on that another agent took, or is found with that agent after its time was up; the rest is
            // evidence, which does not change the status.
            (S::Dispatched | S::TimedOut, E::Accepted { .. })
            | (S::Dispatched | S::TimedOut | S::Canceled | S::Unknown(_), E::Reconciled { .. })
            | (_, E::LateResultIgnored { .. }) => Some(self.clone()),
            (_, E::Requested(_) | E::Answered { .. } | E::Accepted { .. })
            | (S::Requested | S::Unsent, E::Succeeded { .. } | E::Reconciled { .. })
            | (
                S::RetryScheduled(..),
                E::Succeeded { .. } | E::Reconciled { .. } | E::OutcomeUnknown { .. },
            )
            | (
                S::Requested | S::TimedOut | S::RetryScheduled(..) | S::Unsent,
                E::TimedOut { .. } | E::RetryScheduled { .. } | E::Asked { .. },
            )
            | (
                S::Succeeded(_)
                | S::Failed(_)
                | S::Canceled
                | S::Unknown(_)
                | S::Reconciled(_)
                | S::Abandoned(_),
                E::Dispatched { .. }
                | E::Succeeded { .. }
                | E::Failed { .. }
                | E::RetryScheduled { .. }
                | E::TimedOut { .. }
                | E::Canceled { .. }
                | E::OutcomeUnknown { .. }
                | E::Asked { .. },
            )
            | (S::Succeeded(_) | S::Failed(_) | S::Reconciled(_) | S::Abandoned(_), E::Reconciled { .. })
            | (
                S::Requested
                | S::Dispatched
                | S::TimedOut
                | S::RetryScheduled(..)
                | S::Unsent
                | S::Succeeded(_)
                | S::Failed(_)
                | S::Canceled
                | S::Reconciled(_)
                | S::Abandoned(_),
                E::Abandoned { .. },
            ) => None,
        }
    }

    /// Returns the status after an event of a call that asked a person. Nothing is in flight: the answer comes before the
    /// next attempt.
    fn after_question(&self, event: &CallEvent) -> Option<Self> {
        use CallEvent as E;
        let is_answered = *self == Self::Answered;
        match event {
            E::LateResultIgnored { .. } => Some(self.clone()),
            E::Canceled { .. } => Self::named_by(event),
            E::Answered { .. } => Self::named_by(event).filter(|_| !is_answered),
            E::Dispatched { .. } => Self::named_by(event).filter(|_| is_answered),
            E::Failed { failure, .. } => {
                let given_up = matches!(failure.class, FailureClass::BeforeEffect | FailureClass::Exhausted);
                Self::named_by(event).filter(|_| is_answered && given_up)
            }
            E::Requested(_)
            | E::Succeeded { .. }
            | E::RetryScheduled { .. }
            | E::TimedOut { .. }
            | E::OutcomeUnknown { .. }
            | E::Reconciled { .. }
            | E::Abandoned { .. }
            | E::Accepted { .. }
            | E::Asked { .. } => None,
        }
    }

    /// Returns the status that an event alone determines; `None` for an intent and for evidence.
    pub(super) fn named_by(event: &CallEvent) -> Option<Self> {
        match event {
            CallEvent::Dispatched { .. } => Some(Self::Dispatched),
            CallEvent::Succeeded { result, .. } => Some(Self::Succeeded(result.clone())),
            CallEvent::Failed { failure, .. } => Some(Self::Failed(failure.clone())),
            CallEvent::RetryScheduled { failure, due, .. } => {
                Some(Self::RetryScheduled(*due, failure.message.clone()))
            }
            CallEvent::TimedOut { .. } => Some(Self::TimedOut),
            CallEvent::Canceled { .. } => Some(Self::Canceled),
            CallEvent::OutcomeUnknown { why, .. } => Some(Self::Unknown(why.clone())),
            CallEvent::Abandoned { reason, .. } => Some(Self::Abandoned(reason.clone())),
            CallEvent::Asked { question, .. } => Some(Self::Asked(question.clone())),
            CallEvent::Answered { .. } => Some(Self::Answered),
            CallEvent::Requested(_)
            | CallEvent::Accepted { .. }
            | CallEvent::Reconciled { .. }
            | CallEvent::LateResultIgnored { .. } => None,
        }
    }
}

/// Whether a failure of this class needs no attempt in flight.
const fn is_given_up(class: FailureClass) -> bool {
    matches!(class, FailureClass::BeforeEffect | FailureClass::Exhausted | FailureClass::Superseded)
}
