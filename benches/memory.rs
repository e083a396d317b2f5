//! Heap memory, counted at each allocation: of tasks that are passivated, and of live actors that are idle.

mod support;

use std::alloc::System as SystemAllocator;
use std::sync::Arc;
use std::time::Duration;

use proto_events::task::Task;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use taskreel::System;
use taskreel_log::api::EventStore;
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::fold_stream;
use taskreel_log::testing::conformance::index_alone;

use crate::support::log::{Shape, fill, stream};
use crate::support::{Asked, Failure, Report, Row, Target, number, setting};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<SystemAllocator> = &INSTRUMENTED_SYSTEM;

const HELP: &str = "\
cargo bench --bench memory: heap bytes, counted at every allocation

  sleeping   what the index holds of a task of ten events, its name included; the database's cache apart, which holds
             whatever was read lately
  live       what an idle actor holds beyond its task's state (both counted, the state alone subtracted)

  TASKREEL_BENCH_SLEEPING (100000)  sleeping tasks
  TASKREEL_BENCH_LIVE (2000)        live actors";

/// The number of events in each task.
const EVENTS_EACH: u32 = 10;

fn main() -> Result<(), Failure> {
    let Some(asked) = Asked::read("memory", HELP) else { return Ok(()) };
    let mut report = Report::begin("memory", asked)?;
    sleeping(&mut report, setting("TASKREEL_BENCH_SLEEPING", asked.size(100_000, 1_000))?)?;
    let live = setting("TASKREEL_BENCH_LIVE", asked.size(2_000, 50))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(live_actors(&mut report, live))?;
    report.end();
    Ok(())
}

/// Returns the number of bytes currently allocated.
fn held() -> u64 {
    let stats = ALLOCATOR.stats();
    u64::try_from(stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)).unwrap_or(u64::MAX)
}

fn each(before: u64, count: usize) -> Result<f64, Failure> {
    Ok(number(held().saturating_sub(before)) / number(u64::try_from(count)?))
}

fn sleeping(report: &mut Report, count: usize) -> Result<(), Failure> {
    let names = (0..count).map(stream).collect::<Result<Vec<_>, _>>()?;
    let before = held();
    let index = index_alone(&names, EVENTS_EACH);
    let bytes = each(before, count)?;
    drop(index);
    let name = names.first().map_or(0, |name| name.as_str().len());
    let row = Row::new("a sleeping task of ten events, its name included", bytes, "bytes");
    report.row(&row.target(Target::AtMost(160.0)).more("name_bytes", name).more("tasks", count))
}

async fn live_actors(report: &mut Report, count: usize) -> Result<(), Failure> {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let events_each = usize::try_from(EVENTS_EACH)?;
    fill(&*store, Shape { streams: count, events_each, body_bytes: 300 }).await?;
    let folder = tempfile::tempdir_in(support::scratch())?;
    let system = System::builder(folder.path())
        .name("bench")
        .store(Arc::clone(&store))
        .passivate_after(Duration::from_secs(3_600))
        .start()
        .await?;
    let streams = (0..count).map(stream).collect::<Result<Vec<_>, _>>()?;
    let ids: Vec<String> = streams.iter().map(proto_events::id::StreamId::id).collect();
    // Excludes from the figure what the first task allocates once.
    system.task(ids.first().ok_or("no task")?)?.snapshot().await?;

    let before = held();
    let mut states = Vec::with_capacity(count);
    for stream in &streams {
        states.push(fold_stream::<Task>(&*store, stream, None)?.state);
    }
    let state = each(before, count)?;
    drop(states);

    let before = held();
    for id in ids.iter().skip(1) {
        drop(system.task(id)?.snapshot().await?);
    }
    if system.live_tasks().await? != count {
        return Err("an actor fell asleep meanwhile".into());
    }
    let actor = each(before, count - 1)?;
    report.row(&Row::new("a task's state, ten events of 300 bytes", state, "bytes"))?;
    let row = Row::new("a live idle actor beyond its state", actor - state, "bytes");
    report.row(&row.target(Target::AtMost(4_096.0)).more("with_state", actor).more("actors", count))?;
    system.shutdown().await?;
    Ok(())
}
