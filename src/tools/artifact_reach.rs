//! The rule of a host about which artifacts a call may see beyond its own reach.

use proto_events::id::StreamId;
use taskreel_log::views::TaskOwner;

use crate::tools::tool::ToolContext;

/// A rule that lets a call see artifacts of tasks beyond its own reach.
///
/// The tools reach the task of the call, the tasks of its session that the same principal submitted, and the tasks that its
/// task created at other agents in the same log. For any other task of the agent, and for a task that is named by its
/// stream (`task-<agent>/<id>`), this rule is asked, before more of the task is read than the record with which it
/// begins. An artifact that it does not allow answers as one that does not exist.
pub trait ArtifactReach: Send + Sync + 'static {
    /// Whether a call may see the artifacts of a task that has this owner.
    fn may_see(&self, call: &ToolContext, task: &StreamId, owner: &TaskOwner) -> bool;
}

impl<F: Fn(&ToolContext, &StreamId, &TaskOwner) -> bool + Send + Sync + 'static> ArtifactReach for F {
    fn may_see(&self, call: &ToolContext, task: &StreamId, owner: &TaskOwner) -> bool {
        self(call, task, owner)
    }
}
