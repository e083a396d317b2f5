//! A `tool_call` part: check, call, attach what came of it.

use proto_events::call::{CallCommand, CallKind, CallOrigin, CallRequested, CallStatus};
use proto_events::id::Digest;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Part, ToolCallView};
use proto_events::task::TaskCommand;

use super::{Act, Place, Question, Step, ask_person, attach, dispatch, fatal, idempotency_key};
use crate::agent::prompt;
use crate::agent::tool::ToolSpec;

/// What comes next for this part.
pub(super) fn next(question: &mut Question<'_>, place: Place, part: &Part) -> Step {
    let asked = match part.as_tool_call() {
        Ok(asked) => asked,
        Err(error) => {
            return fatal(
                question,
                format!("part {} cannot be carried out: {error}", place.part),
            );
        }
    };
    let runs = question.task.runs();
    let call = question.task.calls().iter().rev().find(|call| {
        let origin = &call.request.origin;
        origin.run == runs && origin.part == place.part && origin.step == 0
    });
    match call.map(|call| (call, &call.status)) {
        None => begin(question, place, &asked),
        Some((_, CallStatus::Succeeded(result))) => {
            let output = output(question, &asked, Some(result.clone()), None);
            Step::Do(vec![attach(question, place, output)])
        }
        Some((_, CallStatus::Failed(failure))) => {
            let output = refusal(question, &asked, &failure.message.clone());
            Step::Do(vec![attach(question, place, output)])
        }
        Some((call, CallStatus::Unknown(why))) => {
            let (call, why) = (call.clone(), why.clone());
            Step::Do(ask_person(question, &call, &why))
        }
        Some(_) => Step::Wait,
    }
}

fn begin(question: &mut Question<'_>, place: Place, asked: &ToolCallView) -> Step {
    let Some(tool) = question.agent.tools.get(&asked.tool_name) else {
        let output = refusal(question, asked, &prompt::tool_not_found(&asked.tool_name));
        return Step::Do(vec![attach(question, place, output)]);
    };
    let spec = tool.spec().clone();
    match spec.check(&asked.args) {
        Err(error) => {
            let output = refusal(question, asked, &error.to_string());
            Step::Do(vec![attach(question, place, output)])
        }
        Ok(args) => {
            let origin = CallOrigin {
                run: question.task.runs(),
                part: place.part,
                step: 0,
                infer_call: None,
                part_call_id: asked.call_id.clone(),
            };
            let call_id = question.mint.id("call_");
            Step::Do(request(question, &spec, call_id, args, origin))
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
        timeout_ms: u64::try_from(spec.policy.attempt_timeout().as_millis()).unwrap_or(u64::MAX),
        max_attempts: spec.policy.attempts_max(),
        origin,
        prompt: None,
    };
    let intent = Act::Task(TaskCommand::Call(CallCommand::Request(Box::new(request))));
    vec![intent, dispatch(call_id, question.epoch)]
}

fn refusal(question: &mut Question<'_>, asked: &ToolCallView, message: &str) -> Part {
    let error: JsonObject = [("message".to_owned(), JsonText::string(message))]
        .into_iter()
        .collect();
    output(question, asked, None, Some(error.to_text()))
}

fn output(
    question: &mut Question<'_>,
    asked: &ToolCallView,
    result: Option<JsonText>,
    error: Option<JsonText>,
) -> Part {
    let call_id = asked
        .call_id
        .clone()
        .unwrap_or_else(|| question.mint.id("tool_output_"));
    match error {
        None => Part::tool_output(&call_id, result.unwrap_or_default()),
        Some(error) => Part::tool_failure(&call_id, error),
    }
}
