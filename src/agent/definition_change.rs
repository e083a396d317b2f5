//! The rule for tasks that are under way when the agent's definition has changed between two starts.

/// The rule for a task under way whose agent has changed since the task's run last went on, see
/// [`Builder::on_changed_agent`](crate::Builder::on_changed_agent).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ChangedAgent {
    /// The task goes on under the newest definition.
    #[default]
    Follow,
    /// The task waits, as it is, for a person: nothing of it is sent before somebody approves the change.
    WaitForPerson,
}
