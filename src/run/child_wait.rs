//! The wait for another agent's task that itself waits for a person. The attempt that sent the task ends, as with a
//! question: nothing is in flight, no time passes and no turn is held. When that task has ended the call is sent again,
//! and takes its answer.

use proto_events::call::{Call, CallKind, CallRequested};
use proto_events::id::{Category, StreamId};
use proto_events::json::{JsonObject, JsonText};
use proto_events::task::Task;

/// The key in a task's metadata that names the call which sent it, of another agent of the same system.
const SENT_BY: &str = "taskreel.sent_by";

/// The call of another agent of the same system that sent a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SentBy {
    /// The stream of the call's task.
    pub(crate) task: StreamId,
    pub(crate) call_id: String,
}

impl SentBy {
    /// Names the call in the metadata of the task that it sends.
    pub(crate) fn note_in(&self, metadata: &mut JsonObject) {
        let mut fields = JsonObject::new();
        fields.set("task", JsonText::string(self.task.as_str()));
        fields.set("call_id", JsonText::string(&self.call_id));
        metadata.set(SENT_BY, fields.to_text());
    }

    /// Returns the call that the metadata of a task name.
    pub(crate) fn named_in(metadata: &JsonObject) -> Option<Self> {
        let fields: JsonObject = metadata.get(SENT_BY)?.read().ok()?;
        let task = StreamId::parse(&fields.get("task")?.to_str()?).ok()?;
        if task.category() != Some(Category::Task) {
            return None;
        }
        Some(Self { task, call_id: fields.get("call_id")?.to_str()? })
    }
}

/// Returns the stream of the task that a call sends to another agent of the same system.
pub(crate) fn child_of(request: &CallRequested) -> Option<StreamId> {
    if request.kind != CallKind::Delegate {
        return None;
    }
    let args: JsonObject = request.args.read().ok()?;
    let task: JsonObject = args.get("task")?.read().ok()?;
    // The task of an agent elsewhere is in no stream of this log.
    SentBy::named_in(&task.get("metadata")?.read().ok()?)?;
    StreamId::task(&request.target, &task.get("id")?.to_str()?).ok()
}

/// Returns the words with which an attempt ends because the task that it sent waits for a person.
pub(crate) fn waits_for(request: &CallRequested) -> String {
    let child = child_of(request).map(|child| child.to_string()).unwrap_or_default();
    format!(
        "The task {child}, which the agent '{}' was asked for, waits for a person. This task goes on when that one has \
         ended.",
        request.target
    )
}

/// Returns the task of another agent for which a call waits: its own, or that of a call which it asked for.
pub(crate) fn awaited_child(task: &Task, call: &Call) -> Option<StreamId> {
    let asked = call.open_question()?;
    if call.request.kind == CallKind::Delegate {
        return child_of(&call.request);
    }
    let mut own = task.calls().children(&call.request.call_id);
    let waits = |own: &&Call| own.request.kind == CallKind::Delegate && own.open_question() == Some(asked);
    child_of(&own.find(waits)?.request)
}

/// Returns the calls that wait for another agent's task, each with that task.
pub(crate) fn waiting(task: &Task) -> impl Iterator<Item = (&Call, StreamId)> {
    let of_agents = task.open_questions().filter(|call| call.request.kind == CallKind::Delegate);
    of_agents.filter_map(|call| Some((call, child_of(&call.request)?)))
}

/// Returns the words with which attempts of the calls that this one asked for had ended, because of other agents' tasks.
pub(crate) fn waited_for(task: &Task, call_id: &str) -> Vec<String> {
    let own = task.calls().children(call_id).filter(|own| own.request.kind == CallKind::Delegate);
    own.flat_map(|own| own.questions.iter().map(|asked| asked.question.clone())).collect()
}
