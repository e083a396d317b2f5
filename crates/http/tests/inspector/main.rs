//! The pages of the inspector: their rows against the views, every link, hostile content, refusals, damage, the live page.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking, in helpers too")]

#[path = "../support/mod.rs"]
mod support;

mod asked;
mod beside;
mod control;
mod damaged;
mod guarded;
mod hostile;
mod kept;
mod links;
mod live;
mod long;
mod markup;
mod on_demand;
mod report;
mod rows;
mod seeded;
