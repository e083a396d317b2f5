//! A message of a user to a task that waits for the answer to a question: the message is the answer.

use crate::call::fold::Call;
use crate::call::request::CallKind;
use crate::model::message::Message;
use crate::model::task_state::TaskState;
use crate::task::command::TaskRejection;
use crate::task::queue::{is_users, text_of};
use crate::task::state::Task;

impl Task {
    /// Whether nobody answers the open question of a call: the task that it sent to another agent of the system waits for
    /// a person, or that of a call which it asked for. A question of an agent elsewhere, which has named its task, is answered.
    pub fn waits_for_agent(&self, call: &Call) -> bool {
        let Some(asked) = call.open_question() else { return false };
        let of_agent = |own: &Call| {
            let is_local = own.request.kind == CallKind::Delegate && own.handle.is_none();
            is_local && own.open_question() == Some(asked)
        };
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
                if let Some(call) = self.asks_for_all(calls) {
                    return Ok(Some((call.request.call_id.clone(), text_of(message))));
                }
                let questions = calls.iter().map(|call| call.question_id()).collect();
                Err(TaskRejection::WhichQuestion { questions })
            }
        }
    }

    /// Returns the call whose question the others pass on to it: an agent elsewhere asks, and a tool or a handler waits for it.
    fn asks_for_all<'a>(&self, calls: &[&'a Call]) -> Option<&'a Call> {
        let is_passed_on = |call: &Call, by: &Call| {
            call.is_child_of(&by.request.call_id) && call.open_question() == by.open_question()
        };
        let outer = calls.iter().find(|outer| {
            let others = calls.iter().filter(|call| call.request.call_id != outer.request.call_id);
            { others }.all(|call| is_passed_on(call, outer))
        });
        outer.copied().filter(|outer| !self.waits_for_agent(outer))
    }
}
