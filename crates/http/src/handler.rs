//! The ground of every handler: requests, responses and bodies of the crate `http`, whatever server carries them.

pub(crate) mod actix;
pub(crate) mod body;
pub(crate) mod connection;
pub(crate) mod json;
pub(crate) mod message;
pub(crate) mod mounts;
pub(crate) mod path;
pub(crate) mod respond;
pub(crate) mod sse;
pub(crate) mod time;
pub(crate) mod tower;
pub(crate) mod trailers;
pub(crate) mod websocket;
