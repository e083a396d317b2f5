//! Health and figures of a server, for whoever watches over it.

pub(crate) mod counted;
pub(crate) mod health;
