//! Messages that the loop adds to the turn.

use proto_events::call::{CallKind, CallOrigin, CallStatus, Verdict};
use proto_events::json::JsonText;
use proto_events::model::{LlmMessage, LlmRole};
use proto_events::session::SessionCommand;
use proto_events::task::TaskCommand;
use proto_events::turn::TurnMessage;
use taskreel_log::context::ResultPlace;
use taskreel_log::shown::ImageRef;

use crate::agent::peer::PeerAnswer;
use crate::models::message::answer_to;
use crate::run::question::{Act, At, Progress, Question, Step};
use crate::run::steps::part_messages;
use crate::tools::artifact_tools::is_view;

/// Adds a message to the turn, which the session or the task keeps.
pub(crate) fn append_message(question: &Question<'_>, message: TurnMessage) -> Act {
    match question.turn_view {
        Some(turn_view) => {
            Act::Session(SessionCommand::AppendMessage { turn_id: turn_view.turn_id.to_owned(), message })
        }
        None => Act::Task(TaskCommand::AppendInferMessage(message)),
    }
}

/// Tells the model the answer to a call that it asked for.
pub(crate) fn tell(
    question: &mut Question<'_>,
    call_id: &str,
    origin: &CallOrigin,
    text: String,
) -> Progress {
    Progress::Next(Step::Do(vec![answer(question, call_id, origin, text)]))
}

/// Returns the one answer to a call that the model asked for: as the tool's where the message that asks names it natively, else
/// in the system's words.
pub(crate) fn answer(question: &mut Question<'_>, call_id: &str, origin: &CallOrigin, text: String) -> Act {
    let asking = part_messages(question, origin.part)
        .find(|message| message.asks.iter().any(|ask| ask == call_id))
        .map(|asking| asking.message.clone());
    let message = answer_to(asking.as_ref(), call_id, text, question.mint);
    append_answer(question, call_id, origin, message)
}

/// Returns where the result of a call stands in the log, if the message that tells it may be minimized. What the tools that
/// view artifacts return is never shortened again.
fn place_of(question: &Question<'_>, call_id: &str) -> Option<ResultPlace> {
    if !question.agent.context.minimizes() {
        return None;
    }
    let call = question.task.calls().get(call_id)?;
    let (CallStatus::Succeeded(result) | CallStatus::Reconciled(Verdict::Landed(result))) = &call.status
    else {
        return None;
    };
    let (task_id, call_id) = (question.task.id().to_owned(), call_id.to_owned());
    let is_text = |result: &JsonText| result.as_str().starts_with('"');
    match (call.request.kind, &call.status) {
        (CallKind::Tool, _) if is_view(&call.request.target) => None,
        (CallKind::Delegate, CallStatus::Succeeded(answer)) => {
            Some(ResultPlace { task_id, call_id, is_text: is_text(&PeerAnswer::result_in(answer)) })
        }
        _ => Some(ResultPlace { task_id, call_id, is_text: is_text(result) }),
    }
}

/// Notes in the metadata of a message that tells the result of a call where that result stands, and the images that the call
/// attached, for a model that takes images.
fn note_result(question: &Question<'_>, call_id: &str, message: &mut LlmMessage) {
    if let Some(place) = place_of(question, call_id) {
        place.note_in(&mut message.metadata);
    }
    if question.agent.backend.as_ref().is_some_and(|backend| backend.takes_images) {
        ImageRef::name_in(&ImageRef::attached_by(call_id, question.task), &mut message.metadata);
    }
}

/// Tells the model the result of a call for which an earlier run had waited. The call's answer stands in that run.
pub(crate) fn append_result(question: &mut Question<'_>, part: At, call_id: &str, text: String) -> Act {
    let mut message = LlmMessage::new(LlmRole::System, text, question.mint);
    note_result(question, call_id, &mut message);
    append_message(question, TurnMessage { message, part, infer_call: None, asks: Vec::new(), answers: None })
}

/// Adds a message as the answer to a call.
pub(crate) fn append_answer(
    question: &Question<'_>,
    call_id: &str,
    origin: &CallOrigin,
    mut message: LlmMessage,
) -> Act {
    note_result(question, call_id, &mut message);
    let infer_call = origin.infer_call.clone();
    append_message(
        question,
        TurnMessage {
            message,
            part: origin.part,
            infer_call,
            asks: Vec::new(),
            answers: Some(call_id.to_owned()),
        },
    )
}
