//! Messages that the loop adds to the turn.

use proto_events::session::SessionCommand;
use proto_events::task::TaskCommand;
use proto_events::turn::TurnMessage;

use crate::run::question::{Act, Question};

/// Adds a message to the turn, which the session or the task keeps.
pub(crate) fn append_message(question: &Question<'_>, message: TurnMessage) -> Act {
    match question.turn_view {
        Some(turn_view) => {
            Act::Session(SessionCommand::AppendMessage { turn_id: turn_view.turn_id.to_owned(), message })
        }
        None => Act::Task(TaskCommand::AppendInferMessage(message)),
    }
}
