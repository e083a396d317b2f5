//! Protolink's wire protocol: its agents' routes over HTTP, server-sent events and WebSocket.

pub(crate) mod cancel;
pub(crate) mod carry;
pub(crate) mod chat;
pub(crate) mod control;
pub(crate) mod operation;
pub(crate) mod operation_input;
pub(crate) mod pages;
pub(crate) mod routes;
pub(crate) mod socket;
pub(crate) mod stream;
pub(crate) mod tasks;

#[cfg(feature = "client")]
pub use crate::client::{
    BlockingClient, BlockingTaskEvents, Client, ClientError, Credentials, Registration, RegistrationStatus,
    RegistrationWatch, RegistryDirectory, Remote, TaskEventStream, check_url,
};
pub use crate::protolink::routes::Protolink;
