//! Tasks in flight that used a tool which is gone since, or takes less, or that wait for the approval of a call of it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use proto_events::call::{CallEvent, CallKind};
use proto_events::definition::{AgentHistory, Definition};
use proto_events::id::{StreamId, Version};
use proto_events::system::SystemEvent;
use proto_events::task::{Task, TaskEvent};

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
use crate::read::{decode_record, fold_stream};
use crate::shown::{Offer, OfferedTool};
use crate::views::readable::Readable;
use crate::views::schema_change::narrowed;

/// A tool that a task in flight used or waits to use, and that is gone since or takes less.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangedTool {
    /// The task's stream.
    pub task: StreamId,
    /// The tool's name.
    pub tool: String,
    /// The change, in words.
    pub what: String,
    /// Whether the task waits for a person to accept the changed agent.
    pub is_held: bool,
}

/// Returns the tools that tasks in flight used, and that the newest revision of their agent does not have or whose
/// arguments it narrowed: one row for each task and tool, by task. Tasks that a newer release wrote are left out and named.
///
/// # Errors
/// [`ReadError`] if the log cannot be read.
pub fn changed_tools(reader: &dyn EventReader) -> Result<Readable<ChangedTool>, ReadError> {
    changed_tools_of(reader, &reader.open_work()?)
}

/// Returns the changed tools of these tasks, as [`changed_tools`] does: also those that a call needs which waits for
/// approval.
pub(crate) fn changed_tools_of(
    reader: &dyn EventReader,
    tasks: &[StreamId],
) -> Result<Readable<ChangedTool>, ReadError> {
    let mut agents: BTreeMap<String, Option<Agent>> = BTreeMap::new();
    let mut found = Readable::default();
    for stream in tasks {
        let name = stream.agent();
        if !agents.contains_key(&name) {
            let agent = readable(Agent::read(reader, &name), &mut found.newer)?;
            agents.insert(name.clone(), agent);
        }
        let agent = agents.get(&name).and_then(Option::as_ref);
        let Some(agent) = agent.filter(|agent| agent.history.number() > 1) else { continue };
        let changed = changed_in(reader, stream, agent);
        found.rows.extend(readable(changed, &mut found.newer)?.unwrap_or_default());
    }
    Ok(found)
}

/// Takes what could be read, and notes what a newer release wrote.
fn readable<T>(read: Result<T, ReadError>, newer: &mut Vec<ReadError>) -> Result<Option<T>, ReadError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error @ ReadError::Newer { .. }) => {
            newer.push(error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn changed_in(
    reader: &dyn EventReader,
    stream: &StreamId,
    agent: &Agent,
) -> Result<Vec<ChangedTool>, ReadError> {
    let task = fold_stream::<Task>(reader, stream, None)?.state;
    if task.state().is_terminal() {
        return Ok(Vec::new());
    }
    let used = used_tools(reader, stream, &task)?;
    let changed = used.into_iter().filter_map(|(tool, epoch)| {
        let what = agent.change(&tool, epoch)?;
        Some(ChangedTool { task: stream.clone(), tool, what, is_held: task.is_held() })
    });
    Ok(changed.collect())
}

/// Returns the tools that a task has called, or that a call needs which waits for approval, each with the epoch of its first
/// intent or request.
fn used_tools(
    reader: &dyn EventReader,
    stream: &StreamId,
    task: &Task,
) -> Result<BTreeMap<String, u64>, ReadError> {
    let is_awaited = |id: &str| task.awaited_approvals().any(|approval| approval.request.approval_id == id);
    let mut used = BTreeMap::new();
    for_each_page_of(reader, stream, Version(1), |page| {
        for stored in &page {
            for recorded in decode_record::<TaskEvent>(stored)? {
                let tool = match recorded.event {
                    TaskEvent::Call(CallEvent::Requested(request)) if request.kind == CallKind::Tool => {
                        request.target
                    }
                    TaskEvent::ApprovalRequested(asked) if is_awaited(&asked.approval_id) => asked.tool,
                    _ => continue,
                };
                used.entry(tool).or_insert(stored.record.epoch);
            }
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })?;
    Ok(used)
}

/// The definitions of an agent, and the epochs in which they came into force.
struct Agent {
    history: AgentHistory,
    /// The epoch and the revision of each start, in order.
    starts: Vec<(u64, u32)>,
}

impl Agent {
    fn read(reader: &dyn EventReader, name: &str) -> Result<Self, ReadError> {
        let history = match StreamId::of_agent(name) {
            Ok(stream) => fold_stream::<AgentHistory>(reader, &stream, None)?.state,
            Err(_) => AgentHistory::default(),
        };
        let mut starts = Vec::new();
        if history.number() > 1 {
            for_each_start(reader, |epoch, agent, number| {
                if agent == name {
                    starts.push((epoch, number));
                }
            })?;
        }
        Ok(Self { history, starts })
    }

    /// Returns what changed of a tool since a call was intended in this epoch.
    fn change(&self, tool: &str, epoch: u64) -> Option<String> {
        let then = self.starts.iter().rev().find(|(start, _)| *start <= epoch)?.1;
        let before = offered(self.history.revision(then)?, tool)?;
        match offered(self.history.newest()?, tool) {
            None => Some("it is gone".to_owned()),
            Some(now) => narrowed(&before.input_schema, &now.input_schema),
        }
    }
}

fn offered(definition: &Definition, tool: &str) -> Option<OfferedTool> {
    Offer::from_definition(definition).ok()?.tools.into_iter().find(|offered| offered.name == tool)
}

/// Shows the epoch, the agent and the revision of each start of the log.
fn for_each_start(reader: &dyn EventReader, mut show: impl FnMut(u64, &str, u32)) -> Result<(), ReadError> {
    for_each_page_of(reader, &StreamId::of_system(0), Version(1), |page| {
        for stored in &page {
            for recorded in decode_record::<SystemEvent>(stored)? {
                if let SystemEvent::Started(started) = recorded.event {
                    started.agents.iter().for_each(|agent| show(started.epoch, &agent.name, agent.number));
                }
            }
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })
}
