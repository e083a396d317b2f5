//! A `tool_call` part: check, call and output.

use proto_events::call::{Call, CallKind, CallOrigin, CallRequested, CallStatus, NewCall, Verdict};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{BudgetScope, Part, ToolCallView};
use proto_events::task::Task;

use crate::limits::PARALLEL_CALLS_MAX;
use crate::run::permission::{Permission, PermissionRequest};
use crate::run::question::{Act, At, Progress, Question, Step};
use crate::run::spent::{About, over_budget};
use crate::run::steps::{executable, idempotency_key, millis, start};
use crate::run::{deadline, notes, permission};
use crate::tools::registry::ToolSpec;

/// Returns the progress of this part.
pub(crate) fn progress(question: &mut Question<'_>, at: At, part: &Part) -> Progress {
    let asked = match part.as_tool_call() {
        Ok(asked) => asked,
        Err(error) => return Progress::Fatal(format!("part {at} cannot be carried out: {error}")),
    };
    let call = call_of(question, at);
    match call.map(|call| (call, &call.status)) {
        // A call that did not happen, as a person found out before its run had ended, is made again.
        None | Some((_, CallStatus::Reconciled(Verdict::DidNotHappen))) => start_tool(question, at, &asked),
        // Such a decision is the call's answer.
        Some((_, CallStatus::Succeeded(result) | CallStatus::Reconciled(Verdict::Landed(result)))) => {
            let call_id = output_id(question, &asked);
            Progress::Output(Part::tool_output(&call_id, result.clone()))
        }
        Some((call, CallStatus::Abandoned(reason))) => {
            let error = notes::abandoned(&call.request.target, reason);
            refusal(question, &asked, &error)
        }
        Some((_, CallStatus::Failed(failure))) => refusal(question, &asked, &failure.message),
        Some((call, CallStatus::Unknown(why) | CallStatus::Reconciled(Verdict::Inconclusive(why)))) => {
            Progress::Unknown { say: Vec::new(), call: Box::new(call.clone()), why: why.clone() }
        }
        Some((call, CallStatus::Asked(_))) => {
            Progress::Asked { say: Vec::new(), call: Box::new(call.clone()) }
        }
        Some((
            _,
            CallStatus::Requested
            | CallStatus::Dispatched
            | CallStatus::TimedOut
            | CallStatus::RetryScheduled(..)
            | CallStatus::Unsent
            | CallStatus::Answered
            | CallStatus::Canceled,
        )) => Progress::Next(Step::Wait),
    }
}

/// Returns the newest call of this part in the current run. The first part of a run that a person's answer began stands
/// for the call that asked.
fn call_of<'a>(question: &Question<'a>, at: At) -> Option<&'a Call> {
    let task: &'a Task = question.task;
    let own = task.calls().of_part(task.runs(), at).next_back();
    let own = own.filter(|call| call.request.origin.step == 0);
    own.or_else(|| {
        let call = task.continued()?;
        let parts = task.parts(task.run()?.item?);
        let is_first = executable(parts, 0).next().is_some_and(|(first, _)| first == at);
        let is_its = call.request.kind == CallKind::Tool && call.request.origin.step == 0;
        (is_first && is_its).then_some(call)
    })
}

/// Whether the part's call has its outcome.
pub(crate) fn has_ended(question: &Question<'_>, at: At) -> bool {
    call_of(question, at).is_some_and(|call| !call.status.is_open())
}

fn start_tool(question: &mut Question<'_>, at: At, asked: &ToolCallView) -> Progress {
    match intent_of(question, at, asked) {
        Err(ToolHindrance::Refused(message)) => refusal(question, asked, &message),
        Err(ToolHindrance::Permission(permission)) => {
            permission.into_progress(Vec::new).unwrap_or(Progress::Next(Step::Wait))
        }
        Ok(first) => match side_by_side(question, at, asked) {
            Err(permission) => permission.into_progress(Vec::new).unwrap_or(Progress::Next(Step::Wait)),
            Ok(others) => {
                let all: Vec<_> = std::iter::once(first).chain(others).collect();
                let count = u64::try_from(all.len()).unwrap_or(u64::MAX);
                if let Some(end) = over_task_budget(question, at, count) {
                    return end;
                }
                let all = all.into_iter();
                Progress::Next(Step::Do(all.flat_map(|intent| start(question, intent)).collect()))
            }
        },
    }
}

/// Returns the end of the run if these calls would exceed a budget of the whole task. A budget of each infer part does not
/// count them.
fn over_task_budget(question: &Question<'_>, at: At, calls: u64) -> Option<Progress> {
    let is_counted = question.agent.budget_scope == BudgetScope::Task;
    if is_counted { over_budget(question, at, About::ToolCalls(calls)) } else { None }
}

/// Returns the intents of the following parts that are called in parallel with this one: those up to the
/// first whose tool is not a parallel read-only tool. A part that cannot be called at all has its output
/// without a call; if one of them is denied, none starts.
fn side_by_side(
    question: &mut Question<'_>,
    at: At,
    first: &ToolCallView,
) -> Result<Vec<CallRequested>, Permission> {
    let (task, agent) = (question.task, question.agent);
    let parallel = |asked: &ToolCallView| {
        let tool = agent.tools.get(&asked.tool_name);
        tool.is_some_and(|tool| tool.spec().policy.is_parallel())
    };
    let Some(item) = task.run().and_then(|run| run.item).filter(|_| parallel(first)) else {
        return Ok(Vec::new());
    };
    let behind = executable(task.parts(item), at.saturating_add(1)).take(PARALLEL_CALLS_MAX - 1);
    let group: Vec<(At, ToolCallView)> = behind
        .map_while(|(other, part)| Some((other, part.as_tool_call().ok().filter(|asked| parallel(asked))?)))
        .collect();
    let mut intents = Vec::new();
    for (other, asked) in &group {
        match intent_of(question, *other, asked) {
            Ok(intent) => intents.push(intent),
            Err(ToolHindrance::Refused(_)) => {}
            Err(ToolHindrance::Permission(denied @ Permission::Denied(_))) => return Err(denied),
            // A call that needs more than permission, and each part after it, is left to its turn.
            Err(ToolHindrance::Permission(_)) => break,
        }
    }
    Ok(intents)
}

/// The reason why a part's call gets no intent.
enum ToolHindrance {
    /// The call cannot be made: the part's output says why.
    Refused(String),
    /// The call may not be made, or not yet.
    Permission(Permission),
}

/// Returns the intent of a part's call, checked and permitted, or the reason why it is missing.
fn intent_of(
    question: &mut Question<'_>,
    at: At,
    asked: &ToolCallView,
) -> Result<CallRequested, ToolHindrance> {
    let agent = question.agent;
    let missing = || ToolHindrance::Refused(notes::tool_not_found(&asked.tool_name));
    let tool = agent.tools.get(&asked.tool_name).ok_or_else(missing)?;
    let args = tool.check(&asked.args).map_err(|error| ToolHindrance::Refused(error.to_string()))?;
    let origin = CallOrigin {
        run: question.task.runs(),
        part: at,
        step: 0,
        infer_call: None,
        part_call_id: asked.call_id.clone(),
        parent: None,
    };
    let wanted = PermissionRequest {
        name: &tool.spec().name,
        needs: tool.spec().policy.get_capabilities(),
        args: &args,
        origin: &origin,
        call_id: None,
    };
    match permission::permission_for(question, &wanted) {
        Permission::Granted(approval) => {
            let given = approval.as_ref().map(|approval| approval.request.call_id.clone());
            let call_id = given.unwrap_or_else(|| question.mint.id("call_"));
            let approval = approval.map(|approval| approval.request.approval_id);
            Ok(intent(question, tool.spec(), call_id, args, origin, approval))
        }
        Permission::Unreadable(error) => Err(ToolHindrance::Refused(error)),
        permission => Err(ToolHindrance::Permission(permission)),
    }
}

/// Returns the intent, and the dispatch where the call can start at once.
pub(crate) fn request(
    question: &Question<'_>,
    spec: &ToolSpec,
    call_id: String,
    args: JsonText,
    origin: CallOrigin,
    approval: Option<String>,
) -> Vec<Act> {
    start(question, intent(question, spec, call_id, args, origin, approval))
}

/// Returns the intent recorded before a tool call is sent.
fn intent(
    question: &Question<'_>,
    spec: &ToolSpec,
    call_id: String,
    args: JsonText,
    origin: CallOrigin,
    approval: Option<String>,
) -> CallRequested {
    CallRequested {
        heartbeat_ms: spec.policy.get_heartbeat().map(millis),
        retry_errors: spec.policy.retries_errors(),
        window_ms: spec.policy.window().map(millis),
        deadline: deadline::of_call(question, spec.policy.get_deadline()),
        secrets: spec.policy.get_secret_args().to_vec(),
        capabilities: spec.policy.get_capabilities().to_vec(),
        approval,
        origin,
        ..CallRequested::new(NewCall {
            idempotency_key: idempotency_key(question.stream, &call_id),
            call_id,
            kind: CallKind::Tool,
            target: spec.name.clone(),
            args,
            recovery: spec.policy.recovery(),
            recovery_source: spec.policy.get_declared_by().to_owned(),
            timeout_ms: millis(spec.policy.get_timeout()),
            max_attempts: spec.policy.attempts_max(),
        })
    }
}

fn refusal(question: &mut Question<'_>, asked: &ToolCallView, message: &str) -> Progress {
    let error: JsonObject = [("message".to_owned(), JsonText::string(message))].into_iter().collect();
    let call_id = output_id(question, asked);
    Progress::Output(Part::tool_failure(&call_id, error.to_text()))
}

/// Returns the id that the output carries: the part's own, or a new one.
fn output_id(question: &mut Question<'_>, asked: &ToolCallView) -> String {
    asked.call_id.clone().unwrap_or_else(|| question.mint.id("tool_output_"))
}
