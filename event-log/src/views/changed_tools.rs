//! Tasks in flight that used a tool which is gone since, or takes less.

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
use crate::views::narrowed::narrowed;

/// A tool that a task in flight used, and that is gone since or takes less.
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
/// arguments it narrowed: one row for each task and tool, by task.
///
/// # Errors
/// [`ReadError`] if the log cannot be read.
pub fn changed_tools(reader: &dyn EventReader) -> Result<Vec<ChangedTool>, ReadError> {
    let mut agents: BTreeMap<String, Agent> = BTreeMap::new();
    let mut found = Vec::new();
    for stream in reader.open_work()? {
        let name = stream.agent();
        if !agents.contains_key(&name) {
            agents.insert(name.clone(), Agent::read(reader, &name)?);
        }
        let Some(agent) = agents.get(&name).filter(|agent| agent.history.number() > 1) else { continue };
        let task_state = fold_stream::<Task>(reader, &stream, None)?.state;
        if task_state.state().is_terminal() {
            continue;
        }
        let is_held = task_state.is_held();
        for (tool, epoch) in used_tools(reader, &stream)? {
            let what = agent.change(&tool, epoch);
            found.extend(what.map(|what| ChangedTool { task: stream.clone(), tool, what, is_held }));
        }
    }
    Ok(found)
}

/// Returns the tools that a task has called, each with the epoch of its first intent.
fn used_tools(reader: &dyn EventReader, task: &StreamId) -> Result<BTreeMap<String, u64>, ReadError> {
    let mut used = BTreeMap::new();
    for_each_page_of(reader, task, Version(1), |page| {
        for stored in &page {
            for recorded in decode_record::<TaskEvent>(stored)? {
                if let TaskEvent::Call(CallEvent::Requested(request)) = recorded.event
                    && request.kind == CallKind::Tool
                {
                    used.entry(request.target).or_insert(stored.record.epoch);
                }
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
    Offer::of(definition).ok()?.tools.into_iter().find(|offered| offered.name == tool)
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
