//! Whether a call may be made: policy and approval, asked before it is intended (R11).

use proto_events::call::CallOrigin;
use proto_events::id::Digest;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Message, Part};
use proto_events::task::{Approval, ApprovalRequested, Task, TaskCommand};

use super::{Act, At, Progress, Question, Step, attach, end_turn};
use crate::agent::approval::{self, Approvals};
use crate::agent::capability::{self, Effect, RunPermissions};

/// A call that is about to be intended.
pub(super) struct Wanted<'a> {
    /// The tool or agent that is to be called.
    pub(super) name: &'a str,
    /// What the call needs to be allowed to do.
    pub(super) needs: &'a [String],
    pub(super) args: &'a JsonText,
    pub(super) origin: &'a CallOrigin,
    /// The id that the call is to have, where that is settled.
    pub(super) call_id: Option<&'a str>,
}

/// Whether it may be made.
pub(super) enum Permit {
    /// It may, under this approval if one was needed; the call has that approval's call id.
    Granted(Option<Box<Approval>>),
    /// Not yet: this comes first.
    First(Step),
    /// Somebody's code must be asked first.
    Handler(String),
    /// A person must be asked first.
    Person(Box<Approval>),
    /// It may not, in the words in which the task fails.
    Denied(String),
    /// The run's permissions cannot be read.
    Unreadable(String),
}

impl Permit {
    /// What it means for the part that wants to make the call; `say` answers a model that asked for it.
    pub(super) fn hinders(self, say: impl FnOnce() -> Vec<Act>) -> Option<Progress> {
        Some(match self {
            Self::Granted(_) => return None,
            Self::First(step) => Progress::Next(step),
            Self::Handler(approval_id) => Progress::Approver(approval_id),
            Self::Person(approval) => Progress::Approval { say: say(), approval },
            Self::Denied(error) | Self::Unreadable(error) => Progress::Fatal(error),
        })
    }
}

/// Asks policy, permissions and what was decided before.
pub(super) fn permit(question: &mut Question<'_>, wanted: &Wanted<'_>) -> Permit {
    let name = wanted.name;
    let ruling = RunPermissions::of(question.task.metadata())
        .and_then(|run| question.agent.capability_policy.rule_on(wanted.needs, &run));
    let ruling = match ruling {
        Ok(ruling) => ruling,
        Err(error) => return Permit::Unreadable(error.to_string()),
    };
    let denied = |reason: &str| Permit::Denied(capability::denied(name, reason));
    if ruling.effect == Effect::Deny {
        return denied(&ruling.reason);
    }
    let digest = Digest::of(wanted.args.as_str().as_bytes());
    let known = known(question.task, name, digest, wanted.origin);
    let verdict = known.and_then(Approval::verdict);
    match (known, verdict) {
        (Some(approval), Some(decided)) if decided.approved => {
            Permit::Granted(Some(Box::new(approval.clone())))
        }
        _ if ruling.effect == Effect::Allow => Permit::Granted(None),
        (_, Some(decided)) => {
            let reason = decided.reason.as_deref().filter(|reason| !reason.is_empty());
            denied(reason.unwrap_or(&ruling.reason))
        }
        (_, None) if matches!(question.agent.approvals, Approvals::Nobody) => {
            Permit::Denied(capability::approval_missing(name))
        }
        (Some(approval), None) => pending(question, approval),
        (None, None) => {
            let call_id = wanted.call_id.map_or_else(|| question.mint.id("call_"), str::to_owned);
            let asked = ApprovalRequested {
                approval_id: question.mint.id("approval_"),
                call_id,
                tool: name.to_owned(),
                args: wanted.args.clone(),
                args_digest: digest,
                capabilities: ruling.capabilities,
                origin: wanted.origin.clone(),
            };
            let ask = TaskCommand::RequestApproval(Box::new(asked));
            Permit::First(Step::Do(vec![Act::Task(ask)]))
        }
    }
}

/// The approval that was asked for at this very place, or one that a person gave for the same call when the run that
/// asked had ended. One that a call was made under is used up.
fn known<'a>(task: &'a Task, tool: &str, digest: Digest, origin: &CallOrigin) -> Option<&'a Approval> {
    let fits = |approval: &&Approval| {
        let asked = &approval.request;
        asked.tool == tool && asked.args_digest == digest && !task.is_used(approval)
    };
    let place = |origin: &CallOrigin| (origin.run, origin.part, origin.step);
    let here = task.approvals().iter().filter(fits).rev();
    let here = { here }.find(|approval| place(&approval.request.origin) == place(origin));
    let before = || {
        let given = |approval: &&Approval| {
            approval.request.origin.run < origin.run
                && approval.verdict().is_some_and(|decided| decided.approved)
        };
        // The tool call of a model has an id of its own already, so that it needs an approval of its own. Another agent
        // is asked by the model alone: it has been told that it may ask again.
        let asks_anew = |approval: &&Approval| origin.step == 0 || is_agent_call(&approval.request);
        task.approvals().iter().filter(fits).filter(asks_anew).find(given)
    };
    here.or_else(before)
}

/// Whether another agent was to be asked: what is to be approved is the model's action then.
pub(super) fn is_agent_call(asked: &ApprovalRequested) -> bool {
    let fields: JsonObject = asked.args.read().unwrap_or_default();
    fields.get("type").and_then(JsonText::to_str).as_deref() == Some("agent_call")
}

/// Nobody has decided yet.
fn pending(question: &Question<'_>, approval: &Approval) -> Permit {
    let id = &approval.request.approval_id;
    let by_person = matches!(question.agent.approvals, Approvals::Person);
    if by_person || question.under_way.to_person.contains(id) {
        return Permit::Person(Box::new(approval.clone()));
    }
    if question.under_way.asked.contains(id) {
        return Permit::First(Step::Wait);
    }
    Permit::Handler(id.clone())
}

/// A person is asked: the turn ends as it is, the task waits, and no session waits with it.
pub(super) fn ask_person(
    question: &mut Question<'_>,
    outputs: Vec<(At, Part)>,
    say: Vec<Act>,
    waits: &Approval,
) -> Step {
    let text = approval::for_person(question.task.id(), &waits.request);
    let mut acts = attach(question, outputs);
    acts.extend(say);
    acts.extend(end_turn(question, None));
    acts.push(Act::Task(TaskCommand::RequireInput(Some(Message::agent(&text, question.mint)))));
    Step::Do(acts)
}
