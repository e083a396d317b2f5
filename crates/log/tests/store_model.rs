//! Stores compared with a vector of events: after any appends, repeats, misuse, reads, reopenings and faults,
//! both give the same results. `TASKREEL_MODEL_CASES` sets the number of cases, 256 by default.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

#[path = "store_model/model.rs"]
mod model;
#[path = "store_model/subject.rs"]
mod subject;

use std::path::Path;
use std::sync::Arc;

use model::{Model, Step};
use proptest::test_runner::Config;
use proptest_state_machine::{StateMachineTest, prop_state_machine};
use subject::Subject;
use taskreel_log::memory::MemoryStore;
use taskreel_log::sled::SledStore;

fn cases() -> Config {
    let cases = std::env::var("TASKREEL_MODEL_CASES").ok().and_then(|cases| cases.parse().ok());
    Config { cases: cases.unwrap_or(256), failure_persistence: None, ..Config::default() }
}

/// Returns a folder in memory, if there is one: this test is not about a disk's syncs.
fn in_memory() -> tempfile::TempDir {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { tempfile::tempdir_in(shared).unwrap() } else { tempfile::tempdir().unwrap() }
}

struct OfMemory;

impl StateMachineTest for OfMemory {
    type SystemUnderTest = Subject;
    type Reference = Model;

    fn init_test(_: &Model) -> Self::SystemUnderTest {
        Subject::new(Arc::new(MemoryStore::new()), None)
    }

    fn apply(mut subject: Self::SystemUnderTest, after: &Model, step: Step) -> Self::SystemUnderTest {
        subject.step(after, &step);
        subject
    }

    fn check_invariants(subject: &Self::SystemUnderTest, model: &Model) {
        subject.check(model);
    }

    fn teardown(subject: Self::SystemUnderTest, model: Model) {
        subject.finish(&model);
    }
}

struct OfSled;

impl StateMachineTest for OfSled {
    type SystemUnderTest = Subject;
    type Reference = Model;

    fn init_test(_: &Model) -> Self::SystemUnderTest {
        let dir = in_memory();
        Subject::new(Arc::new(SledStore::open(dir.path()).unwrap()), Some(dir))
    }

    fn apply(mut subject: Self::SystemUnderTest, after: &Model, step: Step) -> Self::SystemUnderTest {
        subject.step(after, &step);
        subject
    }

    fn check_invariants(subject: &Self::SystemUnderTest, model: &Model) {
        subject.check(model);
    }

    fn teardown(subject: Self::SystemUnderTest, model: Model) {
        subject.finish(&model);
    }
}

prop_state_machine! {
    #![proptest_config(cases())]

    #[test]
    fn the_memory_store_is_a_vector_of_events_whatever_happens_to_it(sequential 1..60 => OfMemory);

    #[test]
    fn the_sled_store_is_a_vector_of_events_whatever_happens_to_it(sequential 1..20 => OfSled);
}
