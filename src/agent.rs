//! An agent: its card, the other agents that it may ask, and what it may do.
//!
//! The inline modules are paths from before the split into crates, as in `earlier`.

pub(crate) mod approval;
pub(crate) mod capability;
pub(crate) mod card;
pub(crate) mod changed;
pub(crate) mod definition;
pub(crate) mod handler;
pub(crate) mod peer;

pub mod infer {
    pub use crate::models::backend::{
        Deltas, InferBackend, InferError, InferErrorKind, InferReply, InferRequest,
    };
    pub use crate::models::message::ChatMessage;
}

pub mod policy {
    pub use crate::models::policy::InferPolicy;
    pub use crate::tools::breaker::Breaker;
    pub use crate::tools::policy::ToolPolicy;
}

pub mod registry {
    pub use crate::tools::registry::ToolSpec;
}

pub mod tool {
    pub use crate::tools::error::{ToolError, ToolErrorKind};
    pub use crate::tools::future::BoxFuture;
    pub use crate::tools::tool::{Cancellation, Tool, ToolContext, ToolContextParts};
}
