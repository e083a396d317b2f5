//! taskreel: durable, replayable AI-agent tasks as event-sourced actors.

pub mod agent;
pub mod limits;
pub mod ports;
pub mod store;
