//! How often a test is run, and how.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs of one test under each of the two schedulers; `TASKREEL_INTERLEAVINGS` sets another number.
const RUNS: usize = 400;

/// How many changes of priority the second scheduler makes: most faults need few.
const DEPTH: usize = 3;

/// Runs a test under many orders of what its threads do: drawn at random, and drawn so that rare ones come up.
pub(crate) fn try_interleavings(test: impl Fn() + Send + Sync + Copy + 'static) {
    let runs = std::env::var("TASKREEL_INTERLEAVINGS").ok().and_then(|runs| runs.parse().ok());
    let runs = runs.unwrap_or(RUNS);
    shuttle::check_random(test, runs);
    shuttle::check_pct(test, runs, DEPTH);
}

/// Whether any of the orders makes a test fail: to see that it can.
pub(crate) fn is_found(test: impl Fn() + Send + Sync + Copy + 'static) -> bool {
    catch_unwind(AssertUnwindSafe(|| try_interleavings(test))).is_err()
}
