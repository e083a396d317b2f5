//! A message of a user that a running task accepted is shown to its model: an inference follows it before the task is
//! completed.

use std::collections::BTreeMap;

use proto_events::call::{CallEvent, CallKind};
use proto_events::decider::Decider;
use proto_events::envelope::RecordedEvent;
use proto_events::id::Position;
use proto_events::model::TaskState;
use proto_events::task::{Task, TaskEvent};

/// The positions at which messages to a model were shown, by their ids.
pub(crate) type Shown = BTreeMap<String, Position>;

/// Returns the faults of a task. `in_sessions` holds the messages of all conversations.
pub(crate) fn faults(events: &[RecordedEvent<TaskEvent>], in_sessions: &Shown) -> Vec<String> {
    let (mut task, mut shown, mut waiting) = (Task::default(), Shown::new(), Vec::new());
    let (mut inferences, mut faults) = (Vec::new(), Vec::new());
    for recorded in events {
        match &recorded.event {
            TaskEvent::MessageAppended(message)
                if task.run().is_some() && message.role.as_deref() == Some("user") =>
            {
                // The id under which the model is shown the message: its task and its place there.
                waiting.push(format!("{}#{}", task.id(), task.messages().len()));
            }
            TaskEvent::InferMessageAppended(message) => {
                shown.entry(message.message.id.clone()).or_insert(recorded.position);
            }
            TaskEvent::Call(CallEvent::Requested(request)) if request.kind == CallKind::Infer => {
                inferences.push(recorded.position);
            }
            TaskEvent::StateChanged { to: TaskState::Completed, .. } => {
                for id in &waiting {
                    let at = shown.get(id).or_else(|| in_sessions.get(id));
                    let follows = |at: &Position| inferences.iter().any(|inference| inference > at);
                    if !at.is_some_and(follows) {
                        faults.push(format!("the task is completed, and no inference was shown `{id}`"));
                    }
                }
            }
            _ => {}
        }
        task.evolve(&recorded.event, &recorded.metadata);
    }
    faults
}
