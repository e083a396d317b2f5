//! The agent's policy over the operations of its control plane, and the approval of those that need one.
//!
//! As in Protolink, the agent's approval handler is asked, and the operation waits for it. No run stands behind such an
//! operation that could wait for a person, so that what the handler leaves to a person is refused.

use proto_events::id::Mint as _;
use proto_events::json::JsonText;
use tokio::task::AbortHandle;

use crate::agent::approval::{ApprovalRequest, ApprovalVerdict, Approvals};
use crate::agent::capability::{PolicyEffect, RunPermissions, approval_required};
use crate::error::Error;
use crate::system::calls_runtime::entered;
use crate::system::handle::{Caller, System};
use crate::tools::panics::caught_in;

/// An operation of the control plane, as the policy and an approval handler are shown it.
pub(crate) struct AuthorisedOperation<'a> {
    /// The name, for example `reset_state`.
    pub(crate) action: &'static str,
    /// The capabilities that it needs.
    pub(crate) capabilities: &'a [&'a str],
    /// The conversation, if it is about one.
    pub(crate) session_id: Option<&'a str>,
    /// The request as JSON.
    pub(crate) args: JsonText,
}

/// Stops the handler when the caller does not wait for it any more.
struct StopOnDrop(AbortHandle);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl System {
    /// Asks the agent's policy whether an operation is allowed, and the approval handler where the policy requires an
    /// approval. Returns the handle through which the operation is carried out: the records that it writes name the
    /// approval as their cause.
    ///
    /// # Errors
    /// [`Error::ActionDenied`] by the policy or the handler, [`Error::ApprovalRequired`] without a handler, both in
    /// Protolink's words; [`Error::ApprovalUndecided`] if the handler does not decide.
    pub(crate) async fn authorise(&self, operation: AuthorisedOperation<'_>) -> Result<Self, Error> {
        let policy = &self.own_agent().agent.capability_policy;
        let needed: Vec<String> = operation.capabilities.iter().map(|name| (*name).to_owned()).collect();
        let action = operation.action.to_owned();
        // No run stands behind these operations, so that no permissions narrow the policy.
        match policy.rule_on(&needed, &RunPermissions::default()) {
            Ok(ruling) if ruling.effect == PolicyEffect::Allow => Ok(self.clone()),
            Ok(ruling) if ruling.effect == PolicyEffect::RequireApproval => {
                self.approved(operation, needed).await
            }
            Ok(ruling) => Err(Error::ActionDenied { action, reason: ruling.reason }),
            Err(unreadable) => Err(Error::ActionDenied { action, reason: unreadable.to_string() }),
        }
    }

    /// Asks the approval handler about an operation.
    async fn approved(&self, operation: AuthorisedOperation<'_>, needed: Vec<String>) -> Result<Self, Error> {
        let action = operation.action.to_owned();
        let Approvals::Handler(handler) = self.own_agent().agent.approvals.clone() else {
            return Err(Error::ApprovalRequired { action });
        };
        let approval_id = self.inner.ports.clone().id("approval_");
        let principal = self.caller.principal.clone();
        let request = ApprovalRequest {
            capabilities: needed.clone(),
            session_id: operation.session_id.unwrap_or_default().to_owned(),
            ..ApprovalRequest::of_operation(approval_id.clone(), &action, operation.args, principal)
        };
        let calls = self.inner.running().parts.calls.clone();
        let asked = calls.spawn(caught_in(async move { handler.ask(request).await }));
        let _stop = StopOnDrop(asked.abort_handle());
        let longest = self.own_agent().agent.approval_timeout;
        let verdict = tokio::select! {
            answer = asked => match answer {
                Ok(Ok(verdict)) => Ok(verdict),
                Ok(Err(panic)) => Err(format!("it panicked: {panic}")),
                Err(stopped) => Err(stopped.to_string()),
            },
            () = entered(calls, self.inner.ports.clock.sleep(longest)) => {
                Err(format!("it did not decide within {longest:?}"))
            }
        };
        match verdict {
            Ok(ApprovalVerdict::Approved) => Ok(self.because_of(approval_id)),
            Ok(ApprovalVerdict::Denied { reason }) => Err(Error::ActionDenied {
                action,
                reason: reason.unwrap_or_else(|| approval_required(&needed)),
            }),
            Ok(ApprovalVerdict::AskPerson) => {
                Err(Error::ApprovalUndecided { action, why: "it left the decision to a person".to_owned() })
            }
            Err(why) => Err(Error::ApprovalUndecided { action, why }),
        }
    }

    /// Returns a handle whose commands name this approval as their cause.
    fn because_of(&self, approval_id: String) -> Self {
        let caller = Caller { causation_id: Some(approval_id), ..Caller::clone(&self.caller) };
        Self { inner: std::sync::Arc::clone(&self.inner), caller: std::sync::Arc::new(caller) }
    }
}
