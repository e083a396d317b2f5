//! A run that a responder answers: its answer is decided in the step that begins the run, and stands in the same append.

use proto_events::model::Message;
use proto_events::task::{Task, TaskCommand};

use crate::agent::responder::{KnownResponder, ResponderEnd};
use crate::run::handler::{call_of, message_of};
use crate::run::question::{Act, Question, Step};

/// Returns the end of a run that has done nothing yet, if the agent has a responder. A run that made a call, or continues one,
/// began under another definition of the agent and goes on as it began.
pub(crate) fn step(question: &mut Question<'_>) -> Option<Step> {
    let responder = question.agent.responder.as_ref()?;
    let task = question.task;
    let is_new = task.run()?.next_part == 0 && call_of(task).is_none();
    is_new.then(|| Step::Do(vec![Act::Task(finish(question, task, responder))]))
}

fn finish(question: &mut Question<'_>, task: &Task, responder: &KnownResponder) -> TaskCommand {
    let message = message_of(task).and_then(|at| task.messages().get(at));
    let Some(message) = message else {
        return TaskCommand::Fail { error: "the task has no message for its responder".to_owned() };
    };
    match responder.answer(task, message) {
        ResponderEnd::Answered(parts) => {
            TaskCommand::Complete(Some(Message::new("agent", parts, question.mint)))
        }
        ResponderEnd::InputRequired(text) => {
            TaskCommand::RequireInput((!text.is_empty()).then(|| Message::agent(&text, question.mint)))
        }
        ResponderEnd::Failed(error) => TaskCommand::Fail { error },
    }
}
