//! The action that a policy refused: no intent of it is in the log, so it follows from the model's reply and from
//! the error that ended the run.

use proto_events::call::{Call, CallKind};
use proto_events::json::JsonText;

use crate::agent::capability::{PolicyEffect, RunPermissions};
use crate::grammar::action::Action;
use crate::protolink::stream::actions::action;
use crate::protolink::stream::event::{event_id, object};
use crate::protolink::stream::fold::Fold;
use crate::run::delegation::CAPABILITY;
use crate::run::notes;
use crate::run::reply_reading::ReplyReading;

/// An action without an intent, as policies see it.
struct RefusalWish {
    /// The name of the tool or agent.
    name: String,
    of_tool: bool,
    capabilities: Vec<String>,
    input: JsonText,
}

impl Fold {
    /// Reports the action that the part's last reply asks for, if the run ended because it was refused with
    /// this error.
    pub(crate) fn refused(&mut self, part: u32, error: &str) {
        let Some((inference, wish)) = self.wish(part) else { return };
        let why = error.strip_prefix(&notes::denied(&wish.name, ""));
        let effect = match why {
            Some(_) => PolicyEffect::Deny,
            None if error == notes::approval_missing(&wish.name) => PolicyEffect::RequireApproval,
            None => return,
        };
        if wish.of_tool {
            self.warn_of_tool_call(part);
        }
        let id = |what: &[u8]| event_id(&[self.stream.as_str().as_bytes(), inference.as_bytes(), what]);
        let (action_id, approval_id) = (id(b"action"), id(b"approval"));
        let kind = if wish.of_tool { "tool.call" } else { "agent.call" };
        let action = action(kind, &action_id, &wish.name, wish.input, &wish.capabilities);
        let capabilities = self.capabilities_with(effect, &wish.capabilities);
        let ruled = self.ruled_on(action.clone(), effect, &capabilities, why);
        match why {
            Some(_) => self.denied(action, error),
            None => self.approval_required(&approval_id, &ruled),
        }
    }

    /// Returns the part's last inference and the action that its reply asks for, if neither a call nor an
    /// approval came of it.
    fn wish(&self, part: u32) -> Option<(String, RefusalWish)> {
        let runs = self.task.runs();
        let of_part = |call: &&Call| {
            let origin = &call.request.origin;
            call.request.kind == CallKind::Infer && (origin.run, origin.part) == (runs, part)
        };
        let inference = self.task.calls().iter().rfind(of_part)?;
        let id = inference.request.call_id.as_str();
        let called =
            self.task.calls().iter().any(|call| call.request.origin.infer_call.as_deref() == Some(id));
        let approval = |origin: Option<&str>| origin == Some(id);
        let asked =
            self.task.approvals().iter().any(|asked| approval(asked.request.origin.infer_call.as_deref()));
        if called || asked {
            return None;
        }
        let reading = self.reading(&inference.request);
        let ReplyReading::Action { action, raw } = reading.last else { return None };
        let input = self.payload(&raw, Some(&action));
        let wish = match action {
            Action::Final { .. } => return None,
            Action::AgentCall { agent, .. } => {
                RefusalWish { name: agent, of_tool: false, capabilities: vec![CAPABILITY.to_owned()], input }
            }
            Action::ToolCall { tool, args } => {
                let registered = self.agent.tools.get(&tool)?;
                let args = registered.check(&args).unwrap_or(args);
                let capabilities = registered.spec().policy.get_capabilities().to_vec();
                let input = object([("arguments", args)]).to_text();
                RefusalWish { name: tool, of_tool: true, capabilities, input }
            }
        };
        Some((id.to_owned(), wish))
    }

    /// Returns the capabilities of an action that led to this effect: all, where the rules have changed.
    fn capabilities_with(&self, effect: PolicyEffect, all: &[String]) -> Vec<String> {
        let run = RunPermissions::from_metadata(self.task.metadata());
        let ruling = run.and_then(|run| self.agent.capability_policy.rule_on(all, &run)).ok();
        let ruling = ruling.filter(|ruling| ruling.effect == effect);
        ruling.map_or_else(|| all.to_vec(), |ruling| ruling.capabilities)
    }
}
