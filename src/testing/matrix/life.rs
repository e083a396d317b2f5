//! The start and the end of one system under the matrix, and the place of its second crash.

use std::sync::Arc;

use proto_events::call::CallEvent;
use proto_events::id::Category;
use proto_events::task::TaskEvent;
use taskreel_log::api::StoredRecord;
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::decode_record;

use crate::error::Error;
use crate::testing::clock::VirtualClock;
use crate::testing::ledger::Ledger;
use crate::testing::matrix::ran::Ran;
use crate::testing::matrix::report::Broken;
use crate::testing::system::{Describe, TestSystem};

/// Waits for the system's work to end, and then ends the system.
pub(crate) async fn finish(
    system: TestSystem,
    worked: Result<(), Error>,
    cut: Option<usize>,
) -> Result<Ran, Broken> {
    let ended = match worked {
        Ok(()) => system.run_out_timers().await,
        Err(error) => Err(error),
    };
    let (seen, steps) = (system.ledger().executions(), system.clock_steps());
    let mut ran = Ran { log: Arc::clone(system.store()) as _, seen, steps };
    // Taken first: a closed log cannot be read.
    let kept = system.store().reopened();
    let gone = system.kill().await;
    match kept {
        Ok(kept) => ran.log = Arc::new(kept),
        Err(error) => return Err(ran.broken(cut, &error)),
    }
    match ended.and(gone) {
        Ok(()) => Ok(ran),
        Err(error) => Err(ran.broken(cut, &error)),
    }
}

pub(crate) async fn start(
    describe: &Describe,
    store: MemoryStore,
    clock: Option<VirtualClock>,
) -> Result<TestSystem, Broken> {
    let log = store.reopened();
    let started = TestSystem::start(Arc::clone(describe), store, clock, Ledger::default()).await;
    started.map_err(|error| match log {
        Ok(log) => Ran { log: Arc::new(log), seen: Vec::new(), steps: Vec::new() }.broken(None, &error),
        Err(_) => Broken { cut: None, faults: vec![error.to_string()], log: Vec::new() },
    })
}

/// Returns the number of appends up to the first one behind the cut that records an unknown outcome, and leaves the end of
/// its run to a later one.
pub(crate) fn unknown_behind(sets: &[Vec<StoredRecord>], cut: usize) -> Result<Option<usize>, Error> {
    for (set, number) in sets.iter().zip(1..).skip(cut) {
        let (mut is_unknown, mut has_ended) = (false, false);
        for stored in set.iter().filter(|stored| stored.record.stream.category() == Some(Category::Task)) {
            for recorded in decode_record::<TaskEvent>(stored)? {
                is_unknown |= matches!(recorded.event, TaskEvent::Call(CallEvent::OutcomeUnknown { .. }));
                has_ended |= matches!(recorded.event, TaskEvent::StateChanged { .. });
            }
        }
        if is_unknown && !has_ended {
            return Ok(Some(number));
        }
    }
    Ok(None)
}
