//! The schedulers of a test, and the number of its runs.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The number of runs of a test under each of the two schedulers; `TASKREEL_INTERLEAVINGS` sets another
/// number.
const RUNS: usize = 400;

/// The number of priority changes of the second scheduler: most faults need few.
const DEPTH: usize = 3;

/// Runs a test under many interleavings: random ones, and ones that favour rare orders.
pub(crate) fn try_interleavings(test: impl Fn() + Send + Sync + Copy + 'static) {
    let runs = std::env::var("TASKREEL_INTERLEAVINGS").ok().and_then(|runs| runs.parse().ok());
    try_times(runs.unwrap_or(RUNS), test);
}

fn try_times(runs: usize, test: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(test, runs);
    shuttle::check_pct(test, runs, DEPTH);
}

/// Whether any interleaving makes the test fail: shows that the test can fail. It ends with the first one that does,
/// and tries the most there are until then: a few would not be enough to rule one out.
pub(crate) fn is_found(test: impl Fn() + Send + Sync + Copy + 'static) -> bool {
    catch_unwind(AssertUnwindSafe(|| try_times(RUNS, test))).is_err()
}
