//! A log that is opened and closed again and again keeps no memory and no thread, whatever it holds. Live bytes of the
//! whole program are counted, not the pages that its allocator keeps for later.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::alloc::System as Machine;
use std::convert::Infallible;
use std::path::Path;

use futures_util::StreamExt;
use futures_util::stream::iter;
use proto_events::json;
use serde::Deserialize;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use taskreel::{JsonSchema, Part, System};
use taskreel_log::sled::SledStore;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<Machine> = &INSTRUMENTED_SYSTEM;

/// The rounds of which the smallest and the largest are compared. sled keeps some buffers of 4 MiB of the log that was
/// closed last, now one more and now one less, so that two rounds alone say nothing.
const ROUNDS: usize = 10;

/// The most bytes that these rounds may add.
const NOISE: usize = 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

fn live() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

/// Returns the number of the program's threads.
#[cfg(target_os = "linux")]
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[cfg(not(target_os = "linux"))]
fn threads() -> usize {
    0
}

fn on_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(work)
}

async fn system(dir: &Path) -> System {
    let large = |_: Nothing| async { Ok::<_, Infallible>("x".repeat(20_000)) };
    System::builder(dir).tool("large", "Returns much", large).start().await.unwrap()
}

/// Fails the test if the program is larger in each of the later rounds than it ever was in the first ones.
fn stays_flat(what: &str, round: impl Fn()) {
    let rounds = || {
        let sizes = std::iter::repeat_with(|| {
            round();
            live()
        });
        sizes.take(ROUNDS).collect::<Vec<_>>()
    };
    let (first, threads_before) = (rounds(), threads());
    let (largest, later) = (first.iter().max().unwrap(), rounds());
    let smallest = later.iter().min().unwrap();
    assert!(*smallest < largest + NOISE, "{what}: {first:?}, later {later:?}");
    // sled has a pool of threads for the whole program, seven of which wait for work.
    assert!(threads() < threads_before + ROUNDS, "{what}: {threads_before} threads, then {}", threads());
}

#[test]
fn opening_and_closing_a_log_of_large_results_leaves_no_bytes_and_no_threads() {
    let dir = tempfile::tempdir().unwrap();
    on_runtime(async {
        let system = system(dir.path()).await;
        let calls = (0..2_000).map(|_| system.submit(Part::tool_call("large", json!({})).unwrap()));
        let ends = calls.map(|submitted| async { submitted.await.unwrap().finished().await.unwrap() });
        iter(ends).for_each_concurrent(100, |end| async { drop(end.await) }).await;
        system.shutdown().await.unwrap();
    });
    stays_flat("the store", || drop(SledStore::open(dir.path()).unwrap()));
    stays_flat("the system", || {
        on_runtime(async { system(dir.path()).await.shutdown().await.unwrap() });
    });
}
