//! Checks the approvals of one task against R11: requested by a run, decided once and while they are awaited, and
//! valid only for the call that they were requested for.

use std::collections::HashMap;

use proto_events::call::{CallEvent, CallKind, CallRequested, ParentCall, VerdictBy};
use proto_events::envelope::{Basis, Principal};
use proto_events::id::Digest;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::TaskState;
use proto_events::task::{
    ApprovalDecided, ApprovalRequested, BY_HANDLER, BY_SYSTEM, TaskEvent, approved_args,
};

/// The state of the task at an event of an approval.
#[derive(Clone, Copy)]
pub(crate) struct ApprovalMoment {
    /// The state of the task before the event.
    pub(crate) state: TaskState,
    /// The number of runs so far.
    pub(crate) run: u32,
}

/// The subjects of approvals.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    /// A call.
    Call,
    /// The run, which would go on under a changed agent.
    Agent,
    /// The run, which would go on beyond its budget.
    Budget,
}

impl About {
    fn from_request(asked: &ApprovalRequested) -> Self {
        if asked.changed_agent().is_some() {
            Self::Agent
        } else if asked.exceeded_budget().is_some() {
            Self::Budget
        } else {
            Self::Call
        }
    }
}

/// An approval as read so far.
struct KnownApproval {
    call_id: String,
    tool: String,
    /// The digest of the arguments.
    args: Digest,
    run: u32,
    /// The call that asked for it in its middle, and as which of its requests.
    parent: Option<ParentCall>,
    approved: Option<bool>,
    used: bool,
    about: About,
}

/// The approvals of a stream read so far.
#[derive(Default)]
pub(crate) struct ApprovalsCheck {
    known: HashMap<String, KnownApproval>,
    /// The approvals that were requested for a call and that no call without a word of them has used yet, by that call.
    of_call: HashMap<String, Vec<String>>,
    /// The approvals that were denied, by the call that each was requested for.
    denied: HashMap<String, String>,
    /// The newest question whether a run goes on under a changed agent, and the number of that run.
    of_agent: Option<(u32, String)>,
    /// The newest question whether a run goes on beyond its budget, and the number of that run.
    of_budget: Option<(u32, String)>,
}

impl ApprovalsCheck {
    /// Takes an approval request and returns its fault, if any.
    pub(crate) fn accept_request(
        &mut self,
        asked: &ApprovalRequested,
        now: ApprovalMoment,
    ) -> Option<String> {
        let ApprovalRequested { approval_id, call_id, tool, args, origin, .. } = asked;
        let known = KnownApproval {
            call_id: call_id.clone(),
            tool: tool.clone(),
            args: Digest::compute(args.as_str().as_bytes()),
            run: origin.run,
            parent: origin.parent.clone(),
            approved: None,
            used: false,
            about: About::from_request(asked),
        };
        let newest = Some((origin.run, approval_id.clone()));
        match known.about {
            About::Agent => self.of_agent = newest,
            About::Budget => self.of_budget = newest,
            About::Call => {}
        }
        self.of_call.entry(call_id.clone()).or_default().push(approval_id.clone());
        if self.known.insert(approval_id.clone(), known).is_some() {
            return Some(format!("approval `{approval_id}` was requested twice"));
        }
        let of_its_run = now.state == TaskState::Working && origin.run == now.run;
        (!of_its_run).then(|| {
            format!("approval `{approval_id}` was requested for run {}, which is not active", origin.run)
        })
    }

    /// Takes a decision and returns its fault, if any. `is_made` tells whether a call was intended.
    pub(crate) fn decided(
        &mut self,
        decided: &ApprovalDecided,
        now: ApprovalMoment,
        is_made: impl FnOnce(&str) -> bool,
    ) -> Option<String> {
        let id = &decided.approval_id;
        let Some(known) = self.known.get_mut(id) else {
            return Some(format!("approval `{id}` was decided, but never requested"));
        };
        let before = known.approved.replace(decided.approved);
        if !decided.approved {
            self.denied.insert(known.call_id.clone(), id.clone());
        }
        if before.is_some() {
            return Some(format!("approval `{id}` was decided twice"));
        }
        if now.state.is_terminal() {
            return Some(format!("approval `{id}` was decided although the task is {}", now.state));
        }
        let superseded = known.run != now.run || is_made(&known.call_id);
        superseded.then(|| format!("approval `{id}` was decided after the task had continued without it"))
    }

    /// Returns the fault of an intent or an attempt of this run, if the run waits for a person to accept a change of its
    /// agent or more than its budget, or nobody accepted it.
    pub(crate) fn waiting_fault(&self, run: u32, call_id: &str) -> Option<String> {
        let newest = [(&self.of_budget, "the exceeded budget"), (&self.of_agent, "the changed agent")];
        let (id, about) = newest.into_iter().find_map(|(newest, about)| {
            let (_, id) = newest.as_ref().filter(|(asked, _)| *asked == run)?;
            let goes_on = self.known.get(id)?.approved == Some(true);
            (!goes_on).then_some((id, about))
        })?;
        Some(format!("call `{call_id}` was intended or sent, but approval `{id}` of {about} was not granted"))
    }

    /// Takes an intent and returns the fault of the approval that it names, or should name, if any.
    pub(crate) fn used(&mut self, call: &CallRequested) -> Option<String> {
        let Some(id) = call.approval.as_ref() else {
            // An approval permits one call: its own one, if that is made without a word of it.
            for id in self.of_call.remove(&call.call_id).unwrap_or_default() {
                // One that was requested twice may be for another call since.
                let known = self.known.get_mut(&id).filter(|known| known.call_id == call.call_id);
                if let Some(known) = known {
                    known.used = true;
                }
            }
            let denied = self.denied.get(&call.call_id)?;
            return Some(format!("call `{}` was intended, but approval `{denied}` was denied", call.call_id));
        };
        // After the approval the model calls another agent again, under another call id.
        let alike = call.kind == CallKind::Delegate;
        let args = || Digest::compute(approved_args(call).as_str().as_bytes());
        let why = match self.known.get_mut(id) {
            None => "was never requested",
            Some(known) if known.about == About::Agent => "is about the agent and permits no call",
            Some(known) if known.about == About::Budget => "is about the budget and permits no call",
            Some(known) if known.approved != Some(true) => "was not granted",
            Some(known) if !alike && known.call_id != call.call_id => "is for another call",
            Some(known) if known.tool != call.target => "is for another tool",
            Some(known) if known.args != args() => "is for other arguments",
            Some(known) if known.parent != call.origin.parent => "is for another request",
            Some(known) if known.used => "was used before",
            Some(known) => {
                known.used = true;
                if !alike || is_approved_task(call) {
                    return None;
                }
                "is for another task"
            }
        };
        Some(format!("call `{}` was intended under approval `{id}`, which {why}", call.call_id))
    }
}

/// Whether the task for another agent is the one that its intent's other arguments describe.
pub(super) fn is_approved_task(call: &CallRequested) -> bool {
    let text = |json: Option<&JsonText>| json.map(JsonText::tree);
    let object = |json: &JsonText| json.read::<JsonObject>().ok();
    let first = |json: Option<&JsonText>| json?.read::<Vec<JsonText>>().ok()?.into_iter().next();
    let content = |args: &JsonObject| {
        let task = object(args.get("task")?)?;
        let message = object(&first(task.get("messages"))?)?;
        let part = object(&first(message.get("parts"))?)?;
        object(part.get("content")?)
    };
    let Some(args) = object(&call.args) else { return false };
    let Some(sent) = content(&args) else { return false };
    match args.get("action").and_then(JsonText::to_str).as_deref() {
        Some("infer") => text(args.get("prompt")) == text(sent.get("prompt")),
        Some("tool_call") => {
            text(args.get("tool")) == text(sent.get("tool_name"))
                && text(args.get("args")) == text(sent.get("args"))
        }
        _ => false,
    }
}

/// Returns the fault of a decision: the person who made it is the one whose command the record is of.
pub(super) fn decider_fault(event: &TaskEvent, principal: &Principal) -> Option<String> {
    let person = match event {
        TaskEvent::ApprovalDecided(decided) => &decided.decided_by,
        TaskEvent::Call(
            CallEvent::Reconciled { by: VerdictBy::Operator(by), .. } | CallEvent::Abandoned { by, .. },
        ) => by,
        _ => return None,
    };
    let name = person.name.as_str();
    if name.is_empty() && person.basis == Basis::Authenticated {
        return Some("the decision names nobody, but says that the name was checked".to_owned());
    }
    if name == BY_HANDLER || name == BY_SYSTEM || person == principal {
        return None;
    }
    if principal.name.is_empty() {
        return Some(format!("`{name}` decided, but the record names nobody whose command it is"));
    }
    if name != principal.name {
        return Some(format!("`{name}` decided, but the record is of a command of `{principal}`"));
    }
    let (said, known) = (person.basis.as_str(), principal.basis.as_str());
    Some(format!("the name of `{name}`, who decided, is {said}, but the record has it as {known}"))
}

#[cfg(test)]
mod tests {
    use proto_events::call::{CallOrigin, NewCall, Recovery};

    use super::*;

    const NOW: ApprovalMoment = ApprovalMoment { state: TaskState::Working, run: 0 };

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
            ..CallRequested::new(NewCall {
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
        let decide = |check: &mut ApprovalsCheck| check.decided(&decided(true), NOW, |_| false);
        assert!(wrong(&mut check, "c", "pay", "1").contains("never requested"));
        assert!(decide(&mut check).unwrap().contains("never requested"));
        assert_eq!(check.accept_request(&asked("1"), NOW), None);
        assert!(wrong(&mut check, "c", "pay", "1").contains("was not granted"));
        assert_eq!(decide(&mut check), None);
        assert_eq!(wrong(&mut check, "c", "pay", "1"), "");
        assert!(wrong(&mut check, "c", "pay", "1").contains("used before"));
        assert!(wrong(&mut check, "d", "pay", "1").contains("another call"));
        assert!(wrong(&mut check, "c", "give", "1").contains("another tool"));
        assert!(wrong(&mut check, "c", "pay", "2").contains("other arguments"));
        assert!(decide(&mut check).unwrap().contains("decided twice"));
        assert!(check.accept_request(&asked("1"), NOW).unwrap().contains("requested twice"));
    }
}
