//! Floor 1, whatever events and wires carry: Protolink's models as our own types. Free-form JSON inside them
//! stays its own text; a model's own keys are read leniently, as Protolink reads them, and written in its order.
//!
//! Ids and times that a model lacks come through [`Mint`](crate::id::Mint); nothing here makes one.

mod artifact;
mod error;
mod fields;
mod history;
mod iso;
mod llm_message;
mod message;
mod outcome;
mod part;
mod part_views;
mod posted;
pub mod python;
mod requests;
mod run_attach;
mod run_budget;
mod run_context;
mod task_state;

pub use artifact::Artifact;
pub use error::ModelError;
pub use history::{ConversationHistory, ProviderMessage};
pub use llm_message::{LlmMessage, LlmRole};
pub use message::Message;
pub use outcome::{FinalState, final_state};
pub use part::{InferFields, Part};
pub use part_views::{InferView, RouteView, ToolCallView, ToolOutputView};
pub use posted::{LastItem, PostedTask};
pub use requests::{
    CompactionStrategy, HistoryCompactionRequest, HistoryCompactionResult, RunAction, StateOperation,
    StateOperationRequest, StateOperationResult, StateStoreReport, TaskCancellationRequest,
};
pub use run_attach::{attach, canceled};
pub use run_budget::RunBudget;
pub use run_context::RunContext;
pub use task_state::{TaskState, UnknownTaskState};
