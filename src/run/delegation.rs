//! Requests to other agents: the intent, from a model, a tool or a handler, and the requests of calls in flight.
//!
//! A tool or a handler asks for its calls one by one, and each of its attempts asks anew. So a request is matched with the
//! call that an earlier attempt asked for at the same place: that call is taken up, and a request for anything else is
//! refused.

use proto_events::call::{Call, CallKind, CallOrigin, CallRequested, NewCall};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Message, ModelError, Part, PostedTask, RunContext};
use proto_events::task::{Approval, Task, approved_args};

use crate::agent::peers::KnownPeer;
use crate::grammar::action::{Action, AgentAction, Reply};
use crate::limits::PARALLEL_CALLS_MAX;
use crate::run::approval_text::is_for_person;
use crate::run::child_wait::{SentBy, waited_for};
use crate::run::delegation_request::{Refusal, WantedCall};
use crate::run::permission::{Permission, PermissionRequest};
use crate::run::question::{Progress, Question, Step};
use crate::run::spent::{About, over_budget, remaining_budget};
use crate::run::steps::{executable, idempotency_key, millis, start};
use crate::run::{approval_text, deadline, notes, permission};

/// The capability that a call needs in order to ask another agent, under Protolink's name.
pub(crate) const CAPABILITY: &str = "agent.delegate";

/// A request to another agent that is about to be intended.
pub(crate) struct AgentRequest<'a> {
    pub(crate) agent: &'a str,
    pub(crate) what: &'a AgentAction,
    pub(crate) origin: &'a CallOrigin,
    /// The id that the call is to have, if that is fixed already.
    pub(crate) call_id: Option<&'a str>,
}

/// The reason why a request gets no intent.
pub(crate) enum DelegationHindrance {
    /// The request may not be made, or not yet.
    Permission(Permission),
    /// The request cannot be made: the type of the error, and its text.
    Refused(&'static str, String),
    /// The run's context cannot be read.
    Fatal(String),
}

/// Returns the intent of a request, checked and permitted, or the reason why it is missing.
pub(crate) fn intended(
    question: &mut Question<'_>,
    request: &AgentRequest<'_>,
) -> Result<CallRequested, DelegationHindrance> {
    let AgentRequest { agent, what, origin, call_id } = *request;
    // The approval covers the action; the task made from it has ids and times of ours.
    let wish = wish(agent, what);
    let wanted = PermissionRequest {
        name: agent,
        needs: &[CAPABILITY.to_owned()],
        args: &wish.to_text(),
        origin,
        call_id,
    };
    let approval = match permission::permission_for(question, &wanted) {
        Permission::Granted(approval) => approval.map(|approval| approval.request.approval_id),
        Permission::Unreadable(error) => return Err(DelegationHindrance::Refused("Denied", error)),
        permission => return Err(DelegationHindrance::Permission(permission)),
    };
    let asking = question.agent;
    let is_own = agent == asking.name;
    let Some(peer) = asking.peers.get(agent).filter(|_| !is_own) else {
        // An agent without peers is in no registry itself.
        let own = is_own && (asking.peers.iter().next().is_some() || asking.peers.looks_up());
        let why = if own { notes::self_delegation(agent) } else { notes::agent_not_found(agent) };
        return Err(DelegationHindrance::Refused("UnknownAgent", why));
    };
    let task = question.task;
    let context = RunContext::of_task(task.metadata(), task.id(), &asking.name, None, question.mint)
        .map_err(|error| DelegationHindrance::Fatal(error.to_string()))?;
    if context.agent_chain.iter().any(|waits| waits == agent) {
        let why = notes::circular_delegation(agent, &context.agent_chain);
        return Err(DelegationHindrance::Refused("CircularDelegation", why));
    }
    let budget = remaining_budget(question, origin.part, &context.budget);
    let context = RunContext { budget, ..context };
    let mut task =
        child(question, &context, what).map_err(|error| DelegationHindrance::Fatal(error.to_string()))?;
    let call_id = call_id.map_or_else(|| question.mint.id("call_"), str::to_owned);
    if peer.is_local {
        SentBy { task: question.stream.clone(), call_id: call_id.clone() }.note_in(&mut task.metadata);
    }
    let mut request = intent(question, (agent, peer), call_id, &task, wish);
    (request.origin, request.approval) = (origin.clone(), approval);
    Ok(request)
}

/// Returns the action that asks the agent, as a model would write it.
fn wish(agent: &str, what: &AgentAction) -> JsonObject {
    let action = Action::AgentCall { agent: agent.to_owned(), what: what.clone() };
    JsonText::from(Reply { thought: None, action }.to_json()).read().unwrap_or_default()
}

/// Returns the other agent's task, in a run of its own that names this one as its parent.
fn child(
    question: &mut Question<'_>,
    context: &RunContext,
    what: &AgentAction,
) -> Result<PostedTask, ModelError> {
    let mint = &mut *question.mint;
    let (role, part) = match what {
        AgentAction::Infer { prompt } => ("user", Part::infer(prompt)),
        AgentAction::ToolCall { tool, args } => ("agent", Part::tool_call_new(tool, args.clone(), mint)),
    };
    let message = Message::new(role, vec![part.hydrated(mint)?], mint);
    let mut task = PostedTask::new(message, mint);
    task.metadata = context.child(mint).mirrored();
    Ok(task)
}

/// Returns the intent recorded before the call is sent.
fn intent(
    question: &Question<'_>,
    (name, peer): (&str, &KnownPeer),
    call_id: String,
    task: &PostedTask,
    mut args: JsonObject,
) -> CallRequested {
    args.set("task", task.to_json());
    let (args, policy) = (args.to_text(), &peer.policy);
    CallRequested {
        retry_errors: policy.retries_errors(),
        window_ms: policy.window().map(millis),
        deadline: deadline::of_call(question, policy.get_deadline()),
        capabilities: vec![CAPABILITY.to_owned()],
        ..CallRequested::new(NewCall {
            idempotency_key: idempotency_key(question.stream, &call_id),
            call_id,
            kind: CallKind::Delegate,
            target: name.to_owned(),
            args,
            recovery: policy.recovery(),
            recovery_source: policy.get_declared_by().to_owned(),
            timeout_ms: millis(policy.get_timeout()),
            max_attempts: policy.attempts_max(),
        })
    }
}

/// Returns the step for the requests of calls in flight; `None` if all of them are made, refused, or wait.
pub(crate) fn step(question: &mut Question<'_>) -> Option<Step> {
    let outside = question.outside;
    let new = outside.wanted.iter().filter(|wanted| !wanted.is_recorded && wanted.refused.is_none());
    { new }.find_map(|wanted| step_for(question, wanted))
}

fn step_for(question: &mut Question<'_>, wanted: &WantedCall) -> Option<Step> {
    let task = question.task;
    let parent = asker(task, wanted, question.epoch)?;
    let before = match child_of(task, wanted) {
        Some(child) if is_same(child, wanted) => return None,
        before => before,
    };
    let origin = wanted.origin(task.runs(), part_of(task, parent), &parent.request.origin);
    if let Some(end) = over_budget(question, origin.part, About::Reply) {
        let text = match end {
            Progress::OverBudget(over) => over.to_string(),
            Progress::Fatal(error) => error,
            _ => String::new(),
        };
        return Some(refuse(wanted, "BudgetExceeded", text));
    }
    let request = AgentRequest { agent: &wanted.agent, what: &wanted.what, origin: &origin, call_id: None };
    let intended = intended(question, &request);
    Some(match (intended, before) {
        // An earlier attempt was refused this too, and asked for something else at this place.
        (Err(DelegationHindrance::Refused(kind, why)), _) => refuse(wanted, kind, why),
        (Err(DelegationHindrance::Permission(Permission::Denied(why))), _) => refuse(wanted, "Denied", why),
        (_, Some(before)) => refuse(wanted, "RequestChanged", changed(wanted, before)),
        (Ok(_), None) if open_children(question) >= PARALLEL_CALLS_MAX => return None,
        (Ok(intent), None) => Step::Do(start(question, intent)),
        (Err(DelegationHindrance::Fatal(error)), None) => refuse(wanted, "Unreadable", error),
        (Err(DelegationHindrance::Permission(permission)), None) => {
            return not_yet(question, wanted, permission);
        }
    })
}

/// Returns the part of the current run from which the call comes. A call that an earlier run made is continued by the first
/// executable part.
fn part_of(task: &Task, call: &Call) -> u32 {
    let origin = &call.request.origin;
    if origin.run == task.runs() {
        return origin.part;
    }
    let parts = task.run().and_then(|run| run.item).map_or(&[][..], |item| task.parts(item));
    executable(parts, 0).next().map_or(0, |(first, _)| first)
}

/// Returns the number of open calls that other calls asked for. They alone take the places of further ones: a call that waits
/// for its requests would otherwise wait for the place that it takes itself. Nor do those take any that wait for a call which
/// waits for a person.
fn open_children(question: &Question<'_>) -> usize {
    let counts = |call: &&Call| call.request.origin.parent.is_some() && !is_dormant(question, call);
    question.task.calls().open().filter(counts).count()
}

/// Returns the step for a request that somebody must approve first.
fn not_yet(question: &Question<'_>, wanted: &WantedCall, permission: Permission) -> Option<Step> {
    match permission {
        Permission::First(Step::Wait) | Permission::Granted(_) => None,
        Permission::First(step) => Some(step),
        // One at a time.
        Permission::Handler(_) if is_asking(question) => None,
        Permission::Handler(approval_id) => Some(Step::AskApprover { approval_id }),
        Permission::Person(approval) => {
            let text = approval_text::for_person(question.stream, &approval.request);
            Some(Step::Refuse { id: wanted.id.clone(), why: Refusal::AskPerson(text) })
        }
        Permission::Denied(why) | Permission::Unreadable(why) => Some(refuse(wanted, "Denied", why)),
    }
}

/// Whether the embedder's code is being asked about an approval of this run.
fn is_asking(question: &Question<'_>) -> bool {
    let outside = question.outside;
    question.task.awaited_approvals().any(|approval| {
        let id = &approval.request.approval_id;
        outside.with_handler.contains(id) && !outside.with_person.contains(id)
    })
}

fn refuse(wanted: &WantedCall, kind: &'static str, why: String) -> Step {
    Step::Refuse { id: wanted.id.clone(), why: Refusal::Error(kind, why) }
}

/// Returns the call that makes the request, while the attempt that makes it is under way.
pub(crate) fn asker<'a>(task: &'a Task, wanted: &WantedCall, epoch: u64) -> Option<&'a Call> {
    let parent = task.calls().get(&wanted.parent.call_id)?;
    (parent.is_under_way(epoch) && parent.attempts == wanted.attempt).then_some(parent)
}

/// Returns the call that was asked for at the place of the request.
pub(crate) fn child_of<'a>(task: &'a Task, wanted: &WantedCall) -> Option<&'a Call> {
    let before = usize::try_from(wanted.parent.ordinal).ok()?.checked_sub(1)?;
    task.calls().children(&wanted.parent.call_id).nth(before)
}

/// Whether the call asks the same agent for the same.
pub(crate) fn is_same(child: &Call, wanted: &WantedCall) -> bool {
    child.request.target == wanted.agent
        && *approved_args(&child.request) == wish(&wanted.agent, &wanted.what).to_text()
}

fn changed(wanted: &WantedCall, before: &Call) -> String {
    let (at, was, is) = (wanted.parent.ordinal, &before.request.target, &wanted.agent);
    format!(
        "request {at} of the call to other agents was another one in an earlier attempt (to `{was}`, now to `{is}`): an \
         attempt must make the same requests in the same order; nothing was sent"
    )
}

/// Whether the call was asked for by another one that is between two attempts, or lost: it is not sent then, and waits for
/// the next attempt of that call.
pub(crate) fn is_dormant(question: &Question<'_>, call: &Call) -> bool {
    waits_for_parent(question.task, call, question.epoch) && !call.is_under_way(question.epoch)
}

/// Whether the next attempt of the call waits for the call that asked for it, of which no attempt is under way.
pub(crate) fn waits_for_parent(task: &Task, call: &Call, epoch: u64) -> bool {
    let Some(parent) = &call.request.origin.parent else { return false };
    !task.calls().get(&parent.call_id).is_some_and(|parent| parent.is_under_way(epoch))
}

/// Returns the questions with which the system had ended attempts: for the approval of this request, or because another
/// agent's task waited for a person.
pub(crate) fn asked_for(task: &Task, wanted: &WantedCall) -> Vec<String> {
    let its = |approval: &&Approval| approval.request.origin.parent.as_ref() == Some(&wanted.parent);
    let its: Vec<&Approval> = task.approvals().iter().filter(its).collect();
    let parent = task.calls().get(&wanted.parent.call_id);
    let asked = parent.into_iter().flat_map(|call| &call.questions).map(|asked| &asked.question);
    let is_its = |text: &&String| its.iter().any(|approval| is_for_person(text, &approval.request));
    asked.filter(is_its).cloned().chain(waited_for(task, &wanted.parent.call_id)).collect()
}

/// Returns the approval for which the open question of a call stands, if the question is the system's.
pub(crate) fn approval_of_question<'a>(task: &'a Task, call: &Call) -> Option<&'a Approval> {
    let asked = call.open_question()?;
    let id = call.request.call_id.as_str();
    task.approvals().iter().rev().find(|approval| {
        let parent = approval.request.origin.parent.as_ref();
        parent.is_some_and(|parent| parent.call_id == id) && is_for_person(asked, &approval.request)
    })
}
