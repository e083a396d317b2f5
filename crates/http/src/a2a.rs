//! A2A, versions 1.0 and 0.3: every agent of a system for every client of A2A, which is the handler
//! [`A2a`](crate::A2a), and with the feature `client` a client of agents elsewhere, whose types are public here.
//!
//! ```text
//! handler ─▶ bindings (route, request, rpc, rest) ─▶ ops (send, tasks, list) ─▶ events, shown ─▶ mapping ─▶ wire ─▶ model
//! ```
//!
//! Each file imports to its right. A request comes by a binding and becomes an operation with its parameters (`asking`); a new
//! binding makes the same operations of its own requests, as gRPC does. An operation is an ordinary command or a query of a
//! [`System`](taskreel::System); nothing of A2A is in the log's format. What is answered is made of the log: a task as it is
//! (`shown`), or its events (`events`), which a delivery to webhooks reads as a stream does.
//!
//! | room | holds |
//! |---|---|
//! | `model` | A2A's data, in no version's form |
//! | `wire` | the data as JSON, in the three forms that are in use |
//! | `mapping` | our data as A2A's and back, without loss |
//! | `failure`, `version` | the error table; the version that a request speaks |
//! | `asking` | a request: agent, caller, form, and whose tasks exist for it |
//! | `shown`, `events` | a task, and its events from the log |
//! | `pieces`, `place` | the pieces of an answer that is not in the log yet, and the places from which streams continue |
//! | `card`, `card_parts` | the agent's card, readable by both versions; its schemes, its signatures |
//! | `settings` | the settings of the handler |
//! | `ops` | the operations |
//! | `push` | the deliveries to webhooks, with the feature `client` |
//! | `bindings` | JSON-RPC and REST, both in both versions |
//! | `grpc` | gRPC, with the feature `grpc` |
//! | `handler` | what servers mount |
//! | `client` | the client of agents elsewhere, with the feature `client` |
//! | `toolkit` | agents, sessions and tools for agents that ask agents, with the feature `client` |
//! | `remote` | an agent elsewhere as one that a system may ask |
//!
//! A task is the caller's who submitted it; for all others it does not exist. A context is a session.

pub(crate) mod a2a_request;
pub(crate) mod bindings;
pub(crate) mod card;
pub(crate) mod card_parts;
#[cfg(feature = "client")]
pub(crate) mod client;
pub(crate) mod events;
pub(crate) mod failure;
#[cfg(feature = "grpc")]
pub(crate) mod grpc;
pub(crate) mod handler;
#[allow(dead_code, reason = "the client reads what the server writes")]
pub(crate) mod mapping;
#[allow(dead_code, reason = "the client reads what the server writes")]
pub(crate) mod model;
pub(crate) mod ops;
pub(crate) mod pieces;
pub(crate) mod place;
pub(crate) mod push;
#[cfg(feature = "client")]
pub(crate) mod remote;
pub(crate) mod settings;
pub(crate) mod task_projection;
#[cfg(feature = "client")]
pub(crate) mod toolkit;
pub(crate) mod version;
#[allow(dead_code, reason = "the client reads what the server writes")]
pub(crate) mod wire;

pub use card_parts::card_signature::{CardKey, CardKeyError};
#[cfg(feature = "client")]
pub use client::{
    auth::SecretSource,
    blocking_client::{BlockingClient, BlockingEvents},
    card::{Binding, Card, Interface, Skill},
    error::{A2aError, ErrorKind, ErrorReply},
    options::Options,
    probe::{Probe, ProbeAnswer},
    push::PushPage,
    request::{ListQuery, SendRequest, TaskPage},
    stream::{EventStream, Gap, StreamItem},
    tap::{Moment, Observer},
    token::{DeviceAnswer, DeviceCode, Token, TokenClient, TokenError, TokenServer},
    trust::{CardKeys, CardKeysError},
    work::Client,
};
pub use model::{
    Artifact, ArtifactUpdate, Content, Event, Message, Part, PushConfig, Role, State, Status, StatusUpdate,
    Task,
};
#[cfg(feature = "client")]
pub use push::settings::{Push, PushDeliveries};
#[cfg(feature = "client")]
pub use remote::{directory::CardDirectory, peer::Remote};
pub use settings::Extension;
#[cfg(feature = "client")]
#[doc(hidden)]
pub use toolkit::test_script;
#[cfg(feature = "client")]
pub use toolkit::{
    agent_texts::AgentDetail,
    agents::A2aAgents,
    definitions::{A2A_TOOLS, ToolDefinition, ToolParameter},
    error::{AgentsError, SessionError, SessionErrorKind},
    json_tasks::JsonTasks,
    manager::AgentManager,
    register::A2aBuilder,
    session::{A2aSession, OutgoingMessage, SessionAnswer, SessionMessage, SessionTask},
    store::{InMemoryTaskStore, KeptTask, SentMessage, TaskStore, TaskStoreError},
    tools::A2aTools,
    way::KnownAgent,
};
pub use version::Version;
