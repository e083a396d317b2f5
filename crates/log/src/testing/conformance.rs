//! A conformance suite for stores: `run` makes a fresh store for each rule and panics at the first rule that
//! does not hold, with its name. A rule that does not end within five minutes is broken: call the suite on a runtime with
//! several threads and a timer, so that a store that blocks is found too. For tests; feature `testing`.
//!
//! The rules are those that [`EventReader`] and [`EventStore`] state, reopening included; what a store needs to keep them is
//! in [`api`](crate::api): `check_append`, `repeated_append`, `other_history`.
#![allow(
    clippy::missing_panics_doc,
    reason = "a suite panics where a rule does not hold: that is its answer"
)]

pub(crate) mod append_rules;
pub(crate) mod failure_rules;
pub(crate) mod follow_rules;
pub(crate) mod join_rules;
pub(crate) mod large;
pub(crate) mod page_rules;
pub(crate) mod race_rules;
pub(crate) mod read_rules;
pub(crate) mod reopen_rules;
pub(crate) mod reply_queue_rules;
pub(crate) mod rule;
pub(crate) mod sketch;

use std::sync::Arc;

use crate::api::reader::EventReader;
use crate::api::record::StoredRecord;
use crate::api::store::EventStore;
// For the tests of the store in a directory.
#[doc(hidden)]
pub use crate::engine::index::alone::{IndexAlone, index_alone};
pub use crate::testing::conformance::sketch::{Author, draft, id, ok, stream};

/// Runs the suite on a store. `make` returns an empty one each time; its directory must outlive it.
pub async fn run(make: impl Fn() -> Arc<dyn EventStore>) {
    append_rules::run(&make).await;
    reply_queue_rules::run(&make).await;
    large::run(&make).await;
    read_rules::run(&make, &|store| store).await;
    follow_rules::run(&make).await;
    reopen_rules::run(&make).await;
    race_rules::run(&make).await;
    join_rules::run(&make).await;
    page_rules::run(&make).await;
}

/// Runs the rules for a writer that remembers its newest appends and looks for others in the log: they make thousands of
/// appends. For stores over the engine of this crate, and others with such a memory.
pub async fn run_many(make: impl Fn() -> Arc<dyn EventStore>) {
    append_rules::run_many(&make).await;
    reopen_rules::run_many(&make).await;
}

/// Runs the rules for a failing disk on a store. `make` returns an empty store each time, which can be
/// reopened.
pub async fn run_with_faults(make: impl Fn() -> Arc<dyn EventStore>) {
    failure_rules::run(&make).await;
}

/// Reads a log from every position, version and stream, in pages of every size from 1 up, and compares each
/// page with the expected one. For logs of a few dozen records, since the pages are many. `records` is the
/// whole log.
pub fn check_pages(reader: &dyn EventReader, records: &[StoredRecord]) {
    page_rules::check_pages(reader, records);
}

/// Runs the reading part of the suite on a reader: `make` returns an empty store each time, and `open` makes
/// the reader from the store once it is filled.
pub async fn run_reader(
    make: impl Fn() -> Arc<dyn EventStore>,
    open: impl Fn(Arc<dyn EventStore>) -> Arc<dyn EventReader>,
) {
    read_rules::run(&make, &open).await;
}

/// Reads the whole log page by page and checks it: positions and versions are consecutive, each record names
/// the one before it in its stream, each append is whole. Returns the number of events.
pub fn check_log(store: &dyn EventReader) -> u64 {
    read_rules::check_log(store)
}
