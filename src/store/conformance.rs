//! What every store must do, as a suite that any store can be put through: `run` makes a fresh store for each
//! rule and panics, saying what is wrong, at the first that does not hold. For tests; feature `testing`.
#![allow(
    clippy::missing_panics_doc,
    reason = "a suite panics where a rule does not hold: that is its answer"
)]

mod appending;
mod failing;
mod following;
mod joining;
mod large;
mod paging;
mod racing;
mod reading;
mod reopening;
mod sketch;

use std::sync::Arc;

use super::{EventReader, EventStore, StoredRecord};

pub use super::index::{IndexAlone, index_alone};
pub use sketch::{Author, draft, id, ok, stream};

/// Puts a store through the suite. `make` gives an empty one each time; its directory must outlive it.
pub async fn run(make: impl Fn() -> Arc<dyn EventStore>) {
    appending::run(&make).await;
    large::run(&make).await;
    reading::run(&make, &|store| store).await;
    following::run(&make).await;
    reopening::run(&make).await;
    racing::run(&make);
    joining::run(&make).await;
    paging::run(&make).await;
}

/// Puts a store through what must hold when its disk fails. `make` gives an empty one each time, which can be opened
/// anew.
pub async fn run_with_faults(make: impl Fn() -> Arc<dyn EventStore>) {
    failing::run(&make).await;
}

/// Reads a log from every position, version and stream, in pages of every size from 1 up, and compares each page
/// with what it must hold. For logs of a few dozen records: the pages are many. `records` is the whole log.
pub fn check_pages(reader: &dyn EventReader, records: &[StoredRecord]) {
    paging::check_pages(reader, records);
}

/// Puts a reader through the reading part of the suite: `make` gives an empty store each time, and `open` makes the
/// reader from the store once it is filled.
pub async fn run_reader(
    make: impl Fn() -> Arc<dyn EventStore>,
    open: impl Fn(Arc<dyn EventStore>) -> Arc<dyn EventReader>,
) {
    reading::run(&make, &open).await;
}

/// Reads the whole log page by page and checks it: positions and versions follow one another, each record names
/// the one before it in its stream, each append is whole. Answers how many events there are.
pub fn check_log(store: &dyn EventReader) -> u64 {
    reading::check_log(store)
}
