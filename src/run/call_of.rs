//! The description of a call's task for its code: session, metadata, principal, run.

use proto_events::envelope::Principal;
use proto_events::json::JsonObject;
use proto_events::task::Task;

use crate::run::steps::session_id;

/// The task of a call, as its code is shown it.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallOf {
    pub(crate) session_id: String,
    pub(crate) metadata: JsonObject,
    pub(crate) principal: Principal,
    /// The number of the run, from 1.
    pub(crate) run: u32,
}

impl CallOf {
    /// Describes the task of a call in its current run.
    pub(crate) fn from_task(task: &Task) -> Self {
        Self {
            session_id: session_id(task),
            metadata: task.metadata().clone(),
            principal: task.principal().clone(),
            run: task.runs(),
        }
    }
}
