//! Messages that a user sent to the running task: they are shown before the next inference.

use proto_events::model::{LlmMessage, LlmRole};
use proto_events::task::QueuedMessage;
use proto_events::turn::TurnMessage;

use crate::run::infer::append_message::append_message;
use crate::run::question::{Act, At, Question};

/// Whether a message waits that the model has not been shown. In a conversation whose turn is not held, it may.
pub(crate) fn is_waiting(question: &Question<'_>) -> bool {
    question.task.queued().any(|queued| !is_shown(question, &queued))
}

/// Returns the commands that show the waiting messages, oldest first.
pub(crate) fn show_waiting(question: &mut Question<'_>, at: At) -> Vec<Act> {
    let waiting: Vec<QueuedMessage> =
        question.task.queued().filter(|queued| !is_shown(question, queued)).collect();
    let show = |QueuedMessage { shown_as, text, .. }| {
        let message = LlmMessage { id: shown_as, ..LlmMessage::new(LlmRole::User, text, question.mint) };
        let message = TurnMessage { message, part: at, infer_call: None, asks: Vec::new(), answers: None };
        append_message(question, message)
    };
    waiting.into_iter().map(show).collect()
}

/// Whether the conversation has the message. In a task of its own, a message that was shown waits no more.
fn is_shown(question: &Question<'_>, queued: &QueuedMessage) -> bool {
    let Some(turn_view) = question.turn_view else { return false };
    let session = turn_view.session;
    let turn = session.open_turn().map_or(&[][..], |open| open.turn.messages());
    let turn = turn.iter().map(|message| &message.message);
    let history = session.history().as_slice().iter();
    turn.rev().chain(history.rev()).any(|message| message.id == queued.shown_as)
}
