//! The server: it binds a port and answers there with faces, on actix-web's workers.

pub(crate) mod error;
pub(crate) mod running;
pub(crate) mod server;
