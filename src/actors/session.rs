//! The actor of a session. [`core`] hands the session's turn to one task after another, without waiting for anything; [`actor`]
//! carries messages in, reads and appends where that is needed, and performs what comes out.

pub(crate) mod actor;
pub(crate) mod core;
