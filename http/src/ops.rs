//! Health and figures of a server, for whoever watches over it.

pub(crate) mod health;
pub(crate) mod request_counts;
