//! Every store passes the same suite.
#![cfg(feature = "testing")]

use std::cell::Cell;
use std::sync::Arc;

use taskreel::audit::export;
use taskreel::store::{
    EventReader, EventStore, JsonLines, MemoryStore, ReadError, SledStore, blob_files, conformance,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_store_conforms() {
    conformance::run(|| Arc::new(MemoryStore::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sled_store_conforms_and_never_makes_a_blob_file() {
    let base = tempfile::tempdir().unwrap();
    let made = Cell::new(0);
    conformance::run(|| {
        made.set(made.get() + 1);
        Arc::new(SledStore::open(base.path().join(made.get().to_string())).unwrap())
    })
    .await;
    assert!(made.get() > 10);
    for n in 1..=made.get() {
        assert!(blob_files(&base.path().join(n.to_string())).unwrap().is_empty());
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
        export(&*store, "strict", |line| {
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
