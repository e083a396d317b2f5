//! The toolkit for agents that ask agents over A2A, after a2a-utils: a registry of agents, a session that sends, waits and
//! keeps, and six tools for models.
//!
//! ```text
//! register ─▶ tools ─▶ calls ─▶ session ─▶ monitor, saving, uploads ─▶ agents ─▶ way ─▶ a2a::client
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `register` | the six tools on a builder, each call recorded |
//! | `definitions`, `arguments` | the tools as public data; the arguments of a call |
//! | `tools`, `answers` | the tools themselves, and their answers as a model reads them |
//! | `session`, `sending`, `monitor` | a session; sending and canceling; waiting by a stream or by polling |
//! | `views` | parts of an artifact |
//! | `uploads`, `saving` | files that are sent, and files that came |
//! | `store`, `kept` | the tasks that are kept |
//! | `agents`, `config`, `manager`, `shown` | the agents, their cards, and what a model is shown of them |
//! | `way`, `scripted` | the client of A2A, and a script in its place for tests |
//! | `error`, `words` | typed errors, and their texts |
//!
//! Texts and results equal a2a-utils 0.7.3; what differs is listed with the fixture tests.

pub(crate) mod agent_texts;
pub(crate) mod agents;
pub(crate) mod answers;
pub(crate) mod arguments;
pub(crate) mod config;
pub(crate) mod convert;
pub(crate) mod definitions;
pub(crate) mod error;
pub(crate) mod file_copies;
pub(crate) mod json_tasks;
pub(crate) mod manager;
pub(crate) mod monitor;
pub(crate) mod register;
pub(crate) mod send_message;
pub(crate) mod session;
pub(crate) mod store;
pub mod test_script;
pub(crate) mod tools;
pub(crate) mod uploads;
pub(crate) mod views;
pub(crate) mod way;
pub(crate) mod words;
