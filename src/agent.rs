//! An agent: its card, the other agents that it may ask, and what it may do.

pub(crate) mod approval;
pub(crate) mod budget_stop;
pub(crate) mod capability;
pub(crate) mod card;
pub(crate) mod card_presentation;
pub(crate) mod definition;
pub(crate) mod definition_change;
pub(crate) mod directory;
pub(crate) mod handler;
pub(crate) mod loop_rules;
pub(crate) mod peer;
pub(crate) mod peers;
pub(crate) mod prompt_context;
pub(crate) mod responder;
pub(crate) mod state_modules;
