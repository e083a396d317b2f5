//! A reset of all conversations at once that a crash cuts short, and the same command afterwards.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::Arc;

use crate::histories_support::{assert_verifies, count};
use proto_events::codec::kind;
use taskreel::state::{StateModules, StateOperationRequest};
use taskreel::{Part, System, testing};
use taskreel_log::api::{EventStore, StoredRecord};
use taskreel_log::memory::MemoryStore;

/// The number of sessions that a reset clears.
const SESSIONS: usize = 1_000;

#[tokio::test]
async fn a_reset_of_a_thousand_sessions_that_a_crash_cuts_short_is_finished_under_the_same_command() {
    let store = Arc::new(MemoryStore::new());
    let model = taskreel::infer::Scripted::from_json(r#"{"":[{"type":"final","content":"yes"}]}"#).unwrap();
    let log: Arc<dyn EventStore> = Arc::clone(&store) as _;
    let first = System::builder("-")
        .store(log)
        .infer(model.clone())
        .state(StateModules::all())
        .start()
        .await
        .unwrap();
    let mut tasks = Vec::new();
    for at in 0..SESSIONS {
        tasks.push(first.session(&format!("s{at}")).send(Part::infer("hello")).await.unwrap());
    }
    for task in tasks {
        task.finished().await.unwrap();
    }
    let everything = StateOperationRequest::default();
    first.once("reset-1").state().reset(&everything).await.unwrap();
    // The log that a process finds whose predecessor died in the middle of it, wherever that was.
    let mut cleared = 0;
    let clears = |stored: &StoredRecord| stored.record.events.iter().any(|event| event.kind == kind::CLEARED);
    let whole = testing::appends(store.as_ref()).unwrap();
    let end = whole.iter().position(|append| {
        cleared += append.iter().filter(|stored| clears(stored)).count();
        cleared == SESSIONS / 4
    });
    let store = Arc::new(testing::cut_after(store.as_ref(), end.unwrap() + 1).await.unwrap());
    first.shutdown().await.unwrap();
    let done = count(&store, kind::CLEARED);
    assert_eq!(done, SESSIONS / 4);

    let log: Arc<dyn EventStore> = Arc::clone(&store) as _;
    let second =
        System::builder("-").store(log).infer(model).state(StateModules::all()).start().await.unwrap();
    let conversation = second.state().conversation().unwrap();
    assert_eq!(conversation.sessions().await.unwrap().len(), SESSIONS - done);
    // One that was cleared has begun anew meanwhile: the same command leaves it alone.
    let cleared = (0..SESSIONS).map(|at| format!("s{at}"));
    let mut begun = None;
    for id in cleared {
        if conversation.history(&id).await.unwrap().is_empty() {
            second.session(&id).send(Part::infer("again")).await.unwrap().finished().await.unwrap();
            begun = Some(id);
            break;
        }
    }
    let result = second.once("reset-1").state().reset(&everything).await.unwrap();
    assert_eq!(result.cleared, ["conversation", "tools", "task", "flow"]);
    let items = |store: usize, when: &str| {
        result.stores[store].metadata.get(when).unwrap().tree()["item_count"].as_i64()
    };
    assert_eq!(items(0, "before"), i64::try_from(SESSIONS).ok(), "all are counted");
    assert_eq!(items(0, "after"), Some(1));
    assert_eq!(count(&store, kind::CLEARED), SESSIONS, "each is cleared once");
    assert_eq!(conversation.sessions().await.unwrap()[0].id, begun.unwrap());
    assert!(second.state().tasks().unwrap().query().page(10).await.unwrap().tasks.is_empty());
    assert_eq!(
        second.tasks().page(10_000).await.unwrap().tasks.len(),
        SESSIONS + 1,
        "the log keeps all tasks"
    );
    assert_verifies(&store);
    second.shutdown().await.unwrap();
}
