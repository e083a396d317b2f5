//! The check whether a call may be made: policy and approval, before the call's intent is recorded (R11).

use proto_events::call::CallOrigin;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::Message;
use proto_events::task::{Approval, ApprovalRequested, Task, TaskCommand};

use crate::agent::approval::{ApprovalRequest, Approvals};
use crate::agent::capability::{PolicyEffect, RunPermissions};
use crate::limits::APPROVAL_QUESTION_BYTES_MAX;
use crate::run::approval_text;
use crate::run::notes;
use crate::run::question::{Act, Progress, Question, Step};
use crate::run::steps::{commit_turn, session_id};
use crate::tools::panics::caught;
use crate::tools::texts::shorten_to;

/// A call whose intent is about to be recorded.
pub(crate) struct PermissionRequest<'a> {
    /// The tool or agent that is to be called.
    pub(crate) name: &'a str,
    /// The capabilities that the call needs.
    pub(crate) needs: &'a [String],
    pub(crate) args: &'a JsonText,
    pub(crate) origin: &'a CallOrigin,
    /// The id that the call is to have, if that is fixed already.
    pub(crate) call_id: Option<&'a str>,
}

/// The result of the check.
pub(crate) enum Permission {
    /// The call may be made, under this approval if one was needed; the call has that approval's call id.
    Granted(Option<Box<Approval>>),
    /// Another step comes first.
    First(Step),
    /// The embedder's code must be asked first.
    Handler(String),
    /// A person must be asked first.
    Person(Box<Approval>),
    /// The call may not be made; holds the text with which the task fails.
    Denied(String),
    /// The run's permissions cannot be read.
    Unreadable(String),
}

impl Permission {
    /// Returns what the result means for the part that wants to make the call; `say` answers a model that
    /// asked for it.
    pub(crate) fn into_progress(self, say: impl FnOnce() -> Vec<Act>) -> Option<Progress> {
        Some(match self {
            Self::Granted(_) => return None,
            Self::First(step) => Progress::Next(step),
            Self::Handler(approval_id) => Progress::Approver(approval_id),
            Self::Person(approval) => Progress::Approval { say: say(), approval },
            Self::Denied(error) | Self::Unreadable(error) => Progress::Fatal(error),
        })
    }
}

/// Checks policy, permissions and earlier decisions.
pub(crate) fn permission_for(question: &mut Question<'_>, wanted: &PermissionRequest<'_>) -> Permission {
    let name = wanted.name;
    let ruling = RunPermissions::from_metadata(question.task.metadata())
        .and_then(|run| question.agent.capability_policy.rule_on(wanted.needs, &run));
    let ruling = match ruling {
        Ok(ruling) => ruling,
        Err(error) => return Permission::Unreadable(error.to_string()),
    };
    let denied = |reason: &str| Permission::Denied(notes::denied(name, reason));
    if ruling.effect == PolicyEffect::Deny {
        return denied(&ruling.reason);
    }
    let known = known(question.task, wanted);
    let verdict = known.and_then(Approval::verdict);
    match (known, verdict) {
        (Some(approval), Some(decided)) if decided.approved => {
            Permission::Granted(Some(Box::new(approval.clone())))
        }
        // A denial stands, even if the policy has changed since.
        (_, Some(decided)) => {
            let reason = decided.reason.as_deref().filter(|reason| !reason.is_empty());
            denied(reason.unwrap_or(&ruling.reason))
        }
        _ if ruling.effect == PolicyEffect::Allow => Permission::Granted(None),
        (_, None) if matches!(question.agent.approvals, Approvals::Nobody) => {
            Permission::Denied(notes::approval_missing(name))
        }
        (Some(approval), None) => pending(question, approval),
        (None, None) => {
            let call_id = wanted.call_id.map_or_else(|| question.mint.id("call_"), str::to_owned);
            let asked = ApprovalRequested {
                approval_id: question.mint.id("approval_"),
                call_id,
                tool: name.to_owned(),
                args: wanted.args.clone(),
                capabilities: ruling.capabilities,
                origin: wanted.origin.clone(),
            };
            let ask = TaskCommand::RequestApproval(Box::new(asked));
            Permission::First(Step::Do(vec![Act::Task(ask)]))
        }
    }
}

/// Returns the approval asked for at this point of the run, or one that a person gave for the same call after
/// the run that asked had ended. An approval under which a call was made is used up.
fn known<'a>(task: &'a Task, wanted: &PermissionRequest<'_>) -> Option<&'a Approval> {
    let origin = wanted.origin;
    let fits = |approval: &&Approval| {
        let asked = &approval.request;
        asked.tool == wanted.name
            && asked.args == *wanted.args
            && asked.origin.parent == origin.parent
            && asked.changed_agent().is_none()
            && asked.exceeded_budget().is_none()
            && !task.is_used(approval)
    };
    if origin.parent.is_some() {
        // A request of a tool stands at the same place in each attempt and run of its call.
        let counts =
            |approval: &&Approval| approval.verdict().is_some() || approval.request.origin.run == origin.run;
        return task.approvals().iter().rev().filter(fits).find(counts);
    }
    let place = |origin: &CallOrigin| (origin.run, origin.part, origin.step);
    // Equal calls of one reply stand at one place: each needs an approval of its own.
    let is_own = |asked: &ApprovalRequested| wanted.call_id.is_none_or(|call_id| asked.call_id == call_id);
    let here = task.approvals().iter().filter(fits).rev();
    let is_here = |asked: &ApprovalRequested| place(&asked.origin) == place(origin) && is_own(asked);
    let here = { here }.find(|approval| is_here(&approval.request));
    let before = || {
        let given = |approval: &&Approval| {
            approval.request.origin.run < origin.run
                && approval.verdict().is_some_and(|decided| decided.approved)
        };
        // A model's tool call has an id of its own already, so it needs an approval of its own. A call to
        // another agent is repeated by the model alone, after a message that permits it.
        let asks_anew = |approval: &&Approval| origin.step == 0 || is_agent_call(&approval.request);
        task.approvals().iter().filter(fits).filter(asks_anew).find(given)
    };
    here.or_else(before)
}

/// Whether the approval is for a call to another agent: its arguments are the model's action then.
pub(crate) fn is_agent_call(asked: &ApprovalRequested) -> bool {
    let fields: JsonObject = asked.args.read().unwrap_or_default();
    fields.get("type").and_then(JsonText::to_str).as_deref() == Some("agent_call")
}

/// Returns the result for an approval that is not decided yet.
fn pending(question: &Question<'_>, approval: &Approval) -> Permission {
    let id = &approval.request.approval_id;
    let by_person = matches!(question.agent.approvals, Approvals::Person);
    if by_person || question.outside.with_person.contains(id) {
        return Permission::Person(Box::new(approval.clone()));
    }
    if question.outside.with_handler.contains(id) {
        return Permission::First(Step::Wait);
    }
    Permission::Handler(id.clone())
}

/// Ends the run for a person's approval: the turn is committed as it is, the task waits, and no session waits
/// with it.
pub(crate) fn ask_person(question: &mut Question<'_>, mut say: Vec<Act>, waits: &Approval) -> Step {
    let text = question_to_person(question, &waits.request);
    say.extend(commit_turn(question));
    say.push(Act::Task(TaskCommand::RequireInput(Some(Message::agent(&text, question.mint)))));
    Step::Do(say)
}

/// Returns the question to the person: the host's own text, or ours without one, or where its code panics or says
/// nothing.
fn question_to_person(question: &Question<'_>, asked: &ApprovalRequested) -> String {
    let task = question.task;
    let own = question.agent.approval_question.as_ref().and_then(|own| {
        let description = question.agent.description_of(&asked.tool);
        let request = ApprovalRequest::from_task(task, session_id(task), description, asked);
        let text = caught(|| own(&request));
        text.inspect_err(|panic| tracing::warn!(%panic, "the host's text of a question to a person panicked"))
            .ok()
    });
    match own.filter(|text| !text.trim().is_empty()) {
        Some(mut text) => {
            shorten_to(&mut text, APPROVAL_QUESTION_BYTES_MAX);
            text
        }
        None => approval_text::for_person(question.stream, asked),
    }
}
