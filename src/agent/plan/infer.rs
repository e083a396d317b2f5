//! An `infer` part: the loop of asking the model, doing what it asks for, and telling it what came of it.
//!
//! How far the loop has come is read off the part's inferences and the turn's messages: an inference is
//! dealt with when a message names it.

use proto_events::call::{Call, CallOrigin, CallStatus};
use proto_events::json::JsonText;
use proto_events::limits::INFER_STEPS_MAX;
use proto_events::model::{LlmMessage, LlmRole, Part};
use proto_events::session::SessionCommand;
use proto_events::task::TaskCommand;
use proto_events::turn::TurnMessage;

use super::{Act, Place, Question, Step, ask_person, attach, fatal, session_id, tool, turn_messages};
use crate::agent::action::Action;
use crate::agent::prompt;

mod ask;
mod verdict;

pub use ask::infer_request;
use verdict::{Reading, Verdict};

/// What comes next for this part.
pub(super) fn next(question: &mut Question<'_>, place: Place, part: &Part) -> Step {
    let agent = question.agent;
    if agent.backend.is_none() {
        return Step::Do(vec![attach(
            question,
            place,
            Part::error("no_llm", prompt::NO_MODEL, false),
        )]);
    }
    if agent.conversation && question.seat.is_none() {
        return Step::AwaitTurn {
            session_id: session_id(question.task),
        };
    }
    if let Some(acts) = prompt_first(question, place, part) {
        return Step::Do(acts);
    }
    let calls = inferences(question, place);
    let Some(last) = calls.last().copied() else {
        return ask::model(question, place, &[]);
    };
    let reading = Reading::of(agent, &calls);
    if is_handled(question, last) {
        if calls.len() >= usize::try_from(INFER_STEPS_MAX).unwrap_or(usize::MAX) {
            return fatal(question, prompt::fatal_steps());
        }
        return ask::model(question, place, &calls);
    }
    handle(question, place, last, reading)
}

/// The part's inferences, oldest first.
fn inferences<'a>(question: &Question<'a>, place: Place) -> Vec<&'a Call> {
    let runs = question.task.runs();
    let ours = move |call: &&Call| {
        let origin = &call.request.origin;
        origin.run == runs && origin.part == place.part && call.request.prompt.is_some()
    };
    question.task.calls().iter().filter(ours).collect()
}

/// Before anything else: the turn, and the prompt in it.
fn prompt_first(question: &mut Question<'_>, place: Place, part: &Part) -> Option<Vec<Act>> {
    let mut acts = Vec::new();
    if let Some(seat) = question.seat {
        let open = seat
            .session
            .open_turn()
            .is_some_and(|open| open.turn_id == seat.turn_id);
        if !open {
            let text = ask::system_prompt(question.agent, question.task);
            acts.push(Act::Session(SessionCommand::StartTurn {
                session_id: session_id(question.task),
                turn_id: seat.turn_id.to_owned(),
                task: question.stream.to_string(),
                system_prompt: LlmMessage::new(LlmRole::System, text, question.mint),
            }));
        }
    }
    let is_prompt = |message: &&TurnMessage| message.infer_call.is_none() && message.origin.is_none();
    let prompts = turn_messages(question).iter().filter(is_prompt).count();
    // In a session all infer parts of a run share the turn, so earlier parts have their prompts there too.
    let before = question
        .seat
        .map_or(0, |_| usize::try_from(place.part).unwrap_or(usize::MAX));
    let parts = question.task.parts(place.item).iter().take(before);
    let earlier = parts.filter(|part| part.kind() == "infer").count();
    if prompts <= earlier {
        let text = part.as_infer().map(|asked| asked.prompt).unwrap_or_default();
        let message = LlmMessage::new(LlmRole::User, text, question.mint);
        acts.push(say(
            question,
            TurnMessage {
                message,
                infer_call: None,
                origin: None,
            },
        ));
    }
    (!acts.is_empty()).then_some(acts)
}

/// Adds a message to the turn, wherever it is kept.
fn say(question: &Question<'_>, message: TurnMessage) -> Act {
    match question.seat {
        Some(seat) => Act::Session(SessionCommand::AppendMessage {
            turn_id: seat.turn_id.to_owned(),
            message,
        }),
        None => Act::Task(TaskCommand::AppendInferMessage(message)),
    }
}

/// An inference is dealt with when a message that it brought about is no question that waits for an answer.
fn is_handled(question: &Question<'_>, inference: &Call) -> bool {
    let id = inference.request.call_id.as_str();
    let brought: Vec<&TurnMessage> = turn_messages(question)
        .iter()
        .filter(|message| message.infer_call.as_deref() == Some(id))
        .collect();
    match brought.first().map(|first| first.origin.is_some()) {
        None => false,
        Some(false) => true,
        Some(true) => brought.len() > 1,
    }
}

/// Deals with the last inference.
fn handle(question: &mut Question<'_>, place: Place, inference: &Call, reading: Reading) -> Step {
    let id = inference.request.call_id.clone();
    match reading.last {
        Verdict::Broken(error) => fatal(question, prompt::fatal_model(reading.steps, &error)),
        Verdict::Malformed(error) if reading.malformed_in_a_row >= prompt::PARSE_ATTEMPTS_MAX => {
            fatal(question, prompt::fatal_unreadable(&error))
        }
        Verdict::Malformed(error) => note(question, id, prompt::unreadable_reply(&error)),
        Verdict::Repeated(action) => note(question, id, prompt::already_done(action)),
        Verdict::Action {
            action: Action::AgentCall { .. },
            ..
        } => note(question, id, prompt::delegation_off().to_owned()),
        Verdict::Action {
            action: Action::Final { content },
            raw,
        } => {
            let message = LlmMessage::new(LlmRole::Assistant, raw, question.mint);
            let said = say(
                question,
                TurnMessage {
                    message,
                    infer_call: Some(id),
                    origin: None,
                },
            );
            Step::Do(vec![
                said,
                attach(question, place, Part::infer_output(JsonText::string(&content))),
            ])
        }
        Verdict::Action {
            action: Action::ToolCall { tool, args },
            raw,
        } => {
            let asked = turn_messages(question)
                .iter()
                .find(|message| message.infer_call.as_deref() == Some(id.as_str()))
                .and_then(|message| message.origin.clone());
            match asked {
                None => {
                    let origin = question.mint.id("call_");
                    let message = LlmMessage::new(LlmRole::Assistant, raw, question.mint);
                    let asking = TurnMessage {
                        message,
                        infer_call: Some(id),
                        origin: Some(origin),
                    };
                    Step::Do(vec![say(question, asking)])
                }
                Some(call_id) => {
                    let origin = CallOrigin {
                        run: question.task.runs(),
                        part: place.part,
                        step: reading.steps,
                        infer_call: Some(id),
                        part_call_id: None,
                    };
                    tool_call(question, call_id, &tool, &args, origin)
                }
            }
        }
    }
}

/// A note of the system to the model, about one of its replies.
fn note(question: &mut Question<'_>, infer_call: String, text: String) -> Step {
    let message = LlmMessage::new(LlmRole::System, text, question.mint);
    Step::Do(vec![say(
        question,
        TurnMessage {
            message,
            infer_call: Some(infer_call),
            origin: None,
        },
    )])
}

/// The tool call that the model asked for: make it, or tell the model what came of it.
fn tool_call(
    question: &mut Question<'_>,
    call_id: String,
    tool: &str,
    args: &JsonText,
    origin: CallOrigin,
) -> Step {
    let infer_call = origin.infer_call.clone();
    let answer = |question: &mut Question<'_>, text: String| {
        let message = LlmMessage::new(LlmRole::System, text, question.mint);
        let origin = Some(call_id.clone());
        say(
            question,
            TurnMessage {
                message,
                infer_call: infer_call.clone(),
                origin,
            },
        )
    };
    let task = question.task;
    match task.calls().get(&call_id).map(|call| (call, &call.status)) {
        Some((_, CallStatus::Succeeded(result))) => {
            let text = prompt::tool_result(tool, result);
            Step::Do(vec![answer(question, text)])
        }
        Some((_, CallStatus::Failed(failure)))
            if failure.class == proto_events::call::FailureClass::Rejected =>
        {
            let text = prompt::argument_error(tool, &failure.message);
            Step::Do(vec![answer(question, text)])
        }
        Some((_, CallStatus::Failed(failure))) => fatal(question, prompt::fatal_tool(tool, &failure.message)),
        Some((call, CallStatus::Unknown(why))) => {
            let (call, why) = (call.clone(), why.clone());
            let text = prompt::outcome_unknown(tool);
            let mut acts = vec![answer(question, text)];
            acts.extend(ask_person(question, &call, &why));
            Step::Do(acts)
        }
        Some(_) => Step::Wait,
        None => {
            let Some(registered) = question.agent.tools.get(tool) else {
                let names = question.agent.tools.names();
                return Step::Do(vec![answer(question, prompt::unknown_tool(tool, &names))]);
            };
            if let Err(exceeded) = ask::within_budget(question, Some(call_id.as_str())) {
                return fatal(question, exceeded);
            }
            match registered.spec().check(args) {
                Ok(args) => Step::Do(tool::request(question, registered.spec(), call_id, args, origin)),
                Err(error) => {
                    let text = prompt::argument_error(tool, &error.to_string());
                    Step::Do(vec![answer(question, text)])
                }
            }
        }
    }
}
