//! An `infer` part: the loop of asking the model, doing what it asks for, and telling it what came of it.
//!
//! How far the loop has come is read off the part's inferences and the turn's messages: an inference is
//! dealt with when a message names it.

use proto_events::call::{Call, CallOrigin, CallStatus};
use proto_events::limits::INFER_STEPS_MAX;
use proto_events::model::{LlmMessage, LlmRole, Part};
use proto_events::session::SessionCommand;
use proto_events::task::TaskCommand;
use proto_events::turn::TurnMessage;

use super::decided::prompt_of;
use super::{Act, At, Progress, Question, Step, part_messages, session_id};
use crate::agent::action::Action;
use crate::agent::output_schema::check_schema;
use crate::agent::prompt;

mod agent_call;
mod ask;
mod spent;
mod tool_call;
mod verdict;

pub use ask::infer_request;
use spent::{About, within_budget};
pub(crate) use verdict::{Reading, Verdict};

/// How far this part has come.
pub(super) fn progress(question: &mut Question<'_>, at: At, part: &Part) -> Progress {
    let agent = question.agent;
    if agent.backend.is_none() {
        return Progress::Output(Part::error("no_llm", prompt::NO_MODEL, false));
    }
    let schema = ask::output_schema(part).map(|schema| schema.to_value());
    let calls = inferences(question, at);
    let Some(last) = calls.last().copied() else {
        return match schema.as_ref().map_or(Ok(()), check_schema) {
            Ok(()) => first(question, at, part),
            Err(error) => Progress::Fatal(prompt::fatal_schema(&error)),
        };
    };
    let reading = Reading::of(agent, &calls, schema.as_ref());
    let handled = is_handled(question, at, last);
    if let Verdict::Answer { output, .. } = &reading.last
        && handled
    {
        return Progress::Output(Part::infer_output(output.clone()));
    }
    // A run that is taken up again needs the turn that it held.
    if agent.conversation && question.seat.is_none() {
        return Progress::Next(Step::AwaitTurn { session_id: session_id(question.task) });
    }
    if handled {
        if reading.steps >= INFER_STEPS_MAX {
            return Progress::Fatal(prompt::fatal_steps());
        }
        return ask::model(question, at, part, &calls);
    }
    let replied = matches!(last.status, CallStatus::Succeeded(_));
    if let Some(exceeded) = within_budget(question, at, About::Reply).err().filter(|_| replied) {
        return Progress::Fatal(exceeded);
    }
    handle(question, at, part, last, reading)
}

/// Nothing was asked yet: the turn, the prompt, the first inference.
fn first(question: &mut Question<'_>, at: At, part: &Part) -> Progress {
    if question.agent.conversation && question.seat.is_none() {
        return Progress::Next(Step::AwaitTurn { session_id: session_id(question.task) });
    }
    match prompt_first(question, at, part) {
        Err(error) => Progress::Fatal(error),
        Ok(Some(acts)) => Progress::Next(Step::Do(acts)),
        Ok(None) => ask::model(question, at, part, &[]),
    }
}

/// The part's inferences, oldest first.
fn inferences<'a>(question: &Question<'a>, at: At) -> Vec<&'a Call> {
    let runs = question.task.runs();
    let ours = move |call: &&Call| {
        let origin = &call.request.origin;
        origin.run == runs && origin.part == at && call.request.prompt.is_some()
    };
    question.task.calls().iter().filter(ours).collect()
}

/// Before anything else: the turn, and the prompt in it.
fn prompt_first(question: &mut Question<'_>, at: At, part: &Part) -> Result<Option<Vec<Act>>, String> {
    let mut acts = Vec::new();
    if let Some(seat) = question.seat {
        let open = seat.session.open_turn().is_some_and(|open| open.turn_id == seat.turn_id);
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
    if part_messages(question, at).next().is_none() {
        let text = prompt_of(question.task, part)?;
        let message = LlmMessage::new(LlmRole::User, text, question.mint);
        acts.push(say(question, TurnMessage { message, part: at, infer_call: None, origin: None }));
    }
    Ok((!acts.is_empty()).then_some(acts))
}

/// Adds a message to the turn, wherever it is kept.
fn say(question: &Question<'_>, message: TurnMessage) -> Act {
    match question.seat {
        Some(seat) => {
            Act::Session(SessionCommand::AppendMessage { turn_id: seat.turn_id.to_owned(), message })
        }
        None => Act::Task(TaskCommand::AppendInferMessage(message)),
    }
}

/// An inference is dealt with when a message that it brought about is no question that waits for an answer.
fn is_handled(question: &Question<'_>, at: At, inference: &Call) -> bool {
    let id = inference.request.call_id.as_str();
    let mut brought = part_messages(question, at).filter(|message| message.infer_call.as_deref() == Some(id));
    match brought.next().map(|first| first.origin.is_some()) {
        None => false,
        Some(false) => true,
        Some(true) => brought.next().is_some(),
    }
}

/// Deals with the last inference.
fn handle(question: &mut Question<'_>, at: At, part: &Part, inference: &Call, reading: Reading) -> Progress {
    let id = inference.request.call_id.clone();
    match reading.last {
        Verdict::Broken(error) => Progress::Fatal(prompt::fatal_model(reading.steps, &error)),
        Verdict::Malformed(error) if reading.malformed_in_a_row >= prompt::PARSE_ATTEMPTS_MAX => {
            Progress::Fatal(prompt::fatal_unreadable(&error))
        }
        Verdict::Malformed(error) => note(question, at, id, prompt::unreadable_reply(&error)),
        Verdict::Repeated(action) => note(question, at, id, prompt::already_done(action)),
        Verdict::Action { action: Action::AgentCall { .. }, .. } if !question.agent.peers.is_on() => {
            note(question, at, id, prompt::delegation_off().to_owned())
        }
        Verdict::Unfit(error) if reading.unfit > 1 => Progress::Fatal(prompt::fatal_output(&error)),
        Verdict::Unfit(error) => {
            let schema = ask::output_schema(part).unwrap_or_default();
            note(question, at, id, prompt::output_refused(&error, &schema))
        }
        // A final action is an answer, and no other verdict holds one.
        Verdict::Action { action: Action::Final { .. }, raw } | Verdict::Answer { raw, .. } => {
            let message = LlmMessage::new(LlmRole::Assistant, raw, question.mint);
            let said = TurnMessage { message, part: at, infer_call: Some(id), origin: None };
            Progress::Next(Step::Do(vec![say(question, said)]))
        }
        Verdict::Action { action, raw } => {
            let asked = part_messages(question, at)
                .find(|message| message.infer_call.as_deref() == Some(id.as_str()))
                .and_then(|message| message.origin.clone());
            match asked {
                None => {
                    let origin = Some(question.mint.id("call_"));
                    let message = LlmMessage::new(LlmRole::Assistant, raw, question.mint);
                    let asking = TurnMessage { message, part: at, infer_call: Some(id), origin };
                    Progress::Next(Step::Do(vec![say(question, asking)]))
                }
                Some(call_id) => {
                    let origin = CallOrigin {
                        run: question.task.runs(),
                        part: at,
                        step: reading.steps,
                        infer_call: Some(id),
                        part_call_id: None,
                    };
                    match action {
                        Action::ToolCall { tool, args } => {
                            tool_call::progress(question, call_id, &tool, &args, origin)
                        }
                        Action::AgentCall { agent, what } => {
                            agent_call::progress(question, call_id, &agent, &what, origin)
                        }
                        // An answer asks for nothing.
                        Action::Final { .. } => Progress::Next(Step::Wait),
                    }
                }
            }
        }
    }
}

/// A note of the system to the model, about one of its replies.
fn note(question: &mut Question<'_>, at: At, infer_call: String, text: String) -> Progress {
    let message = LlmMessage::new(LlmRole::System, text, question.mint);
    let note = TurnMessage { message, part: at, infer_call: Some(infer_call), origin: None };
    Progress::Next(Step::Do(vec![say(question, note)]))
}
