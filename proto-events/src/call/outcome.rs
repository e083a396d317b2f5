//! The values that describe the end of a call: failures, verdicts, token usage, the stage of a cancellation.

use crate::envelope::Principal;
use crate::json::JsonText;

/// The point at which a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// The attempt certainly failed before any effect.
    BeforeEffect,
    /// The target ran and returned an error, or crashed.
    AfterEffect,
    /// The target refused the arguments.
    Rejected,
    /// No further attempt is possible: all are used, or the deadline has passed.
    Exhausted,
    /// The inference cannot be sent again as it was intended: the definition of its agent has changed since, or the
    /// conversation was rewritten. Another intent follows.
    Superseded,
}

impl FailureClass {
    /// Returns the class's name in logs and in printed output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BeforeEffect => "before-effect",
            Self::AfterEffect => "after-effect",
            Self::Rejected => "rejected",
            Self::Exhausted => "exhausted",
            Self::Superseded => "superseded",
        }
    }
}

/// The reason why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFailure {
    /// The point at which the call failed.
    pub class: FailureClass,
    /// The error's type name, shown instead of an empty message.
    pub error_type: String,
    /// The error's message.
    pub message: String,
    /// The tokens that the provider counted for the failed attempt: they are paid for too.
    pub usage: Option<TokenUsage>,
}

/// The verdict on a call whose effect may have taken place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The effect took place; the value is the result that the call would have returned.
    Landed(JsonText),
    /// The effect did not take place, and will not.
    DidNotHappen,
    /// The probe or person could not determine whether the effect took place, for this reason.
    Inconclusive(String),
}

impl Verdict {
    /// Returns the verdict's name in logs and in printed output.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Landed(_) => "landed",
            Self::DidNotHappen => "did-not-happen",
            Self::Inconclusive(_) => "inconclusive",
        }
    }
}

/// The source of a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerdictBy {
    /// The tool's own probe.
    Probe,
    /// A person, by name if known.
    Operator(Principal),
}

/// The answer of a person to a question of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The answer, as given.
    Given(String),
    /// No answer, for this reason.
    Declined(String),
}

/// A question of a call to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallQuestion {
    /// The question.
    pub question: String,
    /// The answer, once there is one.
    pub answer: Option<Answer>,
}

/// The tokens that a provider reports for one inference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenUsage {
    /// The number of tokens sent to the model.
    pub input_tokens: u64,
    /// The number of tokens that the model generated.
    pub output_tokens: u64,
}

/// The time limit that ended an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeLimit {
    /// The limit of the whole attempt.
    #[default]
    Attempt,
    /// The limit between two reports of progress.
    Heartbeat,
}

impl TimeLimit {
    /// Returns the limit's name in logs and in printed output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Attempt => "attempt",
            Self::Heartbeat => "heartbeat",
        }
    }
}

/// The progress of a call at its cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelStage {
    /// The call had not been sent.
    Requested,
    /// The call was in flight; its effect may have taken place.
    InFlight,
}
