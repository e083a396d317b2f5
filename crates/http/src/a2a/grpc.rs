//! gRPC: A2A's service as the project's definition has it, over the same operations as the other bindings.
//!
//! A call's message becomes the parameters of an operation, and the answer a message. Whose call it is, the version, the agent
//! and the place from which a stream continues stand in the call's metadata, which are the headers of its request.

pub(crate) mod answer;
pub(crate) mod call;
pub(crate) mod handler;
pub(crate) mod params;
pub(crate) mod service;
pub(crate) mod status;
#[cfg(test)]
mod tests;
pub(crate) mod values;
