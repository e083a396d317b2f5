//! A message of a user to a task that waits for the answer to a question: the message is the answer.

use crate::call::fold::Call;
use crate::call::request::CallKind;
use crate::model::message::Message;
use crate::model::task_state::TaskState;
use crate::task::command::TaskRejection;
use crate::task::queue::{is_users, text_of};
use crate::task::state::Task;

impl Task {
    /// Whether the open question of a call is none that is answered: the task that it sent to another agent waits for a
    /// person, or that of a call which it asked for.
    pub fn waits_for_agent(&self, call: &Call) -> bool {
        let Some(asked) = call.open_question() else { return false };
        let of_agent =
            |own: &Call| own.request.kind == CallKind::Delegate && own.open_question() == Some(asked);
        of_agent(call) || self.calls().children(&call.request.call_id).any(of_agent)
    }

    /// Returns the call that a message answers, and the answer: the task waits for a person, one call of it has an open
    /// question, and the user's message holds nothing that would be carried out. `None` for any other message, which is
    /// no answer.
    ///
    /// # Errors
    /// [`TaskRejection::WhichQuestion`] if several questions are open: each is answered under its name.
    pub fn answered_by(&self, message: &Message) -> Result<Option<(String, String)>, TaskRejection> {
        let is_work = || message.parts.iter().any(|part| matches!(part.kind(), "tool_call" | "infer"));
        let waits = self.state() == TaskState::InputRequired;
        if !waits || !is_users(message) || message.parts.is_empty() || is_work() {
            return Ok(None);
        }
        let open: Vec<&Call> = self.open_questions().collect();
        match open.as_slice() {
            [] => Ok(None),
            [call] => Ok(Some((call.request.call_id.clone(), text_of(message)))),
            calls => {
                let calls = calls.iter().map(|call| call.question_id()).collect();
                Err(TaskRejection::WhichQuestion { questions: calls })
            }
        }
    }
}
