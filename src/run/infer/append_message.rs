//! Messages that the loop adds to the turn.

use proto_events::call::CallOrigin;
use proto_events::model::{LlmMessage, LlmRole};
use proto_events::session::SessionCommand;
use proto_events::task::TaskCommand;
use proto_events::turn::TurnMessage;

use crate::run::question::{Act, Progress, Question, Step};

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

/// Returns the one answer to a call that the model asked for, in the words of the system.
pub(crate) fn answer(question: &mut Question<'_>, call_id: &str, origin: &CallOrigin, text: String) -> Act {
    let message = LlmMessage::new(LlmRole::System, text, question.mint);
    append_answer(question, call_id, origin, message)
}

/// Adds a message as the answer to a call.
pub(crate) fn append_answer(
    question: &Question<'_>,
    call_id: &str,
    origin: &CallOrigin,
    message: LlmMessage,
) -> Act {
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
