//! taskreel: durable, replayable AI-agent tasks as event-sourced actors.

mod actors;
pub mod agent;
pub mod error;
pub mod limits;
pub mod ports;
pub mod store;
pub mod system;
