//! A `tool_call` part: check, call, and the output that comes of it.

use std::time::Duration;

use proto_events::call::{CallCommand, CallKind, CallOrigin, CallRequested, CallStatus};
use proto_events::id::Digest;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Part, ToolCallView};
use proto_events::task::TaskCommand;

use super::{Act, At, Progress, Question, Step, dispatch, idempotency_key};
use crate::agent::prompt;
use crate::agent::registry::ToolSpec;

/// How far this part has come.
pub(super) fn progress(question: &mut Question<'_>, at: At, part: &Part) -> Progress {
    let asked = match part.as_tool_call() {
        Ok(asked) => asked,
        Err(error) => return Progress::Fatal(format!("part {at} cannot be carried out: {error}")),
    };
    let (task, runs) = (question.task, question.task.runs());
    let call = task.calls().iter().rev().find(|call| {
        let origin = &call.request.origin;
        origin.run == runs && origin.part == at && origin.step == 0
    });
    match call.map(|call| (call, &call.status)) {
        None => begin(question, at, &asked),
        Some((_, CallStatus::Succeeded(result))) => {
            let call_id = output_id(question, &asked);
            Progress::Output(Part::tool_output(&call_id, result.clone()))
        }
        Some((_, CallStatus::Failed(failure))) => refusal(question, &asked, &failure.message),
        Some((call, CallStatus::Unknown(why))) => {
            Progress::Unknown { say: Vec::new(), call: Box::new(call.clone()), why: why.clone() }
        }
        Some(_) => Progress::Next(Step::Wait),
    }
}

fn begin(question: &mut Question<'_>, at: At, asked: &ToolCallView) -> Progress {
    let Some(tool) = question.agent.tools.get(&asked.tool_name) else {
        return refusal(question, asked, &prompt::tool_not_found(&asked.tool_name));
    };
    match tool.spec().check(&asked.args) {
        Err(error) => refusal(question, asked, &error.to_string()),
        Ok(args) => {
            let origin = CallOrigin {
                run: question.task.runs(),
                part: at,
                step: 0,
                infer_call: None,
                part_call_id: asked.call_id.clone(),
            };
            let call_id = question.mint.id("call_");
            Progress::Next(Step::Do(request(question, tool.spec(), call_id, args, origin)))
        }
    }
}

/// Intent and dispatch in one append: the call can start at once.
pub(super) fn request(
    question: &Question<'_>,
    spec: &ToolSpec,
    call_id: String,
    args: JsonText,
    origin: CallOrigin,
) -> Vec<Act> {
    let request = CallRequested {
        idempotency_key: idempotency_key(question.stream, &call_id),
        call_id: call_id.clone(),
        kind: CallKind::Tool,
        target: spec.name.clone(),
        args_digest: Digest::of(args.as_str().as_bytes()),
        args,
        recovery: spec.policy.recovery(),
        recovery_source: spec.policy.source().to_owned(),
        timeout_ms: millis(spec.policy.attempt_timeout()),
        max_attempts: spec.policy.attempts_max(),
        retry_errors: spec.policy.retries_errors(),
        window_ms: spec.policy.window().map(millis),
        deadline: spec.policy.overall().map(|after| question.now.plus(after)),
        capabilities: Vec::new(),
        approval: None,
        origin,
        prompt: None,
    };
    let intent = Act::Task(TaskCommand::Call(CallCommand::Request(Box::new(request))));
    vec![intent, dispatch(call_id, question.epoch)]
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn refusal(question: &mut Question<'_>, asked: &ToolCallView, message: &str) -> Progress {
    let error: JsonObject = [("message".to_owned(), JsonText::string(message))].into_iter().collect();
    let call_id = output_id(question, asked);
    Progress::Output(Part::tool_failure(&call_id, error.to_text()))
}

/// The id that the output carries: the part's own, or a new one where the part has none.
fn output_id(question: &mut Question<'_>, asked: &ToolCallView) -> String {
    asked.call_id.clone().unwrap_or_else(|| question.mint.id("tool_output_"))
}
