//! taskreel over HTTP, for hosts that serve: Protolink's wire protocol, a registry of agents, a live API for programs
//! that inspect and control, and a server of its own. A *handler* is one of these; each can be mounted in a host's own
//! server.

#[cfg(feature = "a2a")]
pub mod a2a;
pub(crate) mod api;
pub(crate) mod auth;
#[cfg(feature = "client")]
pub(crate) mod client;
pub(crate) mod error;
pub(crate) mod handler;
#[cfg(feature = "inspector")]
pub(crate) mod inspect;
pub mod limits;
pub(crate) mod ops;
pub mod protolink;
pub(crate) mod registry;
pub(crate) mod serve;
#[cfg(feature = "tls")]
pub(crate) mod tls;

#[cfg(feature = "grpc")]
pub use a2a::grpc::handler::A2aGrpc;
#[cfg(feature = "a2a")]
pub use a2a::handler::A2a;
pub use api::LiveApi;
#[cfg(feature = "client")]
pub use api::client::{
    HttpLog,
    about::LogAbout,
    error::HttpLogError,
    follower::{HttpFollowed, HttpFollower},
};
pub use auth::access::{Access, AccessError};
pub use auth::caller::{Caller, Scope, Scopes};
pub use auth::config::FORMAT as AUTH_FILE_FORMAT;
pub use auth::guard::Guard;
pub use auth::quota::Quota;
pub use auth::refusals::{Refusal, Refusals};
pub use auth::routes::{Need, RouteClass, Rule, rule_of, scope_of};
pub use error::Problem;
pub use handler::actix::actix_scope;
pub use handler::body::{BodyError, BodyTimes, RequestBody};
pub use handler::connection::{ClientAddress, MountedAt, OverTls, StopSignal};
pub use handler::message::{HttpHandler, Request, Response, ResponseBody, Socket};
pub use handler::mounts::Mounted;
pub use handler::tower::{HandlerBody, HandlerService};
#[cfg(feature = "inspector")]
pub use inspect::{
    Inspector,
    address::inspector_address,
    control::ControlBackend,
    report::report_writer::{ReportError, ReportOptions, ReportSummary},
    report::write_report,
    source::{HeadFile, InspectedLog},
};
pub use ops::health::Ops;
pub use ops::request_counts::{CountedHandler, Requests};
pub use protolink::Protolink;
pub use registry::{AgentFilter, REGISTRY_ENDPOINTS, Registry, RegistryHandler};
pub use serve::error::ServeError;
pub use serve::running_server::RunningServer;
pub use serve::server::{Server, serve};
#[cfg(feature = "tls")]
pub use tls::{TlsError, server_config};

/// The page on moving from Protolink, whose programs are compiled as the tests of documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/protolink.md")]
#[derive(Debug)]
pub struct ProtolinkPage;

/// The page on A2A, whose programs are compiled, and run where that needs nobody else, as the tests of documentation.
#[cfg(all(doctest, feature = "a2a", feature = "client", feature = "grpc"))]
#[doc = include_str!("../../../docs/a2a.md")]
#[derive(Debug)]
pub struct A2aPage;
