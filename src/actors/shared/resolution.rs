//! A person's decision about a call whose outcome is unknown.

use proto_events::call::{CallCommand, Verdict, VerdictBy};
use proto_events::envelope::Principal;

/// A person's decision about a call whose outcome is unknown.
#[derive(Debug, Clone)]
pub(crate) enum CallResolution {
    /// The outcome was found out.
    Verdict(Verdict),
    /// The investigation is stopped, for this reason.
    Abandon(String),
}

impl CallResolution {
    /// Returns the decision as a command about the call.
    pub(crate) fn command(&self, call_id: String, by: Principal) -> CallCommand {
        match self.clone() {
            Self::Verdict(verdict) => {
                CallCommand::Reconcile { call_id, verdict, by: VerdictBy::Operator(by) }
            }
            Self::Abandon(reason) => CallCommand::Abandon { call_id, reason, by },
        }
    }
}
