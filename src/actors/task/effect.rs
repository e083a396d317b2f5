//! The effects of a task: what it has the router do, once the intent is on disk.

use std::time::Duration;

use proto_events::envelope::Timestamp;
use proto_events::id::StreamId;

use crate::actors::shared::messages::{Order, ProbeOrder, Recall};
use crate::actors::shared::secrets::KeptOnce;
use crate::agent::approval::ApprovalRequest;
use crate::tools::rate::Rate;

/// The wait of a call before it is sent.
pub(crate) struct PermitWait {
    pub(crate) call_id: String,
    pub(crate) target: String,
    pub(crate) needs_permit: bool,
    pub(crate) rate: Option<(String, Rate)>,
    /// The time until the call's deadline.
    pub(crate) longest: Option<Duration>,
}

/// An effect, performed in this order once the append is durable.
pub(crate) enum Effect {
    /// Send an attempt.
    Dispatch(Box<Order>),
    /// Interrupt a call.
    Abort { call_id: String },
    /// Cancel the task sent to another agent.
    Recall(Recall),
    /// Look whether the task of another agent that a call waits for is over.
    LookAtChild { call_id: String, child: StreamId },
    /// Ask a tool whether an attempt took effect.
    Probe(Box<ProbeOrder>),
    /// Report the attempts that nobody carries out any more as lost.
    FindLost { calls: Vec<(String, u32)> },
    /// Wait for the end of a back-off.
    AwaitRetry { call_id: String, attempt: u32, wait: Duration },
    /// Wait for a permit for a concurrent call, if it has none, and for a turn at its target's rate limit, at most
    /// until its deadline.
    AwaitPermit(PermitWait),
    /// Ask the approval handler.
    AskApprover(Box<ApprovalRequest>),
    /// Stop asking: the approval is decided.
    StopApprover { approval_id: String },
    /// Remove secret values that no call needs any more. After all that is sent before.
    Forget { kept: Vec<KeptOnce> },
    /// Wake the actor at the deadline of this run.
    Wake { at: Timestamp, limit: Duration, run: u32, now: Timestamp },
    /// Ask a session for its turn.
    Acquire { session: StreamId, turn_id: String },
}
