//! The agent's policy over the operations of its control plane.

use crate::agent::capability::{PolicyEffect, RunPermissions};
use crate::error::Error;
use crate::system::handle::System;

impl System {
    /// Asks the agent's policy whether an operation that needs these capabilities is allowed.
    ///
    /// # Errors
    /// [`Error::ActionDenied`] or [`Error::ApprovalRequired`], in Protolink's words.
    pub(crate) fn authorise(&self, action: &str, capabilities: &[&str]) -> Result<(), Error> {
        let agent = &self.own().agent;
        let needed: Vec<String> = capabilities.iter().map(|name| (*name).to_owned()).collect();
        let action = action.to_owned();
        // No run stands behind these operations, so that no permissions narrow the policy.
        let ruling = agent.capability_policy.rule_on(&needed, &RunPermissions::default());
        match ruling {
            Ok(ruling) if ruling.effect == PolicyEffect::Allow => Ok(()),
            Ok(ruling) if ruling.effect == PolicyEffect::RequireApproval => {
                Err(Error::ApprovalRequired { action })
            }
            Ok(ruling) => Err(Error::ActionDenied { action, reason: ruling.reason }),
            Err(unreadable) => Err(Error::ActionDenied { action, reason: unreadable.to_string() }),
        }
    }
}
