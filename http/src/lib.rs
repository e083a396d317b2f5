//! taskreel over HTTP, for hosts that serve: Protolink's wire protocol, a registry of agents, a live API for programs
//! that inspect and control, and a server of its own. A *face* is one of these; each can be mounted in a host's own
//! server.

pub(crate) mod auth;
#[cfg(feature = "client")]
pub(crate) mod client;
pub(crate) mod error;
pub(crate) mod face;
pub mod limits;
pub mod protolink;
pub(crate) mod registry;
pub(crate) mod serve;

pub use auth::caller::{Caller, Scope, Scopes};
pub use error::Problem;
pub use face::actix::actix_scope;
pub use face::body::{BodyError, BodyTimes, RequestBody};
pub use face::connection::{ClientAddress, MountedAt, OverTls, Stopping};
pub use face::message::{Face, Request, Response, ResponseBody, Socket};
pub use face::mounted::Mounted;
pub use face::tower::{FaceBody, FaceService};
pub use protolink::Protolink;
pub use registry::{AgentFilter, REGISTRY_ENDPOINTS, Registry, RegistryFace};
pub use serve::error::ServeError;
pub use serve::running::Serving;
pub use serve::server::{Server, serve};

/// The page on moving from Protolink, whose programs are compiled as the tests of documentation.
#[cfg(doctest)]
#[doc = include_str!("../../docs/protolink.md")]
#[derive(Debug)]
pub struct ProtolinkPage;
