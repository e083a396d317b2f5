//! The server: it binds a port and answers there with handlers, on actix-web's workers; gRPC, which needs trailers, on hyper.

pub(crate) mod error;
#[cfg(feature = "grpc")]
pub(crate) mod grpc;
pub(crate) mod running_server;
pub(crate) mod server;
