//! A revision of the agent's definition, as it is in force.

use std::sync::Arc;

use proto_events::id::Digest;

/// A revision of the agent's definition that tasks are decided with, and what a model is shown of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Revision {
    /// The number of the revision, from 1; 0 before the agent's start is recorded.
    pub number: u32,
    /// The leaf hash of the record that holds the revision.
    pub record: Digest,
    /// The system prompt, without what a task adds.
    pub system: Arc<str>,
}
