//! An agent of a running system as its handles know it.

use std::fmt;
use std::sync::Arc;

use crate::agent::card::Agent;
use crate::system::once::OnceKeys;
use crate::system::task_index::SharedTaskIndex;
#[cfg(feature = "mcp")]
use crate::tools::mcp::servers::McpServers;

/// An agent of a running system, and what the system keeps of its tasks in memory.
pub(crate) struct KnownAgent {
    pub(crate) agent: Arc<Agent>,
    /// The keys of runs that were requested once.
    pub(crate) once: OnceKeys,
    /// The tasks by state and session.
    pub(crate) tasks: SharedTaskIndex,
    #[cfg(feature = "mcp")]
    pub(crate) mcp: McpServers,
}

impl fmt::Debug for KnownAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownAgent").field("name", &self.agent.name).finish_non_exhaustive()
    }
}
