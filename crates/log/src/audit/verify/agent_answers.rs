//! Checks the answers of other agents of the same program: the final state that an answer names is that of its task.
//!
//! Only a program that runs alone, and that intended the request itself, is held to that: a later one may have another agent
//! under the name, elsewhere, whose task is in no stream of this log.

use std::collections::HashMap;

use proto_events::call::{CallKind, CallRequested};
use proto_events::id::StreamId;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::TaskState;

use crate::audit::verify::streams::CheckedStreams;

/// The key in a task's metadata that names the call which sent it, of another agent of the same system.
const SENT_BY: &str = "taskreel.sent_by";

/// The requests to other agents that the newest program has intended, by their tasks and ids, each with the task that it
/// sends.
#[derive(Default)]
pub(crate) struct DelegatedCheck(HashMap<(StreamId, String), StreamId>);

impl DelegatedCheck {
    /// Forgets the requests: another program has begun.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    /// Takes an intent of this task whose target is an agent of the only program.
    pub(crate) fn intended(&mut self, task: &StreamId, request: &CallRequested) {
        if let Some(child) = child_of(task, request) {
            self.0.insert((task.clone(), request.call_id.clone()), child);
        }
    }

    /// Takes the success of a call of this task and returns its fault: a task that is over stays as it is, so that it was
    /// over before its end was told.
    pub(crate) fn answered(
        &mut self,
        task: &StreamId,
        (call_id, result): (&str, &JsonText),
        streams: &CheckedStreams<'_>,
    ) -> Option<String> {
        let child = self.0.remove(&(task.clone(), call_id.to_owned()))?;
        let fields: JsonObject = result.read().ok()?;
        let state: TaskState = fields.get("state")?.to_str()?.parse().ok()?;
        let known = streams.end_of_stream(&child).and_then(|end| end.state);
        if !state.is_terminal() || known == Some(state) {
            return None;
        }
        let is = known.map_or_else(|| "does not exist".to_owned(), |known| format!("is {known}"));
        Some(format!("call `{call_id}` was answered by a task that is {state}, but {child} {is}"))
    }
}

/// Returns the stream of the task that a call sends to another agent of the same system. That task names the call, whose id
/// no caller knows before: what a caller says in its metadata is not taken for it.
fn child_of(task: &StreamId, request: &CallRequested) -> Option<StreamId> {
    if request.kind != CallKind::Delegate {
        return None;
    }
    let args: JsonObject = request.args.read().ok()?;
    let sent: JsonObject = args.get("task")?.read().ok()?;
    let metadata: JsonObject = sent.get("metadata")?.read().ok()?;
    let sender: JsonObject = metadata.get(SENT_BY)?.read().ok()?;
    let says = |key: &str| sender.get(key).and_then(JsonText::to_str);
    let is_this = says("task")? == task.as_str() && says("call_id")? == request.call_id;
    let id = sent.get("id")?.to_str()?;
    is_this.then(|| StreamId::task(&request.target, &id).ok()).flatten()
}
