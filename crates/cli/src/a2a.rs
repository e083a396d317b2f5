//! `a2a`: a command line for any agent that speaks A2A, by the public specification of A2A command lines.
//!
//! ```text
//! command ─▶ send, tasks, cards, download, push, check, config ─▶ follow ─▶ wait, ended ─▶ agent ─▶ watch, credentials ─▶ text, out, settings ─▶ failure
//! ```
//!
//! [`settings`] are flags, variables and files; [`agent`] is the agent that they name; [`watch`] and [`record`] see the
//! exchanges; [`out`] and [`text`] print. What the commands answer follows from the specification, not from the rest of this
//! program: exit codes too.

pub(crate) mod agent;
pub(crate) mod card_signatures;
pub(crate) mod cards;
pub(crate) mod check;
pub(crate) mod command;
pub(crate) mod config;
pub(crate) mod credentials;
pub(crate) mod download;
pub(crate) mod failure;
pub(crate) mod follow;
pub(crate) mod kept_tokens;
pub(crate) mod login;
pub(crate) mod out;
pub(crate) mod parts;
pub(crate) mod push;
pub(crate) mod record;
pub(crate) mod redact;
pub(crate) mod send;
pub(crate) mod settings;
pub(crate) mod shape;
pub(crate) mod task_summary;
pub(crate) mod tasks;
pub(crate) mod text;
pub(crate) mod wait;
pub(crate) mod watch;
