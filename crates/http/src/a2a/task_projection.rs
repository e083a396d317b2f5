//! A task of the log as A2A shows it.

use proto_events::envelope::Timestamp;
use proto_events::json::JsonText;
use proto_events::model::{Artifact, Message};
use proto_events::task::Task as OwnTask;
use taskreel::handler::HandlerEnd;
use taskreel::{TaskSnapshot, Version};

use crate::a2a::mapping::message::{self, MessagePlace, is_agents};
use crate::a2a::mapping::remarks::remark_of;
use crate::a2a::mapping::task::{Own, context_of, state_of_task, to_a2a};
use crate::a2a::model::{self, Task};

/// The parts of a task that are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// The number of the newest messages; `None` is all of them.
    pub(crate) history: Option<usize>,
    /// Whether the artifacts are shown.
    pub(crate) artifacts: bool,
}

impl Extent {
    /// All of a task.
    pub(crate) const ALL: Self = Self { history: None, artifacts: true };
}

/// Returns a task at a version of its stream.
pub(crate) fn show(task: &OwnTask, version: Version, extent: Extent) -> Task {
    shown(task, version, extent, None)
}

fn shown(task: &OwnTask, version: Version, extent: Extent, used: Option<JsonText>) -> Task {
    let messages = task.messages();
    let skipped = extent.history.map_or(0, |shown| messages.len().saturating_sub(shown));
    let artifacts: Option<Vec<&Artifact>> = extent.artifacts.then(|| task.artifacts().iter().collect());
    let shown: Vec<&Message> = messages.iter().skip(skipped).collect();
    to_a2a(&Own {
        id: task.id(),
        state: task.state(),
        messages: shown,
        last: messages.last(),
        artifacts,
        metadata: task.metadata(),
        flow_state: task.flow_state(),
        created_at: task.created_at(),
        shown: Some(state_of_task(task)),
        since: task.history().last().map(|change| time(change.at)),
        generation: Some(version.0),
        used,
        remark: remark_of(task),
        lost: task.lost_calls().count(),
    })
}

/// Returns a task as it is now. One that is over tells what it has used, in our notes: the budget of the asking task pays
/// for it.
pub(crate) fn show_now(snapshot: &TaskSnapshot, extent: Extent) -> Task {
    let used = snapshot.state().is_terminal().then(|| snapshot.used().to_json());
    shown(snapshot.task(), snapshot.version(), extent, used)
}

/// Returns the message with which a handler has answered without a task; `None` if the task is the answer.
pub(crate) fn reply_of(task: &OwnTask) -> Option<model::Message> {
    if HandlerEnd::of_task(task) != Some(HandlerEnd::Replied) {
        return None;
    }
    let said = task.messages().last().filter(|said| is_agents(said.role.as_deref()))?;
    let context = context_of(task.id(), task.metadata());
    let said = message::to_a2a(said, MessagePlace { task: task.id(), context: &context });
    Some(model::Message { task_id: None, ..said })
}

/// Returns a time as A2A writes it: UTC, in milliseconds.
pub(crate) fn time(at: Timestamp) -> String {
    let micros = at.0;
    jiff::Timestamp::from_microsecond(micros)
        .map_or_else(|_| String::new(), |at| at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string())
}
