//! The content of events and messages: Protolink's models as our own types. Free-form JSON inside them
//! stays its own text; a model's own keys are read leniently, as Protolink reads them, and written in its
//! order.
//!
//! Ids and times missing from a model come from [`Mint`](crate::id::Mint); nothing here generates them.

pub(crate) mod artifact;
pub(crate) mod card;
pub(crate) mod error;
pub(crate) mod fields;
pub(crate) mod history;
pub(crate) mod iso;
pub(crate) mod llm_message;
pub(crate) mod message;
pub(crate) mod outcome;
pub(crate) mod part;
pub(crate) mod part_access;
pub(crate) mod part_views;
pub(crate) mod posted_task;
pub mod python;
pub mod python_json;
pub mod redaction;
pub(crate) mod requests;
pub(crate) mod run_attach;
pub(crate) mod run_budget;
pub(crate) mod run_context;
pub(crate) mod run_deadline;
pub(crate) mod run_event;
pub(crate) mod run_report;
pub(crate) mod run_summary;
pub(crate) mod task_output;
pub(crate) mod task_state;

pub use artifact::Artifact;
pub use card::{
    AgentCapabilities, AgentCard, AgentRole, AgentSkill, CARD_URL_BYTES_MAX, ClientRequestSpec,
    EndpointContent, EndpointMode, EndpointSpec, HttpMethod, MimeType, PROTOCOL_VERSION, RequestSource,
    SecuritySchemeType, TransportType,
};
pub use error::ModelError;
pub use history::{ConversationHistory, ProviderMessage};
pub use llm_message::{LlmMessage, LlmRole};
pub use message::Message;
pub use outcome::{FinalState, asks_for_input, final_state};
pub use part::{InferFields, Part};
pub use part_views::{InferView, RouteView, ToolCallView, ToolOutputView};
pub use posted_task::{LastItem, PostedTask};
pub use requests::{
    CompactionStrategy, HistoryCompactionRequest, HistoryCompactionResult, RunAction, StateOperation,
    StateOperationRequest, StateOperationResult, StateStoreReport, TaskCancellationRequest,
};
pub use run_attach::{attach, canceled, canceled_unread};
pub use run_budget::{BudgetLimit, BudgetScope, BudgetUsage, LimitUse, RunBudget};
pub use run_context::RunContext;
pub use run_deadline::DEADLINE;
pub use run_event::{RUN_EVENT_VERSION, RunEvent};
pub use run_report::RunReport;
pub use task_output::TaskExecutionError;
pub use task_state::{TaskState, UnknownTaskState};
