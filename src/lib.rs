//! Durable, replayable AI-agent tasks.
//!
//! Each task and each conversation is an actor, and each of its steps is an event in an append-only log. A command is acknowledged
//! once its events are on disk; a tool or a model is called once the intent is. After a crash, work resumes from the log, and a
//! call that may not be repeated is not repeated.
//!
//! ```no_run
//! use taskreel::prelude::*;
//!
//! #[derive(serde::Deserialize, taskreel::JsonSchema)]
//! struct Refund {
//!     order: String,
//! }
//! async fn refund(ask: Refund) -> Result<String, std::io::Error> {
//!     Ok(format!("refunded {}", ask.order))
//! }
//!
//! # async fn example(model: taskreel::infer::Scripted) -> Result<(), taskreel::Error> {
//! let system = System::builder("./log").tool("refund", "Refunds an order", refund).infer(model).start().await?;
//! let task = system.session("ada").send(Part::infer("Refund order A1")).await?.finished().await?;
//! println!("{}", task.state());
//! system.shutdown().await
//! # }
//! ```
//!
//! Begin with [`System`] and its [`Builder`]; a tool's [`tool::ToolPolicy`] says what follows a crash. [`log`] is the crate
//! `taskreel-log`, which reads, verifies and exports a log and can make no call. The repository has a book with guides.
//!
//! # Features
//!
//! None is on by default.
//!
//! | feature | adds |
//! |---|---|
//! | `openai` | `infer::OpenAiCompatible`: any server that speaks OpenAI's chat completions, as a model |
//! | `genai` | `infer::Genai`: Anthropic, Gemini, Ollama and others, as models |
//! | `mcp` | `tool::McpServer` and `Builder::mcp`: the tools of MCP servers |
//! | `otel` | `otel`: spans as OpenTelemetry, with the `GenAI` conventions |
//! | `files-http` | `files::HttpFetcher`: remote files of artifacts and messages, fetched from checked addresses |
//! | `tokens` | `context::ExactTokens`: exact token counts for the vocabularies of OpenAI |
//! | `output-schema` | the `output_schema` of an infer part is enforced: the model's answer must fit the JSON Schema |
//! | `testing` | `testing` and `log::testing`: a system without disk and without waiting, a matrix of crashes, the conformance suite for stores |

pub(crate) mod actors;
pub(crate) mod agent;
pub(crate) mod error;
#[doc(hidden)]
pub mod fidelity;
pub mod files;
pub(crate) mod grammar;
// For the client of `taskreel-http`, so that there is one TLS setting.
#[cfg(feature = "_http")]
#[doc(hidden)]
pub mod http_client;
#[cfg(any(feature = "mcp", feature = "openai"))]
pub(crate) mod lenient_json;
pub mod limits;
pub(crate) mod live;
pub(crate) mod models;
#[cfg(feature = "otel")]
pub mod otel;
pub mod prelude;
pub(crate) mod protolink;
pub(crate) mod python;
pub(crate) mod run;
pub(crate) mod system;
#[cfg(feature = "testing")]
pub mod testing;
pub(crate) mod tools;

#[doc(inline)]
pub use agent::budget_stop::BudgetStop;
#[doc(inline)]
pub use agent::definition_change::ChangedAgent;
#[doc(inline)]
pub use agent::loop_rules::LoopRules;
#[doc(inline)]
pub use error::Error;
// The vocabulary of the signatures here; all of it is in `proto_events`.
pub use proto_events;
pub use proto_events::envelope::{Principal, Timestamp};
pub use proto_events::id::{Digest, Position, StreamId, Version};
pub use proto_events::json::{JsonObject, JsonText};
pub use proto_events::model::{
    Artifact, BudgetScope, BudgetUsage, ConversationHistory, Message, Part, PostedTask, RunBudget, TaskState,
};
pub use proto_events::task::{Task, TaskCommand};
pub use schemars::JsonSchema;
#[doc(inline)]
pub use system::RegistryRecord;
#[doc(inline)]
pub use system::{
    AgentBuilder, Builder, CallCount, DecisionResult, Exposition, Failure, Family, Health, INVOKE_SESSION,
    InferAs, InterruptedCall, KeptItem, KeptStream, Live, LiveFeed, LiveRun, Metrics, NO_RESPONSE,
    NewestTasks, OneAgent, Operator, Outcome, ReopenResult, ResumePoint, ResumePointError, RunEvent,
    RunInput, RunRequest, SessionHandle, ShutdownReport, System, TakenIn, TaskEvents, TaskHandle, TaskInfo,
    TaskInput, TaskPage, TaskQuery, TaskSnapshot, TaskStreamEvent, TaskStreamPayload, WaitingTask,
    WholeSystem,
};
pub use taskreel_log as log;
pub use taskreel_log::ports::Ports;
pub use taskreel_log::read::Subscription;
pub use tools::future::BoxFuture;

/// Models: the trait of a backend, and the backends that are shipped.
pub mod infer {
    pub use proto_events::call::{Cost, Costs, Price, TokenUsage};
    pub use proto_events::model::{LlmMessage, LlmRole};

    pub use crate::models::backend::{
        Deltas, InferBackend, InferError, InferErrorKind, InferReply, InferRequest, ToolAsk,
    };
    pub use crate::models::message::{ChatMessage, Image};
    pub use crate::models::policy::InferPolicy;
    #[cfg(feature = "genai")]
    pub use crate::models::providers::genai::Genai;
    #[cfg(feature = "openai")]
    pub use crate::models::providers::openai::OpenAiCompatible;
    #[cfg(feature = "openai")]
    pub use crate::models::providers::openai::profile::Profile;
    pub use crate::models::recorded::{Recorded, RecordedError};
    pub use crate::models::scripted::{Entry, ScriptError, Scripted};
    pub use crate::models::shown_messages::Messages;
    #[doc(hidden)]
    pub use crate::tools::future::BoxFuture;
}

/// Context strategies: what a model is shown of a long history, and counters of tokens.
pub mod context {
    pub use taskreel_log::context::{
        Chain, ContextError, ContextStrategy, ConversationFacts, FitContextWindow, HeuristicTokens, History,
        MessageMeasure, MessageView, MinimizeOutputs, ProtolinkTokens, Reduction, Rules, SettingError,
        TokenCounter, Transcript, TrimRounds, TruncateToolOutputs, View,
    };
    #[cfg(feature = "tokens")]
    pub use taskreel_log::context::{ExactTokens, UnknownVocabulary};

    pub use crate::live::event::ContextSize;
}

/// Artifacts and results of calls as a model sees them: the tools that show them, and the limits of what is shown.
pub mod artifact {
    pub use taskreel_log::artifacts::{
        ArtifactError, ArtifactErrorKind, CharacterLimit, VIEW_DATA_ARTIFACT, VIEW_TEXT_ARTIFACT,
    };
    pub use taskreel_log::views::TaskOwner;

    pub use crate::tools::artifact_reach::ArtifactReach;
    pub use crate::tools::artifact_tools::ArtifactTools;
}

/// The state of an agent: its conversations, its tools' values, its tasks and the checkpoints of its runs; and the control plane
/// that describes, resets and compacts it.
pub mod state {
    pub use proto_events::flow::{Checkpoint, FlowRejection};
    pub use proto_events::model::{
        CompactionStrategy, HistoryCompactionRequest, HistoryCompactionResult, StateOperation,
        StateOperationRequest, StateOperationResult, StateStoreReport,
    };

    pub use crate::agent::state_modules::{HistoryCompaction, StateModule, StateModules};
    #[doc(inline)]
    pub use crate::system::{
        ConversationState, FlowRow, FlowState, MessageFound, SessionInfo, State, TaskRecords, ToolRow,
        ToolsState, WaitsFor,
    };
}

/// Other agents that an agent may ask.
pub mod peer {
    pub use crate::agent::directory::PeerDirectory;
    pub use crate::agent::peer::{
        AcceptedSink, Delegation, Peer, PeerAnswer, PeerError, PeerErrorKind, PeerFound, RecalledTask,
    };
    #[doc(inline)]
    pub use crate::system::SystemPeer;
}

/// Approvals and capabilities: what a run may do, and who is asked where that is not settled.
pub mod approval {
    pub use proto_events::task::{Approval, ApprovalDecided, ApprovalRequested};

    pub use crate::agent::approval::{ApprovalRequest, ApprovalVerdict, Approver};
    pub use crate::agent::capability::{CapabilityPolicy, PolicyEffect, PolicyEffectError};
}

/// The embedder's own code as an agent's work.
pub mod handler {
    pub use proto_events::call::{Answer, CallQuestion};

    pub use crate::agent::handler::{HandlerContext, HandlerEnd};
    pub use crate::agent::responder::ResponderEnd;
}

/// Webhooks of tasks: addresses that a program tells what happens to a task.
pub mod webhook {
    pub use proto_events::task::{
        Webhook, WebhookFailure, WebhookRegistration, WebhookRejection, WebhookState,
    };

    pub use crate::run::new_webhook::NewWebhook;
    #[doc(inline)]
    pub use crate::system::WebhookSecrets;
}

/// Tools: what they are given, what they answer, what may be done with their calls again.
pub mod tool {
    pub use proto_events::call::{Recovery, Verdict};
    #[doc(hidden)]
    pub use proto_events::id::Version;
    pub use proto_events::tool_store::{ToolEntry, ToolStore, ToolWrite};

    pub use crate::tools::agent_requests::{AgentAnswer, AgentSink, AgentWork};
    pub use crate::tools::breaker::Breaker;
    pub use crate::tools::error::{ToolError, ToolErrorKind};
    #[doc(hidden)]
    pub use crate::tools::future::BoxFuture;
    pub use crate::tools::into_tool::{DynTool, IntoTool, IntoToolError, ToolParts};
    #[cfg(feature = "mcp")]
    pub use crate::tools::mcp::{
        admission::McpToolLeftOut,
        server::McpServer,
        servers::{McpServerState, McpServerStatus},
    };
    pub use crate::tools::policy::ToolPolicy;
    pub use crate::tools::rate::Rate;
    pub use crate::tools::registry::ToolSpec;
    pub use crate::tools::secret::{SecretProvider, SecretRequest};
    pub use crate::tools::state::ToolState;
    pub use crate::tools::tool::{Cancellation, ProgressSink, Tool, ToolContext, ToolContextParts};
    pub use crate::tools::why_not;
}

/// The features of this library, each with whether this build has it.
pub const FEATURES: &[(&str, bool)] = &[
    ("openai", cfg!(feature = "openai")),
    ("files-http", cfg!(feature = "files-http")),
    ("genai", cfg!(feature = "genai")),
    ("mcp", cfg!(feature = "mcp")),
    ("otel", cfg!(feature = "otel")),
    ("output-schema", cfg!(feature = "output-schema")),
    ("testing", cfg!(feature = "testing")),
    ("tokens", cfg!(feature = "tokens")),
];

/// The programs of the README and of the guides, compiled as tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/embed.md")]
    struct Embed;
}
