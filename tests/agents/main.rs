//! Agents of one system and of others: what they are told of each other, what they ask each other, and what changes in them.

#[path = "../call_support/mod.rs"]
mod call_support;

mod agents;
mod cards;
mod changed_agent;
mod changed_agent_sleep;
mod changed_peer;
mod child_usage;
mod delegation;
mod delegation_ends;
mod desk;
mod found_late;
mod host;
mod passed_on;
mod peers;
mod run_contexts;
#[cfg(feature = "testing")]
mod team;
#[cfg(feature = "testing")]
mod team_ends;
#[cfg(feature = "testing")]
mod team_support;
mod tool_delegation;
mod tool_delegation_ends;
mod tool_delegation_limits;
mod tool_delegation_room;
