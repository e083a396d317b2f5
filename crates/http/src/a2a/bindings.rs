//! The bindings over HTTP: JSON-RPC ([`rpc`]) and REST ([`rest`]), both in 1.0 and in 0.3, on one address ([`route`]).

pub(crate) mod request;
pub(crate) mod rest;
pub(crate) mod route;
pub(crate) mod rpc;
