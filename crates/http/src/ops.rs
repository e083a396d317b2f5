//! Health and figures of a server, for its operators.

pub(crate) mod health;
pub(crate) mod request_counts;
