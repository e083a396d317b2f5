//! Verification: reads the log once and reports each fault by stream, version and position, continuing after
//! a piece that cannot be read. Checks that a log alone does not permit are reported as not made.
//!
//! [`verifier`] makes the pass. [`streams`] keeps the streams, [`stream`] checks a stream's chain and hands its events to the rules of its
//! category: [`task`] (with [`calls`], [`approvals`], [`commands`], [`asks`], [`replies`], [`suits`], [`outcomes`] and [`turn_messages`]), [`session`] (with [`summaries`]), [`tool`], [`flow`] and [`definitions`].
//! [`writer`] checks what a record says of its writer, [`links`] what streams say of one another (with [`prompt_links`],
//! [`prompts`], [`turn_links`] and [`agent_answers`]), [`head`], [`root`] and [`ends`] the whole log; [`finding`] and [`report`] are the result.

pub(crate) mod agent_answers;
pub(crate) mod approvals;
pub(crate) mod asks;
pub(crate) mod attempts;
pub(crate) mod call_words;
pub(crate) mod calls;
mod children;
pub(crate) mod commands;
pub(crate) mod definitions;
pub(crate) mod ends;
pub(crate) mod finding;
pub(crate) mod flow;
pub(crate) mod head;
pub(crate) mod links;
pub(crate) mod outcomes;
pub(crate) mod pieces;
pub(crate) mod prompt_links;
pub(crate) mod prompts;
pub(crate) mod registry;
pub(crate) mod replies;
pub(crate) mod report;
pub(crate) mod root;
pub(crate) mod session;
pub(crate) mod stream;
pub(crate) mod streams;
pub(crate) mod suits;
pub(crate) mod summaries;
pub(crate) mod task;
pub(crate) mod tool;
pub(crate) mod turn_links;
pub(crate) mod turn_messages;
pub(crate) mod verifier;
pub(crate) mod webhooks;
pub(crate) mod writer;
