//! What every face is written over: requests, responses and bodies of the crate `http`, whatever server carries them.

pub(crate) mod body;
pub(crate) mod message;
