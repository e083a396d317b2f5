//! A task as lists show it, and the conditions on listed tasks.

use proto_events::envelope::{Principal, Timestamp};
use proto_events::id::{Position, Version};
use proto_events::model::TaskState;

use crate::system::task_order::NamedEnd;

/// A task as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskInfo {
    /// The task's id.
    pub id: String,
    /// The conversation that the task names.
    pub session_id: Option<String>,
    /// The run of the task, once it has begun.
    pub run_id: Option<String>,
    /// The lifecycle state.
    pub state: TaskState,
    /// The time of the last change of the state.
    pub since: Timestamp,
    /// The number of events in the task's stream.
    pub version: Version,
    /// The position of the task's first event in the log: tasks are listed in this order.
    pub submitted_at: Position,
}

/// The conditions on listed tasks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conditions {
    pub(crate) states: Vec<TaskState>,
    pub(crate) session: Option<String>,
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    pub(crate) run: Option<String>,
    pub(crate) conversation: Option<String>,
    pub(crate) submitted_by: Option<Principal>,
    pub(crate) is_rejected: Option<bool>,
    pub(crate) needs_auth: Option<bool>,
    pub(crate) is_reply: Option<bool>,
    /// Whether tasks that left the state by a reset are left out.
    pub(crate) is_of_state: bool,
    pub(crate) after: Position,
}

impl Conditions {
    /// Whether they hold for a task that this principal has submitted.
    pub(crate) fn hold_for(&self, info: &TaskInfo, by: &Principal, named: NamedEnd, is_reset: bool) -> bool {
        !(self.is_of_state && is_reset)
            && self.submitted_by.as_ref().is_none_or(|wanted| by == wanted)
            && self.hold_for_named(info.state, named)
            && self.hold_for_info(info)
    }

    /// Whether those on the state hold.
    pub(crate) fn hold_for_named(&self, state: TaskState, named: NamedEnd) -> bool {
        (self.states.is_empty() || self.states.contains(&state))
            && self.is_rejected.is_none_or(|wanted| (named == NamedEnd::Rejected) == wanted)
            && self.needs_auth.is_none_or(|wanted| (named == NamedEnd::AuthRequired) == wanted)
            && self.is_reply.is_none_or(|wanted| (named == NamedEnd::Replied) == wanted)
    }

    /// Whether the groups of the order answer all conditions but that on the time from which on.
    pub(crate) fn is_grouped(&self) -> bool {
        !self.is_of_state
            && self.session.is_none()
            && self.until.is_none()
            && self.run.is_none()
            && self.conversation.is_none()
    }

    fn hold_for_info(&self, info: &TaskInfo) -> bool {
        self.session.as_ref().is_none_or(|wanted| info.session_id.as_ref() == Some(wanted))
            && self.since.is_none_or(|since| info.since >= since)
            && self.until.is_none_or(|until| info.since <= until)
            && self.run.as_ref().is_none_or(|wanted| info.run_id.as_ref() == Some(wanted))
            && self
                .conversation
                .as_ref()
                .is_none_or(|wanted| info.session_id.as_ref().unwrap_or(&info.id) == wanted)
    }
}
