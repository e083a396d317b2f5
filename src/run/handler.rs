//! A run that a handler carries out: its call, and the end of the task that the handler's end means.

use proto_events::call::{Call, CallKind, CallOrigin, CallRequested, CallStatus, NewCall, Verdict};
use proto_events::json;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::Message;
use proto_events::task::{ItemRef, Task, TaskCommand};

use crate::agent::handler::{HandlerEnd, KnownHandler};
use crate::run::person_steps::{ask_person, await_answer};
use crate::run::question::{Act, Question, Step};
use crate::run::steps::{idempotency_key, millis, start, start_next_run};
use crate::run::{deadline, notes};

/// Whether the current run is a handler's: it made a handler's call or continues one, or it has done nothing yet and
/// the agent has a handler.
pub(crate) fn carries_out(question: &Question<'_>) -> bool {
    let task = question.task;
    if let Some(call) = call_of(task) {
        return call.request.kind == CallKind::Handler;
    }
    let is_new = task.run().is_some_and(|run| run.next_part == 0);
    is_new && question.agent.handler.is_some()
}

/// Returns the newest call of the run, or the call that it continues. A handler's call stands at part 0; a run of parts may
/// have begun with any other.
pub(crate) fn call_of(task: &Task) -> Option<&Call> {
    let first = task.calls().of_part(task.runs(), 0).next_back();
    first.or_else(|| task.calls().newest_of_run(task.runs())).or_else(|| task.continued())
}

/// Returns the next step of the run. It has no call that goes on by itself.
pub(crate) fn step(question: &mut Question<'_>) -> Step {
    let Some(call) = call_of(question.task) else { return start_handler(question, None) };
    match &call.status {
        CallStatus::Succeeded(result) | CallStatus::Reconciled(Verdict::Landed(result)) => {
            let end = end_of(question, result);
            Step::Do(vec![end])
        }
        CallStatus::Failed(failure) => fail(failure.message.clone()),
        CallStatus::Reconciled(Verdict::DidNotHappen) => start_handler(question, Some(&call.request.args)),
        CallStatus::Abandoned(reason) => fail(notes::abandoned(&call.request.target, reason)),
        CallStatus::Unknown(why) | CallStatus::Reconciled(Verdict::Inconclusive(why)) => {
            ask_person(question, Vec::new(), call, why)
        }
        CallStatus::Asked(_) => await_answer(question, Vec::new(), call),
        CallStatus::Requested
        | CallStatus::Dispatched
        | CallStatus::TimedOut
        | CallStatus::RetryScheduled(..)
        | CallStatus::Unsent
        | CallStatus::Answered
        | CallStatus::Canceled => Step::Wait,
    }
}

fn fail(error: String) -> Step {
    Step::Do(vec![Act::Task(TaskCommand::Fail { error })])
}

/// Returns the end of the task that a handler's result means.
fn end_of(question: &mut Question<'_>, result: &JsonText) -> Act {
    Act::Task(match HandlerEnd::of_result(result) {
        HandlerEnd::InputRequired(text) | HandlerEnd::AuthRequired(text) => {
            let message = (!text.is_empty()).then(|| Message::agent(&text, question.mint));
            TaskCommand::RequireInput(message)
        }
        _ => TaskCommand::Complete(None),
    })
}

/// Writes the intent. It names the message by its place in the task and does not copy it (R13).
fn start_handler(question: &mut Question<'_>, again: Option<&JsonText>) -> Step {
    let Some(handler) = &question.agent.handler else {
        return fail("the agent has no handler any more".to_owned());
    };
    let args = match again {
        Some(args) => args.clone(),
        None => match message_of(question.task) {
            Some(at) => json!({"message": u64::try_from(at).unwrap_or(u64::MAX)}).to_text(),
            None => return fail("the task has no message for its handler".to_owned()),
        },
    };
    let call_id = question.mint.id("call_");
    let intent = intent(question, handler, call_id, args);
    Step::Do(start(question, intent))
}

/// Returns the place of the run's message: the item itself, or the newest message before an artifact.
pub(crate) fn message_of(task: &Task) -> Option<usize> {
    match task.run()?.item? {
        ItemRef::Message(at) => Some(at),
        ItemRef::Artifact(_) => task.messages().len().checked_sub(1),
    }
}

/// Returns the message that an intent names.
pub(crate) fn message<'a>(task: &'a Task, args: &JsonText) -> Option<&'a Message> {
    let fields: JsonObject = args.read().ok()?;
    task.messages().get(fields.get("message")?.read::<usize>().ok()?)
}

fn intent(question: &Question<'_>, handler: &KnownHandler, call_id: String, args: JsonText) -> CallRequested {
    let policy = &handler.policy;
    CallRequested {
        retry_errors: policy.retries_errors(),
        heartbeat_ms: policy.get_heartbeat().map(millis),
        window_ms: policy.window().map(millis),
        deadline: deadline::of_call(question, policy.get_deadline()),
        origin: CallOrigin { run: question.task.runs(), ..CallOrigin::default() },
        ..CallRequested::new(NewCall {
            idempotency_key: idempotency_key(question.stream, &call_id),
            call_id,
            kind: CallKind::Handler,
            target: question.agent.name.clone(),
            args,
            recovery: policy.recovery(),
            recovery_source: policy.get_declared_by().to_owned(),
            timeout_ms: millis(policy.get_timeout()),
            max_attempts: policy.attempts_max(),
        })
    }
}

/// Returns the commands that resume a task whose handler's call a person has settled.
pub(crate) fn after_resolution(question: &mut Question<'_>, call: &Call) -> Vec<Act> {
    match &call.status {
        CallStatus::Reconciled(Verdict::Landed(result)) => vec![end_of(question, result)],
        CallStatus::Reconciled(Verdict::DidNotHappen) => {
            let parts = message(question.task, &call.request.args).map(|message| message.parts.clone());
            start_next_run(question, parts.unwrap_or_default())
        }
        CallStatus::Abandoned(reason) => {
            let error = notes::abandoned(&call.request.target, reason);
            vec![Act::Task(TaskCommand::Fail { error })]
        }
        _ => Vec::new(),
    }
}
