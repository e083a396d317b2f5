//! The log of the system that runs a call, for the library's own tools: a host's tool is given no log.

use std::fmt;
use std::sync::Arc;

use taskreel_log::api::EventStore;

/// The log of the system that runs a call, and the name of the agent whose call it is.
#[derive(Clone)]
pub(crate) struct LogOfCall {
    pub(crate) log: Arc<dyn EventStore>,
    pub(crate) agent: String,
}

impl fmt::Debug for LogOfCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogOfCall").field("agent", &self.agent).finish_non_exhaustive()
    }
}
