//! `verify` finds nothing in a sound log that is written while it reads: what came after its pass is not judged.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::sync::Arc;

use futures_util::future::join_all;
use proto_events::json;
use serde::Deserialize;
use taskreel::tool::ToolPolicy;
use taskreel::{JsonSchema, Part, System, TaskState};
use taskreel_log::api::{EventReader, EventStore};
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use taskreel_log::sled::SledStore;

/// The passes that must have read a log which grew meanwhile.
const PASSES: usize = 15;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

async fn tool(_: Nothing) -> Result<String, std::convert::Infallible> {
    Ok("done".to_owned())
}

/// Verifies until enough passes have met a log that grew during them, or one has found something.
fn passes(log: &dyn EventReader) -> Vec<String> {
    let mut grown = 0;
    while grown < PASSES {
        let before = log.head().unwrap();
        let found = verify(log).findings;
        if !found.is_empty() {
            return found.into_iter().map(|finding| format!("{}: {}", finding.kind, finding.what)).collect();
        }
        grown += usize::from(log.head().unwrap() > before);
    }
    Vec::new()
}

async fn is_sound_while_tasks_run(store: Arc<dyn EventStore>) {
    let builder = System::builder("-").store(Arc::clone(&store));
    let system =
        builder.tool_with("tool", "Does nothing", tool, ToolPolicy::read_only()).start().await.unwrap();
    let verified = tokio::task::spawn_blocking(move || passes(store.as_ref()));
    while !verified.is_finished() {
        let tasks = (0..8).map(|_| async {
            let task = system.submit(Part::tool_call("tool", json!({})).unwrap()).await.unwrap();
            assert_eq!(task.finished().await.unwrap().state(), TaskState::Completed);
        });
        join_all(tasks).await;
    }
    assert_eq!(verified.await.unwrap(), Vec::<String>::new());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_log_in_memory_that_grows_during_a_verification_is_sound() {
    is_sound_while_tasks_run(Arc::new(MemoryStore::default())).await;
}

#[tokio::test]
async fn a_log_on_disk_that_grows_during_a_verification_is_sound() {
    let dir = tempfile::tempdir().unwrap();
    is_sound_while_tasks_run(Arc::new(SledStore::open(dir.path()).unwrap())).await;
}
