//! taskreel over HTTP, for hosts that serve: Protolink's wire protocol, a registry of agents, a live API for programs
//! that inspect and control, and a server of its own. A *face* is one of these; each can be mounted in a host's own
//! server.

pub(crate) mod api;
pub(crate) mod auth;
pub(crate) mod error;
pub(crate) mod face;
pub mod limits;

pub use api::LiveApi;
#[cfg(feature = "client")]
pub use api::client::{HttpLog, about::LogAbout, error::HttpLogError, follower::{HttpFollowed, HttpFollower}};
pub use auth::caller::{Caller, Scope, Scopes};
pub use error::Problem;
pub use face::body::{BodyError, RequestBody};
pub use face::message::{Face, Request, Response, ResponseBody, Socket};
