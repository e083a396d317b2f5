//! Calls: tool calls, inferences and requests to other agents. The intent ([`CallRequested`]) is on disk
//! before the first attempt, and at most one outcome closes a call. Call events occur in streams of
//! tasks, but this file depends on no task. The rules R1 to R7 and R14 come from the contract for side
//! effects.

pub(crate) mod book;
pub(crate) mod call_sum;
pub(crate) mod children;
pub(crate) mod command;
pub(crate) mod event;
pub(crate) mod fold;
pub(crate) mod index;
pub(crate) mod late;
pub(crate) mod outcome;
pub(crate) mod price;
pub(crate) mod prompt;
pub mod recovery;
pub(crate) mod request;
pub(crate) mod selection;
pub(crate) mod status;
pub(crate) mod sum;

pub use book::CallBook;
pub use command::{CallCommand, CallRejection};
pub use event::CallEvent;
pub use fold::Call;
pub use outcome::{
    Answer, CallFailure, CallQuestion, CancelStage, FailureClass, TimeLimit, TokenUsage, Verdict, VerdictBy,
};
pub use price::{CURRENCY_BYTES_MAX, Cost, Costs, Price};
pub use prompt::{PromptRef, read_digest};
pub use request::{CallKind, CallOrigin, CallRequested, NewCall, ParentCall, Recovery};
pub use selection::{Cut, CutRule, KeptRange, MessageRule, Selection, SelectionFault, Sizes};
pub use status::CallStatus;
pub use sum::SumOf;
