//! Conversations: their turns, their histories, and what a model is shown of them.

mod contexts;
mod contexts_support;
mod free_turns;
mod histories;
mod histories_bounded;
mod histories_support;
mod infer_steps;
mod invoke;
mod prompts;
mod queued_messages;
mod state_modules;
mod take_in;
mod turns;
