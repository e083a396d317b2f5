//! Checks the approvals of one task against R11: requested before they are decided, decided once, and valid
//! only for the call that they were requested for.

use std::collections::HashMap;

use proto_events::call::{CallKind, CallRequested};
use proto_events::json::JsonText;
use proto_events::task::{ApprovalDecided, ApprovalRequested, approved_args};

/// An approval as read so far.
struct KnownApproval {
    call_id: String,
    tool: String,
    args: JsonText,
    approved: Option<bool>,
    used: bool,
}

/// The approvals of a stream read so far.
#[derive(Default)]
pub(crate) struct ApprovalsCheck(HashMap<String, KnownApproval>);

impl ApprovalsCheck {
    /// Takes an approval request and returns its fault, if any.
    pub(crate) fn asked(&mut self, asked: &ApprovalRequested) -> Option<String> {
        let ApprovalRequested { approval_id, call_id, tool, args, .. } = asked;
        let known = KnownApproval {
            call_id: call_id.clone(),
            tool: tool.clone(),
            args: args.clone(),
            approved: None,
            used: false,
        };
        let before = self.0.insert(approval_id.clone(), known);
        before.map(|_| format!("approval `{approval_id}` was requested twice"))
    }

    /// Takes a decision and returns its fault, if any.
    pub(crate) fn decided(&mut self, decided: &ApprovalDecided) -> Option<String> {
        let id = &decided.approval_id;
        let Some(known) = self.0.get_mut(id) else {
            return Some(format!("approval `{id}` was decided, but never requested"));
        };
        known.approved.replace(decided.approved).map(|_| format!("approval `{id}` was decided twice"))
    }

    /// Takes an intent and returns the fault of the approval that it names, if any.
    pub(crate) fn used(&mut self, call: &CallRequested) -> Option<String> {
        let id = call.approval.as_ref()?;
        // After the approval the model calls another agent again, under another call id.
        let alike = call.kind == CallKind::Delegate;
        let why = match self.0.get_mut(id) {
            None => "was never requested",
            Some(known) if known.approved != Some(true) => "was not granted",
            Some(known) if !alike && known.call_id != call.call_id => "is for another call",
            Some(known) if known.tool != call.target => "is for another tool",
            Some(known) if known.args != *approved_args(call) => "is for other arguments",
            Some(known) if known.used => "was used before",
            Some(known) => {
                known.used = true;
                return None;
            }
        };
        Some(format!("call `{}` was intended under approval `{id}`, which {why}", call.call_id))
    }
}

#[cfg(test)]
mod tests {
    use proto_events::call::{CallOrigin, NewCall, Recovery};

    use super::*;

    fn asked(args: &str) -> ApprovalRequested {
        ApprovalRequested {
            approval_id: "a".to_owned(),
            call_id: "c".to_owned(),
            tool: "pay".to_owned(),
            args: JsonText::parse(args).unwrap(),
            capabilities: Vec::new(),
            origin: CallOrigin::default(),
        }
    }

    fn decided(approved: bool) -> ApprovalDecided {
        ApprovalDecided { approval_id: "a".to_owned(), approved, reason: None, decided_by: "ada".into() }
    }

    fn call(id: &str, tool: &str, args: &str) -> CallRequested {
        CallRequested {
            approval: Some("a".to_owned()),
            ..CallRequested::of(NewCall {
                call_id: id.to_owned(),
                kind: CallKind::Tool,
                target: tool.to_owned(),
                args: JsonText::parse(args).unwrap(),
                idempotency_key: String::new(),
                recovery: Recovery::Manual,
                recovery_source: "tool".to_owned(),
                timeout_ms: 1,
                max_attempts: 1,
            })
        }
    }

    #[test]
    fn a_call_under_an_approval_that_is_not_its_own_is_a_fault() {
        let mut check = ApprovalsCheck::default();
        let wrong = |check: &mut ApprovalsCheck, id, tool, args| {
            check.used(&call(id, tool, args)).unwrap_or_default()
        };
        assert!(wrong(&mut check, "c", "pay", "1").contains("never requested"));
        assert!(check.decided(&decided(true)).unwrap().contains("never requested"));
        assert_eq!(check.asked(&asked("1")), None);
        assert!(wrong(&mut check, "c", "pay", "1").contains("was not granted"));
        assert_eq!(check.decided(&decided(true)), None);
        assert_eq!(wrong(&mut check, "c", "pay", "1"), "");
        assert!(wrong(&mut check, "c", "pay", "1").contains("used before"));
        assert!(wrong(&mut check, "d", "pay", "1").contains("another call"));
        assert!(wrong(&mut check, "c", "give", "1").contains("another tool"));
        assert!(wrong(&mut check, "c", "pay", "2").contains("other arguments"));
        assert!(check.decided(&decided(true)).unwrap().contains("decided twice"));
        assert!(check.asked(&asked("1")).unwrap().contains("requested twice"));
    }
}
