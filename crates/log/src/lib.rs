//! The log of taskreel: reading, storing, verifying and inspecting it. This crate has no way to make a call.
//!
//! A program that replays, verifies, exports or inspects a log needs this crate alone, and so does a store of your own:
//! [`api::EventStore`] states the rules, `testing::conformance` checks them, and the example `toy_store` is a small
//! store that passes it.
//!
//! | room | holds |
//! |---|---|
//! | [`api`] | what a store implements and a reader is given: the traits, records, appends, errors |
//! | [`sled`], [`memory`], [`jsonl`] | the store in a directory, the reference store, an exported log |
//! | [`read`] | what readers make of an [`api::EventReader`]: folds, pages, subscriptions |
//! | [`projection`] | read models that follow the log: cursor and output in one transaction |
//! | [`audit`] | replay, verification, comparison, explanation, export and import |
//! | [`views`], [`doctor`] | rows and statistics made from the log; the examination of a log's directory |
//! | [`documents`] | what handlers show as JSON, and its JSON Schemas |
//! | `socket` (Unix) | reading and following a log while a program holds it; a person's decisions |
//! | [`artifacts`] | views of artifacts and tool results, and minimized forms that fit a prompt |
//! | [`context`], [`shown`] | context strategies and counters of tokens; what a model is shown |
//! | [`ports`], [`limits`] | the only sources of time and randomness; every bound with its reason |
//!
//! # Features
//!
//! None is on by default.
//!
//! | feature | adds |
//! |---|---|
//! | `testing` | `testing`: the conformance suite for stores, and a store that fails on demand |
//! | `tokens` | [`context`]`::ExactTokens`: token counts by the vocabularies of `OpenAI` |

#![cfg_attr(
    shuttle,
    allow(dead_code, unused_imports, unreachable_pub, reason = "only the log's core is built under shuttle")
)]

pub mod api;
pub mod artifacts;
pub mod audit;
pub mod context;
#[cfg(not(shuttle))]
pub mod doctor;
pub mod documents;
pub(crate) mod engine;
pub mod jsonl;
pub mod limits;
pub mod memory;
pub mod ports;
#[cfg(not(shuttle))]
pub mod projection;
pub mod read;
#[cfg(not(shuttle))]
pub mod secrets;
pub mod shown;
#[cfg(not(shuttle))]
pub mod sled;
#[cfg(all(unix, not(shuttle)))]
pub mod socket;
mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod views;
