//! A registry of agents, as Protolink's agents and clients know it: [`agents`] holds who is registered, [`filter`]
//! finds among them, [`routes`] is the handler, [`page`] the page for people. What is registered is in the log; when an
//! agent was last heard of is in memory.

pub(crate) mod agents;
pub(crate) mod filter;
pub(crate) mod page;
pub(crate) mod routes;

pub use agents::Registry;
pub use filter::AgentFilter;
pub use routes::{REGISTRY_ENDPOINTS, RegistryHandler};
