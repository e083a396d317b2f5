//! Word to an attempt on its request to another agent.

use proto_events::call::CallStatus;

use crate::run::delegation_request::Refusal;

/// Word on a request to another agent.
#[derive(Debug)]
pub(crate) enum DelegationUpdate {
    /// The request is a call that is on disk. `asked` are the questions to a person with which earlier attempts ended for
    /// its approval.
    Recorded { asked: Vec<String> },
    /// The request is not made.
    Refused { why: Refusal, asked: Vec<String> },
    /// The task that the call sent waits for a person, in these words: the attempt is to end.
    Waits(String),
    /// The call has its outcome.
    Ended(CallStatus),
}
