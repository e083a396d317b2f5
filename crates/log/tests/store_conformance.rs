//! Every store passes the same suite, also when wrapped in a store that injects faults.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proto_events::id::LogId;
use taskreel_log::api::{EventReader, EventStore, ReadError, StoredRecord};
use taskreel_log::audit::export;
use taskreel_log::jsonl::JsonLines;
use taskreel_log::memory::MemoryStore;
use taskreel_log::sled::{SledStore, blob_files};
use taskreel_log::testing::{DelegatingStore, Faults, FaultyStore, Overrides, conformance};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_store_conforms() {
    conformance::run(|| Arc::new(MemoryStore::new())).await;
    conformance::run_many(|| Arc::new(MemoryStore::new())).await;
}

/// Runs the suite over logs in directories, and checks all of them for blob files.
async fn in_directories(around: impl Fn(SledStore) -> Arc<dyn EventStore>) {
    let base = tempfile::tempdir().unwrap();
    let made = Cell::new(0);
    let dir = |number: u32| base.path().join(number.to_string());
    conformance::run(|| {
        made.set(made.get() + 1);
        around(SledStore::open(dir(made.get())).unwrap())
    })
    .await;
    assert!(made.get() > 10);
    for n in 1..=made.get() {
        assert!(blob_files(&dir(n)).unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exported_log_reads_as_the_log_itself() {
    let base = tempfile::tempdir().unwrap();
    let made = Cell::new(0);
    let open = |store: Arc<dyn EventStore>| -> Arc<dyn EventReader> {
        made.set(made.get() + 1);
        let file = base.path().join(format!("{}.ndjson", made.get()));
        let mut text = String::new();
        export(&*store, LogId::default(), "strict", |line| {
            text.push_str(line);
            text.push('\n');
            Ok::<(), ReadError>(())
        })
        .unwrap();
        std::fs::write(&file, text).unwrap();
        Arc::new(JsonLines::open(file).unwrap())
    };
    conformance::run_reader(|| Arc::new(MemoryStore::new()), open).await;
    assert!(made.get() > 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sled_store_conforms_and_never_makes_a_blob_file() {
    in_directories(|store| Arc::new(store)).await;
    let base = tempfile::tempdir().unwrap();
    let made = Cell::new(0);
    conformance::run_many(|| {
        made.set(made.get() + 1);
        Arc::new(SledStore::open(base.path().join(made.get().to_string())).unwrap())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_with_no_fault_planned_is_the_store_itself() {
    conformance::run(|| Arc::new(FaultyStore::new(Arc::new(MemoryStore::new()), Faults::none()))).await;
    in_directories(|store| Arc::new(FaultyStore::new(Arc::new(store), Faults::none()))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_overrides_nothing_is_the_store_behind() {
    conformance::run(|| Arc::new(DelegatingStore::new(Arc::new(MemoryStore::new()), ()))).await;
    in_directories(|store| Arc::new(DelegatingStore::new(Arc::new(store), ()))).await;
}

#[tokio::test]
async fn the_memory_store_keeps_its_promises_when_its_disk_fails() {
    conformance::run_with_faults(|| Arc::new(MemoryStore::new())).await;
}

#[tokio::test]
async fn the_sled_store_keeps_its_promises_when_its_disk_fails() {
    let base = tempfile::tempdir().unwrap();
    let made = Cell::new(0);
    conformance::run_with_faults(|| {
        made.set(made.get() + 1);
        Arc::new(SledStore::open(base.path().join(made.get().to_string())).unwrap())
    })
    .await;
}

/// Counts the surveys that go to the end, and shows nothing.
#[derive(Default)]
struct WholeSurvey(AtomicUsize);

impl Overrides for WholeSurvey {
    fn survey(&self, _: &dyn EventStore, _: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Counts the surveys that may be ended, and shows nothing.
#[derive(Default)]
struct EndedSurvey(AtomicUsize);

impl Overrides for EndedSurvey {
    fn survey_while(
        &self,
        _: &dyn EventStore,
        _: &dyn Fn() -> bool,
        _: &mut dyn FnMut(Result<StoredRecord, ReadError>),
    ) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn an_override_of_survey_while_sees_every_survey_and_one_of_survey_sees_its_own_calls() {
    let both = |store: &dyn EventReader| {
        store.survey(&mut |_| {});
        store.survey_while(&|| true, &mut |_| {});
    };
    let whole = DelegatingStore::new(Arc::new(MemoryStore::new()), WholeSurvey::default());
    let ended = DelegatingStore::new(Arc::new(MemoryStore::new()), EndedSurvey::default());
    both(&whole);
    both(&ended);
    let seen = |count: &AtomicUsize| count.load(Ordering::SeqCst);
    assert_eq!((seen(&whole.overrides().0), seen(&ended.overrides().0)), (1, 2));
}
