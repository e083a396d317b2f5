//! The union of the events of all categories.

use crate::codec::error::{CodecError, UNKNOWN_CATEGORY};
use crate::codec::storable::Storable;
use crate::definition::AgentEvent;
use crate::id::Category;
use crate::registry::RegistryEvent;
use crate::session::event::SessionEvent;
use crate::system::SystemEvent;
use crate::task::event::TaskEvent;
use crate::tool_store::event::ToolStoreEvent;

/// An event of any stream, for readers of a whole log.
#[derive(Debug, Clone, PartialEq)]
pub enum AnyEvent {
    /// An event of a task.
    Task(TaskEvent),
    /// An event of a session.
    Session(SessionEvent),
    /// An event of a tool's store.
    Tool(ToolStoreEvent),
    /// An event of the programs that write to a partition.
    System(SystemEvent),
    /// An event of an agent's definition.
    Agent(AgentEvent),
    /// An event of a registry.
    Registry(RegistryEvent),
}

impl AnyEvent {
    /// Decodes an event of a stream of this category.
    ///
    /// # Errors
    /// [`CodecError`] as in [`Storable::decode`]; for an unknown category (`None`) always
    /// [`CodecError::UnknownKind`].
    pub fn decode(
        category: Option<Category>,
        kind: u16,
        schema: u8,
        body: &[u8],
    ) -> Result<Self, CodecError> {
        match category {
            Some(Category::Task) => TaskEvent::decode(kind, schema, body).map(Self::Task),
            Some(Category::Session) => SessionEvent::decode(kind, schema, body).map(Self::Session),
            Some(Category::Tool) => ToolStoreEvent::decode(kind, schema, body).map(Self::Tool),
            Some(Category::System) => SystemEvent::decode(kind, schema, body).map(Self::System),
            Some(Category::Agent) => AgentEvent::decode(kind, schema, body).map(Self::Agent),
            Some(Category::Registry) => RegistryEvent::decode(kind, schema, body).map(Self::Registry),
            None => Err(CodecError::UnknownKind { kind, category: UNKNOWN_CATEGORY }),
        }
    }
}
