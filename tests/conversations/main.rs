//! Conversations: their turns, their histories, and what a model is shown of them.

#[path = "../prompt_support/mod.rs"]
mod prompt_support;

mod approved_operations;
mod contexts;
mod contexts_support;
mod free_turns;
mod histories;
mod histories_bounded;
mod histories_support;
mod infer_steps;
mod invoke;
mod kept_turns;
mod late_peers;
mod prompts;
mod queued_messages;
mod quoted_actions;
#[cfg(feature = "testing")]
mod reset_cut_short;
mod rewritten;
mod state_modules;
mod take_in;
mod turns;
mod unreadable;
