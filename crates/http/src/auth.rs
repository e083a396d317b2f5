//! Callers, and their rights: credentials, scopes, the host and the origin of a request, and bounds for each
//! principal. [`guard::Guard`] puts all of it before a handler.

pub(crate) mod access;
pub(crate) mod allowance;
pub(crate) mod caller;
pub(crate) mod config;
pub(crate) mod guard;
pub(crate) mod jwks;
#[cfg(feature = "client")]
pub(crate) mod jwks_fetch;
pub(crate) mod owner;
pub(crate) mod places;
pub(crate) mod presented_secret;
pub(crate) mod quota;
pub(crate) mod refusals;
pub(crate) mod response_permits;
pub(crate) mod routes;
pub(crate) mod secret;
pub(crate) mod signed_tokens;
