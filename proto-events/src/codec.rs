//! Events as bytes and back. [`record`] is the commit record that hashes and carries event bodies;
//! [`kind`] numbers the events; `payload` is the only file that names bincode; `upcast` brings old schema
//! versions up to date, step by step, while reading; the `stored_*` files are the storage structs.

mod any_event;
mod code;
mod error;
pub mod kind;
mod outline;
mod payload;
pub mod record;
mod scratch;
pub(crate) mod storable;
mod stored_approval;
mod stored_call;
mod stored_compaction;
mod stored_flow;
mod stored_intent;
mod stored_model;
mod stored_prompt;
mod stored_registry;
mod stored_session;
mod stored_system;
mod stored_task;
mod stored_tool_store;
mod stored_verdict;
mod stored_webhook;
mod upcast;

pub use any_event::AnyEvent;
pub use error::CodecError;
pub use outline::{OutlineChange, TaskOutline, changes_outline, outline_change, reads_task_event};
pub use storable::{Payload, Storable};
pub use stored_task::state_after;
