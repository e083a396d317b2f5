//! What every store must do, as a suite that any store can be put through: `run` makes a fresh store for each
//! rule and panics, saying what is wrong, at the first that does not hold. For tests; feature `testing`.
#![allow(
    clippy::missing_panics_doc,
    reason = "a suite panics where a rule does not hold: that is its answer"
)]

mod appending;
mod following;
mod large;
mod reading;
mod reopening;
mod sketch;

use std::sync::Arc;

use super::EventStore;

pub use super::index::{IndexAlone, index_alone};
pub use sketch::{Author, draft, id, ok, stream};

/// Puts a store through the suite. `make` gives an empty one each time; its directory must outlive it.
pub async fn run(make: impl Fn() -> Arc<dyn EventStore>) {
    appending::run(&make).await;
    large::run(&make).await;
    reading::run(&make).await;
    following::run(&make).await;
    reopening::run(&make).await;
}

/// Reads the whole log page by page and checks it: positions and versions follow one another, each record names
/// the one before it in its stream, each append is whole. Answers how many events there are.
pub fn check_log(store: &dyn EventStore) -> u64 {
    reading::check_log(store)
}
