//! The owner of a task, read from the record with which its stream begins: whether somebody may see a task is known before the
//! rest of it is read.

use proto_events::envelope::{Metadata, Principal};
use proto_events::id::{StreamId, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::PostedTask;
use proto_events::task::TaskEvent;

use crate::api::error::ReadError;
use crate::api::page::Page;
use crate::api::reader::EventReader;
use crate::read::fold::decode_record;

/// The session and the principal of a task, by which others may or may not see its artifacts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskOwner {
    /// The id of the session: the one that the task names, else the task's own.
    pub session_id: String,
    /// The principal that submitted the task.
    pub principal: Principal,
}

impl TaskOwner {
    /// Returns the owner of a task from what was posted, and from the metadata of the event.
    pub(crate) fn new(posted: &PostedTask, metadata: &Metadata) -> Self {
        let session_id = session_in(&posted.metadata).unwrap_or_else(|| posted.id.clone());
        Self { session_id, principal: metadata.principal.clone() }
    }
}

/// Returns the owner with which a task was submitted; `None` if the task does not exist. One record is read.
///
/// # Errors
/// [`ReadError`] if that record cannot be read.
pub fn task_owner(reader: &dyn EventReader, task: &StreamId) -> Result<Option<TaskOwner>, ReadError> {
    for stored in reader.page_stream(task, Version(1), Page::with_limit(1))? {
        for recorded in decode_record::<TaskEvent>(&stored)? {
            if let TaskEvent::Submitted(posted) = recorded.event {
                return Ok(Some(TaskOwner::new(&posted, &recorded.metadata)));
            }
        }
    }
    Ok(None)
}

/// Returns the id of the session that metadata names.
pub(crate) fn session_in(metadata: &JsonObject) -> Option<String> {
    metadata.get("session_id").and_then(JsonText::to_str).filter(|id| !id.is_empty())
}
