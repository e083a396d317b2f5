//! Explains what recovery would do with each open call of a task if its process had died after a given
//! version. It calls the function that recovery calls ([`resume`]) on the fold that recovery would find.

use proto_events::call::recovery::{Moment, Next, resume};
use proto_events::call::{Call, CallEvent};
use proto_events::definition::AgentHistory;
use proto_events::envelope::Timestamp;
use proto_events::flow::FlowRun;
use proto_events::id::{Category, StreamId, Version};
use proto_events::model::TaskState;
use proto_events::registry::RegistryState;
use proto_events::session::Session;
use proto_events::system::SystemHistory;
use proto_events::task::Task;
use proto_events::tool_store::ToolStore;

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::audit::words;
use crate::read::fold::fold_stream;

/// The result of recovering a task, a session or a tool's state.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RecoveryExplanation {
    /// The version after which the process died: the end of the append that holds the requested version.
    pub version: Version,
    /// The first and last version of that append: its events are on disk together or not at all.
    pub append: (Version, Version),
    /// The state to recover.
    pub explanation: Explanation,
}

/// The state that recovery finds.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Explanation {
    /// A task.
    Task {
        /// The state in the task's lifecycle. Only a `working` task resumes by itself.
        state: TaskState,
        /// The open calls, in the order in which recovery handles them.
        calls: Vec<CallRecovery>,
    },
    /// A session.
    Session {
        /// The stream of the task that owns the open turn, if there is one. That task ends the turn; a
        /// session makes no calls.
        turn_of: Option<String>,
    },
    /// A tool's state. It is written together with the success of a call or not at all, so there is nothing
    /// to recover.
    Tool {
        /// The number of keys.
        keys: usize,
    },
    /// The programs of a partition: recovery adds the next start.
    System {
        /// Whether the last program had not ended in order.
        is_running: bool,
    },
    /// A registry: it holds what was registered, and nothing of it is open.
    Registry {
        /// The number of agents that are registered.
        agents: usize,
    },
    /// An agent's definition: the next start adds a revision if it differs.
    Agent {
        /// The number of the newest revision.
        revision: u32,
    },
    /// A run's flow state: there is nothing to recover.
    Flow {
        /// Whether the run has a checkpoint.
        has_checkpoint: bool,
    },
}

/// The recovery of one open call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CallRecovery {
    /// The call as the log has it.
    pub call: Call,
    /// The events that would be appended. Empty if the task does not resume, or if the next event depends on
    /// what the tool's probe returns.
    pub events: Vec<CallEvent>,
    /// The recovery in words.
    pub words: String,
}

/// Explains what recovery would do if the process had died once the event of this version was on disk.
///
/// # Errors
/// [`ReadError`] if the stream cannot be read.
pub fn explain(
    reader: &dyn EventReader,
    stream: &StreamId,
    at: Version,
) -> Result<RecoveryExplanation, ReadError> {
    explain_with(reader, stream, at, &|version| Ok(fold_stream::<Task>(reader, stream, Some(version))?.state))
}

/// Explains as [`explain`] does, and takes the state of a task from its holder.
///
/// # Errors
/// [`ReadError`] if the stream cannot be read, or the error of `task_at`.
pub fn explain_with(
    reader: &dyn EventReader,
    stream: &StreamId,
    at: Version,
    task_at: &dyn Fn(Version) -> Result<Task, ReadError>,
) -> Result<RecoveryExplanation, ReadError> {
    let page = reader.read_stream(stream, at, 1)?;
    let append =
        page.first().map_or((at, at), |stored| (stored.record.first_version, stored.record.last_version()));
    let version = append.1;
    // Assumes that the next process starts at once: timeouts are judged at the time of this append.
    let died = page.first().map(|stored| stored.record.metadata.at).unwrap_or_default();
    let explanation = match stream.category() {
        Some(Category::Session) => {
            let session = fold_stream::<Session>(reader, stream, Some(version))?.state;
            Explanation::Session { turn_of: session.open_turn().map(|open| open.task.clone()) }
        }
        Some(Category::Tool) => {
            let store = fold_stream::<ToolStore>(reader, stream, Some(version))?.state;
            Explanation::Tool { keys: store.len() }
        }
        Some(Category::System) => {
            let system = fold_stream::<SystemHistory>(reader, stream, Some(version))?.state;
            Explanation::System { is_running: system.is_running() }
        }
        Some(Category::Agent) => {
            let agent = fold_stream::<AgentHistory>(reader, stream, Some(version))?.state;
            Explanation::Agent { revision: agent.number() }
        }
        Some(Category::Flow) => {
            let run = fold_stream::<FlowRun>(reader, stream, Some(version))?.state;
            Explanation::Flow { has_checkpoint: run.checkpoint().is_some() }
        }
        Some(Category::Registry) => {
            let registry = fold_stream::<RegistryState>(reader, stream, Some(version))?.state;
            Explanation::Registry { agents: registry.len() }
        }
        Some(Category::Task) | None => {
            let task = task_at(version)?;
            Explanation::Task {
                state: task.state(),
                calls: task.calls().open().map(|call| recovery(&task, call, died)).collect(),
            }
        }
    };
    Ok(RecoveryExplanation { version, append, explanation })
}

fn recovery(task: &Task, call: &Call, at: Timestamp) -> CallRecovery {
    // The next process has a higher epoch than any in the log; the words do not depend on its value.
    let moment = Moment::new(call.epoch.saturating_add(1), at);
    let command = task.run().filter(|_| !task.is_held()).and_then(|_| resume(call, moment));
    let (events, words) = match command {
        None if task.waits_for_agent(call) => {
            (Vec::new(), words::agent_step(call.open_question().unwrap_or_default()))
        }
        None if call.open_question().is_some() => {
            (Vec::new(), words::question_step(call.open_question().unwrap_or_default()))
        }
        None if task.is_held() => (Vec::new(), words::held_step(task).unwrap_or_default()),
        Some(Next::Write(_) | Next::Wait { .. } | Next::Probe { .. })
            if call.request.origin.parent.is_some() =>
        {
            let parent = call.request.origin.parent.as_ref();
            (Vec::new(), parent.map(words::parent_step).unwrap_or_default())
        }
        None => (Vec::new(), format!("no action, because the task is {}", task.state())),
        Some(Next::Probe { why }) => (Vec::new(), words::probe_step(&why)),
        Some(Next::Wait { until, .. }) => (Vec::new(), words::wait_step(until)),
        Some(Next::Write(command)) => {
            let events = task.calls().decide(command, task.state().is_terminal()).unwrap_or_default();
            let words = words::own_event(&events, call)
                .map_or_else(String::new, |event| words::recovery_step(event, &call.request));
            (events, words)
        }
    };
    CallRecovery { call: call.clone(), events, words }
}
