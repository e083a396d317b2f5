//! An `infer` part: the loop that calls the model, carries out the action it requests, and reports the result
//! to it.
//!
//! The progress of the loop is derived from the part's inferences and the turn's messages: an inference is
//! handled once a message names it. [`ask`] calls the model, [`reply_reading`](crate::run::reply_reading) interprets the replies,
//! [`tool_calls`] and [`agent_call`] carry out actions, [`mod@append_message`] adds messages, [`queue`] those that
//! arrived meanwhile.

use crate::run::notes;
pub(crate) mod agent_call;
pub(crate) mod append_message;
pub(crate) mod ask;
pub(crate) mod queue;
pub(crate) mod tool_calls;

use proto_events::call::{Call, CallOrigin, CallStatus, FailureClass};
use proto_events::json::JsonObject;
use proto_events::model::{LlmMessage, LlmRole, Part};
use proto_events::session::SessionCommand;
use proto_events::turn::TurnMessage;
use taskreel_log::shown::for_task;

use crate::grammar::action::{Action, AgentAction};
use crate::models::backend::InferReply;
use crate::models::message;
use crate::models::message::NativeCall;
use crate::models::output_schema::OutputSchema;
use crate::run::after_decision::{PartStart, beginning_of};
use crate::run::infer::append_message::{append_message, append_result};
use crate::run::infer::tool_calls::AskedCalls;
use crate::run::model_input;
use crate::run::notes::{NO_MODEL, PARSE_ATTEMPTS_MAX};
use crate::run::question::{Act, At, Progress, Question, Step};
use crate::run::reply_reading::{AskedCall, PartReading, ReplyReading};
use crate::run::settled_actions::SettledActions;
use crate::run::spent::{About, over_budget, shown_tokens};
use crate::run::steps::{part_messages, session_id};

/// Returns the progress of this part.
pub(crate) fn progress(question: &mut Question<'_>, at: At, part: &Part) -> Progress {
    let agent = question.agent;
    if agent.backend.is_none() {
        return Progress::Output(Part::error("no_llm", NO_MODEL, false));
    }
    let schema = model_input::output_schema(part).map(|schema| OutputSchema::new(schema.tree()));
    let calls = inferences(question, at);
    let Some(last) = calls.last().copied() else {
        return match schema.as_ref().map_or(Ok(()), OutputSchema::usable) {
            Ok(()) => first(question, at, part),
            Err(error) => Progress::Fatal(notes::fatal_schema(&error)),
        };
    };
    let settled = SettledActions::new(question.task, at);
    let asking: Vec<String> = part_messages(question, at)
        .filter(|message| !message.asks.is_empty())
        .filter_map(|message| message.infer_call.clone())
        .collect();
    let is_asking = |id: &str| asking.iter().any(|asking| asking == id);
    let inferences = (question.task.calls(), calls.as_slice());
    let reading = PartReading::new(agent, inferences, schema.as_ref(), question.replies, settled, &is_asking);
    let recorded = is_reply_recorded(question, at, last);
    if let ReplyReading::Answer { output, .. } = &reading.last
        && recorded
        && is_last_word(question, at, last)
        && !(queue::is_waiting(question) && may_ask_again(question, at, part, reading.steps))
    {
        question.replies.clear();
        return Progress::Output(Part::infer_output(output.clone()));
    }
    // A resumed run needs the turn that it held.
    if agent.conversation && question.turn_view.is_none() {
        return Progress::Next(Step::AwaitTurn { session_id: session_id(question.task) });
    }
    if recorded {
        if reading.steps >= agent.infer_steps {
            return Progress::Fatal(notes::fatal_steps(agent.infer_steps));
        }
        return next_inference(question, at, part, &calls);
    }
    let replied = matches!(last.status, CallStatus::Succeeded(_));
    if let Some(end) = over_budget(question, at, About::Reply).filter(|_| replied) {
        return end;
    }
    handle(question, at, part, last, reading)
}

/// Whether the model may be asked once more. A message that came too late for that does not cost the task its answer.
fn may_ask_again(question: &Question<'_>, at: At, part: &Part, steps: u32) -> bool {
    if steps >= question.agent.infer_steps {
        return false;
    }
    let Ok(selection) = model_input::select(question, at, part) else { return false };
    let tokens = shown_tokens(question, at, part, selection.as_ref()).unwrap_or_default();
    over_budget(question, at, About::Inference(tokens)).is_none()
}

/// Returns the first steps of the part, before any inference: the turn, the prompt, the first inference.
fn first(question: &mut Question<'_>, at: At, part: &Part) -> Progress {
    if question.agent.conversation && question.turn_view.is_none() {
        return Progress::Next(Step::AwaitTurn { session_id: session_id(question.task) });
    }
    match prompt_first(question, at, part) {
        Err(error) => Progress::Fatal(error),
        Ok(Some(acts)) => Progress::Next(Step::Do(acts)),
        Ok(None) => next_inference(question, at, part, &[]),
    }
}

/// Returns the messages that wait for the next inference, or else that inference.
fn next_inference(question: &mut Question<'_>, at: At, part: &Part, before: &[&Call]) -> Progress {
    let waiting = queue::show_waiting(question, at);
    if waiting.is_empty() {
        return ask::model(question, at, part, before);
    }
    Progress::Next(Step::Do(waiting))
}

/// Returns the part's inferences, oldest first, without those that another one replaced.
fn inferences<'a>(question: &Question<'a>, at: At) -> Vec<&'a Call> {
    let calls = question.task.calls().of_part(question.task.runs(), at);
    calls.filter(|call| call.request.prompt.is_some() && !is_superseded(call)).collect()
}

/// Whether another inference replaced this one, because the definition of the agent had changed, or the conversation.
fn is_superseded(call: &Call) -> bool {
    matches!(&call.status, CallStatus::Failed(failure) if failure.class == FailureClass::Superseded)
}

/// Returns the commands that open the turn and add the prompt to it, as far as they are missing.
fn prompt_first(question: &mut Question<'_>, at: At, part: &Part) -> Result<Option<Vec<Act>>, String> {
    let mut acts = Vec::new();
    if let Some(turn_view) = question.turn_view {
        let open = turn_view.session.open_turn().is_some_and(|open| open.turn_id == turn_view.turn_id);
        if !open {
            let text = for_task(&question.agent.tools.revision().system, question.task);
            acts.push(Act::Session(SessionCommand::StartTurn {
                session_id: session_id(question.task),
                turn_id: turn_view.turn_id.to_owned(),
                task: question.stream.to_string(),
                system_prompt: LlmMessage::new(LlmRole::System, text, question.mint),
            }));
        }
    }
    if part_messages(question, at).next().is_none() {
        let PartStart { prompt, result } = beginning_of(question.task, part)?;
        let message = LlmMessage::new(LlmRole::User, prompt, question.mint);
        acts.push(append_message(
            question,
            TurnMessage { message, part: at, infer_call: None, asks: Vec::new(), answers: None },
        ));
        acts.extend(result.map(|(call_id, text)| append_result(question, at, &call_id, text)));
    }
    Ok((!acts.is_empty()).then_some(acts))
}

/// Whether an inference is handled: it has led to a message, and all calls that this message asks for have their
/// answers.
fn is_reply_recorded(question: &Question<'_>, at: At, inference: &Call) -> bool {
    let id = inference.request.call_id.as_str();
    let mut brought = part_messages(question, at).filter(|message| message.infer_call.as_deref() == Some(id));
    brought.next().is_some_and(|first| brought.count() >= first.asks.len())
}

/// Whether no message of a user was shown after the reply of this inference.
fn is_last_word(question: &Question<'_>, at: At, inference: &Call) -> bool {
    let newest = part_messages(question, at).last();
    newest.is_some_and(|message| message.infer_call.as_deref() == Some(inference.request.call_id.as_str()))
}

/// Handles the last inference.
fn handle(
    question: &mut Question<'_>,
    at: At,
    part: &Part,
    inference: &Call,
    reading: PartReading,
) -> Progress {
    let id = inference.request.call_id.clone();
    match reading.last {
        ReplyReading::Broken(error) => Progress::Fatal(notes::fatal_model(reading.steps, &error)),
        ReplyReading::Malformed(error) if reading.malformed_in_a_row >= PARSE_ATTEMPTS_MAX => {
            Progress::Fatal(notes::fatal_unreadable(&error))
        }
        ReplyReading::Malformed(error) => {
            let text = if question.agent.asks_natively() {
                notes::unusable_reply(&error)
            } else {
                notes::unreadable_reply(&error)
            };
            add_system_note(question, at, id, text)
        }
        ReplyReading::TextCall if reading.text_calls > 1 => {
            Progress::Fatal(notes::fatal_text_call().to_owned())
        }
        ReplyReading::TextCall => add_system_note(question, at, id, notes::text_call().to_owned()),
        ReplyReading::Repeated(action) => {
            let text = notes::repeated(question.agent.loop_rules, action);
            add_system_note(question, at, id, text)
        }
        ReplyReading::Action { action: Action::AgentCall { .. }, .. } if !question.agent.peers.is_on() => {
            add_system_note(question, at, id, notes::delegation_off().to_owned())
        }
        ReplyReading::Unfit(error) if reading.unfit > 1 => Progress::Fatal(notes::fatal_output(&error)),
        ReplyReading::Unfit(error) => {
            let schema = model_input::output_schema(part).unwrap_or_default();
            add_system_note(question, at, id, notes::output_refused(&error, &schema))
        }
        // A final action is an answer; no other reading holds one.
        ReplyReading::Action { action: Action::Final { .. }, raw } | ReplyReading::Answer { raw, .. } => {
            let mut message = LlmMessage::new(LlmRole::Assistant, raw, question.mint);
            if reply_of(inference).is_some_and(|reply| reply.without_reason) {
                message.mark_without_reason();
            }
            let said =
                TurnMessage { message, part: at, infer_call: Some(id), asks: Vec::new(), answers: None };
            Progress::Next(Step::Do(vec![append_message(question, said)]))
        }
        ReplyReading::Action { action: Action::ToolCall { tool, args }, raw } => {
            let calls = vec![AskedCall { tool, args, is_repeated: false }];
            start_calls(question, at, id, reading.steps, ModelRequest::in_text(calls, raw))
        }
        ReplyReading::Action { action: Action::AgentCall { agent, what }, raw } => start_calls(
            question,
            at,
            id,
            reading.steps,
            ModelRequest::Agent { agent, what, text: raw, native: None },
        ),
        ReplyReading::AgentCall { call, agent, what, text } => start_calls(
            question,
            at,
            id,
            reading.steps,
            ModelRequest::Agent { agent, what, text, native: Some(call) },
        ),
        ReplyReading::Calls { calls, text } => {
            start_calls(question, at, id, reading.steps, ModelRequest::Tools { calls, text, is_native: true })
        }
    }
}

/// The calls that a reply asks for.
enum ModelRequest {
    /// Tool calls; native ones were asked for through the provider's own interface.
    Tools { calls: Vec<AskedCall>, text: String, is_native: bool },
    /// A call of another agent, as it was asked for natively, if it was.
    Agent { agent: String, what: AgentAction, text: String, native: Option<AskedCall> },
}

impl ModelRequest {
    fn in_text(calls: Vec<AskedCall>, text: String) -> Self {
        Self::Tools { calls, text, is_native: false }
    }
}

/// Handles a reply that asks for calls: the message that asks comes first, with an id for each.
fn start_calls(
    question: &mut Question<'_>,
    at: At,
    infer_call: String,
    step: u32,
    asked: ModelRequest,
) -> Progress {
    let asks = part_messages(question, at)
        .find(|message| message.infer_call.as_deref() == Some(infer_call.as_str()))
        .map(|message| message.asks.clone());
    let Some(asks) = asks else {
        let (asks, message) = asking_message(question, asked, &infer_call);
        let asking = TurnMessage { message, part: at, infer_call: Some(infer_call), asks, answers: None };
        return Progress::Next(Step::Do(vec![append_message(question, asking)]));
    };
    let infer_call = Some(infer_call);
    let origin = CallOrigin {
        run: question.task.runs(),
        part: at,
        step,
        infer_call,
        part_call_id: None,
        parent: None,
    };
    match asked {
        ModelRequest::Tools { calls, is_native, .. } => {
            let asked = asks.into_iter().zip(calls).collect();
            tool_calls::progress(question, &AskedCalls { calls: asked, is_native, origin })
        }
        ModelRequest::Agent { agent, what, .. } => match asks.into_iter().next() {
            Some(call_id) => agent_call::progress(question, &call_id, &agent, &what, &origin),
            None => Progress::Next(Step::Wait),
        },
    }
}

/// Returns the model's reply to an inference, if there is one.
fn reply_of(inference: &Call) -> Option<InferReply> {
    match &inference.status {
        CallStatus::Succeeded(reply) => InferReply::from_json(reply).ok(),
        _ => None,
    }
}

fn asking_message(
    question: &mut Question<'_>,
    asked: ModelRequest,
    infer_call: &str,
) -> (Vec<String>, LlmMessage) {
    let reply = question.task.calls().get(infer_call).and_then(reply_of).unwrap_or_default();
    let mint = &mut *question.mint;
    let (calls, text) = match asked {
        ModelRequest::Tools { calls, text, is_native: true } => (calls, text),
        ModelRequest::Agent { native: Some(call), text, .. } => (vec![call], text),
        ModelRequest::Tools { text, is_native: false, .. }
        | ModelRequest::Agent { text, native: None, .. } => {
            return (vec![mint.id("call_")], LlmMessage::new(LlmRole::Assistant, text, mint));
        }
    };
    // What the provider attached to each call stands in the reply, in the order of its calls.
    let attached =
        reply.calls.into_iter().map(|ask| ask.provider).chain(std::iter::repeat_with(JsonObject::new));
    let call = |(call, provider): (AskedCall, JsonObject)| {
        let AskedCall { tool, args, .. } = call;
        NativeCall { id: mint.id("call_"), tool, args, provider }
    };
    let calls: Vec<_> = calls.into_iter().zip(attached).map(call).collect();
    let asks = calls.iter().map(|call| call.id.clone()).collect();
    (asks, message::asking(&text, &calls, &reply.provider, mint))
}

/// Adds a system note to the model about one of its replies.
fn add_system_note(question: &mut Question<'_>, at: At, infer_call: String, text: String) -> Progress {
    let message = LlmMessage::new(LlmRole::System, text, question.mint);
    let infer_call = Some(infer_call);
    let note = TurnMessage { message, part: at, infer_call, asks: Vec::new(), answers: None };
    Progress::Next(Step::Do(vec![append_message(question, note)]))
}
