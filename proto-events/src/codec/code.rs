//! The byte codes of enums without data. A code is never reused for another value.

use crate::call::outcome::{CancelStage, FailureClass, TimeLimit};
use crate::call::request::{CallKind, Recovery};
use crate::call::selection::CutRule;
use crate::codec::error::FieldError;
use crate::envelope::Basis;
use crate::model::CompactionStrategy;
use crate::model::llm_message::LlmRole;
use crate::model::run_budget::BudgetLimit;
use crate::model::task_state::TaskState;

/// An enum that is stored as one byte.
pub(super) trait CodedEnum: Copy + 'static {
    /// All values of the enum.
    #[cfg(test)]
    const ALL: &'static [Self];

    /// Returns the code of this value.
    fn code(self) -> u8;

    /// Returns the value of a code.
    fn of_code(code: u8) -> Result<Self, FieldError>;
}

/// Implements both directions from one list. A value without a code or a repeated code does not compile.
macro_rules! codes {
    ($($name:ident { $($value:ident = $code:literal),+ $(,)? })+) => {$(
        impl CodedEnum for $name {
            #[cfg(test)]
            const ALL: &'static [Self] = &[$(Self::$value),+];

            fn code(self) -> u8 {
                match self {
                    $(Self::$value => $code,)+
                }
            }

            #[deny(unreachable_patterns)]
            fn of_code(code: u8) -> Result<Self, FieldError> {
                match code {
                    $($code => Ok(Self::$value),)+
                    other => Err(FieldError::Code(other)),
                }
            }
        }
    )+};
}

codes! {
    TaskState {
        Submitted = 0, Working = 1, InputRequired = 2, Completed = 3, Failed = 4, Canceled = 5, Unknown = 6,
    }
    LlmRole { System = 0, User = 1, Assistant = 2, Tool = 3 }
    CallKind { Tool = 0, Infer = 1, Delegate = 2, Handler = 3 }
    Recovery { ReadOnly = 0, Idempotent = 1, Reconcile = 2, Manual = 3, Reissue = 4 }
    FailureClass { BeforeEffect = 0, AfterEffect = 1, Rejected = 2, Exhausted = 3, Superseded = 4 }
    CutRule { Head = 0, Minimized = 1, HeadWithTip = 2 }
    CancelStage { Requested = 0, InFlight = 1 }
    TimeLimit { Attempt = 0, Heartbeat = 1 }
    Basis { Asserted = 0, Authenticated = 1 }
    CompactionStrategy { Recent = 0, Tokens = 1, Summary = 2 }
    BudgetLimit {
        Steps = 0, LlmCalls = 1, ToolCalls = 2, InputTokens = 3, OutputTokens = 4, RuntimeSeconds = 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trips<T: CodedEnum + PartialEq + std::fmt::Debug>() {
        for (place, value) in (0..).zip(T::ALL) {
            assert_eq!(value.code(), place, "{value:?}");
            assert_eq!(T::of_code(value.code()).unwrap(), *value);
        }
        let known = u8::try_from(T::ALL.len()).unwrap();
        for code in known..=u8::MAX {
            assert!(matches!(T::of_code(code), Err(FieldError::Code(refused)) if refused == code));
        }
    }

    #[test]
    fn every_value_comes_back_from_its_code_and_no_other_code_is_read() {
        round_trips::<TaskState>();
        round_trips::<LlmRole>();
        round_trips::<CallKind>();
        round_trips::<Recovery>();
        round_trips::<FailureClass>();
        round_trips::<CutRule>();
        round_trips::<CancelStage>();
        round_trips::<Basis>();
        round_trips::<BudgetLimit>();
        round_trips::<TimeLimit>();
        round_trips::<CompactionStrategy>();
    }
}
