#![doc = include_str!("../README.md")]
//!
//! # Floors
//!
//! Imports go downward only: [`system`] over `actors` and [`agent`] over [`store`], [`context`] and [`ports`] over the
//! crate `proto_events`. [`audit`] and [`inspect`] stand beside them: they take an [`store::EventReader`] and know no
//! actor.

mod actors;
pub mod agent;
pub mod audit;
pub mod context;
pub mod error;
pub mod inspect;
pub mod limits;
#[cfg(feature = "otel")]
pub mod otel;
pub mod ports;
pub mod store;
pub mod system;
#[cfg(feature = "testing")]
pub mod testing;

pub use error::Error;
pub use proto_events;
pub use proto_events::model::{Message, Part, PostedTask, TaskState};
pub use schemars::JsonSchema;
pub use system::{Reopened, SessionHandle, System, TaskHandle, TaskSnapshot};

/// Models: the trait of a backend, and the backends that are shipped.
pub mod infer {
    #[cfg(feature = "genai")]
    pub use crate::agent::genai::Genai;
    pub use crate::agent::infer::{
        ChatMessage, Deltas, InferBackend, InferError, InferErrorKind, InferReply, InferRequest,
    };
    pub use crate::agent::messages::Messages;
    #[cfg(feature = "openai")]
    pub use crate::agent::openai::OpenAiCompatible;
    pub use crate::agent::policy::InferPolicy;
    pub use crate::agent::recorded::{Recorded, RecordedError};
    pub use crate::agent::scripted::{Entry, Scripted};
}

/// Other agents that an agent may ask.
pub mod peer {
    pub use crate::agent::peer::{Delegation, Peer, PeerAnswer, PeerError, PeerErrorKind};
    pub use crate::system::SystemPeer;
}

/// Approvals and capabilities: what a run may do, and who is asked where that is not settled.
pub mod approval {
    pub use crate::agent::approval::{ApprovalRequest, ApprovalVerdict, Approver};
    pub use crate::agent::capability::{CapabilityPolicy, Effect, EffectError};
    pub use proto_events::task::{Approval, ApprovalDecided, ApprovalRequested};
}

/// Tools: what they are given, what they answer, what may be done with their calls again.
pub mod tool {
    pub use crate::agent::into_tool::{DynTool, IntoTool};
    #[cfg(feature = "mcp")]
    pub use crate::agent::mcp::McpServer;
    pub use crate::agent::policy::{Breaker, ToolPolicy};
    pub use crate::agent::tool::{Cancellation, Tool, ToolContext, ToolError};
    pub use crate::agent::tool_state::ToolState;
    pub use crate::agent::why_not;
    pub use proto_events::call::{Recovery, Verdict};
    pub use proto_events::id::Version;
    pub use proto_events::tool_store::{ToolEntry, ToolStore};
}
