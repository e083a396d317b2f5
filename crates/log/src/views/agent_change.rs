//! The change of the definition of a task's agent since the task's run last went on.

use std::ops::ControlFlow;

use proto_events::call::CallEvent;
use proto_events::definition::{AgentEvent, AgentHistory};
use proto_events::id::{Position, StreamId, Version};
use proto_events::task::{AgentChange, TaskEvent};

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
use crate::read::{decode_record, fold_stream};

/// Returns the change of the definition of a task's agent since the task's run last went on by itself, in an epoch before
/// this one. `None` if the newest definition is equal to the one in force then, or the run has gone on in this epoch.
///
/// # Errors
/// [`ReadError`] if the log cannot be read.
pub fn agent_change(
    reader: &dyn EventReader,
    task: &StreamId,
    epoch: u64,
) -> Result<Option<AgentChange>, ReadError> {
    let Ok(agent) = StreamId::of_agent(&task.agent()) else { return Ok(None) };
    if reader.stream_version(&agent)? <= Version(1) {
        return Ok(None);
    }
    let Some((went_on, in_epoch)) = last_progress(reader, task)? else { return Ok(None) };
    if in_epoch >= epoch {
        return Ok(None);
    }
    let history = fold_stream::<AgentHistory>(reader, &agent, None)?.state;
    let from = revision_before(reader, &agent, went_on)?;
    let change = AgentChange { from, to: history.number() };
    Ok((history.revision(from) != history.newest()).then_some(change))
}

/// Returns the position and the epoch of the last record in which the task's run went on.
fn last_progress(reader: &dyn EventReader, task: &StreamId) -> Result<Option<(Position, u64)>, ReadError> {
    let mut last = None;
    for_each_page_of(reader, task, Version(1), |page| {
        for stored in &page {
            if decode_record::<TaskEvent>(stored)?.iter().any(|recorded| is_progress(&recorded.event)) {
                last = Some((stored.position, stored.record.epoch));
            }
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })?;
    Ok(last)
}

/// Whether the run itself went on with this event, as against what callers and persons add from outside.
fn is_progress(event: &TaskEvent) -> bool {
    match event {
        TaskEvent::Submitted(_) | TaskEvent::StateChanged { .. } | TaskEvent::InferMessageAppended(_) => true,
        TaskEvent::ArtifactAppended { part, .. } => part.is_some(),
        TaskEvent::ApprovalRequested(asked) => asked.changed_agent().is_none(),
        TaskEvent::Call(event) => !matches!(
            event,
            CallEvent::Reconciled { .. }
                | CallEvent::Abandoned { .. }
                | CallEvent::Answered { .. }
                | CallEvent::LateResultIgnored { .. }
        ),
        TaskEvent::PostedAgain { .. }
        | TaskEvent::MessageAppended(_)
        | TaskEvent::ArtifactPartAppended { .. }
        | TaskEvent::MetadataMerged(_)
        | TaskEvent::CancelRequested { .. }
        | TaskEvent::Webhook(_)
        | TaskEvent::ApprovalDecided(_) => false,
    }
}

/// Returns the number of the revision that was in force at a position; 0 before the first.
fn revision_before(reader: &dyn EventReader, agent: &StreamId, at: Position) -> Result<u32, ReadError> {
    let mut in_force = 0;
    for_each_page_of(reader, agent, Version(1), |page| {
        for stored in &page {
            if stored.position > at {
                return Ok(ControlFlow::Break(()));
            }
            for recorded in decode_record::<AgentEvent>(stored)? {
                let AgentEvent::Revised(revised) = recorded.event;
                in_force = revised.number;
            }
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })?;
    Ok(in_force)
}
