//! The actions that a model asked for, as a subscriber sees them: the action, whether it is allowed, and its
//! result. Parts that are tool calls themselves give none of these events, as in Protolink.

use proto_events::call::{CallEvent, CallKind, CallOrigin, CallRequested, CallStatus, FailureClass};
use proto_events::json;
use proto_events::json::{JsonObject, JsonText};
use proto_events::task::{ApprovalDecided, ApprovalRequested};

use crate::agent::capability::{PolicyEffect, approval_required, reason};
use crate::agent::peer::PeerAnswer;
use crate::models::backend::InferReply;
use crate::protolink::stream::event::{boolean, object, text_or_null};
use crate::protolink::stream::fold::Fold;
use crate::run::notes;
use crate::run::permission::is_agent_call;

impl Fold {
    /// Handles an event of a call that the model asked for: of a tool, or of another agent.
    pub(crate) fn in_loop(&mut self, event: &CallEvent) {
        let Some(request) = self.request(event.call_id()) else { return };
        let step = Some(request.origin.step);
        let of_tool = request.kind == CallKind::Tool;
        let action_id = ("action_id", JsonText::string(&request.call_id));
        let mut told = target_fields(&request);
        match event {
            CallEvent::Requested(_) => self.allowed(&request, of_tool),
            CallEvent::Dispatched { attempt: 1, .. } => {
                let input = if of_tool { request.args.clone() } else { self.asked_for(&request.origin) };
                told.merge(&object([(if of_tool { "args" } else { "payload" }, input), action_id]));
                self.llm(if of_tool { "tool_start" } else { "agent_call_start" }, step, told);
            }
            CallEvent::Succeeded { result, .. } => {
                let result = if of_tool { result.clone() } else { PeerAnswer::result_in(result) };
                told.merge(&object([("result", result), action_id]));
                self.llm(if of_tool { "tool_result" } else { "agent_call_result" }, step, told);
            }
            // A refused request is reported to the model alone, as in Protolink.
            CallEvent::Failed { failure, .. } if failure.class != FailureClass::Rejected => {
                let message = ("message", JsonText::string(&failure.message));
                told.merge(&object([message, ("recoverable", boolean(false))]));
                self.llm(if of_tool { "tool_error" } else { "agent_call_error" }, step, told);
            }
            _ => {}
        }
    }

    /// Reports a call as allowed, now that its intent is written; an approval was reported before.
    fn allowed(&mut self, request: &CallRequested, of_tool: bool) {
        if of_tool {
            self.warn(request.origin.part, &self.usage(request.origin.part));
        }
        if request.approval.is_some() {
            return;
        }
        let (kind, input) = if of_tool {
            ("tool.call", object([("arguments", request.args.clone())]).to_text())
        } else {
            ("agent.call", self.asked_for(&request.origin))
        };
        let action = action(kind, &request.call_id, &request.target, input, &request.capabilities);
        self.ruled_on(action, PolicyEffect::Allow, &request.capabilities, None);
    }

    /// Reports an action and the policy's decision about it. Returns both.
    pub(crate) fn ruled_on(
        &mut self,
        action: JsonText,
        effect: PolicyEffect,
        capabilities: &[String],
        why: Option<&str>,
    ) -> JsonObject {
        let why = why.map_or_else(|| reason(effect, capabilities), str::to_owned);
        let decision = json!({
            "effect": effect.name(),
            "reason": why,
            "policy_name": "capability_policy",
            "matched_capabilities": capabilities,
            "metadata": {},
        });
        let decision = JsonText::from(decision);
        self.llm("action_requested", None, object([("action", action.clone())]));
        self.llm("policy_decision", None, object([("decision", decision.clone())]));
        object([("action", action), ("policy_decision", decision)])
    }

    /// Reports the request for an approval.
    pub(crate) fn approval_asked(&mut self, asked: &ApprovalRequested) {
        if asked.origin.step == 0 {
            return;
        }
        if !is_agent_call(asked) {
            self.warn_of_tool_call(asked.origin.part);
        }
        let ruled =
            self.ruled_on(approval_action(asked), PolicyEffect::RequireApproval, &asked.capabilities, None);
        self.approval_required(&asked.approval_id, &ruled);
    }

    /// Warns of the limits that are near once a tool is called whose intent is not written.
    pub(crate) fn warn_of_tool_call(&mut self, part: u32) {
        let mut usage = self.usage(part);
        usage.tool_calls = usage.tool_calls.saturating_add(1);
        self.warn(part, &usage);
    }

    pub(crate) fn approval_required(&mut self, approval_id: &str, ruled: &JsonObject) {
        let mut request = object([("request_id", JsonText::string(approval_id))]);
        request.merge(ruled);
        self.llm("approval_required", None, object([("request", request.to_text())]));
    }

    /// Reports the decision about an approval.
    pub(crate) fn approval_given(&mut self, decided: &ApprovalDecided) {
        let asked = self.task.approvals().get(&decided.approval_id).map(|approval| approval.request.clone());
        let Some(asked) = asked.filter(|asked| asked.origin.step > 0) else { return };
        let decision = object([
            ("approved", boolean(decided.approved)),
            ("request_id", JsonText::string(&decided.approval_id)),
            ("reason", text_or_null(decided.reason.as_deref())),
            ("decided_by", JsonText::string(&decided.decided_by.name)),
            ("decided_at", JsonText::string(&self.now().to_string())),
        ]);
        self.llm("approval_decision", None, object([("decision", decision.to_text())]));
        if !decided.approved {
            let why = decided.reason.clone().filter(|why| !why.is_empty());
            let why = why.unwrap_or_else(|| approval_required(&asked.capabilities));
            self.denied(approval_action(&asked), &notes::denied(&asked.tool, &why));
        }
    }

    pub(crate) fn denied(&mut self, action: JsonText, error: &str) {
        self.llm("action_denied", None, object([("action", action), ("message", JsonText::string(error))]));
    }

    /// Returns the action of the reply that asked for this call, as the model should have written it.
    fn asked_for(&self, origin: &CallOrigin) -> JsonText {
        let inference = origin.infer_call.as_deref().and_then(|id| self.task.calls().get(id));
        let Some(CallStatus::Succeeded(reply)) = inference.map(|call| &call.status) else {
            return JsonText::null();
        };
        InferReply::from_json(reply)
            .map_or_else(|_| JsonText::null(), |reply| self.payload(&reply.content, None))
    }
}

/// Returns the name of the tool or agent.
fn target_fields(request: &CallRequested) -> JsonObject {
    let name = JsonText::string(&request.target);
    if request.kind == CallKind::Tool {
        return object([("tool", name)]);
    }
    let args: JsonObject = request.args.read().unwrap_or_default();
    object([("agent", name), ("action", args.get("action").cloned().unwrap_or_default())])
}

/// Returns the action that waits for approval; its call has no intent yet.
fn approval_action(asked: &ApprovalRequested) -> JsonText {
    if is_agent_call(asked) {
        return action("agent.call", &asked.call_id, &asked.tool, asked.args.clone(), &asked.capabilities);
    }
    let input = object([("arguments", asked.args.clone())]).to_text();
    action("tool.call", &asked.call_id, &asked.tool, input, &asked.capabilities)
}

/// Returns the action, as policies see it. Its id is the call's, if it has one.
pub(crate) fn action(
    kind: &str,
    call_id: &str,
    name: &str,
    payload: JsonText,
    capabilities: &[String],
) -> JsonText {
    object([
        ("action_id", JsonText::string(call_id)),
        ("kind", JsonText::string(kind)),
        ("name", JsonText::string(name)),
        ("payload", payload),
        ("capabilities", JsonText::of_model(capabilities)),
    ])
    .to_text()
}
