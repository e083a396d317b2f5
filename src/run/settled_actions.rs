//! Calls of a model that a person has settled for good, as done or as abandoned: the runs that go on from there do not
//! make them again, as no run makes an action twice.

use proto_events::call::{Call, CallKind, CallStatus, Verdict};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::Part;
use proto_events::task::Task;

use crate::agent::card::Agent;
use crate::grammar::action::{Action, parse_action, signature};

/// The key in an infer part's metadata that names the calls whose settlement the part, or one that it continues, goes on
/// from.
const SETTLED: &str = "taskreel.settled";

/// Returns the infer part that goes on from the settlement of a call, with the call's id.
pub(crate) fn with_settled(part: Part, call: &Call) -> Part {
    if !is_for_good(call) {
        return part;
    }
    let mut content: JsonObject = part.content().read().unwrap_or_default();
    let mut metadata = metadata_of(&content);
    let mut ids = named_in(&metadata);
    ids.push(call.request.call_id.clone());
    let ids: Vec<_> = ids.iter().map(|id| JsonText::string(id).as_str().to_owned()).collect();
    let Ok(ids) = JsonText::parse(&format!("[{}]", ids.join(","))) else { return part };
    metadata.set(SETTLED, ids);
    content.set("metadata", metadata.to_text());
    Part::new(part.kind(), content.to_text())
}

fn metadata_of(content: &JsonObject) -> JsonObject {
    content.get("metadata").and_then(|metadata| metadata.read().ok()).unwrap_or_default()
}

fn named_in(metadata: &JsonObject) -> Vec<String> {
    metadata.get(SETTLED).and_then(|ids| ids.read().ok()).unwrap_or_default()
}

/// Whether the call has taken effect, or nobody will find out: one that did not happen may be made again.
fn is_for_good(call: &Call) -> bool {
    matches!(call.status, CallStatus::Reconciled(Verdict::Landed(_)) | CallStatus::Abandoned(_))
}

/// The actions that a part may not ask for again, by their signatures.
#[derive(Debug, Default)]
pub(crate) struct SettledActions(Vec<String>);

impl SettledActions {
    /// Returns the settled actions of this part of the current run.
    pub(crate) fn new(task: &Task, at: u32) -> Self {
        let item = task.run().or(task.paused()).and_then(|run| run.item);
        let parts = item.map_or(&[][..], |item| task.parts(item));
        let part = usize::try_from(at).ok().and_then(|at| parts.get(at));
        part.map_or_else(Self::default, |part| Self::of_part(task, part))
    }

    fn of_part(task: &Task, part: &Part) -> Self {
        if !part.content().as_str().contains(SETTLED) {
            return Self::default();
        }
        let ids = named_in(&metadata_of(&part.content().read().unwrap_or_default()));
        let calls = ids.iter().filter_map(|id| task.calls().get(id)).filter(|call| is_for_good(call));
        Self(calls.filter_map(action_of).map(|action| signature(&action)).collect())
    }

    /// Whether the action is one of these: as the model wrote it, or with its arguments as the tool gets them.
    pub(crate) fn contain(&self, agent: &Agent, action: &Action) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let checked = match action {
            Action::ToolCall { tool, args } => {
                let checked = agent.tools.get(tool).and_then(|known| known.check(args).ok());
                checked.map(|args| Action::ToolCall { tool: tool.clone(), args })
            }
            _ => None,
        };
        let is_known = |action: &Action| self.0.contains(&signature(action));
        is_known(action) || checked.as_ref().is_some_and(is_known)
    }
}

/// Returns the action that led to a call.
fn action_of(call: &Call) -> Option<Action> {
    let (target, args) = (&call.request.target, &call.request.args);
    match call.request.kind {
        CallKind::Tool => Some(Action::ToolCall { tool: target.clone(), args: args.clone() }),
        CallKind::Delegate => {
            let mut wish: JsonObject = args.read().ok()?;
            wish.remove("task");
            let action = parse_action(wish.to_text().as_str(), &[], &[]).ok()?;
            matches!(action, Action::AgentCall { .. }).then_some(action)
        }
        CallKind::Infer | CallKind::Handler => None,
    }
}
